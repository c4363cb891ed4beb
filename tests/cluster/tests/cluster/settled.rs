//! What is settled is left alone: no write, no Event, however often it is looked at.

use anyhow::{Result, ensure};
use guesthouse_tests::{Arguments, ECHOES, REPORT_JOBS, Scene, scenario};
use report_exporter::{Fail, Mode};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[test]
fn a_resync_and_a_restart_of_settled_objects_write_nothing_at_all() -> Result<()> {
    scenario("settled", async |scene| {
        configure(scene).await?;
        let how = Arguments::default();
        let host = scene.host_with(&how)?;
        let objects = settle(scene).await?;
        // One whole round without a write: what follows the status (journal, Events) is over, too.
        rounds(scene, &objects, 0, 1).await?;

        // Getting here was seen by the count that now stands still.
        let before = scene.writes_since(0)?;
        for resource in ["reportjobs", "echoes", "journals", "events"] {
            let written = before.iter().any(|write| write.concerns(resource));
            ensure!(written, "the count of writes to {resource} does not work");
        }

        let (mark, position) = (scene.mark()?, scene.log()?.len());
        rounds(scene, &objects, position, 3).await?;
        let writes = scene.writes_since(mark)?;
        ensure!(writes.is_empty(), "{writes:#?}");

        scene.stop(host).await?;
        let (mark, position) = (scene.mark()?, scene.log()?.len());
        let _host = scene.host_with(&how)?;
        rounds(scene, &objects, position, 2).await?;
        let mut writes = scene.writes_since(mark)?;
        // A host that starts says what it serves, and what it finds paused.
        let greeting = |name: &str| {
            let about = name.split('.').next().unwrap_or_default();
            ["report-jobs", "echoes", "ungranted", "paused"].contains(&about)
        };
        writes.retain(|write| {
            let target = write.object_ref.as_ref();
            !(write.concerns("events") && target.is_some_and(|o| greeting(&o.name)))
        });
        ensure!(writes.is_empty(), "{writes:#?}");
        Ok(())
    })
}

async fn configure(scene: &Scene<'_>) -> Result<()> {
    let mut jobs = scene.report_jobs()?;
    jobs["resync"] = json!("2s");
    jobs["retry"] = json!({"base": "50ms"});
    scene.map("report-jobs", &jobs.to_string()).await?;
    let mut echoes = scene.echoes()?;
    echoes["resync"] = json!("2s");
    scene.map("echoes", &echoes.to_string()).await?;
    let mut ungranted = jobs;
    ungranted["for"]["namespaces"] = json!([scene.home]);
    ungranted["grants"] = json!({});
    scene.map("ungranted", &ungranted.to_string()).await
}

/// One object of each way to be settled, and whether its passes call the plugin.
async fn settle(scene: &Scene<'_>) -> Result<BTreeMap<String, bool>> {
    let failed = Fail::always(Mode::Http500).only(scene.report("failed"));
    scene.exporter.fail(failed);
    for name in ["done-0", "done-1", "done-2", "failed"] {
        scene.job(name, json!({})).await?;
    }
    let echo = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let mut paused = echo("paused", json!({"a": 1}));
    paused["metadata"]["annotations"] = json!({"guesthouse.dev/paused": "true"});
    for object in [
        echo("plain", json!({"a": 1, "b": {"c": [1.5, null, ""]}})),
        echo("terminal", json!({"fail": "terminal"})),
        paused,
    ] {
        scene.create(ECHOES, object).await?;
    }
    let denied = json!({"metadata": {"name": "denied"}, "spec": {"report": "r"}});
    scene.api.create(REPORT_JOBS, &scene.home, denied).await?;

    scene.drained(4).await?;
    let stalled = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Stalled"))
    };
    scene
        .object_is(ECHOES, "terminal", "stalled", stalled)
        .await?;
    scene
        .object_is(ECHOES, "plain", "echoed", |o| o["status"]["echo"]["a"] == 1)
        .await?;
    scene
        .eventually("the ungranted job is denied", async || {
            let job = scene.api.get(REPORT_JOBS, &scene.home, "denied").await?;
            Ok(stalled(&job).then_some(()))
        })
        .await?;
    let calls = |name: &str| format!("{}/{name}", scene.namespace);
    Ok(BTreeMap::from([
        (calls("done-0"), true),
        (calls("done-1"), true),
        (calls("done-2"), true),
        (calls("failed"), true),
        (calls("plain"), true),
        (calls("terminal"), true),
        (calls("paused"), false),
        (format!("{}/denied", scene.home), true),
    ]))
}

/// Waits until each object had so many passes that wrote nothing, and called the plugin where they should.
async fn rounds(
    scene: &Scene<'_>,
    objects: &BTreeMap<String, bool>,
    position: usize,
    count: usize,
) -> Result<()> {
    let what = format!("{count} quiet passes of each object");
    scene
        .until(&what, || {
            let passes = scene.passes_since(position)?;
            let quiet = |name: &String, calls: bool| {
                let fits = |pass: &&Value| {
                    pass["object"] == name.as_str()
                        && pass["writes"] == 0
                        && (pass["calls"] == 1) == calls
                };
                passes.iter().filter(fits).count()
            };
            Ok(objects
                .iter()
                .all(|(name, calls)| quiet(name, *calls) >= count))
        })
        .await
}
