//! A mapping in `mode: observe`: the plugin is asked and what it wants is told, and nothing is written or sent.

use serde_json::json;

use super::{
    driver::{Sim, with},
    families::*,
    plugins::moody,
};
use crate::{outcome::Outcome, pass::PluginFacts};

const OBSERVE: &str = ", mode: observe";

fn notes(sim: &Sim) -> Vec<String> {
    let events = sim.cluster.events.iter();
    events.map(|event| event.note.clone()).collect()
}

#[test]
fn what_a_plugin_wants_is_told_and_nothing_is_done() {
    let terms = with(OBSERVE, "", PluginFacts::default());
    let mut sim = Sim::mapped(waves, json!({}), terms);
    let end = sim.pass(false);
    assert_eq!(sim.names(), ["call", "tell", "end"]);
    assert_eq!((end.outcome, end.writes), (Outcome::Unchanged, 0));
    assert!(
        notes(&sim)[0].starts_with("would do: apply "),
        "{:?}",
        notes(&sim)
    );
    // Nothing changed: it is not even asked again.
    let again = sim.pass(false);
    assert_eq!((sim.names(), again.calls), (vec!["end"], 0));
    assert!(sim.cluster.writes.is_empty(), "{:?}", sim.cluster.writes);
}

#[test]
fn a_plugin_that_finalizes_gets_no_finalizer_and_its_requests_are_not_sent() {
    let terms = with(OBSERVE, "", finalizes());
    let mut sim = Sim::mapped(provision, json!({"value": 1}), terms);
    sim.finalize = deprovision;
    sim.settle();
    assert!(
        notes(&sim)[0].starts_with("would do: send PUT "),
        "{:?}",
        notes(&sim)
    );
    assert!(sim.cluster.writes.is_empty(), "{:?}", sim.cluster.writes);
    assert!(sim.names().iter().all(|name| *name != "send"));
}

#[test]
fn a_failure_is_told_and_counted_nowhere() {
    for (mode, word) in [
        ("retry", "NotReady"),
        ("panic", "Panic"),
        ("deny", "Denied"),
    ] {
        let terms = with(OBSERVE, "", PluginFacts::default());
        let mut sim = Sim::mapped(moody, json!({"mode": mode}), terms);
        sim.pass(false);
        assert_eq!(sim.names(), ["call", "tell", "end"], "{mode}");
        let told = notes(&sim);
        assert!(
            told[0].starts_with("would end ") && told[0].contains(word),
            "{told:?}"
        );
        assert!(sim.cluster.writes.is_empty(), "{mode}");
    }
}
