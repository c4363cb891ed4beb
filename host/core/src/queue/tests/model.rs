//! Arbitrary histories against a model that keeps one plain record a key and looks at all of them each time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{super::*, BASE, key};

#[derive(Clone, Debug)]
enum Op {
    Push {
        key: (u32, u8),
        why: Why,
        version: Option<u64>,
        priority: i64,
        not_before: Option<i64>,
    },
    Pop,
    /// Of the running keys, the one at this place. Times are from now.
    Finish {
        which: usize,
        version: Option<u64>,
        again: bool,
        wake: Option<i64>,
        backoff: bool,
    },
    Park(usize),
    Unpark(usize),
    Step(i64),
    SetMapping(u32, usize),
    RemoveMapping(u32),
}

const DONE: Op = Op::Finish {
    which: 0,
    version: None,
    again: false,
    wake: None,
    backoff: false,
};

fn op() -> impl Strategy<Value = Op> {
    let why = prop_oneof![
        4 => Just(Why::Event),
        1 => Just(Why::Initial),
        1 => Just(Why::Resync),
        1 => Just(Why::Swap),
    ];
    let times = || proptest::option::weighted(0.4, -500..6000i64);
    let version = || proptest::option::weighted(0.7, 1..6u64);
    let push = ((1..4u32, 0..4u8), why, version(), -2..3i64, times()).prop_map(
        |(key, why, version, priority, not_before)| Op::Push {
            key,
            why,
            version,
            priority,
            not_before,
        },
    );
    let again = proptest::bool::weighted(0.1);
    let finish = (0..8usize, version(), again, times(), any::<bool>()).prop_map(
        |(which, version, again, wake, backoff)| Op::Finish {
            which,
            version,
            again,
            wake,
            backoff: backoff && wake.is_some(),
        },
    );
    prop_oneof![
        10 => push,
        8 => Just(Op::Pop),
        7 => finish,
        1 => (0..8usize).prop_map(Op::Park),
        1 => (0..8usize).prop_map(Op::Unpark),
        6 => (0..1500i64).prop_map(Op::Step),
        1 => (1..4u32, 1..4usize).prop_map(|(mapping, cap)| Op::SetMapping(mapping, cap)),
        1 => (1..4u32).prop_map(Op::RemoveMapping),
    ]
}

/// What is known of one key.
#[derive(Clone, Debug, Default)]
struct Record {
    running: bool,
    parked: bool,
    /// From when a pass is owed.
    owed: Option<Time>,
    forced: bool,
    not_before: Option<Time>,
    wake: Option<Time>,
    backoff: bool,
    early: Option<Time>,
    /// Versions of the events of a running key.
    pending: Vec<Option<u64>>,
}

impl Record {
    fn from(&self) -> Option<Time> {
        let at = [self.owed, self.wake].into_iter().flatten().min()?;
        Some(self.not_before.map_or(at, |not_before| at.max(not_before)))
    }

    /// When an event may run.
    fn early(&self, now: Time) -> Time {
        match self.early {
            Some(early) if self.backoff => now.max(early.after(BASE)),
            _ => now,
        }
    }
}

#[derive(Debug)]
struct Model {
    now: Time,
    cap: usize,
    /// Cap of each known mapping.
    mappings: BTreeMap<u32, usize>,
    keys: BTreeMap<(u32, u8), Record>,
}

fn real(of: (u32, u8)) -> Key {
    key(of.0, &of.1.to_string())
}

impl Model {
    fn running(&self, of: impl Fn(&(u32, u8), &Record) -> bool) -> Vec<(u32, u8)> {
        let runs = self
            .keys
            .iter()
            .filter(|(key, record)| record.running && of(key, record));
        runs.map(|(key, _)| *key).collect()
    }

    fn at(&self, which: usize) -> Option<(u32, u8)> {
        let running = self.running(|_, _| true);
        (!running.is_empty()).then(|| running[which % running.len()])
    }

    /// Keys that may run now.
    fn candidates(&self) -> Vec<(u32, u8)> {
        if self.running(|_, record| !record.parked).len() >= self.cap {
            return Vec::new();
        }
        let free = |mapping: u32| {
            let busy = self.running(|key, record| key.0 == mapping && !record.parked);
            let outside = self.running(|key, record| key.0 == mapping && record.parked);
            self.mappings
                .get(&mapping)
                .is_some_and(|cap| busy.len() < *cap && outside.len() < cap * PARKED_PER_SLOT)
        };
        let ready =
            |record: &Record| !record.running && record.from().is_some_and(|at| at <= self.now);
        let candidates = self
            .keys
            .iter()
            .filter(|(key, record)| free(key.0) && ready(record));
        candidates.map(|(key, _)| *key).collect()
    }

    fn push(&mut self, key: (u32, u8), push: Push) {
        if !self.mappings.contains_key(&key.0) {
            return;
        }
        let now = self.now;
        let record = self.keys.entry(key).or_default();
        record.not_before = push.not_before;
        record.forced |= push.why == Why::Resync;
        let about_the_object = matches!(push.why, Why::Event | Why::Initial);
        if record.running {
            record
                .pending
                .push(push.version.filter(|_| about_the_object));
            return;
        }
        let at = if about_the_object {
            record.early(now)
        } else {
            now
        };
        record.owed = Some(record.owed.map_or(at, |owed| owed.min(at)));
    }

