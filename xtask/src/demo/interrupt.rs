//! Ctrl-C and SIGTERM: the first asks the demo to clean up, the second ends it where it stands.

use anyhow::Result;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Somebody asked to end.
#[derive(Debug)]
pub(super) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Whether somebody has asked to end; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on.
    pub(super) fn listen(runtime: &Runtime) -> Self {
        let interrupt = Self::default();
        let asked = interrupt.0.clone();
        runtime.spawn(async move {
            let (Ok(mut interrupt), Ok(mut terminate)) = (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
            ) else {
                return;
            };
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if asked.swap(true, Ordering::SeqCst) {
                    // Watchdogs end what this process started.
                    std::process::exit(130);
                }
                eprintln!("\nending all that the demo started; once more ends it at once");
            }
        });
        interrupt
    }

    /// # Errors
    /// [`Interrupted`], when somebody has asked.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::SeqCst) {
            return Err(Interrupted.into());
        }
        Ok(())
    }

    /// Waits that long.
    ///
    /// # Errors
    /// [`Interrupted`], as soon as somebody asks.
    pub(super) fn pause(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}
