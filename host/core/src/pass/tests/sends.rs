//! Http effects: when they are sent again, and when never.

use serde_json::json;

use super::{
    driver::{START, Sim, terms},
    plugins::*,
    world::Mishap,
};
use crate::{
    contract::ReceiptState, journal::RecordState, object::Uid, outcome::Outcome, retry, time::Time,
    units::Span,
};

fn delay(attempt: u32) -> i64 {
    retry::delay(
        Span::from_secs(1),
        Span::from_secs(60),
        attempt,
        &Uid::new("uid-1"),
        "send",
    )
    .0 as i64
}

#[test]
fn failed_sends_are_repeated_after_1_2_4_8_seconds_under_one_key_and_the_plugin_sees_each() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.mishaps = [
        Mishap::Lost,
        Mishap::Code(500, None),
        Mishap::NotSent,
        Mishap::Code(429, None),
    ]
    .into();
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
    let times: Vec<i64> = sim
        .exporter
        .sends
        .iter()
        .map(|(.., at)| at.0 - START.0)
        .collect();
    let due: Vec<i64> = (1..=4)
        .scan(0, |at, attempt| {
            *at += delay(attempt);
            Some(*at)
        })
        .collect();
    // The third never left the host, so the ledger has not seen it.
    assert_eq!(times, [0, due[0], due[2], due[3]]);
    for (attempt, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
        assert!(
            (seconds * 900..=seconds * 1100).contains(&delay(attempt)),
            "{attempt}"
        );
    }
    assert_eq!(sim.exporter.by_key().len(), 1);
    let mut seen: Vec<u32> = sim
        .calls
        .iter()
        .filter_map(|seen| match receipt(seen, "export") {
            Some(ReceiptState::Failed(failed)) => Some(failed.attempts),
            _ => None,
        })
        .collect();
    seen.dedup();
    assert_eq!(seen, [1, 2, 3, 4]);
    assert_eq!(
        attempts_of_passes(&sim),
        0,
        "failed sends are no failed passes"
    );
}

fn attempts_of_passes(sim: &Sim) -> u32 {
    sim.calls.iter().map(|seen| seen.attempt).max().unwrap()
}

#[test]
fn an_exporter_that_is_down_for_good_fails_the_object_after_five_sends_with_the_cause() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.always = Some(Mishap::Code(503, None));
    sim.settle();
    let status = sim.cluster.status("job");
    assert_eq!(
        (&status["phase"], &status["retries"]),
        (&json!("Failed"), &json!(5))
    );
    assert!(
        status["message"].as_str().unwrap().contains("answered 503"),
        "{status}"
    );
    assert_eq!(
        sim.cluster.object("job")["metadata"]["labels"]["phase"],
        "failed"
    );
    assert_eq!(sim.exporter.sends.len(), 5);
    assert_eq!(
        sim.exporter.pauses(),
        [delay(1), delay(2), delay(3), delay(4)]
    );
    assert_eq!(
        sim.cluster.journal("job").outcome,
        Outcome::Applied,
        "it was handled, not left in trouble"
    );
    let (calls, writes) = (sim.calls.len(), sim.cluster.writes.len());
    sim.restart();
    sim.settle();
    assert_eq!(
        (sim.calls.len(), sim.cluster.writes.len()),
        (calls + 1, writes)
    );
    assert_eq!(sim.exporter.sends.len(), 5);
}

/// The Java Operator SDK's rule: an event in the retry window runs at once and keeps deadline and counter.
#[test]
fn an_early_event_calls_the_plugin_and_sends_nothing_before_its_time() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.mishaps = [Mishap::Lost].into();
    sim.run_until(START.after(Span(100)));
    let (calls, writes) = (sim.calls.len(), sim.cluster.writes.len());
    sim.cluster
        .edit("job", |job| job["metadata"]["labels"]["x"] = json!("y"));
    sim.run_until(START.after(Span(101)));
    assert_eq!(
        (sim.calls.len(), sim.cluster.writes.len()),
        (calls + 1, writes)
    );
    assert_eq!(sim.exporter.sends.len(), 1);
    sim.settle();
    assert_eq!(sim.exporter.pauses(), [delay(1)]);
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
}

