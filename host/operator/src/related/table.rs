//! Who reads what: watches with their users, and the keys an event is news to.
//!
//! One lock guards it, and it is never held across an await. A key is registered before its answers are read from the
//! stores, so that nothing can change unseen between reading and waiting: a change after that wakes the key, a change before
//! it was read.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use guesthouse_core::{contract::Kind, object::ObjectKey, queue::Key};
use tokio::sync::watch;

use super::{
    echoes::Echoes,
    groups::Groups,
    held::{Held, Stand, Standing, User},
    missing::{Missing, no_such_kind},
    targets::{Interest, Target, Want},
};
use crate::cluster::{KindState, Resource, Store, Watch, WatchId};

/// Narrow watches of one kind in one namespace before the next such read watches the namespace as a whole; four times as
/// many in the cluster before one watches that.
pub(super) const CROWD: usize = 16;

/// All of them.
pub(super) struct Table {
    /// Between two questions for a missing kind.
    pause: Duration,
    next: u64,
    held: HashMap<WatchId, Held>,
    by_target: HashMap<Target, WatchId>,
    keys: HashMap<Key, BTreeSet<WatchId>>,
    pub(super) missing: Missing,
    pub(super) echoes: Echoes,
}

/// Starts a watch; given by whoever has the transport.
pub(super) type Start<'a> = &'a dyn Fn(WatchId, &Target, &Arc<Resource>) -> Watch;

/// One watch that serves a want.
pub(super) struct Part {
    pub(super) watch: WatchId,
    pub(super) target: Target,
    pub(super) interest: Interest,
    pub(super) store: Arc<Store>,
    pub(super) changed: watch::Receiver<()>,
}

impl Table {
    pub(super) fn new(pause: Duration) -> Self {
        Self {
            pause,
            next: 0,
            held: HashMap::new(),
            by_target: HashMap::new(),
            keys: HashMap::new(),
            missing: Missing::default(),
            echoes: Echoes::default(),
        }
    }

    /// The watch that serves a want, started if none runs.
    fn choose(&mut self, want: &Want, resource: &Arc<Resource>, start: Start<'_>) -> WatchId {
        let able = |table: &Self, target: &Target| match table.by_target.get(target) {
            Some(id) => !matches!(table.standing(*id), Standing::Denied(_)),
            None => true,
        };
        let running = want
            .accept
            .iter()
            .filter(|target| able(self, target))
            .find_map(|target| self.by_target.get(target).copied());
        if let Some(id) = running {
            return id;
        }
        let wide = want
            .wide
            .iter()
            .find(|wide| able(self, wide) && self.is_crowded(wide));
        let fits = || want.open.iter().find(|target| able(self, target));
        let target = wide.or_else(fits).or(want.open.last());
        let target = target.unwrap_or(&want.accept[0]).clone();
        match self.by_target.get(&target) {
            Some(id) => *id,
            None => self.open(target, resource, start),
        }
    }

    /// Whether so many narrow watches run that this one shall take their place.
    fn is_crowded(&self, wide: &Target) -> bool {
        let covered = self.held.values().filter(|held| wide.covers(&held.target));
        // Of the cluster as a whole only where those are in many namespaces.
        let spread = wide.namespace.is_empty()
            && covered
                .clone()
                .any(|held| !held.target.namespace.is_empty());
        let most = if spread { 4 * CROWD } else { CROWD };
        covered.take(most).count() == most
    }

    fn open(&mut self, target: Target, resource: &Arc<Resource>, start: Start<'_>) -> WatchId {
        self.next += 1;
        let id = WatchId(self.next);
        let held = Held {
            watch: start(id, &target, resource),
            target: target.clone(),
            changed: watch::channel(()).0,
            users: HashMap::new(),
            by_object: HashMap::new(),
            groups: Groups::default(),
            idle_since: None,
        };
        self.held.insert(id, held);
        self.by_target.insert(target, id);
        id
    }

    /// A store that can answer a want now.
    pub(super) fn ready_store(&self, want: &Want) -> Option<Arc<Store>> {
        let running = want.accept.iter().filter_map(|it| self.by_target.get(it));
        let mut ready = running.filter(|id| self.standing(**id) == Standing::Ready);
        let held = self.held.get(ready.next()?)?;
        Some(held.store().clone())
    }

