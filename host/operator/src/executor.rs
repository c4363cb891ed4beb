//! The threads that plugins run on.
//!
//! A call may use its whole time limit, so it never runs on the async runtime's threads; and a guest's recursion needs a stack
//! whose size is known (wasmtime#9304). There are as many threads as the sandbox has slots: more would only wait for one.
//!
//! Mappings take turns, and one whose calls are slow never gets the last free thread: a plugin that loops costs its own
//! mapping, not the others.

mod turns;

use std::{
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
use turns::Turns;

/// One call to make.
pub(crate) struct Work {
    pub(crate) plugin: Plugin,
    pub(crate) verb: Verb,
    pub(crate) seen: Box<Observation>,
    pub(crate) limits: Limits,
}

type Answer = oneshot::Sender<Called>;

struct State {
    turns: Turns<(Work, Answer)>,
    ended: bool,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

/// The threads; they end with this.
pub(crate) struct Executor(Arc<Shared>);

impl Executor {
    /// Starts `threads` threads, two at least: one of them is never a slow mapping's.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(2);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                turns: Turns::new(threads),
                ended: false,
            }),
            work: Condvar::new(),
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
        self.call_in(mapping, false, work).await
    }

    /// One call that nobody waits for: it never gets the last free thread.
    pub(crate) async fn call_aside(&self, mapping: &str, work: Work) -> Called {
        // No mapping is called so.
        self.call_in(&format!("~{mapping}"), true, work).await
    }

    async fn call_in(&self, lane: &str, aside: bool, work: Work) -> Called {
        let (answer, called) = oneshot::channel();
        self.0.lock().turns.push(lane, aside, (work, answer));
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
            if let Some((mapping, (work, answer))) = state.turns.take() {
                return Some((mapping, work, answer));
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, mapping: &str, took: Duration) {
        self.lock().turns.done(mapping, took);
        // What waited for a thread that a slow mapping may not have can go on now.
        self.work.notify_all();
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
