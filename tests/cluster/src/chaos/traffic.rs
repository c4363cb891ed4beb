//! Edits, new objects and deletions without end.

use crate::proxy::mix;
use crate::scene::Scene;
use crate::workload::{PROVISION_REQUEST, REPORT_JOB, WEBSITE, Workload, name};
use anyhow::Result;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is served, and how many objects of each are there from the beginning.
pub(super) const SERVED: [(&Workload, usize); 3] =
    [(&REPORT_JOB, 200), (&WEBSITE, 15), (&PROVISION_REQUEST, 25)];
/// Who makes changes side by side, and how long each waits between two: about 70 a second together.
const WRITERS: u64 = 7;
const PAUSE: Duration = Duration::from_millis(100);
/// Every so many changes are a new object.
const NEW: u64 = 35;
/// Of so many changes one is of a website, and one of a provision request.
const OTHERS: u64 = 10;
/// Of so many of those one is a deletion.
const GONE: u64 = 12;
/// How often the Deployments' controller looks.
const ROLL_OUT: Duration = Duration::from_millis(500);

/// What is done to the objects meanwhile.
pub(super) struct Traffic<'a> {
    scene: &'a Scene<'a>,
    seed: u64,
    kinds: [Kind; 3],
    changes: AtomicU64,
    stop: AtomicBool,
}

/// The objects of one row.
struct Kind {
    workload: &'static Workload,
    next: AtomicUsize,
    /// Those whose creation was answered with yes, and that were not deleted.
    there: Mutex<BTreeSet<usize>>,
}

impl<'a> Traffic<'a> {
    pub(super) fn new(scene: &'a Scene<'a>, seed: u64) -> Self {
        Self {
            scene,
            seed,
            kinds: SERVED.map(|(workload, _)| Kind {
                workload,
                next: AtomicUsize::new(0),
                there: Mutex::default(),
            }),
            changes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Makes the first objects.
    pub(super) async fn fill(&self) -> Result<()> {
        for (kind, (_, pool)) in self.kinds.iter().zip(SERVED) {
            for _ in 0..pool {
                kind.create(self.scene).await?;
            }
        }
        Ok(())
    }

    /// Changes until it is told to stop. What the API server refuses or does not answer is no change.
    pub(super) async fn run(&self) {
        let writers = (0..WRITERS).map(|writer| self.write(writer));
        futures::future::join(futures::future::join_all(writers), self.roll_out()).await;
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The objects of each row that must be there.
    pub(super) fn there(&self) -> Vec<(&'static Workload, BTreeSet<String>)> {
        let of = |kind: &Kind| {
            (
                kind.workload,
                kind.numbers().iter().map(|n| name(*n)).collect(),
            )
        };
        self.kinds.iter().map(of).collect()
    }

    /// What the Deployments' controller does meanwhile.
    async fn roll_out(&self) {
        let mut ticks = tokio::time::interval(ROLL_OUT);
        while !self.is_over() {
            ticks.tick().await;
            // An API server that is away is met again.
            let _ = self.scene.roll_out().await;
        }
    }

    async fn write(&self, writer: u64) {
        let mut ticks = tokio::time::interval(PAUSE);
        for count in 0_u64.. {
            ticks.tick().await;
            if self.is_over() {
                return;
            }
            let draw = mix(self.seed ^ mix(writer << 32 | count));
            let round = usize::try_from(count * WRITERS + writer).unwrap_or_default();
            let changed = self.change(draw, round).await;
            self.changes
                .fetch_add(u64::from(changed.is_ok()), Ordering::Relaxed);
        }
    }

    async fn change(&self, draw: u64, round: usize) -> Result<()> {
        let (of, draw) = (draw % OTHERS, draw / OTHERS);
        let [reports, websites, requests] = &self.kinds;
        let (kind, may_go) = match of {
            0 => (websites, true),
            1 => (requests, true),
            _ => (reports, false),
        };
        if draw.is_multiple_of(NEW) {
            return kind.create(self.scene).await;
        }
        if may_go && draw.is_multiple_of(GONE) {
            return kind.delete(self.scene, draw / GONE).await;
        }
        let Some(number) = kind.one(draw / NEW) else {
            return kind.create(self.scene).await;
        };
        kind.workload.edit(self.scene, number, round).await
    }
}

impl Kind {
    fn numbers(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of those that are there.
    fn one(&self, draw: u64) -> Option<usize> {
        let numbers = self.numbers();
        let at = draw % numbers.len().max(1) as u64;
        numbers.iter().nth(usize::try_from(at).ok()?).copied()
    }

    async fn create(&self, scene: &Scene<'_>) -> Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.workload.create(scene, number).await?;
        self.numbers().insert(number);
        Ok(())
    }

    /// One that is replaced: as many stay.
    async fn delete(&self, scene: &Scene<'_>, draw: u64) -> Result<()> {
        let Some(number) = self.one(draw) else {
            return Ok(());
        };
        // Whatever is answered: it need not be there any more.
        self.numbers().remove(&number);
        self.workload.delete(scene, number).await?;
        self.create(scene).await
    }
}