    /// Adds a want to what a key reads, before it reads it.
    pub(super) fn ask(
        &mut self,
        key: &Key,
        want: &Want,
        resource: &Arc<Resource>,
        start: Start<'_>,
    ) -> Option<Part> {
        let id = self.choose(want, resource, start);
        self.keys.entry(key.clone()).or_default().insert(id);
        let held = self.held.get_mut(&id)?;
        held.add(key, want.interest.clone(), Stand::Asking);
        if let Some(user) = held.users.get_mut(key) {
            user.stand = Stand::Asking;
        }
        Some(Part {
            watch: id,
            target: held.target.clone(),
            interest: want.interest.clone(),
            store: held.watch.store().clone(),
            changed: held.changed.subscribe(),
        })
    }

    /// How a watch stands.
    pub(super) fn standing(&self, id: WatchId) -> Standing {
        let Some(held) = self.held.get(&id) else {
            return Standing::Ended;
        };
        match held.watch.state() {
            KindState::Forbidden(message) => Standing::Denied(message),
            KindState::Absent | KindState::Gone => Standing::Ended,
            _ if held.watch.is_synced() => Standing::Ready,
            KindState::Unreachable(message) => Standing::Pending(Some(message)),
            _ => Standing::Pending(None),
        }
    }

    /// Takes down how a key's question of a watch ends, right before it reads the store.
    pub(super) fn answered(&mut self, key: &Key, id: WatchId) -> Standing {
        let standing = self.standing(id);
        if let Some(user) = self
            .held
            .get_mut(&id)
            .and_then(|held| held.users.get_mut(key))
        {
            user.stand = match standing {
                Standing::Ready => Stand::Told,
                _ => Stand::Unanswered,
            };
        }
        standing
    }

    /// The objects that are selected so.
    pub(super) fn members(&self, id: WatchId, interest: &Interest) -> Vec<ObjectKey> {
        let held = self.held.get(&id);
        held.map_or_else(Vec::new, |held| held.groups.members(interest))
    }

    /// Makes what a key reads exactly these wants; whether something happened to them that it does not know of.
    pub(super) fn replace(
        &mut self,
        key: &Key,
        wants: &[(Want, Arc<Resource>)],
        start: Start<'_>,
    ) -> bool {
        let mut news = false;
        let mut wanted: HashMap<WatchId, BTreeSet<Interest>> = HashMap::new();
        for (want, resource) in wants {
            let id = self.choose(want, resource, start);
            wanted.entry(id).or_default().insert(want.interest.clone());
        }
        let before = self.keys.remove(key).unwrap_or_default();
        for id in before.iter().filter(|id| !wanted.contains_key(id)) {
            self.leave(key, *id);
        }
        for (id, interests) in &wanted {
            let standing = self.standing(*id);
            let Some(held) = self.held.get_mut(id) else {
                continue;
            };
            let new = held.set(key, interests);
            // Between its reading and now the watch may have told what the key is only now registered for.
            if standing == Standing::Ready {
                news |= held.has_news(key, &new, &self.echoes);
            }
        }
        if !wanted.is_empty() {
            self.keys.insert(key.clone(), wanted.into_keys().collect());
        }
        news
    }

    /// The key reads nothing any more.
    pub(super) fn forget(&mut self, key: &Key) {
        for id in self.keys.remove(key).unwrap_or_default() {
            self.leave(key, id);
        }
        self.missing.forget(key);
    }

    /// All keys that read something.
    pub(super) fn readers(&self) -> impl Iterator<Item = &Key> {
        self.keys.keys()
    }

