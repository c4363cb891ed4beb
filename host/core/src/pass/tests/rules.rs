//! One pass, step by step: what is done, in which order, and what is not done at all.

use serde_json::json;

use super::{
    driver::{START, Sim, terms},
    plugins::*,
    world::Mishap,
};
use crate::{identity::Identity, outcome::Outcome, pass::Note, time::Time, units::Span};

/// yoke, wasm-operator: a "running" status before each run. archivematica#2352: success is reported before its receipt stands.
#[test]
fn the_common_success_is_call_send_journal_call_patch_status_end() {
    let mut sim = Sim::new(report_job, json!({}));
    let end = sim.pass(false);
    assert_eq!(
        sim.names(),
        ["call", "send", "journal", "call", "patch", "status", "end"]
    );
    assert_eq!(
        (end.outcome, end.calls, end.writes),
        (Outcome::Applied, 2, 3)
    );
    assert_eq!(end.version, sim.version());
    assert!(!end.again && end.wake.is_none());
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
    assert_eq!(sim.cluster.status("job")["observedGeneration"], 1);
    assert_eq!(
        sim.cluster.object("job")["metadata"]["labels"]["phase"],
        "done"
    );
    assert_eq!(sim.cluster.journal("job").outcome, Outcome::Applied);
}

#[test]
fn effects_and_writes_to_the_object_are_the_accounts_and_the_rest_is_the_hosts() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.always = Some(Mishap::Lost);
    sim.pass(false);
    sim.exporter.always = None;
    sim.now = Time(sim.now.0 + 2000);
    let first = std::mem::take(&mut sim.steps);
    sim.pass(false);
    for (step, identity) in first.into_iter().chain(sim.steps) {
        let hosts = matches!(step, "call" | "journal" | "tell" | "end");
        assert_eq!(identity == Identity::Host, hosts, "{step} as {identity}");
    }
}

/// kopf#729 and GCP/metacontroller#201: our own write must not look like news.
#[test]
fn own_writes_lead_to_no_further_pass() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.settle();
    assert_eq!(sim.ends.len(), 1);
    let mut sim = Sim::new(flips, json!({}));
    sim.settle();
    assert_eq!(
        sim.ends.len(),
        1,
        "not even for a plugin that is never content"
    );
}

#[test]
fn a_settled_object_takes_no_step_and_a_forced_pass_only_a_call() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.pass(false);
    let end = sim.pass(false);
    assert_eq!(
        sim.names(),
        ["call", "end"],
        "it had not seen its own writes"
    );
    assert_eq!((end.outcome, end.writes), (Outcome::Unchanged, 0));
    let end = sim.pass(false);
    assert_eq!(sim.names(), ["end"]);
    assert_eq!((end.outcome, end.calls), (Outcome::Unchanged, 0));
    assert_eq!(sim.pass(true).calls, 1);
    assert_eq!(sim.names(), ["call", "end"]);
    sim.terms = terms(
        "{http: [{host: exporter, methods: [PUT, POST]}]}",
        "sha256:0",
    );
    sim.pass(false);
    assert_eq!(sim.names(), ["call", "end"], "a new plugin is asked");
}

#[test]
fn a_restart_or_a_resync_of_settled_objects_writes_nothing() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.cluster.create("other", json!({}));
    sim.settle();
    let before = sim.cluster.writes.len();
    sim.restart();
    sim.settle();
    assert_eq!(sim.called()[4..], ["job", "other"]);
    assert_eq!(sim.cluster.writes.len(), before);
    assert_eq!(sim.exporter.sends.len(), 2);
}

#[test]
fn a_changed_spec_of_a_done_object_moves_only_the_observed_generation() {
    let mut sim = Sim::new(report_job, json!({"report": "a"}));
    sim.settle();
    let before = sim.cluster.writes.len();
    sim.cluster
        .edit("job", |job| job["spec"]["report"] = json!("b"));
    sim.settle();
    assert_eq!(sim.cluster.writes[before..], ["status"]);
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
    assert_eq!(sim.cluster.status("job")["observedGeneration"], 2);
    assert_eq!(sim.exporter.sends.len(), 1);
}

#[test]
fn without_a_terminal_phase_every_generation_is_handled() {
    let mut sim = Sim::new(mirror, json!({"value": 9_007_199_254_740_993_i64}));
    sim.settle();
    assert_eq!(
        sim.cluster.status("job")["value"],
        9_007_199_254_740_993_i64
    );
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.settle();
    let status = sim.cluster.status("job");
    assert_eq!(
        (&status["value"], &status["observedGeneration"]),
        (&json!(2), &json!(2))
    );
    assert!(
        sim.cluster.journals.is_empty(),
        "there was nothing to record"
    );
}

