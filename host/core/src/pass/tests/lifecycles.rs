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
        sim.sizes.clear();
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
        assert!(
            found == expected,
            "{about}:\n{}",
            differences(&found, &expected, "")
        );
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

/// Where two values differ.
fn differences(found: &Value, expected: &Value, path: &str) -> String {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            let inner = keys.into_iter().map(|key| {
                let (a, b) = (a.get(key), b.get(key));
                differences(
                    a.unwrap_or(&Value::Null),
                    b.unwrap_or(&Value::Null),
                    &format!("{path}.{key}"),
                )
            });
            inner.collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .map(|(index, (a, b))| differences(a, b, &format!("{path}[{index}]")))
            .collect(),
        _ if found == expected => String::new(),
        _ => format!("{path}: {found} and not {expected}\n"),
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

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

#[test]
fn a_second_crash_in_the_recovery_of_a_life_leads_to_the_same_end() {
    let mut draws = Draws(20_261_130);
    for scene in scenes() {
        for life in LIVES {
            let reference = scene.run(life, |_| {});
            // The mayfly is gone before anything can happen to it.
            let pairs = if reference.steps.is_empty() { 0 } else { 50 };
            for _ in 0..pairs {
                let mut draw = || Crash {
                    after: 1 + draws.below(reference.steps.len()),
                    mask: draws.below(8) as u32,
                };
                let both = [draw(), draw()];
                let mut sim = scene.run(life, |sim| crash(sim, &both));
                scene.compare(life, &reference, &mut sim, &format!("{both:?}"));
            }
        }
    }
}

/// Done and told otherwise, or refused: with a store that keeps up, and with one that is late.
#[test]
fn whatever_request_of_a_life_goes_wrong_once_the_end_is_the_same() {
    let ills = [
        Ill::Lost,
        Ill::Refused(WriteError::Conflict),
        Ill::Refused(WriteError::NotFound),
        Ill::Refused(WriteError::Invalid("no".into())),
        Ill::Refused(WriteError::Forbidden("quota".into())),
        Ill::Refused(unavailable(Some(3))),
    ];
    for scene in scenes() {
        for life in LIVES {
            for lag in [0, 9] {
                let reference = scene.run(life, |sim| sim.cluster.things.lag = lag);
                for (at, ill) in
                    (1..=reference.requests).flat_map(|at| ills.iter().map(move |ill| (at, ill)))
                {
                    let mut sim = scene.run(life, |sim| {
                        sim.cluster.things.lag = lag;
                        sim.ill = Some((at, ill.clone()));
                    });
                    scene.compare(
                        life,
                        &reference,
                        &mut sim,
                        &format!("lag {lag}, request {at}: {ill:?}"),
                    );
                }
            }
        }
    }
}

#[test]
fn a_crash_after_any_step_of_a_life_leads_to_the_same_end() {
    for scene in scenes() {
        for life in LIVES {
            let reference = scene.run(life, |_| {});
            assert_no_leak(&reference, scene.name);
            for after in 1..=reference.steps.len() {
                // All of a batch done is no other than a crash after it.
                let size = reference.sizes[after - 1];
                let masks = if size > 1 { 1 << size } else { 2 };
                for mask in 0..masks {
                    let one = [Crash { after, mask }];
                    let mut sim = scene.run(life, |sim| crash(sim, &one));
                    scene.compare(life, &reference, &mut sim, &format!("{one:?}"));
                }
            }
        }
    }
}
