//! The breaker: a plugin whose writes never settle is stopped, and says so.
//!
//! Own writes to the object and its children are counted as long as its generation stays the same. More of them than the
//! mapping allows, and the object is stalled, `NotConverging`; one probe in a while shows whether it still is.

use super::{Finale, Pace, Pass, Step};
use crate::{contract::Cause, outcome::Outcome, time::Time, units::Span};

impl Pass {
    /// The step that stops this pass, if the object's passes do not converge.
    pub(super) fn stopped(&mut self, now: Time) -> Option<Step> {
        let breaker = self.terms.mapping.mapping.breaker;
        let fresh = self.carry.pace.generation != self.generation() || self.token.is_some();
        if fresh {
            self.carry.pace = Pace::default();
            return None;
        }
        let pace = &self.carry.pace;
        if let Some(at) = pace.probe {
            // Its time has come: one pass may show that it settles.
            return (now < at).then(|| self.end(Outcome::Stalled, None, Some(at)));
        }
        let allowed = usize::try_from(breaker.writes).unwrap_or(usize::MAX);
        if pace.writes.len() <= allowed {
            return None;
        }
        let at = now.after(breaker.per);
        self.carry.pace.probe = Some(at);
        let why = format!(
            "the plugin keeps changing what it wrote: more than {} writes in {} without a new generation; it is tried once in {}. Let its decision depend on spec and status alone, and end in the same decision for the same observation",
            breaker.writes, breaker.per, breaker.per
        );
        self.journal.retry = None;
        let mut finale = Finale::trouble(Outcome::Stalled, Cause::new("NotConverging", why), None);
        finale.wake = Some(at);
        Some(self.finish(finale, now))
    }

    /// Those of this pass: each write of the object, and one for all children that were changed or removed, however many there
    /// are. Making them does not count.
    fn counted_writes(&self) -> u32 {
        self.object_writes + self.child_writes.min(1)
    }

    /// The writes of late, those of this pass included.
    pub(super) fn pace(&self) -> Pace {
        let breaker = self.terms.mapping.mapping.breaker;
        let mine = self.counted_writes();
        let before = &self.carry.pace;
        if before.probe.is_some() {
            return self.probed(before, breaker.per);
        }
        let mut pace = if before.generation == self.generation() {
            before.clone()
        } else {
            Pace::default()
        };
        pace.generation = self.generation();
        pace.writes.retain(|at| at.after(breaker.per) > self.began);
        let most = usize::try_from(breaker.writes)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        for _ in 0..mine {
            if pace.writes.len() < most {
                pace.writes.push_back(self.began);
            }
        }
        pace
    }

    /// A probe that wrote nothing of the plugin's shows that it settles; any other puts the next one off.
    fn probed(&self, before: &Pace, per: Span) -> Pace {
        let due = before.probe.is_some_and(|at| at <= self.began);
        if !due {
            return before.clone();
        }
        // One write may be the acknowledgement that takes the condition off again; a second and third in a row are not.
        if self.counted_writes() <= 1 {
            let allowed = self.terms.mapping.mapping.breaker.writes;
            let spent = usize::try_from(allowed.saturating_sub(1)).unwrap_or(0);
            return Pace {
                generation: self.generation(),
                writes: std::iter::repeat_n(self.began, spent).collect(),
                probe: None,
            };
        }
        Pace {
            probe: Some(self.began.after(per)),
            ..before.clone()
        }
    }
}
