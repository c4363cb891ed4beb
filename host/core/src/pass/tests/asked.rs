//! What a pass reads beside its object, what stops a plugin that never settles, and what people ask for by name.

use serde_json::{Value, json};

use super::{
    driver::{Plugin, START, Sim, with},
    families::*,
    plugins::{Said, flips, moody, replace, said},
    world::key,
};
use crate::{
    contract::{Answer, Decision, Observation},
    outcome::Outcome,
    pass::{PluginFacts, RECONCILE},
    time::Time,
    units::Span,
};

fn made(plugin: Plugin, spec: Value, members: &str) -> Sim {
    Sim::mapped(plugin, spec, with(members, "", PluginFacts::default()))
}

fn text(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": {"value": value}})
}

fn chain(sim: &mut Sim, length: usize) {
    let names: Vec<String> = std::iter::once("start".to_owned())
        .chain((1..length).map(|n| format!("n{n}")))
        .collect();
    for (index, name) in names.iter().enumerate() {
        let next = names.get(index + 1).map_or("", String::as_str);
        sim.cluster.things.make(text(name, next));
    }
}

/// Nothing of a decision with unanswered needs is carried out but its needs.
#[test]
fn needs_are_read_round_by_round_and_everything_else_waits_for_them() {
    let mut sim = made(follower, json!({}), "");
    chain(&mut sim, 3);
    sim.pass(false);
    let [reads @ .., _, _, _, _, _, _] = &sim.names()[..] else {
        panic!("{:?}", sim.names())
    };
    assert_eq!(
        reads,
        ["call", "gather", "call", "gather", "call", "gather", "call"]
    );
    assert_eq!(sim.cluster.status("job")["value"], "n2");
    assert_eq!(
        sim.cluster.things.count("end").creates,
        1,
        "with the last decision alone"
    );
    sim.pass(false);
    assert_eq!(
        sim.names()[..2],
        ["gather", "call"],
        "the last settled set is read in round 0"
    );
    assert_eq!(sim.calls.last().unwrap().round, 0);
    sim.pass(false);
    sim.pass(false);
    assert_eq!(sim.names(), ["gather", "end"]);
}

#[test]
fn five_rounds_are_the_most_and_more_is_the_plugins_failure() {
    let mut sim = made(follower, json!({}), "");
    chain(&mut sim, 9);
    let end = sim.pass(false);
    assert_eq!((end.outcome, end.calls), (Outcome::PluginFailed, 5));
    assert_eq!(end.cause.unwrap().reason, "TooManyRounds");
    assert!(sim.cluster.things.named("end").is_none());
}

#[test]
fn what_was_read_wakes_its_reader_absent_ones_included() {
    let mut sim = made(follower, json!({}), "");
    sim.settle();
    assert_eq!(sim.cluster.status("job")["value"], "");
    sim.cluster.things.make(text("start", "x"));
    sim.settle();
    assert_eq!(sim.cluster.status("job")["value"], "x", "it appeared");
    sim.cluster
        .things
        .edit("start", |start| start["data"]["value"] = json!("y"));
    sim.settle();
    assert_eq!(sim.cluster.status("job")["value"], "y");
    sim.cluster.things.drop("start");
    sim.settle();
    assert_eq!(sim.cluster.status("job")["value"], "");
}

#[test]
fn what_is_not_granted_or_not_served_is_answered_and_the_plugin_decides() {
    fn curious(seen: &Observation) -> Said {
        let answer = seen.related.first().map(|related| match &related.answer {
            Answer::Unavailable(cause) => cause.reason.clone(),
            other => format!("{other:?}"),
        });
        let mut secret = need("n", "s");
        if let crate::contract::Source::Object(object) = &mut secret.source {
            object.kind.kind = spec(seen)["kind"].as_str().unwrap().into();
        }
        said(Decision {
            status: replace(json!({"value": answer})),
            needs: vec![secret],
            ..Decision::default()
        })
    }
    let mut sim = made(curious, json!({"kind": "Secret"}), "");
    let end = sim.pass(false);
    assert_eq!(
        sim.names(),
        ["call", "call", "status", "end"],
        "nothing is read"
    );
    assert_eq!(sim.cluster.status("job")["value"], "Denied");
    assert_eq!(end.outcome, Outcome::Applied);
    let mut sim = made(curious, json!({"kind": "ConfigMap"}), "");
    sim.cluster.things.unserved.insert("ConfigMap".into());
    sim.settle();
    assert_eq!(sim.cluster.status("job")["value"], "NoSuchKind");
}

