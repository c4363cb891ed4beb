//! Who goes first: mappings in turn, priority, age, and the background behind live events.

use super::*;

/// shell-operator: one failing hook blocks its queue.
#[test]
fn mappings_take_turns_whatever_the_length_of_their_queues() {
    let mut bench = Bench::new(1, &[(1, 9), (2, 9), (7, 9)]);
    let push = Push {
        why: Event,
        version: None,
        priority: 100,
        not_before: None,
    };
    for index in 0..50 {
        bench
            .queue
            .push(&key(1, &format!("a{index}")), push, bench.now);
    }
    let low = Push {
        priority: -100,
        ..push
    };
    for name in ["x", "y"] {
        bench.queue.push(&key(2, name), low, bench.now);
        bench.queue.push(&key(7, name), low, bench.now);
    }
    let mut turns = Vec::new();
    for _ in 0..8 {
        let job = bench.queue.pop(bench.now).unwrap();
        bench.queue.finish(&job.key, Finish::default(), bench.now);
        turns.push(job.key.mapping.0);
    }
    assert_eq!(turns, [1, 2, 7, 1, 2, 7, 1, 1]);
}

#[test]
fn what_is_queued_at_the_same_time_goes_by_priority_alone() {
    let mut bench = Bench::one();
    for (name, priority) in [
        ("c", 0),
        ("a", -7),
        ("e", i64::MAX),
        ("d", 3),
        ("b", i64::MIN),
    ] {
        bench.push(name, Event, priority, None);
    }
    assert_eq!(bench.drain(), ["e", "d", "c", "a", "b"]);
}

#[test]
fn a_priority_that_changes_while_a_key_waits_counts_from_then_on() {
    let mut bench = Bench::one();
    bench
        .push("a", Event, 1, None)
        .push("b", Event, 2, None)
        .push("a", Event, 3, None);
    assert_eq!(bench.drain(), ["a", "b"]);
    bench
        .push("a", Event, 3, None)
        .push("b", Event, 2, None)
        .push("a", Event, 1, None);
    assert_eq!(bench.drain(), ["b", "a"]);
}

/// controller-runtime#3496: a low-priority initial list starves.
#[test]
fn a_low_priority_is_served_after_waiting_under_a_stream_of_higher_ones() {
    let mut bench = Bench::one();
    bench.push("low", Initial, 0, None);
    let mut served = None;
    for second in 0..200 {
        bench
            .at(second)
            .push(&format!("high{second}"), Event, 1, None);
        bench.push(&format!("more{second}"), Event, 1, None);
        let name = bench.pop().unwrap();
        bench.finish(&name, Finish::default());
        if name == "low" {
            served = Some(second);
            break;
        }
    }
    // One level is worth 60 s of waiting, the background 10 s; the stream is served at half its speed.
    assert!(
        served.is_some_and(|second| (140..=142).contains(&second)),
        "{served:?}"
    );
}

#[test]
fn the_background_yields_to_live_events_and_is_served_among_those_that_come_later() {
    for why in [Initial, Resync, Swap] {
        let mut bench = Bench::one();
        bench.push("old", why, 0, None);
        bench.at(9).event("live");
        bench.at(11).event("late");
        assert_eq!(bench.drain(), ["live", "old", "late"], "{why:?}");
    }
}

#[test]
fn a_live_event_lifts_a_key_out_of_the_background_and_nothing_lowers_it() {
    let mut bench = Bench::one();
    bench
        .push("a", Initial, 0, None)
        .push("b", Initial, 0, None);
    bench.event("b").push("b", Resync, 0, None);
    assert_eq!(bench.drain(), ["b", "a"]);
    // A changed priority does not lift it.
    bench
        .push("a", Initial, 0, None)
        .push("a", Resync, 1, None)
        .push("b", Event, 1, None);
    assert_eq!(bench.drain(), ["b", "a"]);
}

#[test]
fn what_waits_outside_is_bounded_so_that_priority_still_decides_who_is_next() {
    let mut bench = Bench::one();
    for index in 0..=PARKED_PER_SLOT {
        bench.event(&format!("low-{index}"));
    }
    for _ in 0..PARKED_PER_SLOT {
        let name = bench.pop().unwrap();
        bench.queue.park(&key(1, &name));
    }
    assert_eq!(bench.pop(), None, "enough of them wait outside");
    bench.push("high", Event, 9, None);
    bench.finish("low-0", Finish::default());
    assert_eq!(bench.pop().as_deref(), Some("high"));
}
