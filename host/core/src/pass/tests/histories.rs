//! Arbitrary histories: edits by people, controllers and other owners, deletions, restarts, crashes, lost and refused
//! answers, late stores and a clock, in any order. Steps are total: whatever does not apply where it stands is passed over, so
//! every part of a history is one too.
//!
//! Held at every moment: nothing is deleted that does not carry our mark, our finalizer does not go before a child that nobody
//! else takes away, the generation in the status never falls, a pass ends. Held once people and faults have come to rest: what
//! is wished for is there, nothing of ours is left that no inventory knows, and nothing is written any more.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    driver::{Crash, Ill, Sim, unavailable, with},
    families::*,
    plugins::{Said, effect},
    world::key,
};
use crate::{
    children::{OWNER_LABEL, owner_mark},
    contract::{Mode, Observation, OnDelete, OnImmutable},
    object::Uid,
    outcome::Outcome,
    pass::{PAUSED, RECONCILE, WriteError},
    units::Span,
};

const NAMES: [&str; 6] = ["a", "b", "far", "wide", "heir", "run"];

/// The children whose bits are set in the spec.
fn versatile(seen: &Observation) -> Said {
    let spec = spec(seen);
    let (set, value) = (spec["set"].as_u64().unwrap_or(0), spec["value"].clone());
    let mut far = config("far", value.clone());
    far["metadata"]["namespace"] = "other".into();
    let wide = json!({"apiVersion": "acme.io/v1", "kind": "ClusterThing", "metadata": {"name": "wide"}, "spec": {"x": value}});
    let run = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "run"}, "spec": {"template": {"x": value}}});
    let after: &[&str] = if set & 1 != 0 && spec["after"] == true {
        &["a"]
    } else {
        &[]
    };
    let once = spec["once"] == true;
    let all = [
        child("a", &[], config("a", value.clone()), |_| {}),
        child("b", after, config("b", value.clone()), |_| {}),
        child("far", after, far, |_| {}),
        child("wide", &[], wide, |_| {}),
        child("heir", &[], config("heir", value.clone()), |apply| {
            apply.on_delete = OnDelete::Orphan
        }),
        child("run", &[], run, |apply| {
            if once {
                apply.mode = Mode::Once;
            } else {
                apply.on_immutable = OnImmutable::Recreate;
            }
        }),
    ];
    let wished = all
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| set & (1 << bit) != 0);
    let mut effects: Vec<_> = wished.map(|(_, effect)| effect).collect();
    if spec["http"] == true {
        let mut send = effect("send", Some(&value.to_string()), "http://exporter/x");
        send.after = after.iter().map(|id| (*id).to_owned()).collect();
        effects.push(send);
    }
    let mut said = family(seen, effects)?;
    if let crate::contract::Reply::Decision(decision) = &mut said {
        // What is said of a request is not said of a child.
        decision.status = super::plugins::replace(json!({"value": set}));
    }
    Ok(said)
}

