//! The threads that plugins run on.
//!
//! A call may use its whole time limit, so it never runs on the async runtime's threads; and a guest's recursion needs a stack
//! whose size is known (wasmtime#9304). There are as many threads as the sandbox has slots: more would only wait for one.
//!
//! Mappings take turns, and one whose calls are slow never gets the last free thread: a plugin that loops costs its own
//! mapping, not the others.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use guesthouse_core::{
    contract::Observation,
    limits::Limits,
    refusal::{Refusal, RefusalKind},
};
use guesthouse_sandbox::{CALL_STACK, Called, Plugin, Used, Verb};
use tokio::sync::oneshot;

/// A call longer than this makes its mapping a slow one until a shorter one.
const SLOW: Duration = Duration::from_millis(100);

/// One call to make.
pub(crate) struct Work {
    pub(crate) plugin: Plugin,
    pub(crate) verb: Verb,
    pub(crate) seen: Box<Observation>,
    pub(crate) limits: Limits,
}

type Answer = oneshot::Sender<Called>;

/// The calls of one mapping.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<(Work, Answer)>,
    running: usize,
    slow: bool,
}

#[derive(Default)]
struct State {
    lanes: BTreeMap<Arc<str>, Lane>,
    /// The mapping that was served last.
    turn: Option<Arc<str>>,
    running: usize,
    ended: bool,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    threads: usize,
}

/// The threads; they end with this.
pub(crate) struct Executor(Arc<Shared>);

impl Executor {
    /// Starts `threads` threads, two at least: one of them is never a slow mapping's.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(2);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            threads,
        });
        for index in 0..threads {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("guest-{index}"))
                // Room for the guest and for what the host does above it.
                .stack_size(CALL_STACK + (2 << 20))
                .spawn(move || serve(&shared))?;
        }
        Ok(Self(shared))
    }

    /// One call for a mapping; waits for its turn.
    pub(crate) async fn call(&self, mapping: &str, work: Work) -> Called {
        let (answer, called) = oneshot::channel();
        {
            let mut state = self.0.lock();
            let lane = state.lanes.entry(mapping.into()).or_default();
            lane.waiting.push_back((work, answer));
        }
        self.0.work.notify_one();
        called.await.unwrap_or_else(|_| Called {
            result: Err(Refusal::new(
                RefusalKind::Host,
                "the thread that ran the plugin ended; see the host's log",
            )),
            logs: Vec::new(),
            dropped_logs: 0,
            used: Used::default(),
        })
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.work.notify_all();
    }
}

impl Shared {
    // A panic while the lock is held leaves counters at worst one off: a poisoned lock is as good as another.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call and its mapping; none when the executor ends.
    fn next(&self) -> Option<(Arc<str>, Work, Answer)> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(next) = state.take(self.threads) {
                return Some(next);
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, mapping: &str, took: Duration) {
        let mut state = self.lock();
        state.running -= 1;
        if let Some(lane) = state.lanes.get_mut(mapping) {
            lane.running -= 1;
            lane.slow = took > SLOW;
            // A slow mapping is remembered until it has shown itself fast; it is one entry.
            if lane.running == 0 && lane.waiting.is_empty() && !lane.slow {
                state.lanes.remove(mapping);
            }
        }
        drop(state);
        // What waited for a thread that a slow mapping may not have can go on now.
        self.work.notify_all();
    }
}

impl State {
    fn take(&mut self, threads: usize) -> Option<(Arc<str>, Work, Answer)> {
        let last = self.running + 1 >= threads;
        let can = |lane: &Lane| {
            let held_back = lane.slow && last;
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
        let (work, answer) = lane.waiting.pop_front()?;
        lane.running += 1;
        self.running += 1;
        self.turn = Some(name.clone());
        Some((name, work, answer))
    }
}

fn serve(shared: &Shared) {
    while let Some((mapping, work, answer)) = shared.next() {
        let began = Instant::now();
        let call = || work.plugin.call(work.verb, &work.seen, &work.limits);
        // A panic of ours costs this call, not the thread: the sender is dropped and the caller is told.
        let called = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        shared.done(&mapping, began.elapsed());
        if let Ok(called) = called {
            let _ = answer.send(called);
        }
    }
}
