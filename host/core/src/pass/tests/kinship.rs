//! Children: when they are written, when they are left alone, and whose they are.

use serde_json::{Value, json};

use super::{
    driver::{Fault, Plugin, START, Sim, unavailable, with},
    families::*,
    plugins::{replace, said},
    things::Count,
    world::key,
};
use crate::{
    children::{OWNER_LABEL, PARENT_ANNOTATION},
    contract::{ChildState, Decision, Observation},
    object::ObjectKey,
    outcome::Outcome,
    pass::{PluginFacts, WriteError},
    units::Span,
};

fn made(plugin: Plugin, spec: Value) -> Sim {
    Sim::mapped(plugin, spec, with("", "", PluginFacts::default()))
}

fn settled(plugin: Plugin, spec: Value) -> Sim {
    let mut sim = made(plugin, spec);
    sim.settle();
    sim
}

fn count(applies: usize, creates: usize, deletes: usize) -> Count {
    Count {
        applies,
        creates,
        deletes,
    }
}

fn data(sim: &Sim, name: &str) -> Value {
    sim.cluster.things.named(name).unwrap()["data"]["value"].clone()
}

fn ready_reason(sim: &Sim) -> (String, String) {
    let conditions = sim.cluster.status("job")["conditions"]
        .as_array()
        .unwrap()
        .clone();
    let ready = conditions.iter().find(|c| c["type"] == "Ready").unwrap();
    let text = |name: &str| ready[name].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

fn foreign(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": {"value": "theirs"}})
}

/// crossplane#1910 and #6631: a child that nobody has on record leaks.
#[test]
fn first_contact_is_a_look_then_the_inventory_then_the_apply() {
    let mut sim = made(plain, json!({"value": 1}));
    let end = sim.pass(false);
    assert_eq!(
        sim.names(),
        [
            "call", "look", "journal", "apply", "journal", "status", "end"
        ],
        "the plugin is called again only after that"
    );
    assert!(end.again, "it has not seen its children yet");
    assert_eq!(
        (sim.cluster.things.count("a"), sim.cluster.things.count("b")),
        (count(1, 1, 0), count(1, 1, 0))
    );
    let end = sim.pass(false);
    assert_eq!(sim.names(), ["gather", "call", "status", "end"]);
    assert_eq!(end.outcome, Outcome::Applied);
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
}

#[test]
fn a_settled_family_costs_one_gather_a_pass_and_no_request() {
    for (plugin, spec) in [
        (
            website as Plugin,
            json!({"page": "a", "replicas": 2, "ingress": true}),
        ),
        (abroad, json!({"value": 1})),
        (once, json!({"value": 1})),
        (waves, json!({})),
    ] {
        let mut sim = settled(plugin, spec);
        let before = sim.requests;
        sim.pass(true);
        assert_eq!(sim.names(), ["gather", "call", "end"]);
        sim.pass(false);
        assert_eq!(sim.names(), ["gather", "end"], "the memo covers children");
        assert_eq!(sim.requests, before);
    }
}

/// JOSDK#2290, #1989, kubernetes#124605: what the server adds must not make every apply look like a change.
#[test]
fn a_childs_status_and_foreign_labels_are_no_drift_and_what_was_asked_for_is() {
    let mut sim = settled(website, json!({"page": "a", "replicas": 2}));
    let before = sim.cluster.things.count("web");
    sim.cluster.things.edit("web", |web| {
        web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    });
    sim.settle();
    assert_eq!(sim.cluster.things.count("web"), before);
    sim.cluster
        .things
        .edit("web", |web| web["spec"]["replicas"] = json!(7));
    sim.settle();
    assert_eq!(
        sim.cluster.things.named("web").unwrap()["spec"]["replicas"],
        2
    );
    assert_eq!(sim.cluster.things.count("web").applies, before.applies + 1);
    // A kind without generations, and a mark that somebody took off.
    sim.cluster
        .things
        .edit("config", |config| config["data"]["value"] = json!("x"));
    sim.settle();
    assert_eq!(data(&sim, "config"), "\"a\"");
    sim.cluster.things.edit("config", |config| {
        config["metadata"]["labels"] = json!({});
    });
    sim.settle();
    assert!(
        sim.cluster.things.named("config").unwrap()["metadata"]["labels"][OWNER_LABEL].is_string()
    );
}

#[test]
fn a_child_that_somebody_deleted_is_made_again_and_one_made_once_is_not() {
    let mut sim = settled(plain, json!({"value": 1}));
    sim.cluster.things.drop("a");
    sim.settle();
    assert_eq!(sim.cluster.things.count("a"), count(2, 2, 0));
    let mut sim = settled(once, json!({"value": 1}));
    sim.cluster.things.drop("run");
    sim.settle();
    sim.restart();
    sim.settle();
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.settle();
    assert_eq!(
        sim.cluster.things.count("run"),
        count(1, 1, 0),
        "a Job removed by its TTL must not run again"
    );
    assert_eq!(
        sim.cluster.status("job")["observedGeneration"],
        2,
        "it is done all the same"
    );
}

/// kro#957 and crossplane#5122: an apply takes over silently what another parent made.
#[test]
fn what_somebody_else_made_is_denied_adopted_or_shared_as_asked_and_never_deleted() {
    let mut sim = made(plain, json!({"value": 1}));
    sim.cluster.things.make(foreign("a"));
    sim.settle();
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Denied);
    let (reason, message) = ready_reason(&sim);
    assert!(
        reason == "NotOwned" && message.contains("ownership: adopt"),
        "{reason}: {message}"
    );
    assert_eq!(data(&sim, "a"), "theirs");
    // No longer wished for: what was only on record for its trouble is not ours to delete.
    sim.plugin = |seen| family(seen, vec![child("b", &[], config("b", json!(1)), |_| {})]);
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.settle();
    assert_eq!(data(&sim, "a"), "theirs", "and it is still there");
    assert_eq!(sim.cluster.journal("job").inventory.len(), 1);
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Unchanged);

    let mut sim = made(adopter, json!({}));
    sim.cluster.things.make(foreign("legacy"));
    sim.settle();
    assert_eq!(data(&sim, "legacy"), "1");
    assert_eq!(sim.cluster.things.count("legacy"), count(1, 0, 0));
    let mut marked = foreign("legacy");
    marked["metadata"]["labels"] = json!({OWNER_LABEL: "another"});
    marked["metadata"]["annotations"] = json!({PARENT_ANNOTATION: "site acme.io/Site ns/x"});
    let mut sim = made(adopter, json!({}));
    sim.cluster.things.make(marked);
    sim.settle();
    assert!(
        ready_reason(&sim)
            .1
            .contains("a child of site acme.io/Site ns/x"),
        "not even by adopting"
    );
}

