//! Others write too: conflicts, objects that go away, stores and journals that lag behind, answers that are lost.

use serde_json::json;

use super::{
    driver::{Fault, START, Sim, unavailable},
    plugins::*,
    world::{Cluster, key},
};
use crate::{outcome::Outcome, pass::WriteError, queue::Why, units::Span};

fn meanwhile(sim: &mut Sim, at: &'static str, edit: fn(&mut Cluster)) {
    sim.faults.push((at, Fault::Meanwhile(edit)));
}

fn labelled(cluster: &mut Cluster) {
    cluster.edit("job", |job| {
        job["metadata"]["labels"]["theirs"] = json!("1")
    });
}

fn respecified(cluster: &mut Cluster) {
    cluster.edit("job", |job| {
        let before = job["spec"]["value"].as_i64().unwrap_or(0);
        job["spec"]["value"] = json!(before + 1);
    });
}

fn recreated(cluster: &mut Cluster) {
    cluster.delete("job");
    cluster.create("job", json!({}));
}

/// KubeUser#98: a status computed from a stale read overwrites a newer one.
#[test]
fn after_a_conflict_on_the_same_generation_the_status_is_merged_again_without_a_call() {
    let mut sim = Sim::new(report_job, json!({}));
    meanwhile(&mut sim, "patch", labelled);
    meanwhile(&mut sim, "status", |cluster| {
        cluster.edit("job", |job| {
            job["metadata"]["annotations"] = json!({"theirs": "2"})
        });
    });
    let end = sim.pass(false);
    assert_eq!(
        sim.names(),
        [
            "call", "send", "journal", "call", "patch", "read", "patch", "status", "read",
            "status", "end"
        ]
    );
    let job = sim.cluster.object("job");
    assert_eq!(
        job["metadata"]["labels"],
        json!({"phase": "done", "theirs": "1"})
    );
    assert_eq!(job["metadata"]["annotations"]["theirs"], "2");
    assert_eq!(job["status"]["phase"], "Done");
    assert!(end.again, "the plugin has not seen their change yet");
}

#[test]
fn an_edit_during_a_pass_leads_to_exactly_one_further_pass() {
    for at in ["call", "send", "journal", "patch", "status"] {
        let mut sim = Sim::new(report_job, json!({}));
        meanwhile(&mut sim, at, labelled);
        sim.settle();
        assert_eq!(sim.ends.len(), 2, "{at}");
        let last = object(sim.calls.last().unwrap());
        assert_eq!(
            last["metadata"]["labels"]["theirs"], "1",
            "{at}: and the plugin sees it"
        );
        assert_eq!(sim.exporter.sends.len(), 1);
    }
}

/// The same where our own write is never seen by the watch before theirs is gone from the store.
#[test]
fn an_edit_found_by_a_conflict_is_passed_on_even_if_its_event_never_comes() {
    let mut sim = Sim::new(mirror, json!({"value": 1}));
    meanwhile(&mut sim, "status", |cluster| {
        labelled(cluster);
        cluster.changed.clear();
    });
    sim.settle();
    assert_eq!(
        object(sim.calls.last().unwrap())["metadata"]["labels"]["theirs"],
        "1"
    );
}

#[test]
fn what_somebody_else_wrote_first_is_not_written_again_and_the_plugin_still_gets_to_see_it() {
    let mut sim = Sim::new(flips, json!({}));
    sim.pass(false);
    meanwhile(&mut sim, "patch", |cluster| {
        cluster.edit("job", |job| {
            job["metadata"]["labels"] = json!({"side": "b"})
        });
    });
    let before = sim.cluster.writes.len();
    let end = sim.pass(false);
    assert_eq!(sim.names(), ["call", "patch", "read", "end"]);
    assert_eq!(sim.cluster.writes.len(), before);
    assert!(end.again);
    sim.pass(false);
    assert_eq!(sim.names()[0], "call");
}

#[test]
fn others_that_never_stop_writing_end_the_pass_cluster_failed() {
    let mut sim = Sim::new(mirror, json!({}));
    for _ in 0..4 {
        meanwhile(&mut sim, "status", labelled);
    }
    let end = sim.pass(false);
    assert_eq!((end.outcome, end.backoff), (Outcome::ClusterFailed, true));
    assert_eq!(
        sim.names().iter().filter(|name| **name == "status").count(),
        4
    );
}

/// crossplane#4968: a status computed from a stale read is lost.
#[test]
fn a_pass_that_a_newer_generation_overtook_writes_nothing_and_is_begun_again() {
    let mut sim = Sim::new(mirror, json!({"value": 1}));
    meanwhile(&mut sim, "status", respecified);
    let end = sim.pass(false);
    assert_eq!(sim.names(), ["call", "status", "read", "end"]);
    assert!(end.again && sim.cluster.writes.is_empty());
    sim.settle();
    let status = sim.cluster.status("job");
    assert_eq!(
        (&status["value"], &status["observedGeneration"]),
        (&json!(2), &json!(2))
    );
}

