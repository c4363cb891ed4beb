//! The end of an object: finalizers, deletion, plugins that cannot be asked, and objects that leave the selector.

use serde_json::{Value, json};

use super::{
    driver::{Fault, Plugin, START, Sim, with},
    families::*,
    plugins::Said,
    world::{Cluster, Mishap, key},
};
use crate::{
    children::OWNER_LABEL,
    contract::{Cause, Failure, FailureKind, Observation, Reply},
    identity::Identity,
    outcome::Outcome,
    pass::{PAUSED, PluginFacts, Verb, WriteError},
    units::Span,
};

const OURS: &str = "guesthouse.dev/report-jobs";

fn made(plugin: Plugin, finalize: Plugin, members: &str) -> Sim {
    let mut sim = Sim::mapped(plugin, json!({"value": 1}), with(members, "", finalizes()));
    sim.finalize = finalize;
    sim
}

fn provisioned(members: &str) -> Sim {
    let mut sim = made(provision, deprovision, members);
    sim.settle();
    sim
}

fn finalizers(sim: &Sim) -> Value {
    sim.cluster.object("job")["metadata"]["finalizers"].clone()
}

fn message(sim: &Sim) -> String {
    let conditions = sim.cluster.status("job")["conditions"]
        .as_array()
        .unwrap()
        .clone();
    let ready = conditions.iter().find(|c| c["type"] == "Ready").unwrap();
    ready["message"].as_str().unwrap().to_owned()
}

fn broken(sim: &mut Sim) {
    let mut terms = (*sim.terms).clone();
    terms.plugin.broken = Some("the file p.wasm is not there".into());
    sim.terms = terms.into();
}

/// The file is what `render` and people go by: the finalizer is on record, then on the object, then the plugin is asked.
#[test]
fn a_finalizer_is_on_record_before_it_is_put_on_and_on_before_the_plugin_is_asked() {
    let mut sim = made(provision, deprovision, "");
    let end = sim.pass(false);
    assert_eq!(sim.names(), ["journal", "finalizer", "end"]);
    assert_eq!(
        (end.again, end.calls),
        (true, 0),
        "the write ends the pass and queues the key"
    );
    assert_eq!(sim.cluster.journal("job").finalizer.unwrap().name, OURS);
    assert_eq!(finalizers(&sim), json!([OURS]));
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
    // Taken off by somebody: on again before anything else.
    sim.cluster.edit("job", |job| {
        job["metadata"]["finalizers"] = json!(["acme.io/other"])
    });
    sim.pass(false);
    assert_eq!(finalizers(&sim), json!(["acme.io/other", OURS]));
}

/// kro#1260, kopf#309: others' finalizers are neither dropped nor put back.
#[test]
fn deletion_calls_finalize_and_takes_off_our_finalizer_alone_as_the_last_request() {
    let mut sim = provisioned("");
    sim.cluster.edit("job", |job| {
        job["metadata"]["finalizers"] = json!(["acme.io/a", OURS, "acme.io/b"])
    });
    sim.settle();
    sim.cluster.delete("job");
    sim.pass(false);
    assert_eq!(
        sim.names(),
        [
            "call",
            "send",
            "journal",
            "call",
            "status",
            "finalizer",
            "end"
        ],
        "ACK community#931"
    );
    assert_eq!(sim.verbs.last(), Some(&Verb::Finalize));
    assert_eq!(finalizers(&sim), json!(["acme.io/a", "acme.io/b"]));
    assert_eq!(
        sim.steps[5].1,
        Identity::Host,
        "the account's rights may be gone before the object"
    );
    assert_eq!(sim.exporter.acts.last().unwrap().0, "DELETE");
    let (requests, calls) = (sim.requests, sim.calls.len());
    sim.settle();
    sim.pass(true);
    assert_eq!(
        (sim.requests, sim.calls.len()),
        (requests, calls),
        "what others hold still is theirs"
    );
    sim.cluster
        .edit("job", |job| job["metadata"]["finalizers"] = json!([]));
    sim.settle();
    assert!(!sim.cluster.exists("job") && sim.cluster.journals.is_empty());
}