/// crossplane-runtime GHSA-77cv-mrm6-fr3c: labels are copied, so our label alone makes nobody's object ours.
#[test]
fn a_copied_label_makes_no_object_ours() {
    let mut sim = made(plain, json!({"value": 1}));
    let mut copied = foreign("a");
    let uid = crate::object::Uid::new(
        sim.cluster.object("job")["metadata"]["uid"]
            .as_str()
            .unwrap(),
    );
    let mark = crate::children::owner_mark("report-jobs", &uid);
    copied["metadata"]["labels"] = json!({OWNER_LABEL: mark});
    sim.cluster.things.make(copied);
    sim.settle();
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Denied);
    assert_eq!(data(&sim, "a"), "theirs");
    sim.plugin = |seen| family(seen, Vec::new());
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.settle();
    assert_eq!(data(&sim, "a"), "theirs", "neither overwritten nor deleted");
}

/// A journal that somebody deleted: what carries our mark is on record again, so nothing leaks and nothing is pruned before
/// the next complete decision.
#[test]
fn a_lost_journal_is_rebuilt_from_the_marks_of_children() {
    let pair = |seen: &Observation| {
        let both = spec(seen)["value"] == 1;
        let a = child("a", &[], config("a", json!(1)), |_| {});
        let b = child("b", &[], config("b", json!(1)), |_| {});
        family(seen, if both { vec![a, b] } else { vec![a] })
    };
    let mut sim = settled(pair, json!({"value": 1}));
    assert_eq!(sim.cluster.journal("job").inventory.len(), 2);
    sim.cluster.journals.clear();
    sim.restart();
    sim.settle();
    assert_eq!(sim.cluster.journal("job").inventory.len(), 2, "rebuilt");
    assert_eq!(sim.cluster.things.count("b").deletes, 0);
    sim.cluster.journals.clear();
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.restart();
    sim.settle();
    assert!(sim.cluster.things.named("b").is_none(), "leaked");
    assert!(sim.cluster.things.named("a").is_some());
}

