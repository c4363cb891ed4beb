//! The threads that plugins run on.
//!
//! A call may use its whole time limit, so it never runs on the async runtime's threads; and a guest's recursion needs a stack
//! whose size is known (wasmtime#9304). There are as many threads as the sandbox has slots: more would only wait for one.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use guesthouse_core::{
    contract::Observation,
    limits::Limits,
    refusal::{Refusal, RefusalKind},
};
use guesthouse_sandbox::{CALL_STACK, Called, Plugin, Used, Verb};
use tokio::sync::oneshot;

struct Work {
    plugin: Plugin,
    verb: Verb,
    seen: Box<Observation>,
    limits: Limits,
    answer: oneshot::Sender<Called>,
}

/// A handle to the threads; they end when the last handle is gone.
#[derive(Clone)]
pub(crate) struct Executor(mpsc::Sender<Work>);

impl Executor {
    /// Starts `threads` threads.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Work>();
        let receiver = Arc::new(Mutex::new(receiver));
        for index in 0..threads.max(1) {
            let receiver = receiver.clone();
            std::thread::Builder::new()
                .name(format!("guest-{index}"))
                // Room for the guest and for what the host does above it.
                .stack_size(CALL_STACK + (2 << 20))
                .spawn(move || serve(&receiver))?;
        }
        Ok(Self(sender))
    }

    /// One call; waits for a free thread.
    pub(crate) async fn call(
        &self,
        plugin: Plugin,
        verb: Verb,
        seen: Box<Observation>,
        limits: Limits,
    ) -> Called {
        let (answer, called) = oneshot::channel();
        let sent = self.0.send(Work {
            plugin,
            verb,
            seen,
            limits,
            answer,
        });
        match (sent, called.await) {
            (Ok(()), Ok(called)) => called,
            _ => Called {
                result: Err(Refusal::new(
                    RefusalKind::Host,
                    "the thread that ran the plugin ended; see the host's log",
                )),
                logs: Vec::new(),
                dropped_logs: 0,
                used: Used::default(),
            },
        }
    }
}

fn serve(receiver: &Mutex<mpsc::Receiver<Work>>) {
    loop {
        let next = receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(work) = next else { return };
        let call = || work.plugin.call(work.verb, &work.seen, &work.limits);
        // A panic of ours costs this call, not the thread: its work's sender is dropped and the caller is told.
        if let Ok(called) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
            let _ = work.answer.send(called);
        }
    }
}