/// KubeOps#972.
#[test]
fn an_object_that_is_terminating_when_the_host_starts_is_finalized_too() {
    let mut sim = provisioned("");
    sim.cluster.delete("job");
    sim.restart();
    sim.settle();
    assert!(!sim.cluster.exists("job"));
    assert_eq!(sim.exporter.acts.len(), 2);
    // One that nobody of ours put a finalizer on goes without us.
    let mut sim = made(provision, deprovision, "");
    sim.cluster.edit("job", |job| {
        job["metadata"]["finalizers"] = json!(["acme.io/other"])
    });
    sim.cluster.delete("job");
    sim.settle();
    assert_eq!((sim.calls.len(), sim.requests), (0, 0));
}

/// kopf#309 and achilles-sdk#129.
#[test]
fn a_removal_that_the_server_refuses_is_read_again_and_gone_is_success() {
    fn other(cluster: &mut Cluster) {
        cluster.edit("job", |job| {
            let list = job["metadata"]["finalizers"].as_array_mut().unwrap();
            list.insert(0, json!("acme.io/new"));
        });
    }
    fn gone(cluster: &mut Cluster) {
        cluster.edit("job", |job| job["metadata"]["finalizers"] = json!([]));
    }
    fn another(cluster: &mut Cluster) {
        gone(cluster);
        cluster.create("job", json!({"value": 7}));
    }
    let mut sim = provisioned("");
    sim.cluster.delete("job");
    sim.faults.push(("finalizer", Fault::Meanwhile(other)));
    sim.pass(false);
    assert_eq!(sim.names()[5..], ["finalizer", "read", "finalizer", "end"]);
    assert_eq!(finalizers(&sim), json!(["acme.io/new"]));
    for (meanwhile, exists) in [(gone as fn(&mut Cluster), false), (another, true)] {
        let mut sim = provisioned("");
        sim.cluster.delete("job");
        sim.faults.push(("finalizer", Fault::Meanwhile(meanwhile)));
        assert_eq!(sim.pass(false).outcome, Outcome::Gone);
        assert_eq!(sim.cluster.exists("job"), exists);
        if exists {
            assert_eq!(
                finalizers(&sim),
                Value::Null,
                "nothing of the old one touches the new one"
            );
        }
    }
    let mut sim = provisioned("");
    sim.cluster.delete("job");
    for _ in 0..4 {
        sim.faults
            .push(("finalizer", Fault::Refuse(WriteError::Invalid("no".into()))));
    }
    assert_eq!(
        sim.pass(false).outcome,
        Outcome::ClusterFailed,
        "others that never stop"
    );
    sim.push(&key("job"), crate::queue::Why::Event, None);
    sim.settle();
    assert!(!sim.cluster.exists("job"));
}

#[test]
fn a_paused_object_is_not_finalized_until_it_is_unpaused() {
    let mut sim = provisioned("");
    sim.cluster.edit("job", |job| {
        job["metadata"]["annotations"] = json!({PAUSED: "true"})
    });
    sim.cluster.delete("job");
    sim.settle();
    sim.restart();
    sim.settle();
    assert!(sim.cluster.exists("job"));
    assert!(!sim.verbs.contains(&Verb::Finalize));
    sim.cluster
        .edit("job", |job| job["metadata"]["annotations"] = json!({}));
    sim.settle();
    assert!(!sim.cluster.exists("job"));
}

/// kro#1252: nobody sees what blocks a deletion.
#[test]
fn a_plugin_that_cannot_be_asked_blocks_and_says_what_to_do_or_lets_go() {
    let mut sim = provisioned("");
    broken(&mut sim);
    sim.push(&key("job"), crate::queue::Why::Swap, None);
    sim.settle();
    assert_eq!(
        sim.cluster.status("job")["phase"],
        "Ready",
        "what was said last stands"
    );
    sim.cluster.delete("job");
    sim.settle();
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Stalled);
    let text = message(&sim);
    for part in [
        "p.wasm is not there",
        OURS,
        "onBroken: release",
        "report-jobs",
        "guesthouse drain",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let writes = sim.cluster.writes.len();
    sim.restart();
    sim.settle();
    assert_eq!(sim.cluster.writes.len(), writes, "said once");

    let mut sim = made(abroad, finished, ", onBroken: release");
    sim.settle();
    broken(&mut sim);
    sim.cluster.delete("job");
    sim.settle();
    assert!(!sim.cluster.exists("job"));
    assert!(
        sim.cluster.things.named("far").is_none(),
        "its children go all the same"
    );
}