/// A policy that denies with 422 is people's to take back: it is retried, and never given up.
#[test]
fn what_admission_denies_is_retried_until_it_may() {
    let mut sim = made(plain, json!({"value": 1}));
    let why = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
    let denied = WriteError::Invalid(why.into());
    sim.cluster.things.refused.insert("a".into(), denied);
    sim.run_until(START.after(Span::from_secs(600)));
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Retrying);
    sim.cluster.things.refused.clear();
    sim.settle();
    assert_eq!(data(&sim, "a"), "1");
}

/// crossplane-runtime GHSA-77cv-mrm6-fr3c: a mark that others can edit must not turn a controller on their objects.
#[test]
fn a_child_that_lost_its_mark_or_went_to_another_owner_is_not_deleted_when_it_is_not_wished_for_any_more()
 {
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 3] = [
        ("unmarked", |b| b["metadata"]["labels"] = json!({})),
        ("another's", |b| {
            b["metadata"]["labels"][OWNER_LABEL] = json!("another")
        }),
        ("controlled", |b| {
            b["metadata"]["ownerReferences"] =
                json!([{"uid": "u", "kind": "Site", "name": "x", "controller": true}]);
        }),
    ];
    for (what, edit) in edits {
        let mut sim = settled(plain, json!({"value": 1}));
        sim.cluster.things.edit("b", edit);
        sim.cluster
            .edit("job", |job| job["spec"]["one"] = json!(true));
        for _ in 0..2 {
            sim.pass(false);
        }
        assert_eq!(sim.cluster.things.count("b").deletes, 0, "{what}");
        assert!(
            sim.cluster
                .journal("job")
                .inventory
                .iter()
                .all(|record| record.name != "b"),
            "{what}"
        );
    }
    // Another one of its name is not the one on record.
    let mut sim = settled(plain, json!({"value": 1}));
    sim.cluster.things.drop("b");
    sim.cluster.things.make(foreign("b"));
    sim.cluster
        .edit("job", |job| job["spec"]["one"] = json!(true));
    sim.settle();
    assert_eq!(data(&sim, "b"), "theirs");
}

/// crossplane#1910: a child that was made and not recorded leaks.
#[test]
fn what_a_lost_answer_left_is_found_and_pruned_although_the_store_does_not_show_it() {
    let mut sim = made(plain, json!({"value": 1}));
    sim.cluster.things.lag = 9;
    sim.ill = Some((5, super::driver::Ill::Lost));
    sim.pass(false);
    assert_eq!(sim.names().last_chunk(), Some(&["apply", "end"]));
    sim.cluster
        .edit("job", |job| job["spec"]["one"] = json!(true));
    sim.pass(false);
    sim.pass(false);
    assert!(sim.cluster.things.named("b").is_none(), "{:?}", sim.names());
    assert_eq!(sim.cluster.things.count("b"), count(1, 1, 1));
}

