//! The queue's rules one by one; `model` compares it with a simple one over arbitrary histories.

mod model;
mod order;
mod times;

use super::*;
use Why::{Event, Initial, Resync, Swap};

const BASE: Span = Span::from_secs(1);

fn key(mapping: u32, name: &str) -> Key {
    Key {
        mapping: MappingId(mapping),
        object: ObjectKey::new("ns", name),
    }
}

/// A queue with a clock.
struct Bench {
    queue: Queue,
    now: Time,
}

impl Bench {
    fn new(cap: usize, lanes: &[(u32, usize)]) -> Self {
        let mut queue = Queue::new(cap);
        for (mapping, cap) in lanes {
            queue.set_mapping(MappingId(*mapping), *cap, BASE);
        }
        Self {
            queue,
            now: Time(0),
        }
    }

    /// One worker, one mapping.
    fn one() -> Self {
        Self::new(1, &[(1, 1)])
    }

    fn at(&mut self, seconds: i64) -> &mut Self {
        self.now = Time(seconds * 1000);
        self
    }

    fn push(&mut self, name: &str, why: Why, priority: i64, not_before: Option<i64>) -> &mut Self {
        self.push_version(name, why, None, priority, not_before)
    }

    fn push_version(
        &mut self,
        name: &str,
        why: Why,
        version: Option<u64>,
        priority: i64,
        not_before: Option<i64>,
    ) -> &mut Self {
        let push = Push {
            why,
            version,
            priority,
            not_before: not_before.map(|seconds| Time(seconds * 1000)),
        };
        self.queue.push(&key(1, name), push, self.now);
        self
    }

    fn event(&mut self, name: &str) -> &mut Self {
        self.push(name, Event, 0, None)
    }

    fn pop(&mut self) -> Option<String> {
        self.queue
            .pop(self.now)
            .map(|job| job.key.object.name().to_owned())
    }

    fn finish(&mut self, name: &str, finish: Finish) -> &mut Self {
        self.queue.finish(&key(1, name), finish, self.now);
        self
    }

    /// Failed; to be tried again at the latest then.
    fn failed(&mut self, name: &str, seconds: i64) -> &mut Self {
        let finish = Finish {
            wake: Some(Time(seconds * 1000)),
            backoff: true,
            ..Finish::default()
        };
        self.finish(name, finish)
    }

    /// Pops and finishes until nothing may run.
    fn drain(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(name) = self.pop() {
            self.finish(&name, Finish::default());
            names.push(name);
        }
        names
    }
}

/// shell-operator#212: the initial list and live events wait in different queues.
#[test]
fn events_of_one_key_coalesce_into_one_pass() {
    let mut bench = Bench::one();
    bench.push("a", Initial, 0, None).event("a").event("a");
    bench.push("a", Resync, 0, None);
    assert_eq!(bench.drain(), ["a"]);
    assert_eq!(bench.queue.depth(MappingId(1)), Depth::default());
}

/// KubeOps: a hot object waits for its lock while it holds a worker. Here it is marked, and the slot serves others.
#[test]
fn a_key_that_runs_is_not_run_again_and_holds_up_nobody() {
    let mut bench = Bench::new(2, &[(1, 2)]);
    bench.event("a");
    assert_eq!(bench.pop().as_deref(), Some("a"));
    bench.event("a").event("a").event("b");
    assert_eq!(bench.pop().as_deref(), Some("b"));
    assert_eq!(bench.pop(), None);
    bench.finish("a", Finish::default());
    assert_eq!(bench.pop().as_deref(), Some("a"), "exactly once more");
    bench
        .finish("a", Finish::default())
        .finish("b", Finish::default());
    assert_eq!(bench.drain(), [""; 0]);
}

/// kube-rs#1768, node-readiness-controller#213: a filter by generation hides what happens meanwhile.
#[test]
fn during_a_pass_news_is_told_from_an_echo_by_its_version() {
    for (events, known, again) in [
        (vec![Some(5)], Some(5), false),
        (vec![Some(4), Some(5)], Some(5), false),
        (vec![Some(6)], Some(5), true),
        (vec![Some(6), Some(5)], Some(5), true),
        (vec![None], Some(5), true),
        (vec![Some(5), None], Some(5), true),
        (vec![Some(5)], None, true),
        (vec![], Some(5), false),
    ] {
        let mut bench = Bench::one();
        bench.event("a").pop();
        for version in &events {
            bench.push_version("a", Event, *version, 0, None);
        }
        bench.finish(
            "a",
            Finish {
                version: known,
                ..Finish::default()
            },
        );
        assert_eq!(bench.pop().is_some(), again, "{events:?} against {known:?}");
    }
}