fn gives_up(_: &Observation) -> Said {
    Ok(Reply::Failure(Failure {
        kind: FailureKind::Terminal,
        cause: Cause::new("Never", "the other side is no more"),
        after: None,
        status: None,
        conditions: Vec::new(),
    }))
}

/// KubeOps#239: errors of a finalize are retried.
#[test]
fn a_finalize_that_fails_is_retried_and_given_up_it_holds_or_lets_go_as_the_mapping_says() {
    fn panics(_: &Observation) -> Said {
        Err(crate::refusal::Refusal::new(
            crate::refusal::RefusalKind::Panic,
            "p",
        ))
    }
    for finalize in [gives_up as Plugin, panics] {
        let mut sim = made(abroad, finalize, "");
        sim.settle();
        sim.cluster.delete("job");
        sim.settle();
        assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Stalled);
        assert!(message(&sim).contains(OURS), "{}", message(&sim));
        assert!(sim.cluster.things.named("far").is_some());
        sim.finalize = finished;
        sim.cluster.edit("job", |job| {
            job["metadata"]["annotations"] = json!({"guesthouse.dev/reconcile": "1"})
        });
        sim.settle();
        assert!(!sim.cluster.exists("job"), "taken up again by a request");
        let mut sim = made(abroad, finalize, ", onBroken: release");
        sim.settle();
        sim.cluster.delete("job");
        sim.settle();
        assert!(!sim.cluster.exists("job") && sim.cluster.things.named("far").is_none());
    }
}

#[test]
fn letting_go_of_an_object_whose_child_cannot_be_deleted_backs_off_and_ends() {
    let mut sim = made(abroad, gives_up, ", onBroken: release");
    sim.settle();
    sim.cluster.things.unserved.insert("ClusterThing".into());
    sim.cluster.delete("job");
    sim.run_until(START.after(Span::from_secs(30)));
    assert!(sim.cluster.exists("job"));
    assert!(sim.cluster.journal("job").retry.unwrap().attempt > 2);
    assert!(
        message(&sim).contains("ClusterThing wide cannot be"),
        "{}",
        message(&sim)
    );
    sim.cluster.things.unserved.clear();
    sim.settle();
    assert!(!sim.cluster.exists("job") && sim.cluster.things.named("wide").is_none());
}

#[test]
fn what_was_given_up_before_it_was_deleted_or_left_the_selector_is_finalized_all_the_same() {
    let mut sim = made(provision, deprovision, "");
    sim.settle();
    sim.plugin = gives_up;
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.settle();
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Stalled);
    sim.cluster.delete("job");
    sim.settle();
    assert!(!sim.cluster.exists("job"));

    let terms = with(", onExit: finalize", "!off", finalizes());
    let mut sim = Sim::mapped(gives_up, json!({}), terms);
    sim.finalize = deprovision;
    sim.settle();
    sim.cluster
        .edit("job", |job| job["metadata"]["labels"]["off"] = json!("1"));
    sim.settle();
    assert_eq!(finalizers(&sim), Value::Null);
    assert_eq!(sim.verbs.last(), Some(&Verb::Finalize));
}