/// metacontroller: a partial answer prunes what it did not name. Neither it nor a trap or a failed apply does here.
#[test]
fn only_a_complete_decision_whose_applies_all_succeeded_prunes() {
    fn partial(seen: &Observation) -> super::plugins::Said {
        let mode = spec(seen)["mode"].as_str().unwrap_or_default().to_owned();
        if mode == "panic" {
            return Err(crate::refusal::Refusal::new(
                crate::refusal::RefusalKind::Panic,
                "p",
            ));
        }
        let a = child("a", &[], config("a", spec(seen)["value"].clone()), |_| {});
        let b = child("b", &[], config("b", json!(1)), |_| {});
        said(Decision {
            effects: if mode.is_empty() { vec![a, b] } else { vec![a] },
            complete: mode != "partial",
            ..Decision::default()
        })
    }
    for (mode, goes) in [
        ("panic", false),
        ("partial", false),
        ("refused", false),
        ("complete", true),
    ] {
        let mut sim = settled(partial, json!({"value": 1}));
        if mode == "refused" {
            let quota = WriteError::Forbidden("exceeded quota".into());
            sim.cluster.things.refused.insert("a".into(), quota);
        }
        sim.cluster
            .edit("job", |job| job["spec"] = json!({"mode": mode, "value": 2}));
        sim.run_until(START.after(Span::from_secs(3000)));
        assert_eq!(sim.cluster.things.named("b").is_none(), goes, "{mode}");
        assert_eq!(
            sim.cluster.things.count("b").deletes,
            usize::from(goes),
            "{mode}"
        );
    }
}

#[test]
fn a_failed_apply_stops_no_other_withholds_the_status_and_is_shown_to_the_next_call() {
    let mut sim = made(plain, json!({"value": 1}));
    sim.cluster.things.refused.insert(
        "a".into(),
        WriteError::Forbidden("exceeded quota: pods".into()),
    );
    let end = sim.pass(false);
    assert_eq!(end.outcome, Outcome::Retrying);
    assert_eq!(data(&sim, "b"), "1", "the other one is there");
    assert_eq!(
        sim.cluster.status("job")["phase"],
        "Pending",
        "as it was made, not as the plugin says"
    );
    assert_eq!(
        sim.cluster.status("job")["observedGeneration"],
        1,
        "the conditions say so in the same write"
    );
    let (reason, message) = ready_reason(&sim);
    assert_eq!(reason, "Forbidden");
    assert!(
        message.contains("effect `a`") && message.contains("exceeded quota: pods"),
        "{message}"
    );
    sim.pass(false);
    let seen = seen_child(sim.calls.last().unwrap(), "a").unwrap().clone();
    assert_eq!(
        (seen.state, seen.error.unwrap().reason.as_str()),
        (ChildState::Absent, "Forbidden")
    );
    // Rights come late: it is retried for as long as it takes.
    sim.run_until(START.after(Span::from_secs(600)));
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Retrying);
    sim.cluster.things.refused.clear();
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
    assert_eq!(sim.cluster.journal("job").inventory[0].error, None);
}

#[test]
fn what_the_server_calls_invalid_is_given_up_in_the_end_and_immutable_fields_are_made_anew_only_where_asked()
 {
    let mut sim = settled(recreate, json!({"value": 1}));
    sim.cluster
        .things
        .immutable
        .insert("Job".into(), "/spec/template");
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.settle();
    assert_eq!(
        sim.cluster.things.named("run").unwrap()["spec"]["template"]["x"],
        2
    );
    assert_eq!(
        (
            sim.cluster.things.count("run").creates,
            sim.cluster.things.count("run").deletes
        ),
        (2, 1)
    );
    fn stubborn(seen: &Observation) -> super::plugins::Said {
        let run = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "run"}, "spec": {"template": spec(seen)["value"]}});
        family(seen, vec![child("run", &[], run, |_| {})])
    }
    let mut sim = settled(stubborn, json!({"value": 1}));
    sim.cluster
        .things
        .immutable
        .insert("Job".into(), "/spec/template");
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.settle();
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Stalled);
    assert_eq!(sim.cluster.things.count("run").deletes, 0);
    // Back to what it was: nothing is to be written, and the trouble is over.
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(1));
    sim.settle();
    assert_eq!(sim.cluster.journal("job").inventory[0].error, None);
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
}