#[test]
fn a_swap_or_a_resync_during_a_pass_is_news_whatever_version_it_names() {
    for (why, forced) in [(Swap, false), (Resync, true)] {
        let mut bench = Bench::one();
        bench.event("a").pop();
        bench.push_version("a", why, Some(5), 0, None);
        let finish = Finish {
            version: Some(5),
            wake: Some(Time(9_000_000)),
            ..Finish::default()
        };
        bench.finish("a", finish);
        let job = bench.queue.pop(bench.now).expect("lost");
        assert_eq!(job.forced, forced, "{why:?}");
    }
}

/// metacontroller#1252: a filter swallows resyncs.
#[test]
fn a_resync_and_a_wake_that_has_come_force_the_call_and_events_do_not() {
    let mut bench = Bench::one();
    let forced = |bench: &mut Bench| bench.queue.pop(bench.now).map(|job| job.forced);
    bench.event("a");
    assert_eq!(forced(&mut bench), Some(false));
    bench.finish(
        "a",
        Finish {
            wake: Some(Time(5000)),
            ..Finish::default()
        },
    );
    assert_eq!(bench.queue.next_time(), Some(Time(5000)));
    bench.at(5);
    assert_eq!(forced(&mut bench), Some(true), "its time has come");
    bench.finish(
        "a",
        Finish {
            wake: Some(Time(9000)),
            ..Finish::default()
        },
    );
    bench.at(8).event("a").at(10);
    assert_eq!(
        forced(&mut bench),
        Some(true),
        "an event stood in the way of it"
    );
    bench.finish(
        "a",
        Finish {
            wake: Some(Time(1000)),
            ..Finish::default()
        },
    );
    assert_eq!(forced(&mut bench), Some(true), "it had come already");
    bench
        .finish("a", Finish::default())
        .push("a", Resync, 0, None);
    assert_eq!(forced(&mut bench), Some(true));
}

/// kube-rs Controller: concurrency without a bound by default.
#[test]
fn no_more_keys_run_than_the_caps_allow_and_a_parked_one_gives_its_slot_back() {
    let mut bench = Bench::new(3, &[(1, 2), (2, 5)]);
    for mapping in [1, 2] {
        for name in ["a", "b", "c", "d"] {
            let push = Push {
                why: Event,
                version: None,
                priority: 0,
                not_before: None,
            };
            bench.queue.push(&key(mapping, name), push, bench.now);
        }
    }
    let popped: Vec<_> = std::iter::from_fn(|| bench.queue.pop(bench.now))
        .map(|job| job.key)
        .collect();
    assert_eq!(popped, [key(1, "a"), key(2, "a"), key(1, "b")]);
    bench.queue.park(&key(1, "a"));
    let job = bench.queue.pop(bench.now).unwrap();
    assert_eq!(job.key, key(2, "b"));
    assert_eq!(bench.queue.running(), 4);
    bench.queue.park(&key(1, "b"));
    bench.queue.unpark(&key(1, "a"));
    assert_eq!(bench.queue.pop(bench.now), None);
    bench
        .queue
        .finish(&key(1, "a"), Finish::default(), bench.now);
    bench
        .queue
        .finish(&key(1, "b"), Finish::default(), bench.now);
    assert_eq!(bench.queue.pop(bench.now).unwrap().key, key(1, "c"));
    assert_eq!(
        bench.queue.depth(MappingId(1)),
        Depth {
            ready: 1,
            scheduled: 0,
            running: 1
        }
    );
}

#[test]
fn a_removed_mapping_takes_its_keys_along_and_what_runs_of_it_keeps_slot_and_lock() {
    let mut bench = Bench::one();
    bench.event("a").pop();
    bench.event("a").event("b").push("c", Event, 0, Some(60));
    bench.queue.remove_mapping(MappingId(1));
    bench.event("d");
    assert_eq!((bench.queue.next_time(), bench.queue.running()), (None, 1));
    // It comes back under the same number before the pass has ended.
    bench.queue.set_mapping(MappingId(1), 2, BASE);
    bench.event("a").event("b");
    assert_eq!(bench.pop(), None, "the one slot is taken");
    bench.finish("a", Finish::default());
    assert_eq!(bench.drain(), ["a", "b"]);
    bench.event("a").pop();
    bench.event("a");
    bench.queue.remove_mapping(MappingId(1));
    bench.failed("a", 5);
    assert_eq!((bench.queue.next_time(), bench.queue.running()), (None, 0));
}

#[test]
fn keys_of_unknown_mappings_and_finishes_of_keys_that_do_not_run_are_ignored() {
    let mut bench = Bench::one();
    let push = Push {
        why: Event,
        version: None,
        priority: 0,
        not_before: None,
    };
    bench.queue.push(&key(9, "x"), push, bench.now);
    assert_eq!(bench.pop(), None);
    bench.event("a").finish(
        "a",
        Finish {
            wake: Some(Time(99_000)),
            ..Finish::default()
        },
    );
    bench.queue.park(&key(1, "a"));
    bench.queue.unpark(&key(1, "a"));
    assert_eq!(bench.drain(), ["a"]);
}
