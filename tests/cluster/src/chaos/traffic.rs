//! Edits and new objects without end.

use crate::proxy::mix;
use crate::scene::Scene;
use crate::workload::{REPORT_JOB, name};
use anyhow::Result;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Objects that are there from the beginning.
const POOL: usize = 200;
/// Who makes changes side by side, and how long each waits between two: about 70 a second together.
const WRITERS: u64 = 7;
const PAUSE: Duration = Duration::from_millis(100);
/// Every so many changes are a new object.
const NEW: u64 = 35;

/// What is done to the objects meanwhile.
pub(super) struct Traffic<'a> {
    scene: &'a Scene<'a>,
    seed: u64,
    next: AtomicUsize,
    created: Mutex<BTreeSet<String>>,
    changes: AtomicU64,
    stop: AtomicBool,
}

impl<'a> Traffic<'a> {
    pub(super) fn new(scene: &'a Scene<'a>, seed: u64) -> Self {
        Self {
            scene,
            seed,
            next: AtomicUsize::new(0),
            created: Mutex::default(),
            changes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Makes the first objects.
    pub(super) async fn fill(&self) -> Result<()> {
        for _ in 0..POOL {
            self.create().await?;
        }
        Ok(())
    }

    /// Changes until it is told to stop. What the API server refuses or does not answer is no change.
    pub(super) async fn run(&self) {
        let writers = (0..WRITERS).map(|writer| self.write(writer));
        futures::future::join_all(writers).await;
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The objects whose creation was answered with yes.
    pub(super) fn created(&self) -> BTreeSet<String> {
        self.created
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn create(&self) -> Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        REPORT_JOB.create(self.scene, number).await?;
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        created.insert(name(number));
        Ok(())
    }

    async fn write(&self, writer: u64) {
        let mut ticks = tokio::time::interval(PAUSE);
        for count in 0_u64.. {
            ticks.tick().await;
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let draw = mix(self.seed ^ mix(writer << 32 | count));
            let there = self.next.load(Ordering::Relaxed).max(1) as u64;
            let changed = match draw.is_multiple_of(NEW) {
                true => self.create().await,
                false => {
                    let number = usize::try_from(draw / NEW % there).unwrap_or_default();
                    let round = usize::try_from(count * WRITERS + writer).unwrap_or_default();
                    REPORT_JOB.edit(self.scene, number, round).await
                }
            };
            self.changes
                .fetch_add(u64::from(changed.is_ok()), Ordering::Relaxed);
        }
    }
}
