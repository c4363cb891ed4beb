//! Objects that go, come back, or are held by others.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{REPORT_JOBS, Scene, scenario};
use serde_json::{Value, json};

#[test]
fn a_journal_goes_with_its_object_and_a_namesake_is_exported_under_a_key_of_its_own() -> Result<()>
{
    scenario("recreated", async |scene| {
        scene.map_report_jobs().await?;
        let host = scene.host()?;
        let mut keys = vec![exported(scene).await?];
        delete(scene).await?;
        scene
            .eventually("the journal is gone", async || {
                Ok(scene.journal("job").await?.is_none().then_some(()))
            })
            .await?;
        keys.push(exported(scene).await?);

        // Deleted and created again while nobody looks: the old journal is no excuse not to export.
        host.kill();
        let old = scene.journal("job").await?.context("a journal")?;
        delete(scene).await?;
        scene.job("job", json!({})).await?;
        let _host = scene.host()?;
        scene.done("job").await?;
        let uid = scene.read_job("job").await?["metadata"]["uid"].clone();
        let new = scene
            .eventually("one journal is left", async || {
                let journals = scene.journals().await?;
                Ok((journals.len() == 1).then(|| journals[0].clone()))
            })
            .await?;
        ensure!(new["record"]["object"]["uid"] == uid, "{new}");
        ensure!(new["metadata"]["name"] != old["metadata"]["name"], "{new}");
        keys.push(key(scene)?);
        keys.sort();
        keys.dedup();
        ensure!(keys.len() == 3, "three objects had the keys {keys:?}");
        // Made anew for each object, and for each only once.
        let stats = scene.exporter.stats();
        ensure!(
            (stats.made, stats.duplicates, stats.repeats) == (1, 2, 0),
            "{stats:?}"
        );
        Ok(())
    })
}

/// Creates the job, and waits until it is exported and on record; the key.
async fn exported(scene: &Scene<'_>) -> Result<String> {
    scene.job("job", json!({})).await?;
    let job = scene.done("job").await?;
    let journal = scene.journal("job").await?.context("a journal")?;
    ensure!(
        journal["record"]["object"]["uid"] == job["metadata"]["uid"],
        "{journal}"
    );
    key(scene)
}

fn key(scene: &Scene<'_>) -> Result<String> {
    let id = scene.report("job");
    let reports = scene.exporter.reports();
    let report = reports.into_iter().find(|report| report.id == id);
    Ok(report.context("a report")?.key)
}

async fn delete(scene: &Scene<'_>) -> Result<()> {
    scene.delete(REPORT_JOBS, "job").await
}

#[test]
fn an_object_that_others_hold_while_it_is_deleted_is_left_to_them() -> Result<()> {
    scenario("held", async |scene| {
        scene.map_report_jobs().await?;
        for name in ["early", "late"] {
            let object = json!({
                "metadata": {"name": name, "finalizers": ["others.example/hold"]},
                "spec": {"report": name},
            });
            scene.create(REPORT_JOBS, object).await?;
        }
        // One is being deleted already when the host starts, the other one after it was exported.
        scene.delete(REPORT_JOBS, "early").await?;
        let _host = scene.host()?;
        scene.done("late").await?;
        let before = scene.passes_of("late")?.len();
        let mark = scene.mark()?;
        scene.delete(REPORT_JOBS, "late").await?;
        scene
            .until("both were looked at", || {
                let early = !scene.passes_of("early")?.is_empty();
                Ok(early && scene.passes_of("late")?.len() > before)
            })
            .await?;
        scene.job("other", json!({})).await?;
        scene.done("other").await?;
        ensure!(
            scene.attempts("early").is_empty(),
            "it was exported while it was deleted"
        );
        for name in ["early", "late"] {
            let writes = scene.writes_to(name, mark)?;
            ensure!(writes.is_empty(), "{writes:#?}");
        }
        ensure!(
            !scene.writes_to("late", 0)?.is_empty(),
            "writes are not counted"
        );
        for name in ["early", "late"] {
            let job = scene.read_job(name).await?;
            ensure!(
                job["metadata"]["finalizers"] == json!(["others.example/hold"]),
                "{job}"
            );
            let release = json!({"metadata": {"finalizers": null}});
            scene.patch(REPORT_JOBS, name, release).await?;
        }
        scene
            .eventually("objects and journals are gone", async || {
                let jobs = scene.api.list(REPORT_JOBS, &scene.namespace).await?;
                let names: Vec<&Value> = jobs.iter().map(|job| &job["metadata"]["name"]).collect();
                let journals = scene.journals().await?;
                Ok((names == ["other"] && journals.len() == 1).then_some(()))
            })
            .await
    })
}
