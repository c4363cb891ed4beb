//! The versions of each mapping's plugin, while this replica has the mapping: what serves, what did, and what is held against
//! the newest.
//!
//! What is to be done is decided in `guesthouse_core::life`; here it is remembered and carried out.

use std::time::Duration;

use guesthouse_core::{
    life::{
        Choice, Doubt, Facts, LastGood, MappingStatus, Missing, Newest, Past, Probation, Rehearsal,
        RehearsalReport, Serves, State, choose,
    },
    mapping::PluginSource,
    outcome::Outcome,
    pass::{Terms, short_digest},
    time::Time,
};
use guesthouse_sandbox::Plugin;

use super::{Supervisor, mappings::Serving, rehearse::Rehearsing};
use crate::{
    clock,
    cluster::RequestError,
    mapping_objects::{Known, Stands},
    plugins,
};

/// Versions of one mapping that are kept in memory: what serves, what served before, and one more.
const AT_HAND: usize = 3;
/// How often the Mapping object is asked for again before the mapping begins without a record, and the pause between.
const RECALLS: usize = 10;
const RECALL_PAUSE: Duration = Duration::from_secs(1);

/// The versions of one mapping's plugin, and its Mapping object.
#[derive(Default)]
pub(super) struct Life {
    /// What the Mapping object said when this replica took the mapping is known.
    pub(super) recalled: bool,
    /// What it shall say, but for state and counts.
    pub(super) status: MappingStatus,
    /// How it stands.
    pub(super) state: (State, String),
    /// The object that is there.
    pub(super) known: Option<Known>,
    /// What it says.
    pub(super) written: MappingStatus,
    /// Not written before.
    pub(super) next: Time,
    /// It stands in the line of those to be written.
    pub(super) due: bool,
    /// It is being written; and there is more to say since.
    pub(super) busy: bool,
    pub(super) again: bool,
    /// The mapping's source, and the versions in memory that were let in as ones of it, the newest last.
    source: Option<PluginSource>,
    at_hand: Vec<Plugin>,
    /// The digest that is being looked for as one of this source, and those that were in vain.
    fetching: Option<(PluginSource, String)>,
    missing: Vec<Missing>,
    previous: Option<String>,
    pub(super) doubt: Option<Doubt>,
    /// Digest and basis that a rehearsal let through.
    pub(super) passed: Option<(String, String)>,
    pub(super) probation: Option<Probation>,
    /// The rehearsal that runs.
    pub(super) rehearsing: Option<Rehearsing>,
}

/// Why a version takes over.
#[derive(Clone, Copy)]
struct By {
    /// The source brought it.
    source: bool,
    /// Somebody pinned it.
    pin: bool,
}

impl By {
    /// The one before may come back by itself.
    fn is_tried(self) -> bool {
        self.source && !self.pin
    }
}

/// Whether a mapping itself demands something of its plugin, beside the host's policy.
fn demands(source: &PluginSource) -> bool {
    let manifest = source.oci.as_ref().is_some_and(|oci| oci.contains('@'));
    source.digest.is_some() || source.sha256.is_some() || source.signature.is_some() || manifest
}

/// What comes back from what was begun for a mapping's life.
pub(super) enum Heard {
    /// What the Mapping object says.
    Recalled(String, Result<Option<Stands>, RequestError>),
    /// What became of writing it.
    Written(String, Result<Stands, RequestError>),
    /// A version by its digest, as one of a source; or why it is none.
    Fetched(String, (PluginSource, String), Result<Plugin, String>),
    /// The Mapping objects there are.
    Names(Vec<String>),
    /// Of those that are known, the ones that are there no more.
    Deleted(Vec<String>),
    /// What came of a rehearsal, by its number.
    Rehearsed(String, u64, Rehearsal),
    /// What the Mapping object says of a mapping whose text cannot be used.
    LastGood(String, Option<LastGood>),
}

impl Life {
    /// Takes over what the Mapping object says.
    fn recall(&mut self, stands: Option<Stands>) {
        self.recalled = true;
        let Some(stands) = stands else {
            return;
        };
        self.known = Some(stands.known);
        self.written = stands.status.clone();
        self.doubt = stands.status.newest.as_ref().map(|newest| Doubt {
            digest: newest.digest.clone(),
            basis: newest.basis.clone(),
            state: newest.state,
            why: newest.why.clone(),
        });
        self.status = stands.status;
    }