#[test]
fn finalized_does_not_count_while_an_effect_of_the_same_decision_has_not_succeeded() {
    for (mishap, outcome) in [
        (Mishap::Code(500, None), Outcome::Retrying),
        (Mishap::Code(422, None), Outcome::Waiting),
    ] {
        let mut sim = made(provision, hasty, "");
        sim.settle();
        sim.exporter.always = Some(mishap);
        sim.cluster.delete("job");
        sim.run_until(sim.now.after(Span::from_secs(5)));
        assert_eq!(sim.ends.last().unwrap().outcome, outcome);
        assert_eq!(finalizers(&sim), json!([OURS]), "{mishap:?}");
    }
    let mut sim = made(provision, hasty, "");
    sim.settle();
    sim.cluster.delete("job");
    sim.settle();
    assert!(!sim.cluster.exists("job"));
    // Not with a child that hangs either.
    let mut sim = made(abroad, finished, "");
    sim.settle();
    sim.cluster.things.edit("far", |far| {
        far["metadata"]["finalizers"] = json!(["acme.io/hold"])
    });
    sim.cluster.delete("job");
    sim.settle();
    assert_eq!(finalizers(&sim), json!([OURS]));
    assert!(
        message(&sim).contains("ConfigMap far is being deleted"),
        "{}",
        message(&sim)
    );
    for _ in 0..3 {
        sim.pass(true);
    }
    assert_eq!(sim.cluster.things.count("far").deletes, 1);
    sim.cluster
        .things
        .edit("far", |far| far["metadata"]["finalizers"] = json!([]));
    sim.settle();
    assert!(!sim.cluster.exists("job"));
}

#[test]
fn children_made_in_an_order_go_in_reverse() {
    for facts in [finalizes(), PluginFacts::default()] {
        let mut sim = Sim::mapped(waves, json!({}), with("", "", facts));
        sim.finalize = finished;
        sim.settle();
        sim.cluster.delete("job");
        sim.settle();
        // Nothing came after the first one any more: that is the garbage collector's.
        assert_eq!(sim.cluster.things.removed, ["third", "second"]);
        assert!(!sim.cluster.exists("job") && sim.cluster.things.all().count() == 0);
    }
    // The last one hangs: the one before it waits, and the condition names the one that hangs.
    let mut sim = Sim::mapped(waves, json!({}), with("", "", PluginFacts::default()));
    sim.settle();
    sim.cluster.things.edit("third", |third| {
        third["metadata"]["finalizers"] = json!(["acme.io/hold"])
    });
    sim.cluster.delete("job");
    sim.settle();
    assert!(sim.cluster.things.named("second").is_some());
    assert!(message(&sim).contains("ConfigMap third"));
    sim.cluster
        .things
        .edit("third", |third| third["metadata"]["finalizers"] = json!([]));
    sim.settle();
    assert!(!sim.cluster.exists("job") && sim.cluster.things.all().count() == 0);
}

/// kro#1419, eno#527: orphan concerns the parent's deletion, not removal from the list.
#[test]
fn an_orphan_stays_without_our_mark_when_its_parent_goes_and_is_pruned_like_any_other() {
    let mut sim = Sim::mapped(orphan, json!({}), with("", "", PluginFacts::default()));
    sim.settle();
    let heir = sim.cluster.things.named("heir").unwrap();
    assert!(
        heir["metadata"]["ownerReferences"].is_null(),
        "the garbage collector must not take it"
    );
    sim.cluster.delete("job");
    sim.settle();
    assert!(!sim.cluster.exists("job") && sim.cluster.things.named("a").is_none());
    let heir = sim.cluster.things.named("heir").unwrap();
    assert!(heir["metadata"]["labels"][OWNER_LABEL].is_null(), "{heir}");
    let mut sim = Sim::mapped(orphan, json!({}), with("", "", PluginFacts::default()));
    sim.settle();
    sim.plugin = |seen| family(seen, Vec::new());
    sim.cluster.edit("job", |job| job["spec"]["x"] = json!(1));
    sim.settle();
    assert_eq!(sim.cluster.things.all().count(), 0);
}

#[test]
fn a_plugin_that_stops_finalizing_gives_its_finalizer_back_and_one_that_starts_puts_it_on() {
    let mut sim = provisioned("");
    sim.terms = with("", "", PluginFacts::default());
    sim.push(&key("job"), crate::queue::Why::Swap, None);
    sim.settle();
    let mut other = (*sim.terms).clone();
    other.digest = "sha256:other".into();
    sim.terms = other.into();
    sim.push(&key("job"), crate::queue::Why::Swap, None);
    sim.settle();
    assert_eq!(finalizers(&sim), Value::Null);
    assert_eq!(sim.cluster.journal("job").finalizer, None);
    sim.terms = with("", "", finalizes());
    sim.push(&key("job"), crate::queue::Why::Swap, None);
    sim.settle();
    assert_eq!(finalizers(&sim), json!([OURS]));
}