#[test]
fn needs_of_the_descriptor_are_read_before_the_first_call() {
    fn reader(seen: &Observation) -> Said {
        said(Decision {
            status: replace(json!({"value": told(seen, "0")})),
            ..Decision::default()
        })
    }
    let facts = PluginFacts {
        needs: vec![need("0", "start")],
        ..PluginFacts::default()
    };
    let mut sim = Sim::mapped(reader, json!({}), with("", "", facts));
    sim.cluster.things.make(text("start", "x"));
    sim.pass(false);
    assert_eq!(sim.names(), ["gather", "call", "status", "end"]);
    sim.pass(false);
    sim.pass(false);
    assert_eq!(sim.names(), ["gather", "end"]);
    sim.cluster
        .things
        .edit("start", |start| start["data"]["value"] = json!("y"));
    sim.pass(false);
    assert_eq!(
        sim.names(),
        ["gather", "call", "status", "end"],
        "the memo covers what was read"
    );
}

/// yoke and wasm-operator: a counter in the status, a write in every pass.
#[test]
fn a_plugin_that_never_settles_is_stopped_says_so_is_probed_and_freed_by_a_new_generation() {
    let mut sim = made(restless, json!({}), "");
    let before = sim.cluster.things.counts.len();
    sim.run_until(START.after(Span::from_secs(10)));
    let applies = sim.cluster.things.count("a").applies;
    let own = applies
        + sim
            .cluster
            .writes
            .iter()
            .filter(|write| **write == "status")
            .count();
    assert!((31..=34).contains(&own), "{own} writes, {before}");
    assert_eq!(sim.ends.last().unwrap().outcome, Outcome::Stalled);
    let conditions = sim.cluster.status("job")["conditions"].clone();
    assert_eq!(conditions[0]["reason"], "NotConverging");
    assert_eq!(sim.cluster.journal("job").outcome, Outcome::Stalled);
    // One probe in five minutes, whatever events come.
    let calls = sim.calls.len();
    for second in 0..100 {
        sim.push(&key("job"), crate::queue::Why::Resync, None);
        sim.run_until(START.after(Span::from_secs(20 + second)));
    }
    assert_eq!(sim.calls.len(), calls);
    sim.run_until(START.after(Span::from_secs(1000)));
    let probes = sim.calls.len() - calls;
    assert!((2..=8).contains(&probes), "{probes}");
    sim.plugin = plain;
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(7));
    sim.run_until(START.after(Span::from_secs(1001)));
    assert_eq!(sim.cluster.status("job")["phase"], "Ready");
}

#[test]
fn a_family_of_more_children_than_the_breaker_has_writes_is_made_and_changed_at_once_and_stops_no_breaker()
 {
    let large = |seen: &Observation| {
        let value = spec(seen)["value"].clone();
        let one = |n: usize| {
            let name = format!("c{n}");
            child(&name, &[], config(&name, value.clone()), |_| {})
        };
        family(seen, (0..31).map(one).collect())
    };
    let mut sim = Sim::mapped(
        large,
        json!({"value": 1}),
        with("", "", PluginFacts::default()),
    );
    sim.settle();
    sim.cluster
        .edit("job", |job| job["spec"]["value"] = json!(2));
    sim.settle();
    assert!(sim.ends.iter().all(|end| end.outcome != Outcome::Stalled));
    assert_eq!(sim.cluster.journal("job").inventory.len(), 31);
}

