//! One watch and the keys that read from it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use guesthouse_core::{object::ObjectKey, queue::Key};
use tokio::{sync::watch, time::Instant};

use super::{
    echoes::Echoes,
    groups::Groups,
    targets::{Interest, Target},
};
use crate::cluster::{Store, Watch};

/// How a watch stands to what shall be read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its store can answer.
    Ready,
    /// The first list is on its way; the server's words if it refused so far.
    Pending(Option<Arc<str>>),
    /// 401 or 403.
    Denied(Arc<str>),
    /// It has ended since the kind is not served any more.
    Ended,
}

/// How a key stands to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It is about to read: what happens until then it will see.
    Asking,
    /// It has read: every change is news.
    Told,
    /// It was told that there is no answer: it is woken once there is one.
    Unanswered,
    /// It never read, but knows what it wrote: it is woken if the first list shows something else.
    Fresh,
}

pub(super) struct User {
    pub(super) interests: BTreeSet<Interest>,
    pub(super) stand: Stand,
}

/// One watch and its users.
pub(super) struct Held {
    pub(super) target: Target,
    pub(super) watch: Watch,
    /// Signals that the standing may have changed.
    pub(super) changed: watch::Sender<()>,
    pub(super) users: HashMap<Key, User>,
    /// Users by the object they are interested in.
    pub(super) by_object: HashMap<ObjectKey, BTreeSet<Key>>,
    /// Users by what they select.
    pub(super) groups: Groups,
    pub(super) idle_since: Option<Instant>,
}

impl Held {
    pub(super) fn store(&self) -> &Arc<Store> {
        self.watch.store()
    }

    pub(super) fn add(&mut self, key: &Key, interest: Interest, stand: Stand) {
        self.idle_since = None;
        match &interest {
            Interest::Object(object) => {
                self.by_object
                    .entry(object.clone())
                    .or_default()
                    .insert(key.clone());
            }
            selected => self.groups.join(key, selected, self.watch.store()),
        }
        let user = self.users.entry(key.clone()).or_insert_with(|| User {
            interests: BTreeSet::new(),
            stand,
        });
        user.interests.insert(interest);
    }

    /// Makes a key's interests exactly these; those that are new.
    pub(super) fn set(&mut self, key: &Key, interests: &BTreeSet<Interest>) -> BTreeSet<Interest> {
        let (had, stand) = match self.users.get(key) {
            Some(user) if user.stand != Stand::Asking => (user.interests.clone(), user.stand),
            // A question that was never answered (its pass ended before) is as good as none.
            _ if self.watch.is_synced() => (BTreeSet::new(), Stand::Told),
            _ => (BTreeSet::new(), Stand::Fresh),
        };
        if had == *interests {
            // As after most passes: to leave a selection and join it again would look through the whole store.
            return BTreeSet::new();
        }
        self.remove(key);
        self.idle_since = None;
        for interest in interests {
            self.add(key, interest.clone(), stand);
        }
        interests.difference(&had).cloned().collect()
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let Some(user) = self.users.remove(key) else {
            return;
        };
        for interest in user.interests {
            let Interest::Object(object) = interest else {
                self.groups.leave(key, &interest);
                continue;
            };
            if let Some(keys) = self.by_object.get_mut(&object) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_object.remove(&object);
                }
            }
        }
        if self.users.is_empty() {
            self.idle_since = Some(Instant::now());
        }
    }

    /// Whether the store shows something of these interests that the key did not write or read itself.
    pub(super) fn has_news(
        &self,
        key: &Key,
        interests: &BTreeSet<Interest>,
        echoes: &Echoes,
    ) -> bool {
        interests.iter().any(|interest| match interest {
            Interest::Object(object) => {
                let held = self.store().get(object).and_then(|entry| entry.version());
                let known = echoes.newest(key, &self.target.kind, object);
                !matches!((held, known), (Some(held), Some(known)) if held <= known)
            }
            Interest::Marked(..) | Interest::Selected(..) => true,
        })
    }

    /// Brings up to date who selects an object; those who did or do.
    pub(super) fn regroup(&mut self, object: &ObjectKey) -> BTreeSet<Key> {
        self.groups.update(object, self.watch.store())
    }
}