#[test]
fn after_three_discarded_passes_the_status_is_written_with_the_generation_the_plugin_saw() {
    let mut sim = Sim::new(mirror, json!({"value": 1}));
    for _ in 0..4 {
        meanwhile(&mut sim, "status", respecified);
    }
    for _ in 0..3 {
        assert!(sim.pass(false).again);
    }
    assert!(sim.cluster.writes.is_empty());
    let end = sim.pass(false);
    let job = sim.cluster.object("job");
    assert_eq!(job["metadata"]["generation"], 5);
    assert_eq!(
        (
            &job["status"]["value"],
            &job["status"]["observedGeneration"]
        ),
        (&json!(4), &json!(4))
    );
    assert!(end.again, "generation 5 is still to be handled");
    assert_eq!(end.carry.memo, None);
    sim.pass(false);
    assert_eq!(sim.cluster.status("job")["observedGeneration"], 5);
}

/// KubeUser#98: what was computed for one object must not reach another.
#[test]
fn nothing_of_an_old_pass_is_written_to_a_new_object_of_the_same_name() {
    for at in ["journal", "patch", "status"] {
        let mut sim = Sim::new(report_job, json!({}));
        meanwhile(&mut sim, at, recreated);
        let end = sim.pass(false);
        assert_eq!(end.outcome, Outcome::Gone, "{at}");
        let job = sim.cluster.object("job");
        assert_eq!(
            (&job["metadata"]["uid"], &job["status"]["phase"]),
            (&json!("uid-2"), &json!("Pending")),
            "{at}"
        );
        assert_eq!(job["metadata"]["labels"]["phase"], "pending", "{at}");
        sim.settle();
        assert_eq!(sim.cluster.status("job")["phase"], "Done", "{at}");
        assert_eq!(
            sim.exporter.by_key().len(),
            2,
            "{at}: it has an export of its own"
        );
        assert_eq!(sim.cluster.journal("job").object.uid, "uid-2", "{at}");
    }
}

#[test]
fn an_object_deleted_during_its_pass_ends_gone_and_does_not_run_in_a_circle() {
    let mut sim = Sim::new(report_job, json!({}));
    let stale = sim.snapshot();
    meanwhile(&mut sim, "patch", |cluster| cluster.delete("job"));
    let end = sim.pass(false);
    assert_eq!((end.outcome, end.again), (Outcome::Gone, false));
    // The watch is late: the store still shows it.
    sim.store = Some((stale.0, sim.snapshot().1));
    let later = sim.pass(false);
    assert!(
        later.wake.unwrap() > end.wake.unwrap(),
        "it asks less and less often"
    );
    sim.settle();
    assert!(sim.cluster.journals.is_empty());
    assert_eq!(sim.exporter.sends.len(), 1);
}

#[test]
fn a_journal_goes_only_when_the_server_itself_says_that_its_object_is_gone() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.settle();
    let journals = sim.snapshot().1;
    sim.store = Some((None, journals.clone()));
    assert_eq!(sim.pass(false).outcome, Outcome::Gone);
    assert_eq!(sim.names(), ["read", "end"], "the store was wrong");
    sim.store = Some((None, journals));
    sim.faults.push(("read", Fault::Refuse(unavailable(None))));
    assert_eq!(sim.pass(false).outcome, Outcome::ClusterFailed);
    assert_eq!(sim.cluster.journals.len(), 1);
    sim.cluster.delete("job");
    assert_eq!(sim.pass(false).outcome, Outcome::Gone);
    assert_eq!(sim.names(), ["read", "drop-journal", "end"]);
    assert!(sim.cluster.journals.is_empty());
    sim.pass(false);
    assert_eq!(sim.names(), ["end"]);
}

#[test]
fn a_journal_that_somebody_took_away_brings_a_call_although_the_object_is_the_same() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.pass(false);
    sim.pass(false);
    sim.cluster.journals.clear();
    sim.pass(false);
    assert_eq!(sim.names(), ["call", "end"]);
    assert_eq!(sim.exporter.sends.len(), 1);
}

#[test]
fn a_recreated_object_starts_without_the_old_ones_receipts_and_its_journal_goes() {
    let mut sim = Sim::new(report_job, json!({}));
    sim.settle();
    recreated(&mut sim.cluster);
    sim.pass(false);
    assert_eq!(
        sim.names(),
        [
            "read",
            "drop-journal",
            "call",
            "send",
            "journal",
            "call",
            "patch",
            "status",
            "end"
        ]
    );
    assert_eq!(sim.exporter.made.len(), 2);
}

#[test]
fn another_owner_of_the_journal_ends_the_pass_before_anything_is_built_on_its_own() {
    let mut sim = Sim::new(report_job, json!({}));
    let first = sim.snapshot();
    sim.settle();
    let truth = (
        sim.cluster.status("job").clone(),
        sim.cluster.journal("job"),
    );
    // A host whose stores are from before all that.
    sim.store = Some(first);
    let end = sim.pass(false);
    assert_eq!(end.outcome, Outcome::ClusterFailed);
    assert_eq!(sim.names(), ["call", "send", "journal", "end"]);
    assert_eq!(
        (
            sim.cluster.status("job").clone(),
            sim.cluster.journal("job")
        ),
        truth
    );
    assert_eq!(
        sim.exporter.by_key().into_values().collect::<Vec<_>>(),
        [2],
        "under the same key"
    );
    assert_eq!(sim.exporter.made.len(), 1);
}

