//! Mappings as they run: applied from the configuration, kept at their last good version.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use guesthouse_core::{
    contract::EventType,
    life::{State, Tally, Wishes},
    mapping::{CheckedMapping, PluginSource},
    object::ObjectKey,
    pass::{Carry, Terms},
    queue::{MappingId, Push, Why},
    time::Time,
};
use guesthouse_sandbox::Plugin;

use super::{Source, Supervisor, kinds::KindScope};
use crate::{
    clock,
    cluster::Entry,
    config::{self, Place},
    plugins::{self, Loaded},
};

/// One mapping at its last good version.
pub(super) struct Runtime {
    pub(super) id: MappingId,
    pub(super) place: Place,
    /// What people wrote beside it about its versions.
    pub(super) wishes: Wishes,
    pub(super) checked: Arc<CheckedMapping>,
    pub(super) scopes: Vec<KindScope>,
    /// What serves; none until plugin, kind and journals are there.
    pub(super) serving: Option<Serving>,
    /// What the last passes left, for the objects that had one.
    pub(super) keys: HashMap<ObjectKey, KeyState>,
    pub(super) next_resync: Time,
    /// The same, counted by outcome.
    pub(super) tally: Tally,
    /// Objects that another plugin or mapping has still to be asked about.
    pub(super) swap: Swap,
}

/// Objects to be passed again because what decides about them changed. Not more than half of what may run at once is handed
/// to the queue, so that live events find room.
#[derive(Default)]
pub(super) struct Swap {
    waiting: Vec<ObjectKey>,
    queued: HashSet<ObjectKey>,
}

impl Swap {
    /// Begins anew with all objects.
    pub(super) fn begin(&mut self, all: Vec<ObjectKey>) {
        (self.waiting, self.queued) = (all, HashSet::new());
    }

    /// Objects that have no place yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The pass of an object is over: its place is free, if it had one.
    pub(super) fn ended(&mut self, object: &ObjectKey) -> bool {
        self.queued.remove(object)
    }

    /// The objects to be queued now.
    pub(super) fn next(&mut self, concurrency: u32) -> Vec<ObjectKey> {
        let half = usize::try_from(concurrency / 2).unwrap_or(1).max(1);
        let room = half.saturating_sub(self.queued.len());
        let next = self
            .waiting
            .split_off(self.waiting.len() - room.min(self.waiting.len()));
        self.queued.extend(next.iter().cloned());
        next
    }
}

/// A plugin and the terms its passes are held by.
#[derive(Clone)]
pub(super) struct Serving {
    /// None where it cannot be loaded: then only deletions are seen to.
    pub(super) plugin: Option<Plugin>,
    pub(super) terms: Arc<Terms>,
}

/// What the last pass of an object left.
#[derive(Default)]
pub(super) struct KeyState {
    pub(super) carry: Carry,
    /// The newest version it knew: events up to it are echoes.
    pub(super) version: Option<u64>,
    /// It is one of the mapping's objects.
    pub(super) counts: bool,
}

impl Runtime {
    /// How an object is queued. An object that is being deleted, or gone, waits for no time.
    pub(super) fn push(&self, entry: Option<&Entry>, why: Why, version: Option<u64>) -> Push {
        let live = entry.filter(|entry| !entry.is_deleting());
        let priority = |path: &guesthouse_core::object::FieldPath| {
            let found = live.map(|entry| path.i64(entry.raw()))?;
            self.read("queue.priority", found.map_err(|error| error.to_string()))
        };
        let not_before = |path: &guesthouse_core::object::FieldPath| {
            let found = live.map(|entry| path.str(entry.raw()))?;
            let text = self.read("queue.notBefore", found.map_err(|error| error.to_string()))?;
            let time = Time::parse(&text).map(Some);
            self.read("queue.notBefore", time.map_err(|error| error.to_string()))
        };
        Push {
            why,
            version,
            priority: self
                .checked
                .priority
                .as_ref()
                .and_then(priority)
                .unwrap_or(0),
            not_before: self.checked.not_before.as_ref().and_then(not_before),
        }
    }
}

impl Runtime {
    /// What a queue field says. One that cannot be read counts as absent, and the log says so: the kind's schema is where
    /// it can be refused.
    fn read<T>(&self, field: &str, found: Result<Option<T>, String>) -> Option<T> {
        found.unwrap_or_else(|error| {
            tracing::warn!(
                mapping = self.checked.name,
                field,
                error,
                "counts as absent"
            );
            None
        })
    }
}

