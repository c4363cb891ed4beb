//! Failed passes: what is counted, when it is tried again, and when it is given up.

use serde_json::json;

use super::{
    driver::{Fault, GRANTS, START, Sim, terms, unavailable},
    plugins::*,
    world::key,
};
use crate::{object::Uid, outcome::Outcome, queue::Why, retry, time::Time, units::Span};

const SECOND: Span = Span::from_secs(1);

fn delay(attempt: u32) -> Span {
    retry::delay(
        SECOND,
        Span::from_secs(60),
        attempt,
        &Uid::new("uid-1"),
        "retry",
    )
}

fn attempts(sim: &Sim) -> Vec<u32> {
    sim.calls.iter().map(|seen| seen.attempt).collect()
}

fn set_mode(sim: &mut Sim, mode: &'static str) {
    sim.cluster.edit("job", |job| {
        job["metadata"]["annotations"] = json!({"mode": mode})
    });
}

/// kube-rs#1916 and kubernetes#132805: spurious events must not inflate the backoff.
#[test]
fn the_attempt_moves_only_when_its_deadline_is_consumed() {
    let mut sim = Sim::new(moody, json!({"mode": "retry"}));
    let first = sim.pass(false);
    assert_eq!(sim.names(), ["call", "journal", "status", "tell", "end"]);
    assert_eq!(first.wake, Some(START.after(delay(1))));
    let before = sim.cluster.writes.len();
    for early in [1, 300, 800] {
        sim.now = START.after(Span(early));
        assert_eq!(sim.pass(false).wake, first.wake, "the deadline stays");
    }
    assert_eq!(sim.cluster.writes.len(), before, "and nothing is written");
    sim.now = first.wake.unwrap();
    assert_eq!(sim.pass(false).wake, Some(sim.now.after(delay(2))));
    assert_eq!(attempts(&sim), [0, 1, 1, 1, 1]);
}

/// KubeOps drops an entry after 5 retries, kro after 20: here it is marked, and nothing is dropped.
#[test]
fn past_the_limit_the_object_is_stalled_and_says_so_everywhere() {
    for (mode, outcome, reason) in [
        ("retry", Outcome::Retrying, "NotReady"),
        ("panic", Outcome::PluginFailed, "Panic"),
        ("no-status", Outcome::PluginFailed, "BadOutput"),
    ] {
        let mut sim = Sim::new(moody, json!({"mode": mode}));
        sim.settle();
        let outcomes: Vec<_> = sim.ends.iter().map(|end| end.outcome).collect();
        assert_eq!(
            outcomes,
            [outcome, outcome, outcome, Outcome::Stalled],
            "{mode}"
        );
        let mut at = START;
        for (end, attempt) in sim.ends.iter().zip(1..=3) {
            at = at.after(delay(attempt));
            assert_eq!(end.wake, Some(at), "{mode}, attempt {attempt}");
        }
        assert_eq!(sim.ends[3].wake, None);
        assert_eq!(
            attempts(&sim),
            [0, 1, 2, 3],
            "the plugin saw the last attempt"
        );
        assert_eq!(sim.cluster.journal("job").outcome, Outcome::Stalled);
        let conditions = &sim.cluster.status("job")["conditions"];
        assert_eq!(
            (&conditions[0]["type"], &conditions[0]["reason"]),
            (&json!("Ready"), &json!(reason))
        );
        assert_eq!(conditions[1]["type"], "Stalled");
    }
}

#[test]
fn a_status_beyond_the_budget_is_a_condition_with_size_and_limit_and_not_an_answer_of_the_server() {
    let mut sim = Sim::new(moody, json!({"mode": "huge"}));
    let end = sim.pass(false);
    assert_eq!(end.outcome, Outcome::PluginFailed);
    assert_eq!(sim.names(), ["call", "journal", "status", "tell", "end"]);
    let status = sim.cluster.status("job");
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("307") && message.contains("262144"),
        "{message}"
    );
    assert!(status.to_string().len() < 4096);
}

#[test]
fn a_terminal_failure_is_stalled_at_once_and_its_status_is_written() {
    let mut sim = Sim::new(moody, json!({"mode": "terminal"}));
    let end = sim.pass(false);
    assert_eq!(sim.names(), ["call", "status", "journal", "tell", "end"]);
    assert_eq!((end.outcome, end.wake), (Outcome::Stalled, None));
    assert_eq!(sim.cluster.status("job")["phase"], "Broken");
}

#[test]
fn what_is_stalled_stays_so_without_a_call_over_restarts_and_edits_that_are_no_new_generation() {
    let mut sim = Sim::new(moody, json!({"mode": "terminal"}));
    sim.settle();
    sim.restart();
    sim.settle();
    set_mode(&mut sim, "fine");
    sim.settle();
    assert_eq!(sim.calls.len(), 1);
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Stalled);
}