#[test]
fn at_most_once_is_not_sent_by_a_host_whose_journals_are_old() {
    let mut sim = Sim::new(at_most_once, json!({}));
    let first = sim.snapshot();
    sim.settle();
    sim.store = Some(first);
    assert_eq!(sim.pass(false).outcome, Outcome::ClusterFailed);
    assert_eq!(sim.names(), ["call", "journal", "end"]);
    assert_eq!(sim.exporter.sends.len(), 1);
}

#[test]
fn a_write_that_may_not_be_made_is_retried_until_it_may_and_never_given_up() {
    let mut sim = Sim::new(report_job, json!({}));
    let forbidden = WriteError::Forbidden("quota exceeded".into());
    for _ in 0..9 {
        sim.faults.push(("patch", Fault::Refuse(forbidden.clone())));
    }
    sim.settle();
    let outcomes: Vec<_> = sim.ends.iter().map(|end| end.outcome).collect();
    let (last, before) = outcomes.split_last().unwrap();
    assert_eq!(*before, [Outcome::Retrying; 9]);
    assert_eq!(*last, Outcome::Applied);
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
    assert_eq!(sim.exporter.sends.len(), 1);
}

#[test]
fn an_answer_whose_journal_cannot_be_written_is_kept_and_not_asked_for_again() {
    let mut sim = Sim::new(report_job, json!({}));
    for _ in 0..5 {
        let away = WriteError::Unavailable {
            message: "away".into(),
            retry_after: None,
        };
        sim.faults.push(("journal", Fault::Refuse(away)));
    }
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Done");
    assert_eq!(
        sim.exporter.sends.len(),
        1,
        "what was answered is not sent again"
    );
}

#[test]
fn a_write_that_is_refused_is_retried_counted_said_and_in_the_end_stalled() {
    for (error, outcome, reason) in [(
        WriteError::Invalid("phase: not one of".into()),
        Outcome::PluginFailed,
        "Invalid",
    )] {
        let mut sim = Sim::new(report_job, json!({}));
        for _ in 0..4 {
            sim.faults.push(("patch", Fault::Refuse(error.clone())));
        }
        sim.settle();
        let outcomes: Vec<_> = sim.ends.iter().map(|end| end.outcome).collect();
        assert_eq!(
            outcomes,
            [outcome, outcome, outcome, Outcome::Stalled],
            "{reason}"
        );
        let status = sim.cluster.status("job");
        assert_eq!(
            status["phase"], "Pending",
            "status is the acknowledgement, and it was not carried out"
        );
        assert_eq!(status["conditions"][0]["reason"], reason);
        let text = status["conditions"][0]["message"].as_str().unwrap();
        assert!(
            text.starts_with("patching labels and annotations: "),
            "{text}"
        );
        assert_eq!(sim.exporter.sends.len(), 1);
        // Once it is allowed, a resync takes it up.
        sim.push(&key("job"), Why::Resync, None);
        sim.settle();
        assert_eq!(sim.cluster.status("job")["phase"], "Done", "{reason}");
        assert_eq!(sim.cluster.journal("job").retry, None);
    }
}

#[test]
fn where_even_the_refusal_may_not_be_written_the_journal_has_it() {
    let mut sim = Sim::new(mirror, json!({}));
    for _ in 0..20 {
        sim.faults
            .push(("status", Fault::Refuse(WriteError::Invalid("no".into()))));
    }
    sim.settle();
    assert_eq!(sim.ends.len(), 4);
    let journal = sim.cluster.journal("job");
    assert_eq!(
        (journal.outcome, journal.message.as_str()),
        (Outcome::Stalled, "writing the status: no")
    );
}

#[test]
fn whatever_answer_is_lost_or_refused_once_the_end_is_the_same() {
    let mut reference = Sim::new(report_job, json!({}));
    reference.settle();
    for step in ["journal", "patch", "status"] {
        for which in ["lost", "unavailable", "conflict"] {
            let mut sim = Sim::new(report_job, json!({}));
            let fault = match which {
                "lost" => Fault::Lose,
                "unavailable" => Fault::Refuse(unavailable(Some(3))),
                _ => Fault::Refuse(WriteError::Conflict),
            };
            sim.faults.push((step, fault));
            sim.settle();
            assert_eq!(
                sim.cluster.end_state(),
                reference.cluster.end_state(),
                "{step} {which}"
            );
            assert_eq!(sim.exporter.by_key().len(), 1, "{step} {which}");
            assert!(sim.now < START.after(Span::from_secs(4)), "{step} {which}");
        }
    }
}

#[test]
fn an_object_or_a_patch_answer_that_is_no_object_is_the_clusters_failure() {
    let mut sim = Sim::new(mirror, json!({}));
    sim.store = Some((Some(crate::contract::Json::trusted("[]")), Vec::new()));
    let end = sim.pass(false);
    assert_eq!((end.outcome, end.calls), (Outcome::ClusterFailed, 0));
}