#[test]
fn many_events_during_backoff_call_the_plugin_once_per_base() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.mishaps = [Mishap::Lost, Mishap::Lost, Mishap::Lost].into();
    // After the third failure there are about four seconds to the next send.
    sim.run_until(START.after(Span(3400)));
    assert_eq!(sim.exporter.sends.len(), 3);
    let (from, calls) = (sim.now, sim.calls.len());
    for step in 0..250 {
        sim.cluster.edit("job", |job| {
            job["metadata"]["labels"]["x"] = json!(step.to_string())
        });
        sim.run_until(Time(from.0 + step * 10));
    }
    assert_eq!(sim.calls.len() - calls, 3);
    assert_eq!(sim.exporter.sends.len(), 3);
}

#[test]
fn retry_after_moves_the_next_send_later_and_never_past_the_longest_delay_nor_before_our_own() {
    for (asked, expected) in [(20, 20_000), (3600, 60_000), (0, delay(1))] {
        let mut sim = Sim::new(report_job, json!({}));
        sim.exporter.mishaps = [Mishap::Code(429, Some(Span::from_secs(asked)))].into();
        sim.settle();
        assert_eq!(sim.exporter.pauses(), [expected], "Retry-After: {asked}");
    }
}

#[test]
fn a_definite_refusal_is_a_receipt_and_not_sent_again() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.always = Some(Mishap::Code(422, None));
    sim.settle();
    assert_eq!(sim.cluster.status("job")["message"], "refused with 422");
    assert_eq!(sim.exporter.sends.len(), 1);
}

#[test]
fn a_lost_answer_is_asked_for_again_and_the_exporter_acts_once() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.mishaps = [Mishap::LostAfterDone].into();
    sim.settle();
    assert_eq!((sim.exporter.sends.len(), sim.exporter.made.len()), (2, 1));
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
}

#[test]
fn at_most_once_journals_its_intent_first_and_is_never_repeated_after_a_byte_was_sent() {
    for mishap in [Mishap::Lost, Mishap::LostAfterDone, Mishap::Code(503, None)] {
        let mut sim = Sim::new(at_most_once, json!({}));
        sim.exporter.mishaps = [mishap].into();
        sim.pass(false);
        assert_eq!(
            sim.names(),
            [
                "call", "journal", "send", "journal", "call", "patch", "status", "end"
            ]
        );
        sim.restart();
        sim.settle();
        assert_eq!(sim.cluster.status("job")["phase"], "Lost", "{mishap:?}");
        assert_eq!(
            sim.cluster.journal("job").receipts[0].state,
            RecordState::Unknown
        );
        assert_eq!(sim.exporter.sends.len(), 1);
    }
}

#[test]
fn at_most_once_that_never_left_the_host_is_tried_again() {
    let mut sim = Sim::new(at_most_once, json!({}));
    sim.exporter.mishaps = [Mishap::NotSent, Mishap::NotSent].into();
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
    assert_eq!(sim.exporter.sends.len(), 1);
    assert_eq!(sim.exporter.sends[0].2.0 - START.0, delay(1) + delay(2));
}

#[test]
fn a_pass_that_takes_longer_than_the_delay_sends_once_all_the_same() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.latency = Span::from_secs(3);
    sim.exporter.always = Some(Mishap::Lost);
    let end = sim.pass(false);
    assert_eq!(sim.exporter.sends.len(), 1);
    assert!(
        end.backoff && end.wake < Some(sim.now),
        "the next pass follows at once"
    );
}

#[test]
fn each_send_of_a_batch_is_on_its_own() {
    let mut sim = Sim::new(batch, json!({}));
    // `a` fails twice, `c` once, `b` never.
    sim.exporter.mishaps = [
        Mishap::Lost,
        Mishap::Code(200, None),
        Mishap::Lost,
        Mishap::Lost,
    ]
    .into();
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
    let count = |id: &str| {
        sim.exporter
            .sends
            .iter()
            .filter(|(effect, ..)| effect == id)
            .count()
    };
    assert_eq!((count("b"), sim.exporter.sends.len()), (1, 6));
}

/// keeperhub#1922: while the outcome is unknown the key is reused, whatever plugin, mapping or generation asks.
#[test]
fn a_swap_or_a_new_generation_sends_nothing_twice_under_another_key() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.mishaps = [Mishap::LostAfterDone].into();
    sim.run_until(START.after(Span(100)));
    sim.terms = terms(
        "{http: [{host: exporter, methods: [PUT, POST]}]}",
        "sha256:other",
    );
    sim.cluster.edit("job", |job| job["spec"]["x"] = json!(1));
    sim.settle();
    assert_eq!(
        (
            sim.exporter.sends.len(),
            sim.exporter.by_key().len(),
            sim.exporter.made.len()
        ),
        (2, 1, 1)
    );
}
