//! Claims: ended, taken, moved and given up.

use std::collections::BTreeSet;

use super::{
    Action, Answer, Asked, Boot, Held, LeaseOf, Leases, Plan, Record, Request, view::Owner,
};
use crate::{keys::Hash, units::Span};

/// The replica that a mapping belongs to: the one with the highest hash. Every replica comes to the same answer, and one that
/// goes moves nothing but its own share.
fn belongs<'a>(what: &str, replicas: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    replicas.max_by_key(|replica| Hash::of("rendezvous").part(what).part(replica).number())
}

impl Leases {
    /// Ends the Leases of those that ran out, and clears away what ended long ago.
    pub(super) fn step_others(&mut self, now: Boot, out: &mut Vec<Request>) {
        self.wake(self.view.next_time(now));
        self.view.lay_ghosts(now);
        for stored in self.view.expired(&self.me.name, now) {
            let of = stored.record.of.clone();
            if self.may_ask(&of, now) {
                let ended = Record {
                    holder: None,
                    ..stored.record
                };
                self.ask_other(Action::Write(Some(stored.base), ended), of, None, out);
            }
        }
        let live = self.view.live(Some(&self.me.name), now);
        for stored in self.view.over(now) {
            let of = stored.record.of.clone();
            let cleaner = belongs(
                &of.object_name(),
                live.iter().map(|(name, _)| name.as_str()),
            );
            if cleaner == Some(self.me.name.as_str()) && self.may_ask(&of, now) {
                self.ask_other(Action::Delete(of.clone(), stored.base), of, None, out);
            }
        }
    }

    pub(super) fn step_claims(&mut self, now: Boot, out: &mut Vec<Request>) {
        let live = self
            .view
            .live((!self.leaving).then_some(self.me.name.as_str()), now);
        self.refresh_plan(&live);
        self.start_moves(&live, now);
        for mapping in std::mem::take(&mut self.drained) {
            if self.held.remove(&mapping).is_some() {
                self.give_up(&mapping, out);
            }
        }
        let named = self.view.claimed_by(&self.me);
        let all = named.chain(self.mappings.iter().map(String::as_str));
        let loose = all.filter(|mapping| !self.held.contains_key(*mapping));
        let loose: BTreeSet<String> = loose.map(str::to_owned).collect();
        for mapping in loose {
            self.step_claim(&mapping, now, out);
        }
    }

    fn refresh_plan(&mut self, live: &[(String, Boot)]) {
        let names = live.iter().map(|(name, _)| name);
        if self.plan.replicas.iter().eq(names.clone()) && !self.plan.of.is_empty() {
            return;
        }
        let replicas: Vec<String> = names.cloned().collect();
        let to = |mapping: &String| {
            let to = belongs(mapping, replicas.iter().map(String::as_str))?;
            Some((mapping.clone(), to.to_owned()))
        };
        let of = self.mappings.iter().filter_map(to).collect();
        self.plan = Plan { replicas, of };
        let plan = &self.plan;
        self.kept
            .retain(|mapping, to| plan.of.get(mapping) == Some(to));
    }

    /// Begins to drain what is another's, a few at a time; what is configured no more, or all if this replica leaves.
    fn start_moves(&mut self, live: &[(String, Boot)], now: Boot) {
        let under_way = self.held.values().filter(|held| held.draining).count();
        let limit = self.settings.moves.max(self.held.len() / 8);
        let mut room = limit.saturating_sub(under_way);
        let mut wake = Boot::NEVER;
        for (mapping, held) in &mut self.held {
            if held.draining {
                continue;
            }
            let Some(to) = self.plan.of.get(mapping).filter(|_| !self.leaving) else {
                held.draining = true;
                continue;
            };
            if *to == self.me.name || self.kept.get(mapping) == Some(to) {
                continue;
            }
            // One that has just come may be gone in a moment.
            let since = live
                .iter()
                .find(|(name, _)| name == to)
                .map(|(_, since)| *since);
            let settled = since.unwrap_or(now).after(self.settings.renew);
            if now < settled {
                wake = wake.min(settled);
            } else if room > 0 {
                held.draining = true;
                room -= 1;
            }
        }
        self.wake(wake);
    }

