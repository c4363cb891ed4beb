//! Which object is passed next. A pure value: it is told events, results and the time, and says what may run.
//!
//! What it guarantees:
//! - Nothing is dropped. Events of one key coalesce, one key never runs twice at once, an event during a pass leads to exactly
//!   one further pass, and to none if the pass already knew of it (its own echo).
//! - Higher priority first within a mapping. Waiting raises it: an object that waits [`AGEING`] longer goes before one of the
//!   next higher priority, so nothing starves (controller-runtime#3496). Initial lists and resyncs stand [`BACKGROUND`] behind
//!   live events and age like everything else.
//! - Mappings take turns and are capped, so a slow or failing plugin cannot starve others.
//! - A wake is "at the latest": an event runs at once. During backoff at most one in `retry.base` does, and leaves the deadline.

mod entry;
mod words;

use std::collections::{BTreeMap, BTreeSet};

pub use words::*;

use crate::{object::ObjectKey, time::Time, units::Span};
use entry::{Entry, Pending, State, ordered};

/// What one level of priority is worth in waiting.
pub const AGEING: Span = Span::from_secs(60);
/// What a live event is worth against an initial list or a resync, in waiting.
pub const BACKGROUND: Span = Span::from_secs(10);
/// Keys of a mapping that may wait outside for each one that may run. They hold no slot, but those behind them wait in the
/// order they came and not by priority; so there are not too many of them.
pub const PARKED_PER_SLOT: usize = 4;
/// Priorities beyond this make no difference.
const MAX_PRIORITY: i64 = 1_000_000;

#[derive(Debug)]
struct Lane {
    cap: usize,
    base: Span,
    /// The mapping is no more; what runs of it still holds its slots and its locks.
    removed: bool,
    ready: BTreeSet<(i64, ObjectKey)>,
    running: usize,
    parked: usize,
    keys: BTreeMap<ObjectKey, Entry>,
}

/// All keys that have something to do.
#[derive(Debug)]
pub struct Queue {
    cap: usize,
    running: usize,
    lanes: BTreeMap<MappingId, Lane>,
    scheduled: BTreeSet<(Time, Key)>,
    /// The mapping that was served last.
    turn: MappingId,
}

impl Queue {
    /// An empty queue that lets at most `cap` keys run at once.
    pub fn new(cap: usize) -> Self {
        Self {
            cap,
            running: 0,
            lanes: BTreeMap::new(),
            scheduled: BTreeSet::new(),
            turn: MappingId(0),
        }
    }

    /// Adds a mapping, or changes its cap and backoff base. Keys of unknown mappings are not taken.
    pub fn set_mapping(&mut self, mapping: MappingId, cap: usize, base: Span) {
        let lane = self.lanes.entry(mapping).or_insert_with(|| Lane {
            cap,
            base,
            removed: false,
            ready: BTreeSet::new(),
            running: 0,
            parked: 0,
            keys: BTreeMap::new(),
        });
        (lane.cap, lane.base, lane.removed) = (cap.max(1), base, false);
    }

    /// Forgets a mapping and its keys. Those that run hold their slots to the end and leave nothing behind; should the mapping
    /// come back before, they are still locked.
    pub fn remove_mapping(&mut self, mapping: MappingId) {
        let Some(lane) = self.lanes.get_mut(&mapping) else {
            return;
        };
        self.scheduled.retain(|(_, key)| key.mapping != mapping);
        lane.removed = true;
        lane.ready.clear();
        lane.keys
            .retain(|_, entry| matches!(entry.state, State::Running { .. }));
        for entry in lane.keys.values_mut() {
            *entry = Entry {
                state: entry.state,
                ..Entry::default()
            };
        }
        if lane.keys.is_empty() {
            self.lanes.remove(&mapping);
        }
    }

