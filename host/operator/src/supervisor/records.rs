//! Mapping objects: written by the replica that has the mapping, when there is something new to say, and not more than once in
//! a few seconds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use guesthouse_core::{
    life::{Counts, LastGood, MappingStatus, State},
    mapping::CheckedMapping,
    time::Time,
    units::Span,
};

use tokio::sync::mpsc::UnboundedReceiver;

use super::{Supervisor, life::Heard};
use crate::{clock, cluster::RequestError, config, mapping_objects::Stands};

/// Between two writes of one Mapping object.
const PAUSE: Span = Span::from_secs(5);
/// How long the last writes of a host that stops may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Where the kind or the rights are missing.
const LONG_PAUSE: Span = Span::from_secs(60);

impl Supervisor {
    /// A mapping has something new to say: it stands in line to be written, if it does not yet.
    pub(super) fn touch(&mut self, name: &str) {
        let Some(life) = self.lives.get_mut(name).filter(|life| life.recalled) else {
            return;
        };
        if !std::mem::replace(&mut life.due, true) {
            self.due.insert((life.next, name.to_owned()));
        }
    }

    /// When the next one is to be written, removed or looked for.
    pub(super) fn next_record(&self) -> Option<Time> {
        let write = self.due.first().map(|(at, _)| *at);
        let remove = self.leaving.values().min().copied();
        let look = (!self.lives.is_empty()).then_some(self.next_look);
        [write, remove, look].into_iter().flatten().min()
    }