#[test]
fn a_child_comes_after_what_is_current_and_a_request_in_the_pass_that_sees_it_current() {
    let mut sim = made(website, json!({"page": "a", "replicas": 1}));
    sim.cluster.things.slow.insert("web".into());
    sim.settle();
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Waiting);
    assert!(sim.cluster.things.named("service").is_none());
    assert!(
        ready_reason(&sim).1.contains("`service` comes after `web`"),
        "{:?}",
        ready_reason(&sim)
    );
    sim.cluster.things.slow.clear();
    sim.push(&key("job"), crate::queue::Why::Resync, None);
    sim.settle();
    assert!(sim.cluster.things.named("service").is_some());
    let mut sim = made(announcer, json!({}));
    sim.cluster.things.slow.insert("web".into());
    sim.settle();
    assert!(
        sim.exporter.sends.is_empty(),
        "a Deployment that is not ready"
    );
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Waiting);
    sim.cluster.things.slow.clear();
    sim.cluster.background();
    sim.pass(false);
    assert_eq!(sim.names()[..4], ["gather", "call", "send", "journal"]);
    assert_eq!(sim.exporter.sends.len(), 1);
}

#[test]
fn a_terminating_child_is_waited_for_and_asked_to_go_once() {
    let hold = |b: &mut Value| b["metadata"]["finalizers"] = json!(["acme.io/hold"]);
    let mut sim = settled(plain, json!({"value": 1}));
    sim.cluster.things.edit("b", hold);
    sim.cluster
        .edit("job", |job| job["spec"]["one"] = json!(true));
    sim.settle();
    let last = sim.ends.last().unwrap();
    assert_eq!(last.outcome, Outcome::Waiting);
    assert!(
        last.cause
            .as_ref()
            .unwrap()
            .message
            .contains("ConfigMap b is being deleted")
    );
    for _ in 0..3 {
        sim.pass(true);
    }
    assert_eq!(
        sim.cluster.things.count("b").deletes,
        1,
        "what is on its way out is not deleted again"
    );
    sim.cluster
        .things
        .edit("b", |b| b["metadata"]["finalizers"] = json!([]));
    sim.settle();
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Unchanged);
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
    // One that is wished for is made anew when it is gone.
    sim.cluster.things.edit("a", hold);
    sim.cluster.things.drop("a");
    sim.settle();
    assert_eq!(sim.cluster.things.count("a").creates, 1);
    sim.cluster
        .things
        .edit("a", |a| a["metadata"]["finalizers"] = json!([]));
    sim.settle();
    assert_eq!(sim.cluster.things.count("a").creates, 2);
}

/// datashim#341: creating in a namespace that is going loops.
#[test]
fn in_a_namespace_on_its_way_out_nothing_is_made_and_nothing_runs_hot() {
    let mut sim = made(plain, json!({"value": 1}));
    sim.cluster.things.frozen.insert("ns".into());
    sim.run_until(START.after(Span::from_secs(60)));
    let tries = sim.cluster.things.count("a").applies;
    assert!((2..=9).contains(&tries), "{tries}");
}