    /// Keeps a version in memory for a while.
    fn keep(&mut self, plugin: &Plugin) {
        self.at_hand.retain(|kept| kept.digest() != plugin.digest());
        self.at_hand.push(plugin.clone());
        if self.at_hand.len() > AT_HAND {
            let stays = |digest: &str| self.previous.as_deref() == Some(digest);
            let place = self.at_hand.iter().position(|kept| !stays(kept.digest()));
            self.at_hand.remove(place.unwrap_or(0));
        }
    }

    /// Something is held against the newest version.
    pub(super) fn doubt(&mut self, doubt: Doubt) {
        self.status.newest = Some(Newest {
            digest: doubt.digest.clone(),
            basis: doubt.basis.clone(),
            state: doubt.state,
            why: doubt.why.clone(),
        });
        self.doubt = Some(doubt);
    }

    /// Another version takes over: the one before is history.
    fn published(&mut self, plugin: &Plugin, origin: String, ended: &str, by: By, now: Time) {
        let digest = plugin.digest();
        // What serves on although the source demands something else now may do just that.
        if by.source || self.at_hand.iter().any(|kept| kept.digest() == digest) {
            self.keep(plugin);
        }
        let before = self.status.plugin.take();
        if let Some(before) = before.clone().filter(|before| before.digest == digest) {
            self.status.plugin = Some(Serves { origin, ..before });
            return;
        }
        if let Some(before) = before {
            self.previous = Some(before.digest.clone());
            self.status.history.push(Past {
                digest: before.digest,
                version: before.version,
                since: before.since,
                until: Some(now.whole_seconds()),
                ended: ended.to_owned(),
            });
            self.status.last_swap = Some(now.whole_seconds());
            self.probation = by.is_tried().then(|| Probation::begin(digest, now));
        }
        if self
            .doubt
            .as_ref()
            .is_some_and(|doubt| doubt.digest == digest)
        {
            (self.doubt, self.status.newest) = (None, None);
        }
        let descriptor = plugin.descriptor();
        self.status.plugin = Some(Serves::new(
            &descriptor.name,
            &descriptor.version,
            digest,
            origin,
            now,
        ));
    }

    /// A version that never served.
    pub(super) fn refused(&mut self, plugin: &Plugin, why: &str, now: Time) {
        self.status.history.push(Past {
            digest: plugin.digest().to_owned(),
            version: plugin.descriptor().version.clone(),
            since: None,
            until: Some(now.whole_seconds()),
            ended: why.to_owned(),
        });
    }

    /// What came of a rehearsal.
    pub(super) fn rehearsed(&mut self, report: RehearsalReport) {
        self.status.rehearsal = Some(report);
    }
}

impl Supervisor {
    /// Which version is to serve. `newest`: what the source brought and fits, or why there is none.
    pub(super) fn choose(
        &self,
        name: &str,
        newest: Result<&Plugin, &str>,
        serving: Option<&Serving>,
    ) -> Option<Choice> {
        let (runtime, life) = (self.mappings.get(name)?, self.lives.get(name)?);
        let mut at_hand: Vec<String> = life.at_hand.iter().map(|p| p.digest().to_owned()).collect();
        at_hand.extend(newest.ok().map(|plugin| plugin.digest().to_owned()));
        let basis = &runtime.checked.basis;
        let serving = serving.and_then(|serving| serving.plugin.as_ref());
        let passed = life.passed.as_ref().filter(|(_, under)| under == basis);
        Some(choose(Facts {
            mapping: name,
            wishes: &runtime.wishes,
            newest: newest.ok().map(Plugin::digest),
            trouble: newest.err(),
            serving: serving.map(Plugin::digest),
            recorded: life
                .status
                .plugin
                .as_ref()
                .map(|serves| serves.digest.as_str()),
            previous: life.previous.as_deref(),
            doubt: life.doubt.as_ref(),
            basis,
            passed: passed.map(|(digest, _)| digest.as_str()),
            rehearse: runtime.checked.mapping.rollout.rehearse,
            at_hand: &at_hand,
            missing: &life.missing,
        }))
    }