impl Supervisor {
    /// Brings the mappings in line with the ConfigMaps.
    pub(super) fn configure(&mut self) {
        let entries = self.config_watch.store().entries();
        let configuration =
            config::read(entries.iter().map(|(_, entry)| &**entry), &self.namespace);
        let gone: Vec<String> = self
            .mappings
            .keys()
            .filter(|name| !configuration.mappings.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            // Whoever replaces a ConfigMap removes it for a moment: what is held against a version is on record until then.
            self.say_now(&name);
            self.end_rehearsal(&name);
            self.remove_mapping(&name);
            self.remove_record_later(&name);
        }
        let about = |configured: &config::Configured| {
            let mapping = configured.mapping.as_ref().ok()?;
            Some(mapping.mapping.for_.clone())
        };
        let all = configuration.mappings.iter();
        self.sweep
            .configured(all.map(|(name, it)| (name.clone(), about(it))).collect());
        self.leaving
            .retain(|name, _| !configuration.mappings.contains_key(name));
        for (place, why) in configuration.ignored {
            self.tell(&place, EventType::Warning, "MappingIgnored", why);
        }
        self.invalid_places
            .retain(|name, _| configuration.mappings.contains_key(name));
        for (name, configured) in configuration.mappings {
            match configured.mapping {
                Ok(checked) => {
                    self.invalid.remove(&name);
                    self.invalid_places.remove(&name);
                    self.apply_mapping(&name, configured.place, configured.wishes, checked);
                }
                Err(why) => {
                    self.mapping_invalid(&name, &configured.place, &configured.wishes, &why);
                    // A rollback is asked for when a text went wrong, too.
                    self.wish(&name, &configured.wishes);
                    let last_good = match self.mappings.contains_key(&name) {
                        true => "the last good version stays in force",
                        false => "it is not in force",
                    };
                    let note = format!("mapping {name}: {why}; {last_good}");
                    self.tell(
                        &configured.place,
                        EventType::Warning,
                        "MappingInvalid",
                        note,
                    );
                }
            }
        }
    }

    /// Its last good version stays in force; that of an earlier process, if this one never had any.
    fn mapping_invalid(&mut self, name: &str, place: &Place, wishes: &Wishes, why: &str) {
        self.invalid.insert(name.to_owned(), why.to_owned());
        let places = &mut self.invalid_places;
        let here = (place.clone(), wishes.clone());
        let first = places.insert(name.to_owned(), here).is_none();
        if self.mappings.contains_key(name) {
            self.stands(name, State::Invalid, why);
        } else if first {
            self.look_for_last_good(name);
        }
    }

    fn remove_mapping(&mut self, name: &str) {
        let Some(runtime) = self.mappings.remove(name) else {
            return;
        };
        self.queue.remove_mapping(runtime.id);
        self.names.remove(&runtime.id);
        self.shop.related.forget_mapping(runtime.id);
        for scope in &runtime.scopes {
            self.unsubscribe(scope, runtime.id);
        }
        self.told
            .remove(&(runtime.place.config_map.clone(), runtime.place.key.clone()));
        self.drop_unused_sources();
        tracing::info!(
            mapping = name,
            reason = "MappingRemoved",
            "the mapping was removed or moved; its finalizers are taken off in a while, unless it says `onRemove: keep` or comes back"
        );
    }

