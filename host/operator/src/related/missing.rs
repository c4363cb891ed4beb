//! Kinds that are not served, and the keys that wait for them.
//!
//! A missing kind is asked for at a fixed pace while somebody waits, once for all who do; a pass that needs it meanwhile is
//! answered without a request, since it is woken when the kind comes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use guesthouse_core::{
    contract::{Cause, Kind},
    queue::Key,
};
use tokio::time::Instant;

struct Waiting {
    keys: BTreeSet<Key>,
    /// What whoever needs it is answered meanwhile.
    why: Cause,
    next: Instant,
    asking: bool,
}

/// The cause of a kind that is not there.
pub(super) fn no_such_kind(kind: &Kind) -> Cause {
    Cause::new("NoSuchKind", format!("{kind} is not served"))
}

#[derive(Default)]
pub(super) struct Missing(BTreeMap<Kind, Waiting>);

impl Missing {
    /// A key waits for a kind, which is first asked for after `pause`.
    pub(super) fn add(&mut self, kind: &Kind, key: &Key, why: Cause, pause: Duration) {
        let waiting = self.0.entry(kind.clone()).or_insert_with(|| Waiting {
            keys: BTreeSet::new(),
            why,
            next: Instant::now() + pause,
            asking: false,
        });
        waiting.keys.insert(key.clone());
    }

    /// Why the kind has no answer, while it is asked for.
    pub(super) fn why(&self, kind: &Kind) -> Option<Cause> {
        self.0.get(kind).map(|waiting| waiting.why.clone())
    }

    /// The kinds to ask for now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Kind> {
        self.0.retain(|_, waiting| !waiting.keys.is_empty());
        let due = self
            .0
            .iter_mut()
            .filter(|(_, waiting)| !waiting.asking && waiting.next <= now);
        due.map(|(kind, waiting)| {
            waiting.asking = true;
            kind.clone()
        })
        .collect()
    }

    /// It was asked for and has no answer yet.
    pub(super) fn still(&mut self, kind: &Kind, why: Cause, pause: Duration) {
        if let Some(waiting) = self.0.get_mut(kind) {
            waiting.why = why;
            waiting.asking = false;
            waiting.next = Instant::now() + pause;
        }
    }

    /// It is there: those who waited.
    pub(super) fn found(&mut self, kind: &Kind) -> Vec<Key> {
        let waiting = self.0.remove(kind);
        waiting
            .into_iter()
            .flat_map(|waiting| waiting.keys)
            .collect()
    }

    /// The key waits for no kind but these.
    pub(super) fn keep(&mut self, key: &Key, kinds: &BTreeSet<&Kind>) {
        for (kind, waiting) in &mut self.0 {
            if !kinds.contains(kind) {
                waiting.keys.remove(key);
            }
        }
    }

    /// The key waits for nothing.
    pub(super) fn forget(&mut self, key: &Key) {
        self.keep(key, &BTreeSet::new());
    }
}