    /// Whether the call must be made.
    fn run(&mut self, key: (u32, u8)) -> bool {
        let now = self.now;
        let record = self.keys.get_mut(&key).unwrap();
        let woken = record.wake.is_some_and(|wake| wake <= now);
        if woken {
            (record.wake, record.backoff) = (None, false);
        }
        if record.backoff {
            record.early = Some(now);
        }
        (record.owed, record.running) = (None, true);
        std::mem::take(&mut record.forced) || woken
    }

    fn finish(&mut self, key: (u32, u8), finish: Finish) {
        let (now, known) = (self.now, self.mappings.contains_key(&key.0));
        let record = self.keys.get_mut(&key).unwrap();
        (record.running, record.parked) = (false, false);
        if !(record.backoff && finish.backoff) {
            record.early = None;
        }
        (record.wake, record.backoff) = (finish.wake, finish.backoff);
        let echo = |event: &Option<u64>| {
            event
                .zip(finish.version)
                .is_some_and(|(event, known)| event <= known)
        };
        let news = record
            .pending
            .drain(..)
            .filter(|event| !echo(event))
            .count()
            > 0;
        if finish.again || record.forced {
            record.owed = Some(now);
        } else if news {
            record.owed = Some(record.early(now));
        }
        if !known || record.from().is_none() {
            self.keys.remove(&key);
        }
    }

    fn remove_mapping(&mut self, mapping: u32) {
        self.mappings.remove(&mapping);
        self.keys
            .retain(|key, record| key.0 != mapping || record.running);
        for (_, record) in self.keys.iter_mut().filter(|(key, _)| key.0 == mapping) {
            *record = Record {
                running: true,
                parked: record.parked,
                ..Record::default()
            };
        }
    }
}

/// One operation on both.
fn apply(op: Op, queue: &mut Queue, model: &mut Model) -> Result<(), TestCaseError> {
    let now = model.now;
    match op {
        Op::Push {
            key,
            why,
            version,
            priority,
            not_before,
        } => {
            let push = Push {
                why,
                version,
                priority,
                not_before: not_before.map(|offset| Time(now.0 + offset)),
            };
            queue.push(&real(key), push, now);
            model.push(key, push);
        }
        Op::Pop => {
            let candidates = model.candidates();
            let Some(job) = queue.pop(now) else {
                prop_assert!(candidates.is_empty(), "not served: {candidates:?}");
                return Ok(());
            };
            let Some(key) = candidates.into_iter().find(|key| real(*key) == job.key) else {
                return Err(TestCaseError::fail(format!("{:?} must not run", job.key)));
            };
            prop_assert!(job.ready_since <= now);
            prop_assert_eq!(model.run(key), job.forced, "{:?}", key);
        }
        Op::Finish {
            which,
            version,
            again,
            wake,
            backoff,
        } => {
            if let Some(key) = model.at(which) {
                let finish = Finish {
                    version,
                    again,
                    wake: wake.map(|offset| Time(now.0 + offset)),
                    backoff,
                };
                queue.finish(&real(key), finish, now);
                model.finish(key, finish);
            }
        }
        Op::Park(which) | Op::Unpark(which) => {
            if let Some(key) = model.at(which) {
                let park = matches!(op, Op::Park(_));
                if park {
                    queue.park(&real(key));
                } else {
                    queue.unpark(&real(key));
                }
                model.keys.get_mut(&key).unwrap().parked = park;
            }
        }
        Op::Step(by) => model.now = Time(now.0 + by),
        Op::SetMapping(mapping, cap) => {
            queue.set_mapping(MappingId(mapping), cap, BASE);
            model.mappings.insert(mapping, cap);
        }
        Op::RemoveMapping(mapping) => {
            queue.remove_mapping(MappingId(mapping));
            model.remove_mapping(mapping);
        }
    }
    Ok(())
}

fn check(ops: impl Iterator<Item = Op>) -> Result<(), TestCaseError> {
    let mut queue = Queue::new(3);
    let mut model = Model {
        now: Time(0),
        cap: 3,
        mappings: BTreeMap::new(),
        keys: BTreeMap::new(),
    };
    // In the end everything that is owed comes.
    let quiet = (0..100).flat_map(|_| [Op::Pop, DONE, Op::Step(400)]);
    for op in ops.chain(quiet) {
        apply(op, &mut queue, &mut model)?;
        prop_assert_eq!(queue.running(), model.running(|_, _| true).len());
        for mapping in 1..4 {
            let depth = queue.depth(MappingId(mapping));
            let keys = model.keys.keys().filter(|key| key.0 == mapping).count();
            let found = depth.ready + depth.scheduled + depth.running;
            prop_assert_eq!(found, keys, "keys of {}", mapping);
        }
    }
    prop_assert!(model.keys.is_empty(), "left behind: {:?}", model.keys);
    prop_assert_eq!(queue.next_time(), None);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Nothing is dropped, nothing runs twice at once, nothing runs that is not owed, and all that may run does.
    #[test]
    fn the_queue_does_what_a_plain_list_would(
        caps in proptest::collection::vec(1..3usize, 3),
        ops in proptest::collection::vec(op(), 0..120),
    ) {
        let mappings = (1..).zip(caps).map(|(mapping, cap)| Op::SetMapping(mapping, cap));
        check(mappings.chain(ops))?;
    }
}