#[derive(Clone, Debug)]
enum Event {
    Spec {
        set: u8,
        value: u8,
        after: bool,
        once: bool,
        http: bool,
    },
    Pass {
        forced: bool,
    },
    Rest,
    Later {
        seconds: u16,
    },
    Restart,
    Crash {
        after: usize,
        mask: u32,
    },
    Ill {
        after: usize,
        how: u8,
    },
    Late {
        lag: usize,
    },
    Drop {
        name: usize,
    },
    Edit {
        name: usize,
    },
    Unmark {
        name: usize,
    },
    Take {
        name: usize,
    },
    Hold {
        name: usize,
        on: bool,
    },
    Refuse {
        name: usize,
        on: bool,
    },
    Slow {
        on: bool,
    },
    Foreign {
        name: usize,
    },
    Delete,
    Create,
    Leave {
        on: bool,
    },
    Pause {
        on: bool,
    },
    Token {
        token: u8,
    },
    Finalizer {
        on: bool,
    },
    Swap {
        broken: bool,
        finalizes: bool,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (0u8..64, 0u8..3, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(set, value, after, once, http)| Event::Spec { set, value, after, once, http }),
        4 => any::<bool>().prop_map(|forced| Event::Pass { forced }),
        4 => Just(Event::Rest),
        2 => (0u16..400).prop_map(|seconds| Event::Later { seconds }),
        1 => Just(Event::Restart),
        3 => (1usize..12, any::<u32>()).prop_map(|(after, mask)| Event::Crash { after, mask }),
        3 => (1usize..8, 0u8..6).prop_map(|(after, how)| Event::Ill { after, how }),
        1 => (0usize..4).prop_map(|lag| Event::Late { lag }),
        2 => name().prop_map(|name| Event::Drop { name }),
        1 => name().prop_map(|name| Event::Edit { name }),
        1 => name().prop_map(|name| Event::Unmark { name }),
        1 => name().prop_map(|name| Event::Take { name }),
        2 => (name(), any::<bool>()).prop_map(|(name, on)| Event::Hold { name, on }),
        1 => (name(), any::<bool>()).prop_map(|(name, on)| Event::Refuse { name, on }),
        1 => any::<bool>().prop_map(|on| Event::Slow { on }),
        1 => name().prop_map(|name| Event::Foreign { name }),
        2 => Just(Event::Delete),
        2 => Just(Event::Create),
        1 => any::<bool>().prop_map(|on| Event::Leave { on }),
        1 => any::<bool>().prop_map(|on| Event::Pause { on }),
        1 => any::<u8>().prop_map(|token| Event::Token { token }),
        1 => any::<bool>().prop_map(|on| Event::Finalizer { on }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(broken, finalizes)| Event::Swap { broken, finalizes }),
    ]
}

fn ill(how: u8) -> Ill {
    match how {
        0 | 1 => Ill::Lost,
        2 => Ill::Refused(WriteError::Conflict),
        3 => Ill::Refused(WriteError::Forbidden("quota".into())),
        4 => Ill::Refused(WriteError::Invalid("no".into())),
        _ => Ill::Refused(unavailable(None)),
    }
}

fn list(object: &mut Value, name: &str, on: bool) {
    let list = &mut object["metadata"]["finalizers"];
    let mut all: Vec<Value> = list.as_array().cloned().unwrap_or_default();
    all.retain(|entry| entry != name);
    if on && object["metadata"]["deletionTimestamp"].is_null() {
        all.push(name.into());
    }
    object["metadata"]["finalizers"] = all.into();
}

fn edit_thing(sim: &mut Sim, name: usize, edit: impl FnOnce(&mut Value)) {
    if sim.cluster.things.named(NAMES[name]).is_some() {
        sim.cluster.things.edit(NAMES[name], edit);
    }
}

fn edit_job(sim: &mut Sim, edit: impl FnOnce(&mut Value)) {
    if sim.cluster.exists("job") {
        sim.cluster.edit("job", edit);
    }
}

/// Another plugin, or none that can be called.
fn swap(sim: &mut Sim, broken: bool, finalizes: bool) {
    let mut terms = (*sim.terms).clone();
    terms.digest = format!("sha256:{}", sim.requests);
    terms.plugin.finalizes = finalizes;
    terms.plugin.broken = broken.then(|| "it does not load".to_owned());
    sim.terms = terms.into();
    sim.push(&key("job"), crate::queue::Why::Swap, None);
}

fn place_of(name: &str) -> Value {
    match name {
        "wide" => {
            json!({"apiVersion": "acme.io/v1", "kind": "ClusterThing", "metadata": {"name": "wide"}})
        }
        "run" => {
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "run", "namespace": "ns"}, "spec": {}})
        }
        name => {
            let namespace = if name == "far" { "other" } else { "ns" };
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"theirs": "x"}})
        }
    }
}

