//! The host stops after any step: what is done stays done, nothing is done twice, and the end is the same.
//!
//! Crashes are enumerated and not drawn: after each step of the run without faults; then pairs with a second crash in the
//! recovery from a fixed seed. (Sieve, OSDI'22, compares with a reference run likewise.)

use serde_json::{Value, json};

use super::{
    driver::{Crash, Fault, START, Sim, unavailable},
    plugins::*,
    world::Mishap,
};
use crate::{journal::RecordState, units::Span};

/// A plugin and what the world does to it.
struct Scene {
    name: &'static str,
    plugin: Plugin,
    spec: Value,
    mishaps: Vec<Mishap>,
    always: Option<Mishap>,
}

type Plugin = super::driver::Plugin;

fn scenes() -> Vec<Scene> {
    let scene = |name, plugin, spec| Scene {
        name,
        plugin,
        spec,
        mishaps: Vec::new(),
        always: None,
    };
    vec![
        scene("success", report_job as Plugin, json!({})),
        Scene {
            mishaps: vec![Mishap::Lost, Mishap::LostAfterDone],
            ..scene("two failures", report_job, json!({}))
        },
        Scene {
            always: Some(Mishap::Code(503, None)),
            ..scene("down for good", report_job, json!({}))
        },
        Scene {
            always: Some(Mishap::Code(422, None)),
            ..scene("refused", report_job, json!({}))
        },
        scene("one after the other", two_sends, json!({})),
        scene("a batch", batch, json!({})),
        scene("no phase", mirror, json!({"value": 7})),
        scene("terminal", moody, json!({"mode": "terminal"})),
        scene("denied", moody, json!({"mode": "deny"})),
        scene("retried until stalled", moody, json!({"mode": "retry"})),
        scene("panics until stalled", moody, json!({"mode": "panic"})),
    ]
}

impl Scene {
    fn run(&self, crashes: &[Crash]) -> Sim {
        let mut sim = Sim::new(self.plugin, self.spec.clone());
        sim.exporter.mishaps = self.mishaps.clone().into();
        sim.exporter.always = self.always;
        sim.crashes = crashes.to_vec().into();
        sim.settle();
        sim
    }

    /// A run with crashes against the one without.
    fn compare(&self, reference: &Sim, crashes: &[Crash]) {
        let sim = self.run(crashes);
        let about = format!("{} {crashes:?}: {:?}", self.name, sim.names());
        // A send whose answer went with the host is not counted: the ledger may have more of them, never less.
        let (sent, expected) = (sim.exporter.sends.len(), reference.exporter.sends.len());
        assert!(
            (expected..=expected + crashes.len() * 3).contains(&sent),
            "{about}: {sent} sends"
        );
        assert_eq!(
            sim.cluster.end_state(),
            reference.cluster.end_state(),
            "{about}"
        );
        let keys = |sim: &Sim| {
            sim.exporter
                .by_key()
                .into_keys()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            keys(&sim),
            keys(reference),
            "{about}: repeated sends carry the same key"
        );
        assert_eq!(sim.exporter.made, reference.exporter.made, "{about}");
        let writes = sim.cluster.writes.len();
        let mut sim = sim;
        sim.restart();
        sim.settle();
        assert_eq!(
            sim.cluster.writes.len(),
            writes,
            "{about}: settled is settled"
        );
    }
}

#[test]
fn a_crash_after_any_step_leads_to_the_same_end_and_doubles_nothing() {
    for scene in scenes() {
        let reference = scene.run(&[]);
        let steps = reference.steps.len();
        assert!(steps >= 3, "{}", scene.name);
        for after in 1..=steps {
            let masks = if reference.steps[after - 1].0 == "send" {
                8
            } else {
                1
            };
            for mask in 0..masks {
                scene.compare(&reference, &[Crash { after, mask }]);
            }
        }
    }
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
fn a_second_crash_in_the_recovery_leads_to_the_same_end() {
    let mut draws = Draws(20_261_129);
    for scene in scenes() {
        let reference = scene.run(&[]);
        for _ in 0..200 {
            let mut crash = || Crash {
                after: 1 + draws.below(reference.steps.len()),
                mask: draws.below(8) as u32,
            };
            let crashes = [crash(), crash()];
            scene.compare(&reference, &crashes);
        }
    }
}

#[test]
fn at_most_once_is_never_sent_twice_under_any_crash() {
    for mishap in [None, Some(Mishap::LostAfterDone), Some(Mishap::NotSent)] {
        let run = |crashes: &[Crash]| {
            let mut sim = Sim::new(at_most_once, json!({}));
            sim.exporter.mishaps = mishap.into_iter().collect();
            sim.crashes = crashes.to_vec().into();
            sim.settle();
            sim
        };
        let steps = run(&[]).steps.len();
        for (first, second) in (1..=steps).flat_map(|a| (1..=steps).map(move |b| (a, b))) {
            for mask in 0..2 {
                let sim = run(&[
                    Crash { after: first, mask },
                    Crash {
                        after: second,
                        mask,
                    },
                ]);
                assert!(sim.exporter.sends.len() <= 1, "{mishap:?} {first} {second}");
                let state = &sim.cluster.journal("job").receipts[0].state;
                assert!(
                    !matches!(state, RecordState::Intent { .. }),
                    "{first} {second}: an intent is left"
                );
                let phase = &sim.cluster.status("job")["phase"];
                // `Lost` although nothing left the host is honest: a crash between intent and answer cannot be told apart.
                assert!(
                    phase == "Lost" || (phase == "Done" && sim.exporter.made.len() == 1),
                    "{first} {second}: {phase}"
                );
            }
        }
    }
}

/// A crash and an API server that does not answer, one after the other.
#[test]
fn a_crash_together_with_a_refused_request_leads_to_the_same_end() {
    for scene in scenes() {
        let reference = scene.run(&[]);
        for step in ["journal", "patch", "status"] {
            for after in 1..=reference.steps.len() {
                for lose in [false, true] {
                    let mut sim = Sim::new(scene.plugin, scene.spec.clone());
                    sim.exporter.mishaps = scene.mishaps.clone().into();
                    sim.exporter.always = scene.always;
                    sim.crashes = [Crash {
                        after,
                        mask: u32::MAX,
                    }]
                    .into();
                    sim.faults.push((
                        step,
                        if lose {
                            Fault::Lose
                        } else {
                            Fault::Refuse(unavailable(None))
                        },
                    ));
                    sim.settle();
                    let (found, expected) =
                        (sim.cluster.end_state(), reference.cluster.end_state());
                    assert_eq!(found, expected, "{} {step} {after} {lose}", scene.name);
                    assert_eq!(
                        sim.exporter.made, reference.exporter.made,
                        "{} {step} {after}",
                        scene.name
                    );
                }
            }
        }
    }
}

#[test]
fn a_crash_loses_no_counted_failure_and_sends_nothing_before_its_time() {
    let scene = &scenes()[1];
    for after in 1..=scene.run(&[]).steps.len() {
        let sim = scene.run(&[Crash {
            after,
            mask: u32::MAX,
        }]);
        // Only the send whose answer the crash took comes again at once.
        let early = sim
            .exporter
            .pauses()
            .into_iter()
            .filter(|pause| *pause < 900)
            .count();
        assert!(early <= 1, "{after}: {:?}", sim.exporter.pauses());
        assert!(sim.now < START.after(Span::from_secs(10)), "{after}");
    }
}