/// kubernetes#65200: an owner reference that is not legal makes the garbage collector delete the child.
#[test]
fn owner_references_stand_where_they_are_legal_and_a_finalizer_where_they_are_not() {
    let owned = |sim: &Sim, name: &str| {
        !sim.cluster.things.named(name).unwrap()["metadata"]["ownerReferences"].is_null()
    };
    let mut sim = made(abroad, json!({"value": 1}));
    sim.pass(false);
    assert_eq!(
        sim.names(),
        ["call", "look", "journal", "finalizer", "end"],
        "before the first child is made"
    );
    sim.settle();
    assert_eq!(
        (owned(&sim, "near"), owned(&sim, "far"), owned(&sim, "wide")),
        (true, false, false)
    );
    sim.settle();
    assert!(
        sim.cluster.things.named("far").is_some(),
        "the garbage collector lets it be"
    );
    let end = sim.pass(true);
    assert_eq!(
        (sim.names(), end.writes),
        (vec!["gather", "call", "end"], 0)
    );

    let cluster_wide = ObjectKey::new("", "job");
    fn wide(seen: &Observation) -> super::plugins::Said {
        let mut far = config("far", json!(1));
        far["metadata"]["namespace"] = "other".into();
        let wide = json!({"apiVersion": "acme.io/v1", "kind": "ClusterThing", "metadata": {"name": "wide"}, "spec": {}});
        family(
            seen,
            vec![
                child("far", &[], far, |_| {}),
                child("wide", &[], wide, |_| {}),
            ],
        )
    }
    let mut sim = Sim::placed(
        wide,
        json!({}),
        with("", "", PluginFacts::default()),
        cluster_wide.clone(),
    );
    sim.settle();
    assert!(
        owned(&sim, "far") && owned(&sim, "wide"),
        "a cluster-scoped owner may own anything"
    );
    assert!(!sim.steps.iter().any(|(name, _)| *name == "finalizer"));
    sim.cluster.delete_at(&cluster_wide);
    sim.settle();
    assert_eq!(
        sim.cluster.things.all().count(),
        0,
        "the garbage collector took them"
    );
}

#[test]
fn a_cluster_scoped_child_that_was_denied_first_is_still_cleaned_up_at_the_end() {
    let mut sim = made(abroad, json!({"value": 1}));
    sim.cluster.things.make(
        json!({"apiVersion": "acme.io/v1", "kind": "ClusterThing", "metadata": {"name": "wide"}}),
    );
    sim.settle();
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Denied);
    sim.cluster.things.drop("wide");
    sim.push(&key("job"), crate::queue::Why::Resync, None);
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
    sim.cluster.delete("job");
    sim.settle();
    assert!(!sim.cluster.exists("job"));
    assert!(
        sim.cluster.things.named("wide").is_none() && sim.cluster.things.named("far").is_none()
    );
}

#[test]
fn the_finalizer_that_children_need_goes_with_them_and_does_not_flap_while_they_are_waited_for() {
    let mut sim = settled(abroad, json!({"value": 1}));
    sim.cluster
        .edit("job", |job| job["spec"]["near"] = json!(true));
    sim.settle();
    assert!(sim.cluster.things.named("far").is_none());
    assert!(sim.cluster.object("job")["metadata"]["finalizers"].is_null());
    assert_eq!(sim.cluster.journal("job").finalizer, None);
    // `far` comes after a Deployment that is not ready.
    fn slow(seen: &Observation) -> super::plugins::Said {
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}});
        let mut far = config("far", json!(1));
        far["metadata"]["namespace"] = "other".into();
        family(
            seen,
            vec![
                child("web", &[], web, |_| {}),
                child("far", &["web"], far, |_| {}),
            ],
        )
    }
    let mut sim = made(slow, json!({}));
    sim.cluster.things.slow.insert("web".into());
    sim.settle();
    let before = sim.cluster.writes.len();
    for _ in 0..3 {
        sim.pass(true);
    }
    assert_eq!(sim.cluster.writes[before..], [""; 0]);
    assert!(!sim.cluster.object("job")["metadata"]["finalizers"].is_null());
}

