//! Whose call is next. A pure value: it is told what waits and what ended, and says what may begin.
//!
//! Mappings take turns, and one whose calls are slow never gets the last free thread.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// A call longer than this makes its mapping a slow one until a shorter one.
const SLOW: Duration = Duration::from_millis(100);

/// The calls of one mapping.
struct Lane<Call> {
    waiting: VecDeque<Call>,
    running: usize,
    slow: bool,
    /// Nobody waits for its calls: it is held back as a slow one is.
    aside: bool,
}

/// All calls that wait or run.
pub(super) struct Turns<Call> {
    threads: usize,
    lanes: BTreeMap<Arc<str>, Lane<Call>>,
    /// The mapping that was served last.
    turn: Option<Arc<str>>,
    running: usize,
}

impl<Call> Turns<Call> {
    /// For so many threads.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads,
            lanes: BTreeMap::new(),
            turn: None,
            running: 0,
        }
    }

    /// Another call of a mapping, or `aside` of the calls that nobody waits for.
    pub(super) fn push(&mut self, mapping: &str, aside: bool, call: Call) {
        let lane = self.lanes.entry(mapping.into()).or_insert_with(|| Lane {
            waiting: VecDeque::new(),
            running: 0,
            slow: false,
            aside,
        });
        lane.waiting.push_back(call);
    }

    /// The call that a free thread makes now, and its mapping.
    pub(super) fn take(&mut self) -> Option<(Arc<str>, Call)> {
        let last = self.running + 1 >= self.threads;
        let can = |lane: &Lane<Call>| {
            let held_back = (lane.slow || lane.aside) && last;
            !held_back && !lane.waiting.is_empty()
        };
        let turn = self.turn.clone();
        let after = |name: &&Arc<str>| turn.as_ref().is_none_or(|turn| *name > turn);
        let mut able = self
            .lanes
            .iter()
            .filter(|(_, lane)| can(lane))
            .map(|(name, _)| name);
        let first = able.clone().next()?.clone();
        let name = able.find(after).cloned().unwrap_or(first);
        let lane = self.lanes.get_mut(&name)?;
        let call = lane.waiting.pop_front()?;
        lane.running += 1;
        self.running += 1;
        self.turn = Some(name.clone());
        Some((name, call))
    }

    /// A call of a mapping is over.
    pub(super) fn done(&mut self, mapping: &str, took: Duration) {
        self.running -= 1;
        if let Some(lane) = self.lanes.get_mut(mapping) {
            lane.running -= 1;
            lane.slow = took > SLOW;
            // A slow mapping is remembered until it has shown itself fast; it is one entry.
            if lane.running == 0 && lane.waiting.is_empty() && !lane.slow {
                self.lanes.remove(mapping);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);
    const SHORT: Duration = Duration::from_millis(1);

    fn turns(threads: usize, calls: &[(&str, u32)]) -> Turns<u32> {
        let mut turns = Turns::new(threads);
        for (mapping, call) in calls {
            turns.push(mapping, false, *call);
        }
        turns
    }

    fn took(turns: &mut Turns<u32>) -> Option<(String, u32)> {
        let (mapping, call) = turns.take()?;
        Some((mapping.to_string(), call))
    }

    /// What begins when a thread is free again and again: mapping and call.
    fn one_by_one(turns: &mut Turns<u32>) -> Vec<String> {
        std::iter::from_fn(|| {
            let (mapping, call) = turns.take()?;
            turns.done(&mapping, SHORT);
            Some(format!("{mapping}{call}"))
        })
        .collect()
    }

    #[test]
    fn mappings_take_turns_on_the_threads_and_each_ones_calls_keep_their_order() {
        let calls = [("b", 1), ("a", 1), ("a", 2), ("a", 3), ("c", 1), ("c", 2)];
        let mut turns = turns(2, &calls);
        assert_eq!(one_by_one(&mut turns), ["a1", "b1", "c1", "a2", "c2", "a3"]);
        assert!(turns.lanes.is_empty(), "nothing is remembered of them");
    }

    /// shell-operator: what is slow blocks what is not.
    #[test]
    fn a_slow_mapping_never_gets_the_last_free_thread_and_the_others_always_do() {
        for threads in [2, 3, 8] {
            let mut turns = turns(threads, &[("slow", 0)]);
            assert!(took(&mut turns).is_some());
            turns.done("slow", LONG);
            let more: Vec<_> = (1..=20).map(|call| ("slow", call)).collect();
            for (mapping, call) in more {
                turns.push(mapping, false, call);
            }
            for _ in 1..threads {
                assert_eq!(took(&mut turns).unwrap().0, "slow");
            }
            assert_eq!(took(&mut turns), None, "{threads} threads");
            turns.push("quick", false, 1);
            turns.push("quick", false, 2);
            assert_eq!(took(&mut turns), Some(("quick".into(), 1)));
            // Whichever thread is free next, the last one is not the slow mapping's.
            turns.done("quick", SHORT);
            assert_eq!(took(&mut turns), Some(("quick".into(), 2)));
            turns.done("quick", SHORT);
            assert_eq!(took(&mut turns), None, "{threads} threads");
            turns.done("slow", LONG);
            assert_eq!(took(&mut turns).unwrap().0, "slow");
            assert_eq!(took(&mut turns), None, "{threads} threads");
        }
    }

    #[test]
    fn what_nobody_waits_for_never_gets_the_last_free_thread_however_fast_it_is() {
        let mut turns = turns(2, &[]);
        turns.push("~a", true, 1);
        turns.push("~a", true, 2);
        assert_eq!(took(&mut turns), Some(("~a".into(), 1)));
        assert_eq!(took(&mut turns), None);
        turns.push("a", false, 1);
        assert_eq!(took(&mut turns), Some(("a".into(), 1)));
        turns.done("~a", SHORT);
        assert_eq!(took(&mut turns), None);
        turns.done("a", SHORT);
        assert_eq!(took(&mut turns), Some(("~a".into(), 2)));
    }

    #[test]
    fn a_slow_mapping_is_remembered_while_it_is_idle_and_free_after_one_short_call() {
        let mut turns = turns(2, &[("a", 1)]);
        assert!(took(&mut turns).is_some());
        turns.done("a", LONG);
        turns.push("a", false, 2);
        turns.push("a", false, 3);
        assert!(took(&mut turns).is_some());
        assert_eq!(took(&mut turns), None, "it was idle in between");
        turns.push("a", false, 4);
        turns.done("a", SHORT);
        assert!(took(&mut turns).is_some());
        assert!(took(&mut turns).is_some(), "both threads are its own again");
    }
}