    fn leave(&mut self, key: &Key, id: WatchId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.remove(key);
        }
    }

    /// Ends the watches that nobody has used for so long.
    pub(super) fn end_idle(&mut self, grace: Duration) {
        let idle = |held: &Held| held.idle_since.is_some_and(|at| at.elapsed() >= grace);
        let by_target = &mut self.by_target;
        self.held.retain(|_, held| {
            let ends = idle(held);
            if ends {
                by_target.remove(&held.target);
            }
            !ends
        });
    }

    /// Whether a watch on the kind runs.
    pub(super) fn watches(&self, kind: &Kind) -> bool {
        self.held.values().any(|held| held.target.kind == *kind)
    }

    /// The running watches on a kind.
    pub(super) fn of_kind(&mut self, kind: &Kind) -> impl Iterator<Item = &mut Held> {
        self.held
            .values_mut()
            .filter(move |held| held.target.kind == *kind)
    }

    #[cfg(test)]
    pub(super) fn targets(&self) -> Vec<(Target, usize)> {
        let all = self.held.values();
        all.map(|held| (held.target.clone(), held.users.len()))
            .collect()
    }

    // ---- what the watches tell ----

    /// A live change or a deletion (no version): the keys it is news to.
    pub(super) fn touched(
        &mut self,
        id: WatchId,
        object: &ObjectKey,
        version: Option<u64>,
    ) -> Vec<Key> {
        let Some(held) = self.held.get_mut(&id) else {
            return Vec::new();
        };
        let mut keys = held.regroup(object);
        keys.extend(held.by_object.get(object).into_iter().flatten().cloned());
        let (users, kind) = (&held.users, &held.target.kind);
        keys.retain(|key| {
            let told = users.get(key).is_some_and(|user| user.stand == Stand::Told);
            let echo = version.is_some_and(|v| self.echoes.is_echo(key, kind, object, v));
            told && !echo
        });
        keys.into_iter().collect()
    }

    /// An object of a first list. Nobody is told of it by itself, see [`Table::synced`].
    pub(super) fn listed(&mut self, id: WatchId, object: &ObjectKey) {
        if let Some(held) = self.held.get_mut(&id) {
            held.regroup(object);
        }
    }

    /// A list is complete: the keys that waited for it, and those to which it shows something else than they know.
    pub(super) fn synced(&mut self, id: WatchId) -> Vec<Key> {
        let Some(held) = self.held.get(&id) else {
            return Vec::new();
        };
        let news = |(key, user): &(&Key, &User)| match user.stand {
            Stand::Asking | Stand::Told => false,
            Stand::Unanswered => true,
            Stand::Fresh => held.has_news(key, &user.interests, &self.echoes),
        };
        let woken: Vec<Key> = held
            .users
            .iter()
            .filter(news)
            .map(|(key, _)| key.clone())
            .collect();
        self.settle(id, &[Stand::Unanswered, Stand::Fresh], Stand::Told);
        woken
    }

    /// The state changed: the keys whose answers are others now. The rest of a state's meaning is in [`Table::standing`].
    pub(super) fn turned(&mut self, id: WatchId, state: &KindState) -> Vec<Key> {
        match state {
            KindState::Active => {
                let woken = self.users(id, Stand::Unanswered);
                self.settle(id, &[Stand::Unanswered], Stand::Told);
                woken
            }
            KindState::Forbidden(_) => {
                let woken = self.users(id, Stand::Told);
                self.settle(id, &[Stand::Told, Stand::Fresh], Stand::Unanswered);
                woken
            }
            KindState::Absent | KindState::Gone => self.ended(id),
            KindState::Waiting | KindState::Unreachable(_) => Vec::new(),
        }
    }

    /// Signals to those who wait that a standing may have changed.
    pub(super) fn signal(&self, id: WatchId) {
        if let Some(held) = self.held.get(&id) {
            held.changed.send_replace(());
        }
    }

    /// The kind is not served: its watch ends here, and its users wait for the kind.
    fn ended(&mut self, id: WatchId) -> Vec<Key> {
        let Some(held) = self.held.remove(&id) else {
            return Vec::new();
        };
        self.by_target.remove(&held.target);
        let mut woken = Vec::new();
        for (key, user) in held.users {
            if let Some(ids) = self.keys.get_mut(&key) {
                ids.remove(&id);
            }
            // Not at once: a new kind is discovered before it can be listed.
            let kind = &held.target.kind;
            self.missing.add(kind, &key, no_such_kind(kind), self.pause);
            // Who is asking is answered that the kind is not there.
            if user.stand != Stand::Asking {
                woken.push(key);
            }
        }
        woken
    }

    fn users(&self, id: WatchId, stand: Stand) -> Vec<Key> {
        let users = self.held.get(&id).into_iter().flat_map(|held| &held.users);
        users
            .filter(|(_, user)| user.stand == stand)
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn settle(&mut self, id: WatchId, from: &[Stand], to: Stand) {
        let users = self.held.get_mut(&id).into_iter();
        for user in users.flat_map(|held| held.users.values_mut()) {
            if from.contains(&user.stand) {
                user.stand = to;
            }
        }
    }
}