    /// Writes those whose time has come.
    pub(super) fn write_records(&mut self, now: Time) {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, name)) = self.due.pop_first() else {
                return;
            };
            self.write_record(&name, now);
        }
    }

    /// What stands in line is written now, before another replica has the mappings or a next process begins from their records: a
    /// version that was swapped in a moment ago is the one to begin from.
    pub(super) async fn say_what_is_left(&mut self, written: &mut UnboundedReceiver<Heard>) {
        let limit = tokio::time::sleep(LAST_WORDS);
        tokio::pin!(limit);
        let mut tried = BTreeSet::new();
        loop {
            let now = clock::now();
            for (_, name) in std::mem::take(&mut self.due) {
                let busy = self.lives.get(&name).is_some_and(|life| life.busy);
                // One try each: a server that refuses is not asked more often because the host stops.
                if busy || tried.insert(name.clone()) {
                    self.write_record(&name, now);
                }
            }
            if !self.lives.values().any(|life| life.busy) {
                return;
            }
            tokio::select! {
                () = &mut limit => return,
                Some(heard) = written.recv() => self.heard(heard),
            }
        }
    }

    /// What stands in line of one mapping is written now, if anything does.
    pub(super) fn say_now(&mut self, name: &str) {
        let lines = self.due.len();
        self.due.retain(|(_, due)| due != name);
        if self.due.len() < lines {
            self.write_record(name, clock::now());
        }
    }

    fn write_record(&mut self, name: &str, now: Time) {
        if let Some(life) = self.lives.get_mut(name) {
            life.due = false;
        }
        let (counts, fence) = (self.counts(name), self.ownership.fence(name));
        let (Some(counts), Some(fence)) = (counts, fence) else {
            return;
        };
        let Some(life) = self.lives.get_mut(name) else {
            return;
        };
        if std::mem::replace(&mut life.again, life.busy) || life.busy {
            return;
        }
        let mut status = life.status.clone();
        status.count(counts);
        let (before, (state, why)) = (life.written.clone(), life.state.clone());
        let known = life.known.clone();
        let generation = known.as_ref().map_or(1, |known| known.generation);
        status.settle(state, &why, generation, &before, now);
        if (known.is_some() && !status.is_news(&before)) || !fence.allows() {
            return;
        }
        (life.busy, life.next) = (true, now.after(PAUSE));
        let (objects, heard) = (self.mapping_objects.clone(), self.channels.lives.clone());
        let name = name.to_owned();
        tokio::spawn(async move {
            let settled = |known: &crate::mapping_objects::Known| {
                let mut status: MappingStatus = status.clone();
                status.settle(state, &why, known.generation, &before, now);
                status
            };
            let result = objects.write(&name, known, settled).await;
            let _ = heard.send(Heard::Written(name, result));
        });
    }

    fn counts(&self, name: &str) -> Option<Counts> {
        let runtime = self.mappings.get(name)?;
        let stores = runtime.scopes.iter().filter_map(|scope| {
            let served = self.kinds.get(scope)?.served.as_ref()?;
            Some(served.watch.store().len())
        });
        let whole = runtime.checked.selector.is_none();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let objects = whole.then(|| number(stores.sum()));
        let queued = self.queue.busy(runtime.id) + runtime.swap.waiting();
        Some(Counts::of(&runtime.tally, objects, number(queued)))
    }

    pub(super) fn mapping_written(&mut self, name: &str, result: Result<Stands, RequestError>) {
        let now = clock::now();
        let Some(life) = self.lives.get_mut(name) else {
            return;
        };
        life.busy = false;
        let again = std::mem::take(&mut life.again);
        match result {
            Ok(stands) => {
                (life.known, life.written) = (Some(stands.known), stands.status);
                self.mapping_objects_told = None;
                if again {
                    self.touch(name);
                }
            }
            Err(error) => {
                // Whatever it is there by now is read before the next write.
                life.known = None;
                life.next = now.after(match error {
                    RequestError::NotServed(_) | RequestError::Forbidden(_) => LONG_PAUSE,
                    _ => PAUSE,
                });
                self.mapping_objects_trouble(&error);
                self.touch(name);
            }
        }
    }

    /// Says once that Mapping objects cannot be read or written; nothing else depends on them.
    pub(super) fn mapping_objects_trouble(&mut self, error: &RequestError) {
        let note = match error {
            RequestError::NotServed(_) => {
                "the kind mappings.guesthouse.dev is missing: guesthouse crd --host | kubectl apply -f -".to_owned()
            }
            RequestError::Forbidden(message) => format!(
                "allow the host get, list, create and delete on mappings.guesthouse.dev and update on mappings/status in {}: {message}",
                self.namespace
            ),
            // Another write came between, or nobody answered: it is tried again.
            RequestError::Conflict(_) | RequestError::NotFound(_) | RequestError::AlreadyExists(_) => return,
            other => other.to_string(),
        };
        if self.mapping_objects_told.as_ref() != Some(&note) {
            tracing::warn!("how the mappings stand cannot be said in Mapping objects: {note}");
            self.mapping_objects_told = Some(note);
        }
    }

    /// The mapping is no more: nor is its Mapping object in a while, if it was ours to write and the mapping does not come back.
    pub(super) fn remove_record_later(&mut self, name: &str) {
        if self.lives.contains_key(name) {
            let at = clock::now().after(self.removal_grace);
            self.leaving.insert(name.to_owned(), at);
        }
    }

    /// Removes those of mappings that did not come back.
    pub(super) fn remove_records(&mut self, now: Time) {
        let is_due = |at: &Time| *at <= now;
        if !self.leaving.values().any(is_due) {
            return;
        }
        let (due, left) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|(_, at)| is_due(at));
        self.leaving = left;
        let due: BTreeMap<String, Time> = due;
        if !self.config_watch.is_synced() {
            // Whether they came back is not known.
            let later = due.into_keys().map(|name| (name, now.after(PAUSE)));
            self.leaving.extend(later);
            return;
        }
        let mut names: Vec<String> = due.into_keys().collect();
        names.retain(|name| !self.sweep.is_configured(name));
        names.iter().for_each(|name| self.leave_record(name));
        self.delete_records(names);
    }

    /// Mapping objects that somebody deleted are made anew: a settled mapping has nothing to write by which it would be noticed.
    pub(super) fn look_for_deleted(&mut self, now: Time) {
        if now < self.next_look || self.lives.is_empty() {
            return;
        }
        self.next_look = now.after(self.removal_grace.clamp(PAUSE, LONG_PAUSE));
        let known = self.lives.iter().filter(|(_, life)| life.known.is_some());
        let mut known: Vec<String> = known.map(|(name, _)| name.clone()).collect();
        if known.is_empty() {
            return;
        }
        let (objects, heard) = (self.mapping_objects.clone(), self.channels.lives.clone());
        tokio::spawn(async move {
            if let Ok(there) = objects.names().await {
                let there: BTreeSet<String> = there.into_iter().collect();
                known.retain(|name| !there.contains(name));
                let _ = heard.send(Heard::Deleted(known));
            }
        });
    }

    pub(super) fn write_anew(&mut self, names: Vec<String>) {
        for name in names {
            if let Some(life) = self.lives.get_mut(&name) {
                life.known = None;
                self.touch(&name);
            }
        }
    }

    /// Another replica has the mapping, or nobody.
    pub(super) fn leave_record(&mut self, name: &str) {
        self.lives.remove(name);
    }

    fn delete_records(&self, names: Vec<String>) {
        let objects = self.mapping_objects.clone();
        tokio::spawn(async move {
            for name in names {
                if let Err(error) = objects.remove(&name).await {
                    tracing::debug!(mapping = name, %error, "its Mapping object stays for now");
                }
            }
        });
    }

    /// Once in a process: Mapping objects of mappings that went while no host ran.
    pub(super) fn look_for_leftovers(&mut self) {
        if std::mem::replace(&mut self.looked_for_leftovers, true) {
            return;
        }
        let grace = self.removal_grace.duration();
        let (objects, heard) = (self.mapping_objects.clone(), self.channels.lives.clone());
        tokio::spawn(async move {
            tokio::time::sleep(grace).await;
            if let Ok(names) = objects.names().await {
                let _ = heard.send(Heard::Names(names));
            }
        });
    }

    pub(super) fn remove_leftovers(&mut self, mut names: Vec<String>) {
        names.retain(|name| !self.sweep.is_configured(name));
        if !names.is_empty() && self.config_watch.is_synced() {
            self.delete_records(names);
        }
    }

    /// The text of a mapping cannot be used, and none of this process ever was: its Mapping object may have one that could.
    pub(super) fn look_for_last_good(&self, name: &str) {
        let (objects, heard) = (self.mapping_objects.clone(), self.channels.lives.clone());
        let name = name.to_owned();
        tokio::spawn(async move {
            let found = objects.read(&name).await;
            let last = found
                .ok()
                .flatten()
                .and_then(|stands| stands.status.last_good);
            let _ = heard.send(Heard::LastGood(name, last));
        });
    }

    pub(super) fn begin_from_last_good(&mut self, name: &str, last: Option<LastGood>) {
        let (Some(last), Some((place, wishes))) = (last, self.invalid_places.get(name).cloned())
        else {
            return;
        };
        if self.mappings.contains_key(name) {
            return;
        }
        let checked = match CheckedMapping::parse(name, &last.text, &self.namespace) {
            Ok(checked) => checked,
            Err(error) => {
                tracing::warn!(mapping = name, %error, "the last good version on record cannot be used either");
                return;
            }
        };
        let mut others = self.mappings.values();
        if others.any(|other| config::clash(&other.checked, &checked)) {
            return;
        }
        tracing::info!(
            mapping = name,
            "it begins with the last good version on record"
        );
        self.apply_mapping(name, place, wishes, checked);
        self.tell_mappings();
        let why = self.invalid.get(name).cloned().unwrap_or_default();
        self.stands(name, State::Invalid, &why);
    }
}
