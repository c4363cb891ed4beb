//! How a test is run, and how it waits.

use crate::plane::Plane;
use crate::scene::Scene;
use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long a test waits for one thing: far beyond what anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(90);
/// For what has to sit out the host's own limits, of which the longest is 90 s of silence.
pub(crate) const SLOW: Duration = Duration::from_secs(240);
/// How often it looks.
const POLL: Duration = Duration::from_millis(100);

/// Milliseconds since 1970, as the exporter counts them.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Runs a test in a scene of its own on the shared control plane. `name` names its namespaces.
pub fn scenario(name: &str, test: impl AsyncFnOnce(&Scene) -> Result<()>) -> Result<()> {
    scenario_on(Plane::shared()?, name, test)
}

/// The same on a control plane of the test's own.
pub fn scenario_on(
    plane: &Plane,
    name: &str,
    test: impl AsyncFnOnce(&Scene) -> Result<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let scene = Scene::new(plane, name).await?;
        let outcome = AssertUnwindSafe(test(&scene)).catch_unwind().await;
        if !matches!(outcome, Ok(Ok(()))) {
            scene.print().await;
        }
        let outcome = outcome.unwrap_or_else(|panic| resume_unwind(panic));
        outcome.with_context(|| name.to_owned())
    })
}

/// Runs a test for each of these, so many at a time; the errors of all that fail. Most of a scene is waiting.
pub fn side_by_side<T: Send>(
    at_once: usize,
    cases: Vec<T>,
    test: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let waiting = Mutex::new(cases.into_iter());
    let next = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let errors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(case) = next() {
                    if let Err(error) = test(case) {
                        let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
                        errors.push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(errors.is_empty(), "{} failed: {errors:#?}", errors.len());
    Ok(())
}

/// Waits until `probe` finds something.
pub(crate) async fn eventually<T>(
    what: &str,
    probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    within(DEADLINE, what, probe).await
}

/// The same with a limit of its own.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = probe().await.with_context(|| what.to_owned())? {
            return Ok(found);
        }
        ensure!(started.elapsed() < limit, "never came true: {what}");
        tokio::time::sleep(POLL).await;
    }
}
