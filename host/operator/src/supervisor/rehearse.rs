//! Rehearsals: a new version is asked about live objects with its effects withheld, beside the one that serves.
//!
//! A rehearsal is a task of its own, whose calls never get the last free thread; what comes of it is a message. It reads what
//! the stores hold and asks nobody. A newer version, another mapping and the loss of the mapping end it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use guesthouse_core::{
    contract::{EventType, Json, MAX_MESSAGE, ObjectRef, cut},
    dry::{self, Around, Ask, DryRun, Until, World},
    identity::Identity,
    life::{Answer, Doubt, Rehearsal, State, Verdict},
    mapping::{CheckedMapping, MappingMode},
    object::ObjectKey,
    pass::{Begin, Carry, Gather, Gathered, Looked, Terms, short_digest},
    queue::Key,
    time::Time,
};
use guesthouse_sandbox::Plugin;
use tokio::task::JoinHandle;

use super::{
    Supervisor,
    life::Heard,
    mappings::{Runtime, Serving},
};
use crate::{clock, executor::Work, related::Reader, worker::Shop};

/// How long one rehearsal may take; what it has seen by then decides.
const BUDGET: Duration = Duration::from_secs(60);

/// A rehearsal that runs; dropping it ends it.
pub(super) struct Rehearsing {
    number: u64,
    plugin: Plugin,
    basis: String,
    task: JoinHandle<()>,
}

impl Drop for Rehearsing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A version and how it is asked.
struct Version {
    plugin: Plugin,
    terms: Arc<Terms>,
}

impl Version {
    fn new(plugin: Plugin, terms: &Terms) -> Self {
        let mut terms = terms.clone();
        // What a mapping that observes would do is asked for, too.
        Arc::make_mut(&mut terms.mapping).mapping.mode = MappingMode::Serve;
        Self {
            plugin,
            terms: Arc::new(terms),
        }
    }
}

impl Supervisor {
    /// Tries the newest version; what serves goes on meanwhile.
    pub(super) fn rehearse(
        &mut self,
        name: &str,
        before: Serving,
        newest: Plugin,
        checked: Arc<CheckedMapping>,
    ) {
        let state = State::Rehearsing;
        let why = format!("{} is tried on live objects", short_digest(newest.digest()));
        let runs = self
            .lives
            .get(name)
            .and_then(|life| life.rehearsing.as_ref());
        let same =
            |it: &Rehearsing| it.plugin.digest() == newest.digest() && it.basis == checked.basis;
        if !runs.is_some_and(same) {
            self.begin_rehearsal(name, &before, newest, &checked);
        }
        // An edit of the mapping concerns what serves, too, but not one that names another plugin.
        if before.terms.mapping.mapping.plugin == checked.mapping.plugin {
            self.keep(name, Some(before), checked, state, &why);
        } else {
            self.stands(name, state, &why);
        }
    }

    /// It is of no use any more.
    pub(super) fn end_rehearsal(&mut self, name: &str) {
        if let Some(life) = self.lives.get_mut(name) {
            life.rehearsing = None;
        }
    }

    fn begin_rehearsal(
        &mut self,
        name: &str,
        before: &Serving,
        newest: Plugin,
        checked: &Arc<CheckedMapping>,
    ) {
        let facts = super::serve::plugin_facts(Some(&newest), None);
        let terms = self.terms(name, checked, newest.digest().to_owned(), facts);
        let (Some(terms), Some(old)) = (terms, before.plugin.clone()) else {
            return;
        };
        let Some(runtime) = self.mappings.get(name) else {
            return;
        };
        let most = usize::try_from(checked.mapping.rollout.rehearse).unwrap_or(0);
        let objects = self.some_of(runtime, most);
        let (shop, heard) = (self.shop.clone(), self.channels.lives.clone());
        let old = Version::new(old, &before.terms);
        let new = Version::new(newest.clone(), &terms);
        self.rehearsals += 1;
        let (number, mapping) = (self.rehearsals, name.to_owned());
        let task = tokio::spawn(async move {
            let rehearsal = rehearse(&shop, &old, &new, objects).await;
            let _ = heard.send(Heard::Rehearsed(mapping, number, rehearsal));
        });
        if let Some(life) = self.lives.get_mut(name) {
            life.rehearsing = Some(Rehearsing {
                number,
                plugin: newest,
                basis: checked.basis.clone(),
                task,
            });
        }
    }

