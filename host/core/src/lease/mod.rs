//! Which replica may run the passes of which mapping, as a state machine without I/O and without a clock.
//!
//! Each replica renews one Lease. Each mapping has a claim: a Lease that names a holder and a term, is written at a hand-over
//! alone, and is good while its holder's Lease is. What is guaranteed while clocks run at the same rate, whatever is delayed,
//! lost or frozen: no two replicas may run one mapping at the same time. It rests on these rules:
//! - A replica counts its right from *before* it sent the renewal that was answered, and stops effects a margin earlier
//!   (java-operator-sdk#2056, KubeOps#677, kopiur#319: a renewal that hangs must not leave the old owner at work).
//! - Others count from when they *saw* the change, which is later, and on their own clock.
//! - A Lease that ran out is not proof of anything, since what is seen may be late. It is *ended*: its holder is taken out
//!   by a write that names its last state. From then on its holder's next renewal is refused, so it knows.
//! - A claim is taken and given up by writes that name its last state. Whoever lost its Lease forgets its claims, and has one
//!   again only by writing it again.
//! - A lost Lease is contended for again, at once (kuberhealthy#1533).
//!
//! Leases save work and nothing else: a write that was on its way when the right ended is refused by its version.
//!
//! Whom a mapping belongs to is the same everywhere by rendezvous hashing over the live replicas: when one comes or goes, only
//! its own share moves. The owner moves a mapping: it drains, gives the claim up, and the other takes it. What another did not
//! take in time is taken back and kept until the set of replicas changes, so nothing goes to and fro.

mod claims;
mod object;
mod own;
mod view;
mod words;

use std::collections::{BTreeMap, BTreeSet};

pub use object::LEASE_LABEL;
pub use words::*;

use own::Own;
use view::View;

/// The Leases as one replica sees them.
#[derive(Clone, Debug)]
pub struct Leases {
    me: Holder,
    settings: Settings,
    own: Own,
    view: View,
    /// The first list of Leases is complete: what is not seen is not there.
    synced: bool,
    leaving: bool,
    mappings: BTreeSet<String>,
    held: BTreeMap<String, Held>,
    /// Drained, and to be given up.
    drained: BTreeSet<String>,
    /// Requests about others' Leases and claims that are not answered yet.
    asked: BTreeMap<u64, Asked>,
    /// When what failed is tried again.
    retry: BTreeMap<LeaseOf, Boot>,
    /// Since when nobody has a claim.
    free: BTreeMap<String, Boot>,
    /// Mappings that are kept although they belong to the replica named, which did not take them.
    kept: BTreeMap<String, String>,
    plan: Plan,
    next_id: u64,
    next: Boot,
}

/// A request that is not answered yet.
#[derive(Clone, Debug)]
struct Asked {
    of: LeaseOf,
    /// The claim is taken, not given up.
    take: Option<Boot>,
}

/// Whom each mapping belongs to, for one set of replicas.
#[derive(Clone, Debug, Default)]
struct Plan {
    replicas: Vec<String>,
    of: BTreeMap<String, String>,
}

impl Leases {
    /// Those of `me`, who has nothing yet.
    pub fn new(me: Holder, settings: Settings) -> Self {
        Self {
            me,
            settings,
            own: Own::default(),
            view: View::default(),
            synced: false,
            leaving: false,
            mappings: BTreeSet::new(),
            held: BTreeMap::new(),
            drained: BTreeSet::new(),
            asked: BTreeMap::new(),
            retry: BTreeMap::new(),
            free: BTreeMap::new(),
            kept: BTreeMap::new(),
            plan: Plan::default(),
            next_id: 0,
            next: Boot(0),
        }
    }

    /// The mappings there are.
    pub fn configure(&mut self, mappings: BTreeSet<String>) {
        self.mappings = mappings;
        self.plan = Plan::default();
    }