/// metacontroller#1252: an unpause must not be swallowed.
#[test]
fn a_paused_object_is_neither_called_nor_written_and_one_event_says_so() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.cluster.edit("job", |job| {
        job["metadata"]["annotations"] = json!({"guesthouse.dev/paused": "true"})
    });
    let before = sim.cluster.status("job").clone();
    assert_eq!(sim.pass(false).outcome, Outcome::Paused);
    assert_eq!(sim.names(), ["tell", "end"]);
    assert_eq!(sim.pass(true).outcome, Outcome::Paused);
    assert_eq!(sim.names(), ["end"]);
    assert_eq!(sim.cluster.status("job"), &before);
    assert_eq!(sim.cluster.events.len(), 1);
    sim.cluster
        .edit("job", |job| job["metadata"]["annotations"] = json!({}));
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Done", "unpaused");
}

#[test]
fn an_object_that_others_are_deleting_is_left_alone() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.cluster.edit("job", |job| {
        job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
    });
    let end = sim.pass(true);
    assert_eq!((sim.names(), end.calls), (vec!["end"], 0));
}

#[test]
fn a_denied_decision_does_nothing_says_so_and_is_not_tried_again_until_something_changes() {
    let mut sim = Sim::new(moody, json!({"mode": "deny"}));
    let end = sim.pass(false);
    assert_eq!(sim.names(), ["call", "status", "journal", "tell", "end"]);
    assert_eq!((end.outcome, end.wake), (Outcome::Denied, None));
    assert_eq!(
        sim.cluster.status("job")["phase"],
        "Pending",
        "the plugin's own status is withheld"
    );
    assert_eq!(
        sim.cluster.status("job")["conditions"][0]["reason"],
        "Denied"
    );
    assert_eq!(sim.cluster.journal("job").outcome, Outcome::Denied);
    assert!(sim.exporter.sends.is_empty());
    sim.pass(false);
    assert_eq!(sim.names(), ["call", "end"]);
    sim.pass(false);
    assert_eq!(sim.names(), ["end"], "the memo covers it");
    sim.cluster
        .edit("job", |job| job["metadata"]["labels"]["x"] = json!("y"));
    sim.pass(false);
    assert_eq!(
        sim.names(),
        ["call", "end"],
        "any change of the object may change it"
    );
    sim.terms = terms("{http: [{host: elsewhere, methods: [PUT]}]}", "sha256:0");
    assert_eq!(sim.pass(false).outcome, Outcome::Applied);
    assert_eq!(sim.cluster.journal("job").outcome, Outcome::Applied);
}

#[test]
fn labels_are_patched_only_where_they_differ() {
    let mut sim = Sim::new(flips, json!({}));
    sim.pass(false);
    assert_eq!(sim.names(), ["call", "patch", "status", "end"]);
    sim.pass(false);
    assert_eq!(
        sim.names(),
        ["call", "patch", "end"],
        "the status stood already"
    );
    let mut sim = Sim::new(report_job, json!({}));
    sim.exporter.always = Some(Mishap::Lost);
    sim.pass(false);
    assert_eq!(
        sim.names(),
        ["call", "send", "journal", "call", "status", "tell", "end"],
        "the label was `pending` already"
    );
}

#[test]
fn an_effect_that_comes_after_another_is_sent_when_that_has_succeeded() {
    let mut sim = Sim::new(two_sends, json!({}));
    sim.pass(false);
    assert_eq!(
        sim.names(),
        [
            "call", "send", "journal", "call", "send", "journal", "call", "patch", "status", "end"
        ]
    );
    let sent: Vec<_> = sim
        .exporter
        .sends
        .iter()
        .map(|(effect, ..)| effect.as_str())
        .collect();
    assert_eq!(sent, ["upload", "publish"]);
}

#[test]
fn an_effect_whose_predecessor_was_refused_is_never_sent() {
    let mut sim = Sim::new(two_sends, json!({}));
    sim.exporter.always = Some(Mishap::Code(422, None));
    let end = sim.pass(false);
    assert_eq!((end.outcome, end.wake), (Outcome::Waiting, None));
    assert_eq!(end.cause.unwrap().reason, "DependencyNotReady");
    sim.settle();
    assert_eq!(sim.exporter.sends.len(), 1);
}

#[test]
fn after_five_calls_with_progress_the_key_is_queued_again_at_once() {
    let mut sim = Sim::new(insatiable, json!({}));
    let end = sim.pass(false);
    assert_eq!(
        (end.outcome, end.again, end.calls),
        (Outcome::Waiting, true, 5)
    );
    assert_eq!(sim.exporter.sends.len(), 4);
    assert!(!sim.names().contains(&"status"));
}

