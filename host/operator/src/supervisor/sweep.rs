//! What removed mappings leave behind: their finalizers are taken off, found by the journals alone.
//!
//! So it works for a mapping that was removed while the host was down, and for kinds that nobody maps any more (kro#1067,
//! metacontroller#1062). A mapping that cannot be read is not removed.

use std::collections::{BTreeMap, BTreeSet};

use guesthouse_core::{
    object::ObjectKey,
    queue::{Key, Push, Why},
    time::Time,
    units::Span,
};

use super::Supervisor;
use crate::{clock, sweeper::Sweeper};

/// How long a mapping must be gone before its finalizers are: whoever replaces a ConfigMap removes it for a moment.
const GRACE: Span = Span::from_secs(60);
/// Pause between two rounds over what could not be released.
const PAUSE: Span = Span::from_secs(15);

/// Mappings that are gone, and since when.
#[derive(Default)]
pub(super) struct Sweep {
    configured: BTreeSet<String>,
    absent: BTreeMap<String, Time>,
    next: Option<Time>,
}

impl Sweep {
    /// The names of all mappings there are, readable or not.
    pub(super) fn configured(&mut self, names: BTreeSet<String>) {
        self.configured = names;
        self.absent
            .retain(|name, _| !self.configured.contains(name));
        self.next = Some(Time(0));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.next
    }
}

impl Supervisor {
    /// Takes off what mappings that are gone for long enough have left.
    pub(super) fn sweep(&mut self, now: Time) {
        let complete = self.config_watch.is_synced() && self.journals_synced;
        if !complete || self.sweep.next.is_none_or(|at| now < at) {
            return;
        }
        let mut next = None;
        for name in self.shop.journals.finalizing() {
            if self.sweep.configured.contains(&name) {
                continue;
            }
            let since = *self.sweep.absent.entry(name.clone()).or_insert(now);
            let due = since.after(GRACE);
            if now < due {
                next = Some(next.map_or(due, |at: Time| at.min(due)));
                continue;
            }
            next = Some(next.map_or(now.after(PAUSE), |at: Time| at.min(now.after(PAUSE))));
            let sweeper = Sweeper::new(
                self.shop.api.clone(),
                self.discovery.clone(),
                self.shop.journals.clone(),
            );
            tracing::info!(
                mapping = name,
                "the mapping is gone; its finalizers are taken off"
            );
            tokio::spawn(async move { sweeper.drain(&name).await });
        }
        self.sweep.next = next;
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