    fn step_claim(&mut self, mapping: &str, now: Boot, out: &mut Vec<Request>) {
        let of = LeaseOf::Claim(mapping.to_owned());
        let owner = self
            .view
            .owner(mapping, &self.me, self.settings.duration, now);
        if owner == Owner::Other {
            self.free.remove(mapping);
            return;
        }
        let free_since = *self.free.entry(mapping.to_owned()).or_insert(now);
        if !self.may_ask(&of, now) {
            return;
        }
        let to = self.plan.of.get(mapping).cloned();
        let mine = to.as_deref() == Some(self.me.name.as_str());
        if mine && !self.leaving {
            self.take(mapping, free_since, out);
            return;
        }
        if owner == Owner::Me {
            // A leftover of a lost Lease or a lost answer.
            self.give_up(mapping, out);
            return;
        }
        let Some(to) = to.filter(|_| !self.leaving) else {
            return;
        };
        // The one it belongs to has its time to take it; what it does not take must not lie.
        let patience = free_since
            .after(self.settings.duration)
            .after(self.settings.renew);
        if now >= patience {
            self.kept.insert(mapping.to_owned(), to);
            self.take(mapping, free_since, out);
        } else {
            self.wake(patience);
        }
    }

    fn take(&mut self, mapping: &str, free_since: Boot, out: &mut Vec<Request>) {
        let found = self.view.claim(mapping);
        let record = Record {
            of: LeaseOf::Claim(mapping.to_owned()),
            holder: Some(self.me.clone()),
            term: found.map_or(1, |stored| stored.record.term + 1),
            leaving: false,
            duration: Span(0),
        };
        let write = Action::Write(found.map(|stored| stored.base.clone()), record);
        self.ask_other(
            write,
            LeaseOf::Claim(mapping.to_owned()),
            Some(free_since),
            out,
        );
    }

    fn give_up(&mut self, mapping: &str, out: &mut Vec<Request>) {
        let Some(stored) = self.view.claim(mapping).cloned() else {
            return;
        };
        let record = Record {
            holder: None,
            ..stored.record
        };
        let write = Action::Write(Some(stored.base), record);
        self.ask_other(write, LeaseOf::Claim(mapping.to_owned()), None, out);
    }

    fn ask_other(
        &mut self,
        action: Action,
        of: LeaseOf,
        take: Option<Boot>,
        out: &mut Vec<Request>,
    ) {
        let id = self.ask(action, out);
        self.asked.insert(id, Asked { of, take });
    }

    /// Whether nothing about this Lease is under way or to be waited for.
    fn may_ask(&mut self, of: &LeaseOf, now: Boot) -> bool {
        if let Some(at) = self.retry.get(of).copied() {
            if now < at {
                self.wake(at);
                return false;
            }
            self.retry.remove(of);
        }
        !self.asked.values().any(|asked| asked.of == *of)
    }

    /// The answer to a request about a claim or another's Lease.
    pub(super) fn told_other(&mut self, asked: Asked, answer: Answer, now: Boot) {
        let of = asked.of;
        match answer {
            Answer::Done(found) => {
                let term = found.as_ref().map_or(0, |stored| stored.record.term);
                self.view.saw(&of, found, now);
                if let (LeaseOf::Claim(mapping), Some(free_since)) = (&of, asked.take) {
                    let held = Held {
                        term,
                        free_since,
                        draining: self.leaving,
                    };
                    self.held.insert(mapping.clone(), held);
                    self.free.remove(mapping);
                    self.check(mapping);
                }
            }
            // The watch will show what there is.
            Answer::Conflict | Answer::Forbidden(_) | Answer::Lost(_) => {
                self.retry.insert(of, now.after(self.settings.retry));
            }
        }
    }

    /// Drops what another has, by what is seen: an edit by hand, or a fault.
    pub(super) fn check(&mut self, mapping: &str) {
        let names_me = |stored: &super::Stored| stored.record.holder.as_ref() == Some(&self.me);
        if !self.view.claim(mapping).is_some_and(names_me) {
            self.held.remove(mapping);
            self.drained.remove(mapping);
        }
    }
}