fn happen(sim: &mut Sim, event: &Event) {
    match *event {
        Event::Spec {
            set,
            value,
            after,
            once,
            http,
        } => edit_job(sim, |job| {
            job["spec"] =
                json!({"set": set, "value": value, "after": after, "once": once, "http": http});
        }),
        Event::Pass { forced } => {
            let why = if forced {
                crate::queue::Why::Resync
            } else {
                crate::queue::Why::Event
            };
            sim.push(&key("job"), why, None);
            sim.run_until(sim.now);
        }
        Event::Rest => sim.run_until(sim.now.after(Span::from_secs(1))),
        Event::Later { seconds } => sim.run_until(sim.now.after(Span::from_secs(seconds.into()))),
        Event::Restart => sim.restart(),
        Event::Crash { after, mask } => sim.crashes.push_back(Crash {
            after: sim.steps.len() % 3 + after,
            mask,
        }),
        Event::Ill { after, how } => sim.ill = Some((sim.requests + after, ill(how))),
        Event::Late { lag } => sim.cluster.things.lag = lag,
        Event::Drop { name } => {
            if sim.cluster.things.named(NAMES[name]).is_some() {
                sim.cluster.things.drop(NAMES[name]);
            }
        }
        Event::Edit { name } => edit_thing(sim, name, |thing| {
            thing["data"] = json!({"value": "edited"})
        }),
        Event::Unmark { name } => {
            edit_thing(sim, name, |thing| thing["metadata"]["labels"] = json!({}))
        }
        Event::Take { name } => edit_thing(sim, name, |thing| {
            thing["metadata"]["labels"] = json!({OWNER_LABEL: "another"})
        }),
        Event::Hold { name, on } => edit_thing(sim, name, |thing| list(thing, "acme.io/hold", on)),
        Event::Refuse { name, on } => {
            let refused = &mut sim.cluster.things.refused;
            refused.remove(NAMES[name]);
            if on {
                refused.insert(NAMES[name].into(), WriteError::Forbidden("quota".into()));
            }
        }
        Event::Slow { on } => {
            sim.cluster.things.slow.clear();
            sim.cluster.things.slow.extend(on.then(|| "run".to_owned()));
        }
        Event::Foreign { name } => {
            if sim.cluster.things.named(NAMES[name]).is_none() {
                sim.cluster.things.make(place_of(NAMES[name]));
            }
        }
        Event::Delete if sim.cluster.exists("job") => sim.cluster.delete("job"),
        Event::Create if !sim.cluster.exists("job") => {
            sim.cluster.create("job", json!({"set": 5, "value": 1}))
        }
        Event::Delete | Event::Create => {}
        Event::Leave { on } => edit_job(sim, |job| {
            job["metadata"]["labels"] = if on { json!({"off": "1"}) } else { json!({}) };
        }),
        Event::Pause { on } => edit_job(sim, |job| {
            job["metadata"]["annotations"][PAUSED] = json!(on.to_string())
        }),
        Event::Token { token } => edit_job(sim, |job| {
            job["metadata"]["annotations"][RECONCILE] = json!(token.to_string());
        }),
        Event::Swap { broken, finalizes } => swap(sim, broken, finalizes),
        Event::Finalizer { on } => edit_job(sim, |job| list(job, "acme.io/other", on)),
    }
}

/// People and faults come to rest: nothing is refused, held or late any more, and what is nobody's business of ours is gone.
fn rest(sim: &mut Sim) {
    sim.crashes.clear();
    sim.ill = None;
    let finalizes = sim.terms.plugin.finalizes;
    swap(sim, false, finalizes);
    let things = &mut sim.cluster.things;
    (things.lag, things.refused, things.slow) = (0, Default::default(), Default::default());
    for (index, name) in NAMES.iter().enumerate() {
        edit_thing(sim, index, |thing| list(thing, "acme.io/hold", false));
        let foreign = sim.cluster.things.named(name).is_some_and(|thing| {
            let mark = &thing["metadata"]["labels"][OWNER_LABEL];
            mark.is_null() || mark == "another"
        });
        if foreign {
            sim.cluster.things.drop(name);
        }
    }
    edit_job(sim, |job| {
        list(job, "acme.io/other", false);
        job["metadata"]["annotations"] = json!({RECONCILE: "the end"});
    });
    sim.push(&key("job"), crate::queue::Why::Resync, None);
    sim.settle();
}