#[test]
fn a_new_generation_plugin_or_mapping_and_a_resync_take_up_what_is_stalled() {
    type Change = fn(&mut Sim);
    let takes_up: [(&str, Change); 4] = [
        ("generation", |sim| {
            sim.cluster.edit("job", |job| job["spec"]["x"] = json!(1))
        }),
        ("plugin", |sim| sim.terms = terms(GRANTS, "sha256:other")),
        ("mapping", |sim| {
            sim.terms = terms("{}", "sha256:0123456789abcdef")
        }),
        ("resync", |_| {}),
    ];
    for (what, change) in takes_up {
        let mut sim = Sim::new(moody, json!({"mode": "terminal"}));
        sim.settle();
        change(&mut sim);
        let why = if what == "resync" {
            Why::Resync
        } else {
            Why::Swap
        };
        sim.push(&key("job"), why, sim.version());
        let writes = sim.cluster.writes.len();
        sim.settle();
        assert_eq!(sim.calls.len(), 2, "{what}");
        assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Stalled, "{what}");
        if what == "resync" {
            assert_eq!(sim.cluster.writes.len(), writes, "it says the same again");
        } else {
            assert_eq!(sim.calls[1].attempt, 0, "{what} starts anew");
        }
    }
}

#[test]
fn a_success_or_a_new_generation_starts_the_count_anew() {
    let mut sim = Sim::new(moody, json!({"mode": "retry"}));
    sim.run_until(START.after(Span(2000)));
    assert_eq!(sim.cluster.journal("job").retry.unwrap().attempt, 2);
    sim.cluster.edit("job", |job| job["spec"]["x"] = json!(1));
    sim.run_until(START.after(Span(2001)));
    assert_eq!(sim.cluster.journal("job").retry.unwrap().attempt, 1);
    set_mode(&mut sim, "fine");
    sim.settle();
    let journal = sim.cluster.journal("job");
    assert_eq!((journal.outcome, journal.retry), (Outcome::Applied, None));
    set_mode(&mut sim, "retry");
    sim.run_until(Time(sim.now.0 + 1));
    assert_eq!(sim.cluster.journal("job").retry.unwrap().attempt, 1);
}

#[test]
fn the_plugin_may_name_the_delay_up_to_the_longest_one() {
    for (after, seconds) in [(7, 7), (3600, 60)] {
        let mut sim = Sim::new(moody, json!({"mode": "retry", "after": after}));
        assert_eq!(
            sim.pass(false).wake,
            Some(START.after(Span::from_secs(seconds)))
        );
    }
}

#[test]
fn an_api_server_that_does_not_answer_moves_no_attempt_and_gets_no_status() {
    for at in ["journal", "status"] {
        let mut sim = Sim::new(moody, json!({"mode": "retry"}));
        sim.pass(false);
        sim.cluster
            .edit("job", |job| job["status"]["conditions"] = json!([]));
        let had = (
            sim.cluster.status("job").clone(),
            sim.cluster.journal("job").retry,
        );
        if at == "journal" {
            // The deadline is consumed, but the count does not stand.
            sim.now = START.after(Span::from_secs(2));
        }
        sim.faults.push((at, Fault::Refuse(unavailable(None))));
        let end = sim.pass(false);
        assert_eq!(end.outcome, Outcome::ClusterFailed);
        assert!(end.backoff && end.wake > Some(sim.now));
        assert_eq!(
            sim.names().last_chunk(),
            Some(&[at, "end"]),
            "nothing is asked of it after that"
        );
        assert_eq!(
            (
                sim.cluster.status("job").clone(),
                sim.cluster.journal("job").retry
            ),
            had
        );
    }
}

#[test]
fn pauses_for_an_api_server_grow_heed_its_retry_after_and_end_with_its_first_answer() {
    let mut sim = Sim::new(mirror, json!({}));
    let mut pause = |retry_after| {
        sim.faults
            .push(("status", Fault::Refuse(unavailable(retry_after))));
        let end = sim.pass(false);
        sim.now.until(end.wake.unwrap()).0
    };
    let (first, second) = (pause(None), pause(None));
    assert!(
        (450..=550).contains(&first) && (900..=1100).contains(&second),
        "{first}, {second}"
    );
    assert_eq!(pause(Some(20)), 20_000);
    assert_eq!(pause(Some(3600)), 60_000, "up to retry.max");
    assert_eq!(sim.pass(false).outcome, Outcome::Applied);
    assert_eq!(sim.pass(false).carry.cluster_failures, 0);
}

#[test]
fn a_kind_without_a_status_is_handled_and_a_plugin_that_wants_one_is_denied() {
    let mut sim = Sim::new(flips, json!({}));
    let mut terms = (*terms(GRANTS, "sha256:0")).clone();
    terms.kind.takes_status = Err("the kind has no /status".into());
    sim.terms = terms.into();
    sim.pass(false);
    assert_eq!(sim.names(), ["call", "patch", "end"]);
    sim.plugin = mirror;
    sim.now = Time(sim.now.0 + 1000);
    let end = sim.pass(true);
    assert_eq!(end.outcome, Outcome::Denied);
    assert!(end.cause.unwrap().message.contains("no /status"));
    assert_eq!(sim.names(), ["call", "journal", "tell", "end"]);
}

/// kubernetes#98175: notes over 1,024 bytes are refused.
#[test]
fn no_event_is_longer_than_what_kubernetes_takes() {
    fn long(_: &crate::contract::Observation) -> Said {
        Err(crate::refusal::Refusal::new(
            crate::refusal::RefusalKind::Panic,
            "é".repeat(2000),
        ))
    }
    let mut sim = Sim::new(long, json!({}));
    sim.pass(false);
    assert!(sim.cluster.events[0].note.len() <= 1024);
    assert!(sim.cluster.journal("job").message.len() <= 1024);
}