    /// Objects of a mapping, from all over its stores.
    fn some_of(&self, runtime: &Runtime, most: usize) -> Vec<(Key, Begin)> {
        let mut keys: Vec<ObjectKey> = Vec::new();
        for scope in &runtime.scopes {
            let served = self.kinds.get(scope).and_then(|kind| kind.served.as_ref());
            let store = served.map(|served| served.watch.store().keys());
            keys.extend(store.into_iter().flatten());
        }
        // Those that the selector leaves out are none of the mapping's.
        let is_left_out =
            |key: &ObjectKey| runtime.keys.get(key).is_some_and(|state| !state.counts);
        keys.retain(|key| !is_left_out(key));
        let step = keys.len().div_ceil(most.max(1)).max(1);
        let begin = |object: ObjectKey| {
            let entry = self.entry(runtime, &object)?;
            let kind = &runtime.checked.kind;
            let journals = self.shop.journals.of(&runtime.checked.name, kind, &object);
            let needs = runtime
                .keys
                .get(&object)
                .map(|state| state.carry.needs.clone());
            let begin = Begin {
                key: object.clone(),
                object: Some(Json::trusted(entry.raw())),
                journals: journals.ok()?,
                carry: Carry {
                    needs: needs.unwrap_or_default(),
                    ..Carry::default()
                },
                forced: true,
            };
            let mapping = runtime.id;
            Some((Key { mapping, object }, begin))
        };
        keys.into_iter().step_by(step).filter_map(begin).collect()
    }

    /// What came of it, unless another one has taken its place.
    pub(super) fn rehearsed(&mut self, name: &str, number: u64, rehearsal: Rehearsal) {
        let Some(runtime) = self.mappings.get(name) else {
            return;
        };
        let (place, on_difference) = (
            runtime.place.clone(),
            runtime.checked.mapping.rollout.on_difference,
        );
        let Some(life) = self.lives.get_mut(name) else {
            return;
        };
        let Some(run) = life.rehearsing.take_if(|run| run.number == number) else {
            return;
        };
        life.rehearsed(rehearsal.report());
        let (digest, basis) = (run.plugin.digest().to_owned(), run.basis.clone());
        let mut differences = None;
        match rehearsal.verdict(name, on_difference) {
            Verdict::Take => {
                life.passed = Some((digest, basis));
                differences = rehearsal.differences();
            }
            Verdict::Doubt(state, why) => {
                if state == State::Refused {
                    life.refused(&run.plugin, &why, clock::now());
                }
                life.doubt(Doubt {
                    digest,
                    basis,
                    state,
                    why: cut(&why, MAX_MESSAGE).to_owned(),
                });
            }
        }
        if let Some(differences) = differences {
            let note = format!("mapping {name}: {differences}");
            self.tell(&place, EventType::Normal, "SwapDiffers", note);
        }
        self.refresh_one(name);
    }
}

/// Asks both versions about the objects, one after the other.
async fn rehearse(
    shop: &Shop,
    old: &Version,
    new: &Version,
    objects: Vec<(Key, Begin)>,
) -> Rehearsal {
    let (mut rehearsal, began) = (Rehearsal::of(&new.terms.digest), Instant::now());
    let now = clock::now();
    for (key, begin) in objects {
        if began.elapsed() > BUDGET {
            tracing::warn!(
                mapping = new.terms.mapping.name,
                "a rehearsal took too long; what it has seen decides"
            );
            break;
        }
        let before = ask(shop, old, &key, begin.clone(), now).await;
        let after = ask(shop, new, &key, begin, now).await;
        rehearsal.add(&key.object.to_string(), &before, &after);
    }
    rehearsal
}

/// What a version makes of an object.
async fn ask(shop: &Shop, version: &Version, key: &Key, begin: Begin, now: Time) -> Answer {
    let object = begin.object.as_ref().and_then(|object| object.read().ok());
    let world = World::new(object.unwrap_or_default(), Vec::new());
    let terms = &version.terms;
    let identity = Identity::Account(terms.mapping.account.clone());
    let around = Known {
        shop,
        key,
        identity,
        confined: !terms.mapping.mapping.for_.namespaces.is_empty(),
    };
    let (mut run, mut next) =
        DryRun::start(terms.clone(), begin, world, around, Until::Decided, now);
    loop {
        match next {
            Ask::Over(over) => return Answer::of(&over, run.replies.last()),
            Ask::Call(verb, seen) => {
                let work = Work {
                    plugin: version.plugin.clone(),
                    verb,
                    seen,
                    limits: terms.mapping.mapping.limits.clone(),
                };
                let called = shop.executor.call_aside(&terms.mapping.name, work).await;
                next = run.answer(called.result);
            }
        }
    }
}

/// What stands beside an object as far as the host knows.
struct Known<'a> {
    shop: &'a Shop,
    key: &'a Key,
    identity: Identity,
    confined: bool,
}

impl Around for Known<'_> {
    fn gather(&mut self, _: &World, gather: &Gather) -> Result<Gathered, String> {
        let reader = Reader {
            key: self.key,
            identity: &self.identity,
            confined: self.confined,
        };
        self.shop.related.peek(&reader, gather)
    }

    /// Whether a name is free is not asked: what is compared are decisions.
    fn look(&mut self, _: &World, object: &ObjectRef) -> Result<Looked, String> {
        let known = self.shop.related.is_namespaced(&object.kind);
        Ok(Looked {
            namespaced: known.unwrap_or_else(|| dry::is_namespaced(&object.kind)),
            object: None,
        })
    }
}