#[test]
fn an_object_that_leaves_the_selector_is_released_or_finalized_and_one_that_comes_back_is_served_again()
 {
    for (on_exit, stays) in [("release", true), ("finalize", false)] {
        let terms = with(&format!(", onExit: {on_exit}"), "!off", finalizes());
        let mut sim = Sim::mapped(abroad, json!({"value": 1}), terms);
        sim.finalize = finished;
        sim.settle();
        sim.cluster
            .edit("job", |job| job["metadata"]["labels"]["off"] = json!("1"));
        sim.settle();
        assert_eq!(finalizers(&sim), Value::Null, "{on_exit}");
        let calls = sim
            .verbs
            .iter()
            .filter(|verb| **verb == Verb::Finalize)
            .count();
        assert_eq!(calls > 0, !stays, "{on_exit}");
        for name in ["far", "wide", "near"] {
            assert_eq!(
                sim.cluster.things.named(name).is_some(),
                stays,
                "{on_exit}: {name}"
            );
        }
        let journal = sim.cluster.journal("job");
        assert_eq!(
            (journal.finalizer, journal.inventory.is_empty()),
            (None, !stays),
            "{on_exit}"
        );
        let before = (sim.requests, sim.calls.len());
        sim.restart();
        sim.settle();
        assert_eq!(
            (sim.requests, sim.calls.len()),
            before,
            "{on_exit}: it is nobody's to write"
        );
        sim.cluster.edit("job", |job| {
            drop(
                job["metadata"]["labels"]
                    .as_object_mut()
                    .unwrap()
                    .remove("off"),
            )
        });
        sim.settle();
        assert_eq!(sim.cluster.status("job")["phase"], "Ready");
        assert_eq!(
            sim.cluster.things.count("far").creates,
            if stays { 1 } else { 2 },
            "{on_exit}"
        );
    }
}

#[test]
fn on_the_way_out_of_the_selector_no_status_is_written_and_trouble_is_told() {
    let terms = with(", onExit: finalize", "!off", PluginFacts::default());
    let mut sim = Sim::mapped(abroad, json!({"value": 1}), terms);
    sim.settle();
    sim.cluster.things.unserved.insert("ClusterThing".into());
    sim.cluster
        .edit("job", |job| job["metadata"]["labels"]["off"] = json!("1"));
    sim.run_until(START.after(Span::from_secs(20)));
    assert_eq!(message(&sim), "", "the status may be another mapping's");
    let told = |event: &crate::pass::Note| event.note.contains("cannot be");
    assert!(sim.cluster.events.iter().any(told));
    assert!(sim.cluster.journal("job").message.contains("cannot be"));
    sim.cluster.things.unserved.clear();
    sim.settle();
    assert_eq!(finalizers(&sim), Value::Null);
}

#[test]
fn a_plugin_may_delete_its_own_object_once_everything_else_is_done_where_that_is_granted() {
    let mut sim = Sim::mapped(mayfly, json!({}), with("", "", PluginFacts::default()));
    sim.cluster.edit("job", |job| {
        job["metadata"]["finalizers"] = json!(["acme.io/other"])
    });
    sim.cluster
        .things
        .refused
        .insert("a".into(), WriteError::Forbidden("quota".into()));
    sim.pass(false);
    assert!(!sim.steps.iter().any(|(name, _)| *name == "delete-self"));
    sim.cluster.things.refused.clear();
    sim.settle();
    let deletions = sim
        .cluster
        .writes
        .iter()
        .filter(|write| **write == "delete-self")
        .count();
    assert_eq!(deletions, 1);
    assert!(!sim.cluster.object("job")["metadata"]["deletionTimestamp"].is_null());
    sim.settle();
    sim.cluster
        .edit("job", |job| job["metadata"]["finalizers"] = json!([]));
    sim.settle();
    assert_eq!(sim.cluster.things.all().count(), 0);
}