    /// A version of a mapping by its digest.
    pub(super) fn version(
        &self,
        name: &str,
        digest: &str,
        newest: Option<&Plugin>,
    ) -> Option<Plugin> {
        let kept = self.lives.get(name)?.at_hand.iter();
        let mut all = kept.chain(newest);
        all.find(|plugin| plugin.digest() == digest).cloned()
    }

    /// Looks for a version that is not in memory; the mapping is looked at again when that is done.
    pub(super) fn fetch(&mut self, name: &str, digest: String) {
        let (life, runtime) = (self.lives.get_mut(name), self.mappings.get(name));
        let (Some(life), Some(runtime)) = (life, runtime) else {
            return;
        };
        let wanted = (runtime.checked.mapping.plugin.clone(), digest);
        if life.fetching.as_ref() == Some(&wanted) {
            return;
        }
        life.fetching = Some(wanted.clone());
        let plugins = self.plugins.clone();
        let (heard, name) = (self.channels.lives.clone(), name.to_owned());
        tokio::spawn(async move {
            let found = plugins::kept(plugins, wanted.0.clone(), &wanted.1).await;
            let none = || "it is neither in memory nor in the store".to_owned();
            let found = found.and_then(|found| found.ok_or_else(none));
            let _ = heard.send(Heard::Fetched(name, wanted, found));
        });
    }