fn check(sim: &Sim) -> Result<(), TestCaseError> {
    prop_assert!(sim.cluster.wrongs.is_empty(), "{:?}", sim.cluster.wrongs);
    for object in &sim.cluster.things.deleted {
        let mark = object["metadata"]["labels"][OWNER_LABEL]
            .as_str()
            .unwrap_or_default();
        let ours =
            (1..9).any(|uid| mark == owner_mark("report-jobs", &Uid::new(&format!("uid-{uid}"))));
        // On record and still wished for, it gets its mark back; made anew it does too.
        let remade = mark.is_empty() && object["metadata"]["name"] == "run";
        prop_assert!(ours || remade, "not ours: {object}");
    }
    Ok(())
}

fn check_end(sim: &mut Sim) -> Result<(), TestCaseError> {
    let there = sim.cluster.exists("job");
    let job = if there {
        sim.cluster.object("job").clone()
    } else {
        Value::Null
    };
    let served = there && job["metadata"]["labels"]["off"].is_null();
    let set = if served {
        job["spec"]["set"].as_u64().unwrap_or(0)
    } else {
        0
    };
    let uid = Uid::new(job["metadata"]["uid"].as_str().unwrap_or_default());
    let mark = owner_mark("report-jobs", &uid);
    prop_assert!(
        job["metadata"]["deletionTimestamp"].is_null(),
        "it is held: {job}"
    );
    for (bit, name) in NAMES.iter().enumerate() {
        let found = sim.cluster.things.named(name);
        let wished = set & (1 << bit) != 0;
        let ours =
            found.is_some_and(|thing| thing["metadata"]["labels"][OWNER_LABEL] == mark.as_str());
        let done_once = *name == "run" && job["spec"]["once"] == true;
        prop_assert!(
            ours == wished || wished && done_once,
            "{name}: {found:?} of {job}"
        );
    }
    for (_, thing) in sim.cluster.things.all() {
        let marked = thing["metadata"]["labels"][OWNER_LABEL].is_string();
        prop_assert!(
            !marked || thing["metadata"]["labels"][OWNER_LABEL] == mark.as_str(),
            "left: {thing}"
        );
    }
    let last = sim.ends.last().map(|end| end.outcome);
    prop_assert!(
        !matches!(
            last,
            Some(Outcome::Denied | Outcome::Retrying | Outcome::Stalled)
        ),
        "{last:?} {job}"
    );
    let before = (sim.cluster.writes.len(), sim.cluster.things.counts.clone());
    sim.restart();
    sim.settle();
    prop_assert_eq!(&sim.cluster.writes[before.0..], &[""; 0]);
    prop_assert_eq!(&sim.cluster.things.counts, &before.1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn whatever_happens_nothing_is_lost_left_or_taken_from_others(
        finalizes: bool,
        events in proptest::collection::vec(event(), 1..30),
    ) {
        let facts = crate::pass::PluginFacts { finalizes, ..Default::default() };
        let terms = with(", onExit: finalize", "!off", facts);
        let mut sim = Sim::mapped(versatile, json!({"set": 63, "value": 0}), terms);
        sim.finalize = finished;
        sim.cluster.things.immutable.insert("Job".into(), "/spec/template");
        for event in &events {
            happen(&mut sim, event);
            check(&sim)?;
        }
        rest(&mut sim);
        check(&sim)?;
        check_end(&mut sim)?;
    }
}
