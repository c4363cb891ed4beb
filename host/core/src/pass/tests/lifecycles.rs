//! Crashes in the life of an object with children: made, changed, deleted, and leaving the selector.
//!
//! The host stops after every step of the run without faults, with every subset of a batch done; then pairs with a second
//! crash in the recovery; then every request to the API server goes wrong once, each way. The end must be the same, nothing
//! may be made twice, and nothing of ours may be left where no inventory knows it.

use serde_json::{Value, json};

use super::{
    driver::{Crash, Ill, Plugin, Sim, unavailable, with},
    families::*,
};
use crate::{
    children::OWNER_LABEL,
    pass::{PluginFacts, WriteError},
};

/// A plugin, and what it is used for.
struct Scene {
    name: &'static str,
    plugin: Plugin,
    finalize: Plugin,
    facts: PluginFacts,
    spec: Value,
    changed: Value,
}

/// What happens to the object after it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Made,
    Changed,
    Deleted,
    Left,
}

const LIVES: [Life; 4] = [Life::Made, Life::Changed, Life::Deleted, Life::Left];

fn scenes() -> Vec<Scene> {
    let scene = |name, plugin: Plugin, spec: Value, changed: Value| Scene {
        name,
        plugin,
        finalize: finished,
        facts: PluginFacts::default(),
        spec,
        changed,
    };
    let value = || (json!({"value": 1}), json!({"value": 2}));
    let valued = |name, plugin| {
        let (spec, changed) = value();
        scene(name, plugin, spec, changed)
    };
    vec![
        scene(
            "website",
            website,
            json!({"page": "a", "replicas": 1, "ingress": true}),
            json!({"page": "b", "replicas": 2}),
        ),
        scene(
            "plain",
            plain,
            json!({"value": 1}),
            json!({"value": 1, "one": true}),
        ),
        Scene {
            finalize: deprovision,
            facts: finalizes(),
            ..valued("provision", provision)
        },
        valued("follower", follower),
        Scene {
            facts: finalizes(),
            ..valued("waves, finalized", waves)
        },
        valued("waves", waves),
        valued("orphan", orphan),
        scene(
            "fields",
            fields,
            json!({"value": 1}),
            json!({"value": 2, "off": true}),
        ),
        valued("once", once),
        valued("recreate", recreate),
        scene("abroad", abroad, json!({"value": 1}), json!({"near": true})),
        valued("adopter", adopter),
        valued("announcer", announcer),
        valued("mayfly", mayfly),
    ]
}

impl Scene {
    fn start(&self) -> Sim {
        let terms = with(", onExit: finalize", "!off", self.facts.clone());
        let mut sim = Sim::mapped(self.plugin, self.spec.clone(), terms);
        sim.finalize = self.finalize;
        let things = &mut sim.cluster.things;
        things.immutable.insert("Job".into(), "/spec/template");
        for (name, value) in [
            ("start", "middle"),
            ("middle", "last"),
            ("legacy", ""),
            ("shared", "x"),
        ] {
            things.make(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": {"value": value}}));
        }
        sim
    }

    fn run(&self, life: Life, prepare: impl Fn(&mut Sim)) -> Sim {
        let mut sim = self.start();
        if life != Life::Made {
            sim.settle();
        }
        sim.steps.clear();
        sim.restart();
        sim.requests = 0;
        let there = sim.cluster.exists("job");
        match life {
            Life::Changed if there => {
                let changed = self.changed.clone();
                sim.cluster.edit("job", |job| job["spec"] = changed);
            }
            Life::Deleted if there => sim.cluster.delete("job"),
            Life::Left if there => sim
                .cluster
                .edit("job", |job| job["metadata"]["labels"]["off"] = json!("1")),
            _ => {}
        }
        prepare(&mut sim);
        sim.settle();
        sim
    }

    /// A run with faults against the one without.
    fn compare(&self, life: Life, reference: &Sim, sim: &mut Sim, about: &str) {
        let about = format!("{} {life:?} {about}: {:?}", self.name, sim.names());
        let (found, expected) = (sim.cluster.end_state(), reference.cluster.end_state());
        assert_eq!(found, expected, "{about}");
        for (name, count) in &reference.cluster.things.counts {
            let found = sim.cluster.things.count(name);
            assert_eq!(found.creates, count.creates, "{about}: creates of {name}");
        }
        assert_eq!(
            sim.exporter.acts, reference.exporter.acts,
            "{about}: the ledger"
        );
        for object in &sim.cluster.things.deleted {
            let mark = &object["metadata"]["labels"][OWNER_LABEL];
            assert!(
                mark.is_string(),
                "{about}: deleted what is not ours, {object}"
            );
        }
        assert_no_leak(sim, &about);
        let (writes, counts) = (sim.cluster.writes.len(), sim.cluster.things.counts.clone());
        sim.restart();
        sim.settle();
        assert_eq!(
            sim.cluster.writes[writes..],
            [""; 0],
            "{about}: settled is settled"
        );
        assert_eq!(
            sim.cluster.things.counts, counts,
            "{about}: settled is settled"
        );
    }
}

/// Whatever carries our mark stands in an inventory.
fn assert_no_leak(sim: &Sim, about: &str) {
    let known: Vec<String> = sim
        .cluster
        .journals
        .values()
        .flat_map(|(_, text)| {
            serde_json::from_str::<crate::journal::Journal>(text)
                .unwrap()
                .inventory
        })
        .filter_map(|record| record.uid)
        .collect();
    for (_, object) in sim.cluster.things.all() {
        let marked = object["metadata"]["labels"][OWNER_LABEL].is_string();
        let uid = object["metadata"]["uid"].as_str().unwrap();
        assert!(
            !marked || known.iter().any(|known| known == uid),
            "{about}: {uid} is left"
        );
    }
}

fn crash(sim: &mut Sim, crashes: &[Crash]) {
    sim.crashes = crashes.to_vec().into();
}

#[test]
fn a_crash_after_any_step_of_a_life_leads_to_the_same_end() {
    for scene in scenes() {
        for life in LIVES {
            let reference = scene.run(life, |_| {});
            assert_no_leak(&reference, scene.name);
            for after in 1..=reference.steps.len() {
                let batch = matches!(reference.steps[after - 1].0, "send" | "apply" | "remove");
                for mask in 0..if batch { 8 } else { 1 } {
                    let one = [Crash { after, mask }];
                    let mut sim = scene.run(life, |sim| crash(sim, &one));
                    scene.compare(life, &reference, &mut sim, &format!("{one:?}"));
                }
            }
        }
    }
}