    /// A message about a life.
    pub(super) fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Recalled(name, found) => self.recalled(name, found),
            Heard::Written(name, result) => self.mapping_written(&name, result),
            Heard::Fetched(name, wanted, found) => self.fetched(&name, wanted, found),
            Heard::Rehearsed(name, number, rehearsal) => self.rehearsed(&name, number, rehearsal),
            Heard::Names(names) => self.remove_leftovers(names),
            Heard::Deleted(names) => self.write_anew(names),
            Heard::LastGood(name, last) => self.begin_from_last_good(&name, last),
        }
    }

    /// Whether it is known what serves by the record; asks for it the first time.
    pub(super) fn is_recalled(&mut self, name: &str) -> bool {
        if let Some(life) = self.lives.get(name) {
            return life.recalled;
        }
        let runtime = self.mappings.get(name);
        let life = Life {
            source: runtime.map(|runtime| runtime.checked.mapping.plugin.clone()),
            ..Life::default()
        };
        self.lives.insert(name.to_owned(), life);
        let (objects, heard) = (self.mapping_objects.clone(), self.channels.lives.clone());
        let name = name.to_owned();
        tokio::spawn(async move {
            let mut found = objects.read(&name).await;
            // A server that is away for a moment must not make the host forget what it refused.
            for _ in 0..RECALLS {
                let Err(error) = &found else { break };
                if matches!(
                    error,
                    RequestError::NotServed(_) | RequestError::Forbidden(_)
                ) {
                    break;
                }
                tokio::time::sleep(RECALL_PAUSE).await;
                found = objects.read(&name).await;
            }
            let _ = heard.send(Heard::Recalled(name, found));
        });
        false
    }

    fn recalled(&mut self, name: String, found: Result<Option<Stands>, RequestError>) {
        let Some(life) = self.lives.get_mut(&name).filter(|life| !life.recalled) else {
            return;
        };
        let (found, problem) = match found {
            Ok(found) => (found, None),
            Err(problem) => (None, Some(problem)),
        };
        life.recall(found);
        if let Some(problem) = problem {
            // It begins without a record, as a new mapping does.
            self.mapping_objects_trouble(&problem);
        }
        self.refresh_one(&name);
        self.touch(&name);
    }

    fn fetched(
        &mut self,
        name: &str,
        wanted: (PluginSource, String),
        found: Result<Plugin, String>,
    ) {
        let life = self.lives.get_mut(name);
        // What was let in for a source that the mapping names no more is not let in for the one it names.
        let Some(life) = life.filter(|life| life.fetching.as_ref() == Some(&wanted)) else {
            return;
        };
        life.fetching = None;
        let digest = wanted.1;
        match found {
            Ok(plugin) => life.keep(&plugin),
            Err(why) => {
                tracing::warn!(mapping = name, digest, why, "a version is not to be had");
                life.missing.push(Missing { digest, why });
            }
        }
        self.refresh_one(name);
    }

    /// A version is not to be had, or of no use.
    pub(super) fn is_missing(&mut self, name: &str, digest: &str, why: String) {
        if let Some(life) = self.lives.get_mut(name) {
            life.at_hand.retain(|kept| kept.digest() != digest);
            let digest = digest.to_owned();
            life.missing.push(Missing { digest, why });
        }
    }

    /// People said something else: what was looked for in vain may be there by now.
    pub(super) fn look_again(&mut self, name: &str) {
        if let Some(life) = self.lives.get_mut(name) {
            life.missing.clear();
        }
    }

    /// The mapping names another source, or demands something else of what it brings: what is in memory was let in before that, and
    /// is judged anew where it is wanted.
    pub(super) fn judge_anew(&mut self, name: &str, source: &PluginSource) {
        let life = self.lives.get_mut(name);
        let Some(life) = life.filter(|life| life.source.as_ref() != Some(source)) else {
            return;
        };
        (life.source, life.fetching) = (Some(source.clone()), None);
        if demands(source) {
            life.at_hand.clear();
        }
    }

    /// Whether it is what the mapping's source, as it is, brought last.
    fn is_of_source(&self, name: &str, digest: &str) -> bool {
        let runtime = self.mappings.get(name);
        let source = runtime.and_then(|it| self.sources.get(&it.checked.mapping.plugin));
        let good = source.and_then(|source| source.good.as_ref());
        good.is_some_and(|good| good.plugin.digest() == digest)
    }

    /// Where a version of a mapping came from.
    pub(super) fn origin(&self, name: &str, digest: &str) -> String {
        let runtime = self.mappings.get(name);
        let source = runtime.and_then(|it| self.sources.get(&it.checked.mapping.plugin));
        let good = source.and_then(|source| source.good.as_ref());
        if let Some(good) = good.filter(|good| good.plugin.digest() == digest) {
            return good.origin.clone();
        }
        let serves = self
            .lives
            .get(name)
            .and_then(|it| it.status.plugin.as_ref());
        let same = serves.filter(|serves| serves.digest == digest);
        same.map_or_else(
            || "what was kept of earlier versions".to_owned(),
            |serves| serves.origin.clone(),
        )
    }

    /// Another version took over, or the same one under another mapping.
    pub(super) fn life_goes_on(&mut self, name: &str, serving: &Serving, why: &str, state: State) {
        let Some(plugin) = &serving.plugin else {
            return;
        };
        let origin = self.origin(name, plugin.digest());
        let by = By {
            source: self.is_of_source(name, plugin.digest()),
            pin: state == State::Pinned,
        };
        let Some(life) = self.lives.get_mut(name) else {
            return;
        };
        let digest = short_digest(plugin.digest());
        let ended = match (state, why) {
            (State::Serving, _) => format!("{digest} took over"),
            (_, why) => format!("{digest} took over: {why}"),
        };
        let mapping = &serving.terms.mapping.mapping;
        life.published(plugin, origin, &ended, by, clock::now());
        life.status.for_ = (&serving.terms.mapping.kind).into();
        if let Ok(text) = serde_json::to_string(mapping) {
            life.status.last_good = Some(LastGood { text });
        }
    }

    /// A pass that called a plugin ended: where that plugin is new, the one before may have to come back.
    pub(super) fn look_after_swap(&mut self, name: &str, terms: &Terms, outcome: Outcome) {
        let now = clock::now();
        let Some(life) = self.lives.get_mut(name) else {
            return;
        };
        let Some(probation) = life.probation.as_mut() else {
            return;
        };
        let bound = &terms.mapping.mapping.rollout.return_after;
        if probation.is_over(bound, now) {
            life.probation = None;
            return;
        }
        if probation.digest != terms.digest {
            return;
        }
        let Some(why) = probation.ended(outcome, bound, now) else {
            return;
        };
        life.probation = None;
        life.doubt(Doubt {
            digest: terms.digest.clone(),
            basis: terms.mapping.basis.clone(),
            state: State::Returned,
            why: format!("{}: {why}", short_digest(&terms.digest)),
        });
        self.refresh_one(name);
    }

    /// How a mapping stands, to be said by its Mapping object.
    pub(super) fn stands(&mut self, name: &str, state: State, why: &str) {
        let invalid = self
            .invalid
            .get(name)
            .map(|why| (State::Invalid, why.clone()));
        if let Some(life) = self.lives.get_mut(name) {
            life.state = invalid.unwrap_or_else(|| (state, why.to_owned()));
        }
        self.touch(name);
    }
}
