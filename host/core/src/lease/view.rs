//! What this replica has seen of the Leases, and what follows from it.
//!
//! Others are judged by when a change of their Lease was seen here, never by their clocks. What is seen comes from one watch,
//! in the order it happened: a claim is never seen before the Lease its holder had when it took it.

use std::collections::BTreeMap;

use super::{Base, Boot, Holder, LeaseOf, Stored};
use crate::{object::version_number, units::Span};

/// Another replica's Lease, or one's own.
#[derive(Clone, Debug)]
struct Replica {
    stored: Stored,
    /// When its last change was seen.
    changed: Boot,
    /// When this holder of it was first seen.
    since: Boot,
}

/// Who has a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody: it can be taken.
    Nobody,
    /// It names this process.
    Me,
    /// A replica whose Lease holds, or held until now and may still do so.
    Other,
}

#[derive(Clone, Debug, Default)]
pub(super) struct View {
    replicas: BTreeMap<String, Replica>,
    claims: BTreeMap<String, Stored>,
    /// Holders whose Lease was deleted under them: they may run until they notice, at the latest then.
    ghosts: BTreeMap<Holder, Boot>,
}

impl View {
    /// A Lease as it stands, or that it is gone.
    pub(super) fn saw(&mut self, of: &LeaseOf, found: Option<Stored>, now: Boot) {
        match (of, found) {
            (LeaseOf::Claim(mapping), Some(stored)) => {
                if !is_older(&stored.base, self.claims.get(mapping).map(|s| &s.base)) {
                    self.claims.insert(mapping.clone(), stored);
                }
            }
            (LeaseOf::Claim(mapping), None) => {
                self.claims.remove(mapping);
            }
            (LeaseOf::Replica(name), Some(stored)) => self.saw_replica(name, stored, now),
            (LeaseOf::Replica(name), None) => {
                if let Some(gone) = self.replicas.remove(name)
                    && let Some(holder) = gone.stored.record.holder
                {
                    self.ghosts
                        .insert(holder, now.after(gone.stored.record.duration));
                }
            }
        }
    }

    fn saw_replica(&mut self, name: &str, stored: Stored, now: Boot) {
        let known = self.replicas.get(name);
        if is_older(&stored.base, known.map(|known| &known.stored.base)) {
            return;
        }
        let (mut changed, mut since) = (now, now);
        if let Some(known) = known {
            if known.stored.base == stored.base {
                changed = known.changed;
            }
            if known.stored.record.holder == stored.record.holder {
                since = known.since;
            }
        }
        if let Some(holder) = &stored.record.holder {
            self.ghosts.remove(holder);
        }
        let seen = Replica {
            stored,
            changed,
            since,
        };
        self.replicas.insert(name.to_owned(), seen);
    }

    /// The claim to a mapping as it was last seen.
    pub(super) fn claim(&self, mapping: &str) -> Option<&Stored> {
        self.claims.get(mapping)
    }

    /// The mappings whose claims name `holder`.
    pub(super) fn claimed_by(&self, holder: &Holder) -> impl Iterator<Item = &str> {
        let claims = self.claims.iter();
        claims
            .filter(move |(_, stored)| stored.record.holder.as_ref() == Some(holder))
            .map(|(mapping, _)| mapping.as_str())
    }

    /// Who has the claim to a mapping. A Lease that ran out proves nothing, since what is seen may be late: only a write that
    /// names its last state, and so ends it, does.
    pub(super) fn owner(&mut self, mapping: &str, me: &Holder, unknown: Span, now: Boot) -> Owner {
        let Some(holder) = self
            .claims
            .get(mapping)
            .and_then(|stored| stored.record.holder.as_ref())
        else {
            return Owner::Nobody;
        };
        if holder == me {
            return Owner::Me;
        }
        match self.replicas.get(&holder.name) {
            Some(replica) if replica.stored.record.holder.as_ref() == Some(holder) => Owner::Other,
            // Ended, or replaced by a process of the same name.
            Some(_) => Owner::Nobody,
            None => {
                let ends = *self
                    .ghosts
                    .entry(holder.clone())
                    .or_insert(now.after(unknown));
                if now < ends {
                    Owner::Other
                } else {
                    Owner::Nobody
                }
            }
        }
    }

    /// The replicas that mappings may go to, in order: those with a Lease, since when, and `me`.
    pub(super) fn live(&self, me: Option<&str>, now: Boot) -> Vec<(String, Boot)> {
        let mut live: Vec<_> = self
            .replicas
            .iter()
            .filter(|(name, replica)| {
                let record = &replica.stored.record;
                let holds = record.holder.is_some() && now < replica.expires();
                holds && !record.leaving && me != Some(name.as_str())
            })
            .map(|(name, replica)| (name.clone(), replica.since))
            .chain(me.map(|name| (name.to_owned(), Boot(0))))
            .collect();
        live.sort();
        live
    }

    /// Leases of others that ran out and have a holder still.
    pub(super) fn expired(&self, me: &str, now: Boot) -> Vec<Stored> {
        let others = self.replicas.iter().filter(|(name, _)| *name != me);
        let out = others.filter(|(_, replica)| {
            replica.stored.record.holder.is_some() && now >= replica.expires()
        });
        out.map(|(_, replica)| replica.stored.clone()).collect()
    }

    /// Leases that ended long ago and that no claim names.
    pub(super) fn over(&self, now: Boot) -> Vec<Stored> {
        let out = self.replicas.iter().filter(|(name, replica)| {
            let record = &replica.stored.record;
            let past = now >= replica.changed.after(Span(record.duration.0 * 2));
            let names = |stored: &Stored| {
                let holder = stored.record.holder.as_ref();
                holder.is_some_and(|holder| holder.name == **name)
            };
            record.holder.is_none() && past && !self.claims.values().any(names)
        });
        out.map(|(_, replica)| replica.stored.clone()).collect()
    }

    /// When time alone changes what is said here, after `now`.
    pub(super) fn next_time(&self, now: Boot) -> Boot {
        let replicas = self.replicas.values().map(|replica| {
            let record = &replica.stored.record;
            match record.holder {
                Some(_) => replica.expires(),
                None => replica.changed.after(Span(record.duration.0 * 2)),
            }
        });
        let times = replicas.chain(self.ghosts.values().copied());
        times.filter(|at| *at > now).min().unwrap_or(Boot::NEVER)
    }

    /// Forgets the ghosts that no claim names.
    pub(super) fn lay_ghosts(&mut self, now: Boot) {
        let claims = &self.claims;
        self.ghosts.retain(|holder, ends| {
            let named = |stored: &Stored| stored.record.holder.as_ref() == Some(holder);
            now < *ends || claims.values().any(named)
        });
    }
}

impl Replica {
    fn expires(&self) -> Boot {
        self.changed.after(self.stored.record.duration)
    }
}

/// Whether a state is behind what is known of the same object.
pub(super) fn is_older(seen: &Base, known: Option<&Base>) -> bool {
    known.is_some_and(|known| {
        let versions = version_number(&seen.version).zip(version_number(&known.version));
        known.uid == seen.uid && versions.is_some_and(|(seen, known)| seen < known)
    })
}