    pub(super) fn apply_mapping(
        &mut self,
        name: &str,
        place: Place,
        wishes: Wishes,
        checked: CheckedMapping,
    ) {
        if let Some(runtime) = self.mappings.get(name)
            && runtime.checked.mapping == checked.mapping
            && runtime.place == place
        {
            if !self.wish(name, &wishes) {
                // Said again, since a bad version may have been told in between.
                self.refresh_one(name);
            }
            return;
        }
        let scopes = scopes(&checked);
        // Another kind is another mapping under the same name.
        if self
            .mappings
            .get(name)
            .is_some_and(|runtime| runtime.scopes != scopes)
        {
            self.remove_mapping(name);
        }
        let source = checked.mapping.plugin.clone();
        self.judge_anew(name, &source);
        let now = clock::now();
        let resync = now.after(checked.mapping.resync);
        match self.mappings.get_mut(name) {
            Some(runtime) => {
                (runtime.place, runtime.checked, runtime.next_resync) =
                    (place, Arc::new(checked), resync);
                runtime.wishes = wishes;
            }
            None => {
                self.next_mapping += 1;
                let id = MappingId(self.next_mapping);
                for scope in &scopes {
                    self.subscribe(scope, id);
                }
                let checked = Arc::new(checked);
                let runtime = Runtime {
                    id,
                    place,
                    wishes,
                    checked,
                    scopes,
                    serving: None,
                    keys: HashMap::new(),
                    next_resync: resync,
                    tally: Tally::default(),
                    swap: Swap::default(),
                };
                self.names.insert(id, name.to_owned());
                self.mappings.insert(name.to_owned(), runtime);
            }
        }
        self.look_again(name);
        self.use_source(&source);
        self.drop_unused_sources();
        self.look_at_kinds(now);
        self.refresh_one(name);
    }

    /// What people say about the versions of a mapping counts whether or not its text can be used. Whether it is something new.
    fn wish(&mut self, name: &str, wishes: &Wishes) -> bool {
        let runtime = self.mappings.get_mut(name);
        let Some(runtime) = runtime.filter(|runtime| runtime.wishes != *wishes) else {
            return false;
        };
        runtime.wishes = wishes.clone();
        self.look_again(name);
        self.refresh_one(name);
        true
    }

    fn use_source(&mut self, source: &PluginSource) {
        if self.sources.contains_key(source) {
            return;
        }
        let loaded = self.channels.loaded.clone();
        let watch = plugins::watch(source, &self.plugins, loaded);
        self.sources.insert(
            source.clone(),
            Source {
                _watch: watch,
                good: None,
                problem: None,
                heard: false,
            },
        );
    }

    fn drop_unused_sources(&mut self) {
        let used: Vec<_> = self
            .mappings
            .values()
            .map(|runtime| runtime.checked.mapping.plugin.clone())
            .collect();
        self.sources.retain(|source, _| used.contains(source));
    }

    /// A source brought a version, or trouble.
    pub(super) fn loaded(&mut self, loaded: Loaded) {
        let Some(source) = self.sources.get_mut(&loaded.source) else {
            return;
        };
        source.heard = true;
        match loaded.result {
            Ok(good) => (source.good, source.problem) = (Some(good), None),
            Err(why) => source.problem = Some(why),
        }
        let users: Vec<String> = self
            .mappings
            .iter()
            .filter(|(_, runtime)| runtime.checked.mapping.plugin == loaded.source)
            .map(|(name, _)| name.clone())
            .collect();
        for name in users {
            self.refresh_one(&name);
        }
    }

    /// Looks at every object of a mapping again from time to time.
    pub(super) fn resync(&mut self, now: Time) {
        let due: Vec<String> = self
            .mappings
            .iter()
            .filter(|(_, runtime)| runtime.next_resync <= now)
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            if let Some(runtime) = self.mappings.get_mut(&name) {
                runtime.next_resync = now.after(runtime.checked.mapping.resync);
            }
            self.push_all(&name, Why::Resync);
        }
    }
}

fn scopes(checked: &CheckedMapping) -> Vec<KindScope> {
    let namespaces = &checked.mapping.for_.namespaces;
    let scope = |namespace: &str| KindScope {
        kind: checked.kind.clone(),
        namespace: namespace.to_owned(),
    };
    if namespaces.is_empty() {
        vec![scope("")]
    } else {
        namespaces
            .iter()
            .map(|namespace| scope(namespace))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_takes_half_of_what_may_run_at_once_and_leaves_nobody_out() {
        let keys: Vec<_> = (0..10)
            .map(|i| ObjectKey::new("ns", &i.to_string()))
            .collect();
        let mut swap = Swap::default();
        swap.begin(keys.clone());
        let mut passed = swap.next(4);
        assert_eq!(passed.len(), 2);
        assert!(swap.next(4).is_empty(), "both places are taken");
        let mut at = 0;
        while at < passed.len() {
            swap.ended(&passed[at]);
            at += 1;
            passed.extend(swap.next(4));
            assert!(passed.len() - at <= 2);
        }
        passed.sort();
        assert_eq!(passed, keys);
        swap.begin(keys);
        assert_eq!(swap.next(1).len(), 1, "one at a time is still one");
    }
}