#[test]
fn fields_of_anothers_object_are_set_without_force_and_let_go() {
    let mut sim = made(fields, json!({"value": 1}));
    let shared = sim.cluster.things.make(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "namespace": "ns"}, "data": {"theirs": "x"}}));
    sim.settle();
    let found = sim.cluster.things.get(&shared).unwrap();
    assert_eq!(found["data"], json!({"theirs": "x", "ours": "1"}));
    assert!(
        found["metadata"]["labels"].is_null(),
        "it is not marked as ours"
    );
    sim.cluster
        .edit("job", |job| job["spec"]["off"] = json!(true));
    sim.settle();
    assert_eq!(
        sim.cluster.things.get(&shared).unwrap()["data"],
        json!({"theirs": "x"})
    );
    assert!(sim.cluster.journal("job").inventory.is_empty());
    let mut sim = made(fields, json!({"value": 1}));
    sim.cluster.things.make(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "namespace": "ns"}, "data": {"ours": "no"}}));
    sim.settle();
    let (_, message) = ready_reason(&sim);
    assert!(
        message.contains("conflict with \"other\": .data.ours"),
        "{message}"
    );
    let mut sim = made(fields, json!({"value": 1}));
    sim.settle();
    assert!(
        sim.cluster.things.named("shared").is_none(),
        "it makes none"
    );
}

#[test]
fn an_effect_of_another_name_keeps_its_object_and_the_plugin_sees_it_under_the_new_one() {
    fn renamed(seen: &Observation) -> super::plugins::Said {
        let id = spec(seen)["id"].as_str().unwrap().to_owned();
        family(seen, vec![child(&id, &[], config("a", json!(1)), |_| {})])
    }
    let mut sim = settled(renamed, json!({"id": "x"}));
    sim.cluster
        .edit("job", |job| job["spec"]["id"] = json!("y"));
    sim.settle();
    assert_eq!(
        sim.cluster.things.count("a"),
        count(1, 1, 0),
        "nothing is to be written"
    );
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
    assert_eq!(sim.cluster.journal("job").inventory[0].effect, "y");
}

#[test]
fn an_api_server_that_is_away_during_an_apply_is_nobodys_failure() {
    let mut sim = made(plain, json!({"value": 1}));
    sim.ill = Some((4, super::driver::Ill::Refused(unavailable(Some(7)))));
    let end = sim.pass(false);
    assert_eq!((end.outcome, end.backoff), (Outcome::ClusterFailed, true));
    assert_eq!(end.wake, Some(START.after(Span::from_secs(7))));
    assert_eq!(sim.cluster.journal("job").retry, None);
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
}

#[test]
fn a_kind_that_is_not_served_fails_its_effect_and_no_other() {
    let mut sim = made(plain, json!({"value": 1}));
    sim.faults.push(("journal", Fault::Meanwhile(|_| {})));
    sim.plugin = website;
    sim.cluster.things.unserved.insert("Ingress".into());
    sim.cluster.edit("job", |job| {
        job["spec"] = json!({"page": "a", "replicas": 1, "ingress": true})
    });
    sim.run_until(START.after(Span::from_secs(20)));
    assert_eq!(ready_reason(&sim).0, "NoSuchKind");
    assert!(sim.cluster.things.named("service").is_some());
    sim.cluster.things.unserved.clear();
    sim.settle();
    assert!(sim.cluster.things.named("ingress").is_some());
}

#[test]
fn a_plugin_that_sets_its_own_status_keeps_it_while_children_are_on_their_way() {
    fn own(seen: &Observation) -> super::plugins::Said {
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}});
        let _ = seen;
        said(Decision {
            status: replace(json!({"phase": "Mine"})),
            effects: vec![child("web", &[], web, |_| {})],
            ..Decision::default()
        })
    }
    let mut sim = made(own, json!({}));
    sim.cluster.things.slow.insert("web".into());
    sim.settle();
    assert_eq!(sim.cluster.status("job")["phase"], "Mine");
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Waiting);
    assert_eq!(ready_reason(&sim).0, "DependencyNotReady");
}
