//! Ten thousand settled objects: looked at, and left alone.
//!
//! By itself, on a control plane of its own: it would slow every other test down. `GUESTHOUSE_TEST_OBJECTS` makes it another
//! number.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use guesthouse_tests::{
    Arguments, AuditEvent, Plane, REPORT_JOBS, Scene, WEBSITES, WISHES, scenario_on,
};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// What is longest here, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(400);
/// Requests at once, while objects are made.
const AT_ONCE: usize = 24;

#[test]
fn ten_thousand_settled_objects_are_written_neither_by_a_restart_nor_by_a_resync() -> Result<()> {
    let all: usize = std::env::var("GUESTHOUSE_TEST_OBJECTS")
        .map_or(Ok(10_000), |count| count.parse())
        .context("GUESTHOUSE_TEST_OBJECTS")?;
    // Children cost six writes each, effects four, a status one.
    let websites = all / 40;
    let jobs = all * 3 / 10;
    let wishes = all - websites - jobs;
    scenario_on(&Plane::start("scale")?, "scale", async |scene| {
        let began = Instant::now();
        let said = |what: &str| println!("{:>6.1?} s: {what}", began.elapsed().as_secs_f32());
        configure(scene, "10h").await?;
        let how = Arguments::default();
        let host = scene.host_with(&how)?;
        create(scene, websites, jobs, wishes).await?;
        said("created");
        settled(scene, jobs).await?;
        said("settled");
        let writes = ours(scene.writes_since(0)?);
        said(&format!("{} writes of the host until here", writes.len()));
        // The count that is to stand still has seen every kind of write.
        for kind in [
            "websites",
            "reportjobs",
            "wishes",
            "journals",
            "configmaps",
            "deployments",
            "services",
        ] {
            let written = writes.iter().any(|write| write.concerns(kind));
            ensure!(written, "the count of writes to {kind} does not work");
        }

        let (mark, position) = (scene.mark()?, scene.log()?.len());
        configure(scene, "3s").await?;
        passed(scene, position, all).await?;
        configure(scene, "10h").await?;
        let writes = ours(scene.writes_since(mark)?);
        ensure!(
            writes.is_empty(),
            "{} writes, first {:#?}",
            writes.len(),
            writes[0]
        );
        said("resynced");

        scene.stop(host).await?;
        let (mark, position) = (scene.mark()?, scene.log()?.len());
        let host = scene.host_with(&how)?;
        passed(scene, position, all).await?;
        let writes = ours(scene.writes_since(mark)?);
        ensure!(
            writes.is_empty(),
            "{} writes, first {:#?}",
            writes.len(),
            writes[0]
        );
        said("restarted");

        // What does change is written still, and the count sees it.
        let edit = json!({"spec": {"reconcile": {"labels": {"a": "b"}}}});
        scene.patch(WISHES, "wish-0", edit).await?;
        let labelled = |wish: &Value| wish["metadata"]["labels"]["a"] == "b";
        scene
            .object_is(WISHES, "wish-0", "labelled", labelled)
            .await?;
        ensure!(!ours(scene.writes_since(mark)?).is_empty());
        scene.stop(host).await
    })
}

async fn configure(scene: &Scene<'_>, resync: &str) -> Result<()> {
    for (name, mut mapping) in [
        ("report-jobs", scene.report_jobs()?),
        ("websites", scene.websites()?),
        ("wishes", scene.wishes("decide", &[])?),
    ] {
        mapping["resync"] = json!(resync);
        mapping["concurrency"] = json!(32);
        scene.map(name, &mapping.to_string()).await?;
    }
    Ok(())
}

async fn create(scene: &Scene<'_>, websites: usize, jobs: usize, wishes: usize) -> Result<()> {
    let website = |number: usize| {
        let name = format!("site-{number}");
        let spec = json!({"content": {"index.html": "hello"}});
        (WEBSITES, json!({"metadata": {"name": name}, "spec": spec}))
    };
    let job = |number: usize| {
        let name = format!("job-{number}");
        let labels = json!({"workqueue.acme.io/phase": "pending"});
        (
            REPORT_JOBS,
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"report": "r"}}),
        )
    };
    let wish = |number: usize| {
        (
            WISHES,
            json!({"metadata": {"name": format!("wish-{number}")}, "spec": {}}),
        )
    };
    let all = (0..websites)
        .map(website)
        .chain((0..jobs).map(job))
        .chain((0..wishes).map(wish));
    stream::iter(all)
        .map(|(kind, object)| scene.create(kind, object))
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Waits until everything is handled, and no write followed for two looks.
async fn settled(scene: &Scene<'_>, jobs: usize) -> Result<()> {
    let made = |scene: &Scene<'_>| scene.exporter.stats().made == jobs as u64;
    let mut before = usize::MAX;
    wait("all is settled", async || {
        if !made(scene) {
            return Ok(false);
        }
        let writes = scene.writes_since(0)?.len();
        Ok(std::mem::replace(&mut before, writes) == writes)
    })
    .await?;
    for kind in [WEBSITES, REPORT_JOBS, WISHES] {
        let objects = scene.api.list(kind, &scene.namespace).await?;
        let open = objects.iter().find(|object| {
            object["status"]["observedGeneration"] != object["metadata"]["generation"]
        });
        ensure!(open.is_none(), "{open:#?}");
    }
    Ok(())
}

/// Waits until so many objects had a pass since a position of the log.
async fn passed(scene: &Scene<'_>, position: usize, count: usize) -> Result<()> {
    wait(&format!("{count} objects are passed"), async || {
        let passes = scene.passes_since(position)?;
        let key = |pass: &Value| (pass["mapping"].to_string(), pass["object"].to_string());
        let objects: HashSet<_> = passes.iter().map(key).collect();
        Ok(objects.len() == count)
    })
    .await
}

/// Without what a host says of itself: its Lease, claims, and Events about its mappings.
fn ours(mut writes: Vec<AuditEvent>) -> Vec<AuditEvent> {
    let of_itself = |write: &AuditEvent| {
        ["events", "leases", "claims", "mappings"]
            .iter()
            .any(|kind| write.concerns(kind))
    };
    writes.retain(|write| !of_itself(write));
    writes
}

async fn wait(what: &str, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !holds().await? {
        ensure!(began.elapsed() < DEADLINE, "never came true: {what}");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    Ok(())
}
