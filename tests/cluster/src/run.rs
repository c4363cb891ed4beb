//! How a test is run, and how it waits.

use crate::plane::Plane;
use crate::scene::Scene;
use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::{Duration, Instant, SystemTime};

/// How long a test waits for one thing: far beyond what anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(90);
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
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Waits until `probe` finds something.
pub(crate) async fn eventually<T>(
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = probe().await.with_context(|| what.to_owned())? {
            return Ok(found);
        }
        ensure!(started.elapsed() < DEADLINE, "never came true: {what}");
        tokio::time::sleep(POLL).await;
    }
}