#[test]
fn after_five_calls_without_progress_the_plugin_has_failed() {
    let mut sim = Sim::new(insatiable, json!({}));
    sim.exporter.always = Some(Mishap::Lost);
    let end = sim.pass(false);
    assert_eq!((end.outcome, end.again), (Outcome::PluginFailed, false));
    assert_eq!(end.cause.unwrap().reason, "TooManyRounds");
    assert!(end.wake > Some(sim.now) && end.backoff);
}

#[test]
fn another_request_under_the_same_id_and_key_is_the_plugins_error() {
    let mut sim = Sim::new(changes_its_mind, json!({}));
    let end = sim.pass(false);
    assert_eq!(end.outcome, Outcome::PluginFailed);
    assert!(
        end.cause
            .unwrap()
            .message
            .contains("a new wish takes a new `key`")
    );
    assert_eq!(sim.exporter.sends.len(), 1);
}

fn warnings(events: &[Note]) -> Vec<&str> {
    events.iter().map(|note| note.reason.as_str()).collect()
}

/// clever-kubernetes-operator#175: an Event per pass floods etcd.
#[test]
fn trouble_is_told_when_it_begins_and_when_it_changes_and_not_while_it_lasts() {
    let mut sim = Sim::new(moody, json!({"mode": "panic"}));
    let mode = |sim: &mut Sim, mode: &'static str| {
        sim.cluster.edit("job", |job| {
            job["metadata"]["annotations"] = json!({"mode": mode})
        });
        sim.now = Time(sim.now.0 + 5000);
        sim.pass(false);
    };
    sim.pass(false);
    let note = sim.cluster.events[0].note.clone();
    for part in [
        "Panic",
        "index out of bounds",
        "report-jobs",
        "sha256:0123456789ab",
        "ns/job",
    ] {
        assert!(note.contains(part), "{part}: {note}");
    }
    for next in ["panic", "panic", "fine", "retry", "retry", "fine", "fine"] {
        mode(&mut sim, next);
    }
    assert_eq!(warnings(&sim.cluster.events), ["PluginFailed", "Retrying"]);
    sim.restart();
    mode(&mut sim, "retry");
    sim.restart();
    mode(&mut sim, "retry");
    assert_eq!(
        warnings(&sim.cluster.events),
        ["PluginFailed", "Retrying", "Retrying"],
        "the journal remembers over a restart"
    );
}

#[test]
fn now_is_the_start_of_the_pass_in_whole_seconds_in_all_rounds() {
    let mut sim = Sim::new(two_sends, json!({}));
    sim.now = Time(START.0 + 250);
    sim.pass(false);
    let seen: Vec<_> = sim
        .calls
        .iter()
        .map(|seen| (seen.round, seen.now.clone()))
        .collect();
    let now = START.seconds();
    assert_eq!(seen, [(0, now.clone()), (1, now.clone()), (2, now)]);
}

#[test]
fn a_wake_is_kept_by_passes_that_skip_the_call_and_calls_when_it_has_come() {
    let mut sim = Sim::new(moody, json!({"mode": "wake", "after": 10}));
    let at = Some(START.after(Span::from_secs(10)));
    for expected in [
        vec!["call", "status", "end"],
        vec!["call", "end"],
        vec!["end"],
    ] {
        assert_eq!(sim.pass(false).wake, at);
        assert_eq!(sim.names(), expected);
    }
    sim.now = START.after(Span::from_secs(10));
    sim.pass(false);
    assert_eq!(sim.names(), ["call", "end"]);
}

/// controllers.md of sig-api-machinery: no hot loops.
#[test]
fn a_wake_that_always_lies_in_the_past_calls_once_a_second_and_not_in_a_circle() {
    let mut sim = Sim::new(moody, json!({"mode": "wake", "after": 0}));
    sim.run_until(START.after(Span(3500)));
    // At once, at once again since the status was written, and then with each second.
    assert_eq!(sim.calls.len(), 5);
}

#[test]
fn with_one_worker_the_higher_priority_goes_first_and_nothing_before_its_time() {
    let mut sim = Sim::new(report_job, json!({"priority": 1}));
    let later = START.after(Span::from_secs(30)).to_string();
    for (name, spec) in [
        ("low", json!({"priority": -5})),
        ("high", json!({"priority": 9})),
        ("later", json!({"priority": 100, "notBefore": later})),
    ] {
        sim.cluster.create(name, spec);
    }
    sim.run_until(START.after(Span(29_999)));
    assert_eq!(sim.called(), ["high", "high", "job", "job", "low", "low"]);
    sim.settle();
    assert_eq!(sim.called()[6..], ["later", "later"]);
}