    /// A Lease as the watch shows it, none if it is gone.
    pub fn saw(&mut self, of: &LeaseOf, found: Option<Stored>, now: Boot) {
        self.expire(now);
        match of {
            LeaseOf::Replica(name) if *name == self.me.name => self.saw_own(found.as_ref(), now),
            _ => {}
        }
        self.view.saw(of, found, now);
        if let LeaseOf::Claim(mapping) = of {
            self.check(mapping);
        }
    }

    /// All that there is was seen.
    pub fn synced(&mut self) {
        self.synced = true;
    }

    /// The passes of a mapping that was to be drained are over.
    pub fn drained(&mut self, mapping: &str) {
        if self.held.get(mapping).is_some_and(|held| held.draining) {
            self.drained.insert(mapping.to_owned());
        }
    }

    /// Takes nothing more and gives up what it has, one mapping after the other as they are drained.
    pub fn leave(&mut self, now: Boot) {
        self.leaving = true;
        self.own.due = now;
        for held in self.held.values_mut() {
            held.draining = true;
        }
    }

    /// The answer to a request.
    pub fn told(&mut self, id: u64, answer: Answer, now: Boot) {
        self.expire(now);
        if self.own.asked.as_ref().is_some_and(|asked| asked.id == id) {
            self.told_own(answer, now);
        } else if let Some(asked) = self.asked.remove(&id) {
            self.told_other(asked, answer, now);
        }
    }

    /// What shall be asked now. To be called after everything told, and at [`Leases::next_time`].
    pub fn step(&mut self, now: Boot) -> Vec<Request> {
        self.expire(now);
        self.next = Boot::NEVER;
        let mut out = Vec::new();
        self.step_own(now, &mut out);
        if self.synced && self.own.holds() {
            self.step_others(now, &mut out);
            self.step_claims(now, &mut out);
        }
        out
    }

    /// When [`Leases::step`] has something to say although nothing was told.
    pub fn next_time(&self) -> Boot {
        self.next
    }

    /// The claims this replica has. What is in here may be run until [`Leases::runs_until`], and no longer.
    pub fn held(&self) -> &BTreeMap<String, Held> {
        &self.held
    }

    /// Until when effects may be made.
    pub fn runs_until(&self) -> Boot {
        let sent = self.own.sent;
        sent.map_or(Boot(0), |sent| {
            sent.after(self.settings.duration)
                .before(self.settings.margin)
        })
    }

    /// Counts the losses of the Lease: what was held in an earlier epoch is not held any more.
    pub fn epoch(&self) -> u64 {
        self.own.epoch
    }

    /// How this replica stands.
    pub fn standing(&self) -> Standing {
        match &self.own {
            own if own.left => Standing::Left,
            _ if self.leaving => Standing::Leaving,
            own if own.holds() => Standing::Holding,
            own => match &own.trouble {
                own::Trouble::None => Standing::Contending(String::new()),
                own::Trouble::Forbidden(message) => Standing::Forbidden(message.clone()),
                own::Trouble::Other(message) => Standing::Contending(message.clone()),
            },
        }
    }

    /// Nothing is held beyond the end of the own Lease.
    fn expire(&mut self, now: Boot) {
        let over = |sent: Boot| now >= sent.after(self.settings.duration);
        if self.own.sent.is_some_and(over) {
            self.lose(now);
        }
    }

    /// The own Lease is lost, and all claims with it.
    fn lose(&mut self, now: Boot) {
        if self.own.sent.take().is_some() {
            self.own.epoch += 1;
        }
        self.own.due = self.own.due.min(now);
        self.held.clear();
        self.drained.clear();
        self.asked.clear();
        self.kept.clear();
        self.free.clear();
        self.retry.clear();
    }

    /// A request, and its number.
    fn ask(&mut self, action: Action, out: &mut Vec<Request>) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        out.push(Request { id, action });
        id
    }

    /// Remembers to look again then.
    fn wake(&mut self, at: Boot) {
        self.next = self.next.min(at);
    }
}

#[cfg(test)]
mod tests;
