//! When a key runs: `notBefore`, wakes and backoff.

use super::*;

#[test]
fn nothing_runs_before_its_time_and_the_last_word_on_that_time_counts() {
    for (moves, from) in [
        (vec![Some(20)], 20),
        (vec![Some(20), Some(30)], 30),
        (vec![Some(20), Some(10)], 10),
        (vec![Some(20), Some(30), Some(25)], 25),
        (vec![None, Some(20)], 20),
        (vec![Some(20), None], 0),
    ] {
        let mut bench = Bench::one();
        for not_before in &moves {
            bench.push("a", Event, 0, *not_before);
        }
        for second in 0..from {
            assert_eq!(bench.at(second).pop(), None, "{moves:?} at {second}");
        }
        assert_eq!(bench.at(from).pop().as_deref(), Some("a"), "{moves:?}");
    }
}

#[test]
fn not_before_holds_wakes_and_repeats_too() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.push("a", Event, 0, Some(50));
    bench.finish(
        "a",
        Finish {
            again: true,
            wake: Some(Time(10_000)),
            ..Finish::default()
        },
    );
    assert_eq!(bench.at(49).pop(), None);
    assert_eq!(bench.queue.next_time(), Some(Time(50_000)));
    assert_eq!(bench.at(50).pop().as_deref(), Some("a"));
}

#[test]
fn what_was_due_while_all_workers_were_busy_has_waited_since_then() {
    let mut bench = Bench::one();
    bench
        .push("a", Event, 0, Some(5))
        .push("b", Event, 0, Some(4))
        .event("c");
    assert_eq!(bench.pop().as_deref(), Some("c"));
    bench.at(30).finish("c", Finish::default());
    let job = bench.queue.pop(bench.now).unwrap();
    assert_eq!((job.key, job.ready_since), (key(1, "b"), Time(4000)));
}

#[test]
fn a_wake_in_the_past_earns_no_age() {
    let mut bench = Bench::one();
    bench.at(1000).event("greedy").pop();
    bench.event("other").finish(
        "greedy",
        Finish {
            wake: Some(Time(0)),
            ..Finish::default()
        },
    );
    bench.push("first", Event, 1, None);
    assert_eq!(bench.drain(), ["first", "greedy", "other"]);
}

/// Java Operator SDK: an event in the retry window runs at once; `after` means "at the latest".
#[test]
fn an_event_before_a_wake_runs_at_once_and_leaves_the_wake() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.finish(
        "a",
        Finish {
            wake: Some(Time(60_000)),
            ..Finish::default()
        },
    );
    bench.at(5).event("a");
    assert_eq!(bench.pop().as_deref(), Some("a"));
    bench.finish(
        "a",
        Finish {
            wake: Some(Time(60_000)),
            ..Finish::default()
        },
    );
    assert_eq!(bench.at(59).pop(), None);
    assert_eq!(bench.at(60).pop().as_deref(), Some("a"));
}

/// kube-rs#1916, kubernetes#132805: spurious events hammer a failing object or inflate its backoff.
#[test]
fn during_backoff_one_event_a_base_runs_early_and_the_deadline_stays() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.failed("a", 10);
    let mut early = Vec::new();
    for tick in 1..200 {
        bench.now = Time(tick * 50);
        bench.event("a").push("a", Initial, 0, None);
        if bench.pop().is_some() {
            early.push(tick * 50);
            bench.failed("a", 10);
        }
    }
    assert_eq!(
        early,
        [50, 1050, 2050, 3050, 4050, 5050, 6050, 7050, 8050, 9050]
    );
    assert_eq!(bench.at(10).pop().as_deref(), Some("a"));
}

#[test]
fn an_early_event_never_moves_a_pass_past_the_deadline() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.failed("a", 2);
    bench.now = Time(1500);
    bench.event("a").pop();
    bench.failed("a", 2).event("a");
    assert_eq!(bench.queue.next_time(), Some(Time(2000)));
}

#[test]
fn a_consumed_deadline_opens_the_early_window_anew() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.failed("a", 2).event("a").pop();
    bench.failed("a", 2).at(2).pop();
    bench.failed("a", 6).event("a");
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn a_resync_during_an_early_pass_is_not_held_by_the_backoff() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.failed("a", 10).event("a").pop();
    bench.push("a", Resync, 0, None).failed("a", 10);
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn what_not_before_held_back_is_owed_from_the_first_asking_and_not_from_its_time() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.failed("a", 10).event("a").pop();
    bench.failed("a", 10).push("a", Resync, 0, Some(5));
    // The event alone would be held for a second; the resync is owed already.
    bench.event("a");
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn a_resync_during_backoff_runs_at_once() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.failed("a", 10).event("a").pop();
    bench.failed("a", 10).push("a", Resync, 0, None);
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

/// kube-rs#1772: a far-future requeue panicked the timer.
#[test]
fn a_far_future_wake_is_clamped_and_an_event_still_runs() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.finish(
        "a",
        Finish {
            wake: Some(Time(i64::MAX)),
            ..Finish::default()
        },
    );
    assert_eq!(bench.queue.next_time(), Some(Time::NEVER));
    assert_eq!(bench.at(1).pop(), None);
    bench.event("a");
    assert_eq!(bench.pop().as_deref(), Some("a"));
}
