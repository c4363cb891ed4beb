//! One key: where it stands, and when it may run.

use super::{AGEING, BACKGROUND, Why};
use crate::{time::Time, units::Span};

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) forced: bool,
    pub(super) priority: i64,
    pub(super) not_before: Option<Time>,
    /// The time a pass asked for.
    pub(super) wake: Option<Time>,
    pub(super) backoff: bool,
    /// When the backoff was last cut short.
    pub(super) last_early: Option<Time>,
    /// Came while the key ran: the newest version, or that it had none.
    pub(super) pending: Option<Pending>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// None: certainly news.
    pub(super) version: Option<u64>,
    pub(super) background: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing to do; the entry is about to go.
    #[default]
    Idle,
    /// Stands in `ready` of its mapping under this order.
    Ready {
        order: i64,
        since: Time,
        background: bool,
    },
    /// Stands in `scheduled` under this time; without `not_before` it would be `owed`.
    Scheduled {
        at: Time,
        owed: Time,
        background: bool,
    },
    /// Is being passed; `parked` gave its slot back.
    Running { parked: bool },
}

impl Entry {
    /// When a push for this reason may run.
    pub(super) fn earliest(&self, why: Why, base: Span, now: Time) -> Time {
        let mut at = now;
        if self.backoff && why.is_about_the_object() {
            // Backoff answers a fault: events run early, but do not turn it into a hot loop. What counts is the early pass
            // and not the events that lead to it.
            if let Some(early) = self.last_early {
                at = at.max(early.after(base));
            }
        }
        match self.wake {
            Some(wake) => at.min(wake.max(now)),
            None => at,
        }
    }

    /// Once the time it asked for has come, the memo has no say.
    pub(super) fn consume_wake(&mut self, now: Time) {
        if self.wake.is_some_and(|wake| wake <= now) {
            self.forced = true;
            (self.wake, self.backoff) = (None, false);
        }
    }
}

/// Lower goes first: the time it was ready, moved by what priority and background are worth in waiting.
pub(super) fn ordered(since: Time, priority: i64, background: bool) -> i64 {
    let worth = priority.saturating_mul(AGEING.0 as i64);
    let behind = if background { BACKGROUND.0 as i64 } else { 0 };
    since.0.saturating_sub(worth).saturating_add(behind)
}