    /// Asks for a pass of a key. Asking again changes only what it adds.
    pub fn push(&mut self, key: &Key, push: Push, now: Time) {
        let Some(lane) = self
            .lanes
            .get_mut(&key.mapping)
            .filter(|lane| !lane.removed)
        else {
            return;
        };
        let base = lane.base;
        let entry = lane.keys.entry(key.object.clone()).or_default();
        (entry.priority, entry.not_before) = (
            push.priority.clamp(-MAX_PRIORITY, MAX_PRIORITY),
            push.not_before,
        );
        entry.forced |= push.why.is_forced();
        let background = push.why.is_background();
        if matches!(entry.state, State::Running { .. }) {
            // A swap or a resync is news to the pass that runs, whatever version of the object it names.
            let version = push.version.filter(|_| push.why.is_about_the_object());
            entry.pending = Some(match entry.pending {
                None => Pending {
                    version,
                    background,
                },
                Some(old) => Pending {
                    version: old.version.zip(version).map(|(a, b)| a.max(b)),
                    background: old.background && background,
                },
            });
            return;
        }
        let at = entry.earliest(push.why, base, now);
        self.place(key, at, background, now);
    }

    /// The next key that may run; it runs from now on.
    pub fn pop(&mut self, now: Time) -> Option<Job> {
        self.due(now);
        if self.running >= self.cap {
            return None;
        }
        let can = |lane: &Lane| {
            let room = lane.running < lane.cap && lane.parked < lane.cap * PARKED_PER_SLOT;
            room && !lane.ready.is_empty()
        };
        let after = self
            .lanes
            .range(MappingId(self.turn.0.saturating_add(1))..)
            .find(|(_, lane)| can(lane));
        let mapping = *after
            .or_else(|| self.lanes.iter().find(|(_, lane)| can(lane)))?
            .0;
        self.turn = mapping;
        let lane = self.lanes.get_mut(&mapping)?;
        let (_, object) = lane.ready.pop_first()?;
        let entry = lane.keys.get_mut(&object)?;
        let since = match entry.state {
            State::Ready { since, .. } => since,
            _ => now,
        };
        entry.consume_wake(now);
        if entry.backoff {
            entry.last_early = Some(now);
        }
        entry.state = State::Running { parked: false };
        let forced = std::mem::take(&mut entry.forced);
        lane.running += 1;
        self.running += 1;
        Some(Job {
            key: Key { mapping, object },
            forced,
            ready_since: since,
        })
    }

    /// The running key waits for something outside: its slot is another's, its lock stays.
    pub fn park(&mut self, key: &Key) {
        self.set_parked(key, true);
    }

    /// The running key goes on; for a moment one more than the cap may run.
    pub fn unpark(&mut self, key: &Key) {
        self.set_parked(key, false);
    }

    fn set_parked(&mut self, key: &Key, park: bool) {
        let Some(lane) = self.lanes.get_mut(&key.mapping) else {
            return;
        };
        let Some(entry) = lane.keys.get_mut(&key.object) else {
            return;
        };
        if entry.state != (State::Running { parked: !park }) {
            return;
        }
        entry.state = State::Running { parked: park };
        if park {
            (lane.running, self.running) = (lane.running - 1, self.running - 1);
            lane.parked += 1;
        } else {
            (lane.running, self.running) = (lane.running + 1, self.running + 1);
            lane.parked -= 1;
        }
    }

    /// The pass of a key is over.
    pub fn finish(&mut self, key: &Key, finish: Finish, now: Time) {
        let Some(lane) = self.lanes.get_mut(&key.mapping) else {
            return;
        };
        let Some(entry) = lane.keys.get_mut(&key.object) else {
            return;
        };
        let State::Running { parked } = entry.state else {
            return;
        };
        if parked {
            lane.parked -= 1;
        } else {
            (lane.running, self.running) = (lane.running - 1, self.running - 1);
        }
        entry.state = State::Idle;
        let base = lane.base;
        if !finish.backoff || !entry.backoff {
            entry.last_early = None;
        }
        (entry.wake, entry.backoff) = (finish.wake.map(|at| at.min(Time::NEVER)), finish.backoff);
        if lane.removed {
            lane.keys.remove(&key.object);
            if lane.keys.is_empty() {
                self.lanes.remove(&key.mapping);
            }
            return;
        }
        let news = entry
            .pending
            .take()
            .filter(|pending| match (pending.version, finish.version) {
                (Some(event), Some(known)) => event > known,
                _ => true,
            });
        let at = match news {
            _ if finish.again || entry.forced => now,
            Some(_) => entry.earliest(Why::Event, base, now),
            None => match entry.wake {
                // A wake that has come already: no age is earned by asking for the past.
                Some(at) => at.max(now),
                None => {
                    lane.keys.remove(&key.object);
                    return;
                }
            },
        };
        let background = news.is_some_and(|pending| pending.background);
        self.place(key, at, background, now);
    }

