//! The replica's own Lease: taken, renewed, contended for again, and given up.

use super::{Action, Answer, Base, Boot, LeaseOf, Leases, Record, Request, Stored, view::is_older};
use crate::units::Span;

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    /// Its state as of the last answer; none: it is not there.
    base: Option<Base>,
    term: u64,
    /// When the last answered renewal was sent. None: it is not held.
    pub(super) sent: Option<Boot>,
    /// Counts losses.
    pub(super) epoch: u64,
    /// When it is written next.
    pub(super) due: Boot,
    /// Writes in a row that were refused.
    conflicts: u32,
    /// Read it first: it is not in the state that was written last.
    reread: bool,
    /// Another process has it: in which state that was found, and when.
    rival: Option<(Base, Boot)>,
    /// It was held before by this process.
    ever: bool,
    /// The last written state says that this replica leaves.
    told_leaving: bool,
    pub(super) asked: Option<AskedOwn>,
    pub(super) left: bool,
    pub(super) trouble: Trouble,
}

#[derive(Clone, Debug)]
pub(super) struct AskedOwn {
    pub(super) id: u64,
    sent: Boot,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Read,
    Write { leaving: bool },
    Delete,
}

/// Why it is not held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Trouble {
    #[default]
    None,
    Forbidden(String),
    Other(String),
}

impl Own {
    pub(super) fn holds(&self) -> bool {
        self.sent.is_some()
    }
}

impl Leases {
    fn own_lease(&self) -> LeaseOf {
        LeaseOf::Replica(self.me.name.clone())
    }

    pub(super) fn step_own(&mut self, now: Boot, out: &mut Vec<Request>) {
        if let Some(sent) = self.own.sent {
            self.wake(sent.after(self.settings.duration));
        }
        if self.own.left || self.own.asked.is_some() {
            return;
        }
        if self.leaving && !self.own.holds() {
            // What was lost is others' to end.
            self.own.left = true;
            return;
        }
        let has_nothing = self.held.is_empty() && self.asked.is_empty();
        if self.leaving && has_nothing && self.view.claimed_by(&self.me).next().is_none() {
            let Some(base) = self.own.base.clone() else {
                self.own.left = true;
                return;
            };
            self.ask_own(
                Action::Delete(self.own_lease(), base),
                What::Delete,
                now,
                out,
            );
            return;
        }
        if now < self.own.due {
            self.wake(self.own.due);
            return;
        }
        if self.own.reread {
            self.ask_own(Action::Read(self.own_lease()), What::Read, now, out);
            return;
        }
        let record = Record {
            of: self.own_lease(),
            holder: Some(self.me.clone()),
            term: self.own.term,
            leaving: self.leaving,
            duration: self.settings.duration,
        };
        let write = Action::Write(self.own.base.clone(), record);
        let leaving = self.leaving;
        self.ask_own(write, What::Write { leaving }, now, out);
    }

    fn ask_own(&mut self, action: Action, what: What, now: Boot, out: &mut Vec<Request>) {
        let id = self.ask(action, out);
        self.own.asked = Some(AskedOwn {
            id,
            sent: now,
            what,
        });
    }

    pub(super) fn told_own(&mut self, answer: Answer, now: Boot) {
        let Some(asked) = self.own.asked.take() else {
            return;
        };
        match (asked.what, answer) {
            (What::Delete, Answer::Done(_) | Answer::Conflict) => self.own.left = true,
            // It runs out by itself.
            (What::Delete, _) => self.own.left = true,
            (What::Write { leaving }, Answer::Done(Some(stored))) => {
                self.own.told_leaving = leaving;
                self.renewed(stored, asked.sent, now);
            }
            (What::Read, Answer::Done(found)) => self.reread(found, now),
            (What::Write { .. }, Answer::Done(None) | Answer::Conflict)
            | (What::Read, Answer::Conflict) => {
                // What is refused again after a read is nothing to be hasty about.
                let pause = if self.own.conflicts > 0 {
                    self.settings.retry
                } else {
                    Span(0)
                };
                self.own.conflicts += 1;
                (self.own.reread, self.own.due) = (true, now.after(pause));
            }
            (_, Answer::Forbidden(message)) => {
                self.own.trouble = Trouble::Forbidden(message);
                self.own.due = now.after(self.settings.renew);
            }
            (_, Answer::Lost(message)) => {
                self.own.trouble = Trouble::Other(message);
                self.own.due = now.after(self.settings.retry);
            }
        }
    }

    /// The watch shows the own Lease. Where it was taken away, a read says for certain, before the next renewal would.
    pub(super) fn saw_own(&mut self, found: Option<&Stored>, now: Boot) {
        let mine = found.is_some_and(|stored| {
            let older = is_older(&stored.base, self.own.base.as_ref());
            older || stored.record.holder.as_ref() == Some(&self.me)
        });
        if self.own.holds() && !mine {
            (self.own.reread, self.own.due) = (true, now);
        }
    }

    /// Counted from before it was sent. An answer may come so late that what it granted is over.
    fn renewed(&mut self, stored: Stored, sent: Boot, now: Boot) {
        let of = self.own_lease();
        self.own.base = Some(stored.base.clone());
        self.own.term = stored.record.term;
        self.view.saw(&of, Some(stored), now);
        (self.own.trouble, self.own.rival) = (Trouble::None, None);
        self.own.conflicts = 0;
        self.own.due = sent.after(self.settings.renew);
        if self.leaving && !self.own.told_leaving {
            self.own.due = now;
        }
        if now < sent.after(self.settings.duration) {
            self.own.sent = Some(sent);
            self.own.ever = true;
        } else {
            self.own.due = now;
        }
    }

    /// What a refused renewal found. An own write whose answer was lost is found here, too, and changes nothing.
    fn reread(&mut self, found: Option<Stored>, now: Boot) {
        self.own.reread = false;
        self.own.due = now;
        let Some(stored) = found else {
            self.own.base = None;
            self.lose(now);
            return;
        };
        self.own.term = stored.record.term;
        let holder = stored.record.holder;
        if holder.as_ref() == Some(&self.me) {
            self.own.base = Some(stored.base);
            return;
        }
        self.lose(now);
        self.own.term += 1;
        if let Some(other) = holder
            && self.own.ever
        {
            // A successor of the same name took it: it is left to it unless it stops renewing.
            let over = self.own.rival.as_ref().is_some_and(|(base, since)| {
                *base == stored.base && now >= since.after(stored.record.duration)
            });
            if !over {
                if self
                    .own
                    .rival
                    .as_ref()
                    .is_none_or(|(base, _)| *base != stored.base)
                {
                    self.own.rival = Some((stored.base, now));
                }
                let message = format!("another process runs as replica {}: {other}", self.me.name);
                self.own.trouble = Trouble::Other(message);
                (self.own.reread, self.own.due) = (true, now.after(self.settings.renew));
                return;
            }
        }
        self.own.base = Some(stored.base);
    }
}
