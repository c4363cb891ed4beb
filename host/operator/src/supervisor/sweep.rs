//! What removed mappings leave behind: their finalizers are taken off, found by the journals alone.
//!
//! So it works for a mapping that was removed while the host was down, and for kinds that nobody maps any more (kro#1067,
//! metacontroller#1062). The same goes for objects that a mapping is no longer about, since it names another kind or other
//! namespaces. A mapping that cannot be read is not removed.

use std::collections::BTreeMap;

use guesthouse_core::{
    contract::Kind,
    journal::Journal,
    mapping::{For, OnRemove},
    object::ObjectKey,
    queue::{Key, Push, Why},
    time::Time,
    units::Span,
};

use super::Supervisor;
use crate::{clock, sweeper::Sweeper};

/// Graces between two looks at journals of mappings that are gone: ten minutes.
const COLLECT: u64 = 10;
/// Most of them in one look.
const COLLECTED: usize = 1000;
/// Pause between two rounds over what could not be released.
const PAUSE: Span = Span::from_secs(15);

/// What mappings are about, and since when they are not.
pub(super) struct Sweep {
    /// How long a mapping must be gone before its finalizers are: whoever replaces a ConfigMap removes it for a moment.
    grace: Span,
    /// All mappings there are; none of one that cannot be read, which may be about anything.
    configured: BTreeMap<String, Option<For>>,
    /// By journal.
    absent: BTreeMap<String, Time>,
    next: Option<Time>,
    /// When journals of mappings that are gone are looked at again, and for the how many-th time.
    collect: Time,
    round: usize,
}

impl Sweep {
    pub(super) fn new(grace: Span) -> Self {
        Self {
            grace,
            configured: BTreeMap::new(),
            absent: BTreeMap::new(),
            next: None,
            collect: Time::NEVER,
            round: 0,
        }
    }

    /// All mappings there are, readable or not.
    pub(super) fn configured(&mut self, mappings: BTreeMap<String, Option<For>>) {
        self.configured = mappings;
        self.next = Some(Time(0));
        self.collect = self.collect.min(clock::now().after(self.pause()));
    }

    /// Whether there is such a mapping, readable or not.
    pub(super) fn is_configured(&self, mapping: &str) -> bool {
        self.configured.contains_key(mapping)
    }

    fn pause(&self) -> Span {
        Span(self.grace.0.saturating_mul(COLLECT).max(1000))
    }

    /// What a mapping that is gone had still under way is over: it may have left something, too.
    pub(super) fn again(&mut self) {
        self.next = Some(Time(0));
    }

    pub(super) fn next(&self) -> Option<Time> {
        let collect = Some(self.collect).filter(|at| *at != Time::NEVER);
        [self.next, collect].into_iter().flatten().min()
    }

    /// Whether a journal's mapping is gone, or no longer about its object's kind or namespace.
    fn is_left(&self, journal: &Journal) -> bool {
        let object = &journal.object;
        match self.configured.get(&journal.mapping) {
            None => true,
            Some(None) => false,
            Some(Some(about)) => {
                let kind = Kind {
                    api_version: about.api_version.clone(),
                    kind: about.kind.clone(),
                };
                let namespaces = &about.namespaces;
                kind.group() != object.group
                    || kind.kind != object.kind
                    || !(namespaces.is_empty() || namespaces.contains(&object.namespace))
            }
        }
    }
}

/// Whether the finalizer stays although nobody is about the object any more.
fn is_kept(journal: &Journal) -> bool {
    let record = journal.finalizer.as_ref();
    record.is_none_or(|record| record.on_remove == OnRemove::Keep)
}

impl Supervisor {
    /// Takes off what mappings have left that are not about an object for long enough.
    pub(super) fn sweep(&mut self, now: Time) {
        let complete = self.config_watch.is_synced() && self.journals_synced;
        if complete && self.sweep.collect <= now {
            self.collect(now);
        }
        if !complete || self.sweep.next.is_none_or(|at| now < at) {
            return;
        }
        let (mut next, mut due, mut absent) = (None::<Time>, Vec::new(), BTreeMap::new());
        for stored in self.shop.journals.finalizing() {
            if !self.sweep.is_left(&stored.journal) || is_kept(&stored.journal) {
                continue;
            }
            let since = *self.sweep.absent.get(&stored.name).unwrap_or(&now);
            absent.insert(stored.name.clone(), since);
            let at = since.after(self.sweep.grace);
            let again = if now < at { at } else { now.after(PAUSE) };
            next = Some(next.map_or(again, |next| next.min(again)));
            if at <= now {
                due.push(stored);
            }
        }
        (self.sweep.next, self.sweep.absent) = (next, absent);
        if due.is_empty() {
            return;
        }
        let sweeper = self.sweeper();
        tracing::info!(
            objects = due.len(),
            "no mapping is about these objects any more; their finalizers are taken off"
        );
        tokio::spawn(async move { sweeper.drain(due).await });
    }

    /// Journals that no mapping asks for any more go once their objects are gone.
    fn collect(&mut self, now: Time) {
        self.sweep.collect = now.after(self.sweep.pause());
        self.sweep.round += 1;
        let configured = &self.sweep.configured;
        let is_configured = |mapping: &str| configured.contains_key(mapping);
        let left = self
            .shop
            .journals
            .of_others(is_configured, self.sweep.round, COLLECTED);
        if left.is_empty() {
            return;
        }
        let sweeper = self.sweeper();
        tokio::spawn(async move { sweeper.collect(left).await });
    }

    fn sweeper(&self) -> Sweeper {
        Sweeper::new(
            self.shop.api.clone(),
            self.discovery.clone(),
            self.shop.journals.clone(),
        )
    }

    /// Related objects or children of these keys changed.
    pub(super) fn woken(&mut self, keys: Vec<Key>) {
        let now = clock::now();
        for key in keys {
            if let Some(push) = self.push_of(&key) {
                self.queue.push(&key, push, now);
            }
        }
    }

    fn push_of(&self, key: &Key) -> Option<Push> {
        let runtime = self.mappings.get(self.names.get(&key.mapping)?)?;
        let entry = self.entry(runtime, &key.object);
        Some(runtime.push(entry.as_deref(), Why::Event, None))
    }

    pub(super) fn entry(
        &self,
        runtime: &super::mappings::Runtime,
        object: &ObjectKey,
    ) -> Option<std::sync::Arc<crate::cluster::Entry>> {
        let mut served = runtime
            .scopes
            .iter()
            .filter_map(|scope| self.kinds.get(scope)?.served.as_ref());
        served.find_map(|served| served.watch.store().get(object))
    }
}