#[test]
fn the_breaker_is_the_mappings_to_set_and_a_plugin_that_settled_meanwhile_is_freed_by_its_probe() {
    let mut sim = made(flips, json!({}), ", breaker: {writes: 3, per: 60s}");
    for _ in 0..5 {
        sim.pass(true);
    }
    assert_eq!(sim.pass(true).outcome, Outcome::Stalled);
    assert_eq!(
        sim.cluster.object("job")["status"]["conditions"][0]["reason"],
        "NotConverging"
    );
    sim.plugin = |_| said(Decision::default());
    sim.now = Time(sim.now.0 + 61_000);
    sim.pass(true);
    let end = sim.pass(true);
    assert_eq!(
        (end.outcome, end.carry.pace.probe),
        (Outcome::Unchanged, None)
    );
    assert_eq!(
        sim.cluster.status("job")["conditions"][0]["reason"],
        "Succeeded"
    );
}

/// KubeOps, kro: what was given up is taken up again when somebody asks for it.
#[test]
fn a_reconcile_token_is_taken_up_once_also_for_what_was_given_up() {
    let mut sim = made(moody, json!({"mode": "terminal"}), "");
    sim.settle();
    assert_eq!(
        (sim.ends.last().unwrap().outcome, sim.calls.len()),
        (Outcome::Stalled, 1)
    );
    let ask = |sim: &mut Sim, token: &str| {
        let token = token.to_owned();
        sim.cluster.edit("job", |job| {
            job["metadata"]["annotations"] = json!({RECONCILE: token})
        });
        sim.settle();
    };
    ask(&mut sim, "1");
    assert_eq!(sim.calls.len(), 2);
    assert_eq!(sim.calls[1].attempt, 0, "it starts anew");
    assert_eq!(sim.cluster.journal("job").reconciled.as_deref(), Some("1"));
    sim.restart();
    sim.settle();
    sim.cluster
        .edit("job", |job| job["metadata"]["labels"]["x"] = json!("y"));
    sim.settle();
    assert_eq!(
        sim.calls.len(),
        2,
        "the same token is not taken up again, not even after a restart"
    );
    sim.plugin = |_| said(Decision::default());
    ask(&mut sim, "2");
    assert_eq!(sim.cluster.journal("job").outcome, Outcome::Applied);
    ask(&mut sim, &"long".repeat(100));
    assert!(sim.cluster.journal("job").reconciled.unwrap().len() <= 128);
    let calls = sim.calls.len();
    sim.restart();
    sim.settle();
    assert_eq!(sim.calls.len(), calls + 1, "a restart calls once, as ever");
}

#[test]
fn a_token_frees_what_the_breaker_stopped() {
    let mut sim = made(flips, json!({}), ", breaker: {writes: 3, per: 60s}");
    for _ in 0..6 {
        sim.pass(true);
    }
    assert_eq!(sim.pass(true).outcome, Outcome::Stalled);
    sim.plugin = |_| said(Decision::default());
    sim.cluster.edit("job", |job| {
        job["metadata"]["annotations"] = json!({RECONCILE: "1"})
    });
    assert_eq!(sim.pass(false).outcome, Outcome::Applied);
}

/// kro#1304 and function-kro#68: `1` becomes `1.0`, int64 loses precision, an empty list becomes null.
#[test]
fn values_of_children_reach_the_server_as_they_were_written() {
    fn exact(_: &Observation) -> Said {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1, "big": 9_007_199_254_740_993_i64, "none": [], "empty": {}, "zero": 0, "no": false}});
        said(Decision {
            effects: vec![child("web", &[], object, |_| {})],
            ..Decision::default()
        })
    }
    let mut sim = made(exact, json!({}), "");
    sim.settle();
    let spec = sim.cluster.things.named("web").unwrap()["spec"].to_string();
    assert_eq!(
        spec,
        r#"{"big":9007199254740993,"empty":{},"no":false,"none":[],"replicas":1,"zero":0}"#
    );
}