    /// When [`Queue::pop`] can next say something new, if it says nothing now.
    pub fn next_time(&self) -> Option<Time> {
        self.scheduled.first().map(|(at, _)| *at)
    }

    /// Keys of a mapping that may run now or do; known without counting.
    pub fn busy(&self, mapping: MappingId) -> usize {
        let lane = self.lanes.get(&mapping);
        lane.map_or(0, |lane| lane.ready.len() + lane.running + lane.parked)
    }

    /// How many keys of a mapping are where.
    pub fn depth(&self, mapping: MappingId) -> Depth {
        let Some(lane) = self.lanes.get(&mapping) else {
            return Depth::default();
        };
        let mut depth = Depth {
            ready: lane.ready.len(),
            ..Depth::default()
        };
        for entry in lane.keys.values() {
            match entry.state {
                State::Scheduled { .. } => depth.scheduled += 1,
                State::Running { .. } => depth.running += 1,
                State::Ready { .. } | State::Idle => {}
            }
        }
        depth
    }

    /// Keys that run, parked ones included.
    pub fn running(&self) -> usize {
        let runs = |entry: &&Entry| matches!(entry.state, State::Running { .. });
        self.lanes
            .values()
            .map(|lane| lane.keys.values().filter(runs).count())
            .sum()
    }

    /// Moves what is due from the timers to the ready ones.
    fn due(&mut self, now: Time) {
        while let Some((at, key)) = self.scheduled.first().cloned().filter(|(at, _)| *at <= now) {
            let background = match self
                .lanes
                .get_mut(&key.mapping)
                .and_then(|lane| lane.keys.get_mut(&key.object))
            {
                Some(entry) => {
                    entry.consume_wake(now);
                    matches!(
                        entry.state,
                        State::Scheduled {
                            background: true,
                            ..
                        }
                    )
                }
                None => false,
            };
            self.scheduled.remove(&(at, key.clone()));
            self.place(&key, at, background, now);
        }
    }

    /// Puts a key that does not run where it belongs for time `at`; it never moves to a later place.
    fn place(&mut self, key: &Key, at: Time, background: bool, now: Time) {
        let Some(lane) = self.lanes.get_mut(&key.mapping) else {
            return;
        };
        let Some(entry) = lane.keys.get_mut(&key.object) else {
            return;
        };
        let (mut at, mut background, mut stood) = (at, background, None);
        match entry.state {
            State::Ready {
                order,
                since: before,
                background: was,
            } => {
                lane.ready.remove(&(order, key.object.clone()));
                stood = Some(before);
                at = at.min(now);
                // A live event lifts it, background never lowers it.
                background &= was;
            }
            State::Scheduled {
                at: before,
                owed,
                background: was,
            } => {
                self.scheduled.remove(&(before, key.clone()));
                if owed <= at {
                    (at, background) = (owed, background && was);
                }
            }
            State::Idle | State::Running { .. } => {}
        }
        let owed = at;
        if let Some(not_before) = entry.not_before {
            at = at.max(not_before);
        }
        if at > now {
            entry.state = State::Scheduled {
                at,
                owed,
                background,
            };
            self.scheduled.insert((at, key.clone()));
            return;
        }
        // What was due while nobody asked has waited since then.
        let since = stood.unwrap_or(at);
        let order = ordered(since, entry.priority, background);
        entry.state = State::Ready {
            order,
            since,
            background,
        };
        lane.ready.insert((order, key.object.clone()));
    }
}

#[cfg(test)]
mod tests;
