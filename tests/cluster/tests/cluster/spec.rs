//! A new generation, an edit at the wrong moment, a pause.

use anyhow::{Context, Result, ensure};
use guesthouse_local::AuditEvent;
use guesthouse_tests::{ECHOES, REPORT_JOBS, Scene, scenario};
use serde_json::{Value, json};

#[test]
fn a_changed_spec_of_a_done_job_is_acknowledged_by_one_write_and_exported_by_none() -> Result<()> {
    scenario("changed", async |scene| {
        scene.map_report_jobs().await?;
        let _host = scene.host()?;
        scene.job("job", json!({})).await?;
        let before = scene.done("job").await?;
        ended(scene, "job", 1).await?;
        let mark = scene.mark()?;
        let patch = json!({"spec": {"report": "another", "format": "csv"}});
        scene.patch(REPORT_JOBS, "job", patch).await?;
        let seen = |job: &Value| job["status"]["observedGeneration"] == 2;
        let job = scene.job_is("job", "acknowledged", seen).await?;
        ended(scene, "job", 2).await?;
        for member in ["phase", "url", "retries", "message"] {
            ensure!(job["status"][member] == before["status"][member], "{job}");
        }
        // Whatever else this led to comes before what another job leads to.
        scene.job("after", json!({})).await?;
        scene.done("after").await?;
        let writes = scene.writes_to("job", mark)?;
        let status = |write: &AuditEvent| {
            let target = write.object_ref.as_ref();
            target.is_some_and(|o| o.resource == "reportjobs" && o.subresource == "status")
        };
        ensure!(writes.len() == 1 && status(&writes[0]), "{writes:#?}");
        let journal = scene.journal("job").await?.context("a journal")?;
        let journal = journal["metadata"]["name"].as_str().context("a name")?;
        let writes = scene.writes_to(journal, mark)?;
        ensure!(writes.is_empty(), "{writes:#?}");
        ensure!(scene.attempts("job").len() == 1);
        ensure!(scene.exporter.stats().duplicates == 0);
        Ok(())
    })
}

#[test]
fn a_plugin_without_a_terminal_phase_handles_generation_2_and_it_is_acknowledged() -> Result<()> {
    scenario("generation", async |scene| {
        scene.map("echoes", &scene.echoes()?.to_string()).await?;
        let _host = scene.host()?;
        let object = json!({"metadata": {"name": "echo"}, "spec": {"a": 1}});
        scene.create(ECHOES, object).await?;
        let echoed = |a: u64| {
            move |echo: &Value| {
                echo["status"]["echo"]["a"] == a && echo["status"]["observedGeneration"] == a
            }
        };
        scene.object_is(ECHOES, "echo", "echoed", echoed(1)).await?;
        let patch = json!({"spec": {"a": 2}});
        scene.patch(ECHOES, "echo", patch).await?;
        scene
            .object_is(ECHOES, "echo", "echoed again", echoed(2))
            .await?;
        Ok(())
    })
}

#[test]
fn a_status_that_others_wiped_is_written_again_from_the_record_and_nothing_is_exported()
-> Result<()> {
    scenario("wiped", async |scene| {
        scene.map_report_jobs().await?;
        let _host = scene.host()?;
        scene.job("job", json!({})).await?;
        let before = scene.done("job").await?;
        ended(scene, "job", 1).await?;
        let wiped = json!({"status": {"phase": "Pending", "url": null, "observedGeneration": null, "conditions": null}});
        let wiped = scene.patch(REPORT_JOBS, "job/status", wiped).await?;
        ensure!(wiped["status"]["phase"] == "Pending", "{wiped}");
        let after = scene.done("job").await?;
        for member in ["url", "retries", "observedGeneration"] {
            ensure!(
                after["status"][member] == before["status"][member],
                "{after}"
            );
        }
        ensure!(scene.attempts("job").len() == 1);
        Ok(())
    })
}

#[test]
fn edits_during_a_running_pass_lead_to_exactly_one_further_pass() -> Result<()> {
    scenario("meanwhile", async |scene| {
        scene.map_report_jobs().await?;
        let _host = scene.host()?;
        scene.exporter.delay(1500);
        let spec = |priority: u64| json!({"spec": {"priority": priority}});
        let label = |text: &str| json!({"metadata": {"labels": {"edited": text}}});
        let edits = [
            ("untouched", vec![]),
            ("spec", vec![spec(1)]),
            ("label", vec![label("a")]),
            ("often", vec![spec(1), label("a"), spec(2), label("b")]),
        ];
        for (name, _) in &edits {
            scene.job(name, json!({})).await?;
        }
        let all = edits.len() as u64;
        scene
            .until("all passes wait for the exporter", || {
                Ok(scene.exporter.stats().in_flight == all)
            })
            .await?;
        for (name, edits) in &edits {
            for edit in edits {
                let edit = edit.clone();
                scene.patch(REPORT_JOBS, name, edit).await?;
            }
        }
        ensure!(
            scene.exporter.stats().in_flight == all,
            "the edits came too late"
        );
        for (name, edits) in &edits {
            let passes = if edits.is_empty() { 1 } else { 2 };
            ended(scene, name, passes).await?;
            let job = scene.done(name).await?;
            ensure!(
                job["status"]["observedGeneration"] == job["metadata"]["generation"],
                "{job}"
            );
            ensure!(
                job["metadata"]["labels"]["workqueue.acme.io/phase"] == "done",
                "{job}"
            );
        }
        scene.exporter.delay(0);
        scene.job("after", json!({})).await?;
        scene.done("after").await?;
        for (name, edits) in &edits {
            let passes = scene.passes_of(name)?;
            let wanted = if edits.is_empty() { 1 } else { 2 };
            ensure!(passes.len() == wanted, "{name}: {passes:#?}");
            ensure!(scene.attempts(name).len() == 1, "{name} was exported again");
        }
        Ok(())
    })
}

#[test]
fn a_paused_object_is_neither_called_nor_written_until_the_annotation_goes() -> Result<()> {
    scenario("paused", async |scene| {
        scene.map_report_jobs().await?;
        let object = json!({
            "metadata": {"name": "paused", "annotations": {"guesthouse.dev/paused": "true"}},
            "spec": {"report": "r"},
        });
        scene.create(REPORT_JOBS, object).await?;
        let mark = scene.mark()?;
        let _host = scene.host()?;
        ended(scene, "paused", 1).await?;
        // An edit does not wake it up either.
        let patch = json!({"spec": {"format": "csv"}});
        scene.patch(REPORT_JOBS, "paused", patch).await?;
        ended(scene, "paused", 2).await?;
        scene.job("other", json!({})).await?;
        scene.done("other").await?;
        for pass in scene.passes_of("paused")? {
            ensure!(pass["outcome"] == "paused" && pass["calls"] == 0, "{pass}");
        }
        let writes = scene.writes_to("paused", mark)?;
        ensure!(writes.is_empty(), "{writes:#?}");
        ensure!(
            !scene.writes_to("other", mark)?.is_empty(),
            "writes are not counted"
        );
        ensure!(
            scene.journal("paused").await?.is_none(),
            "a journal was written"
        );
        ensure!(scene.attempts("paused").is_empty(), "it was exported");
        let events = scene.api.events(&scene.namespace, "paused").await?;
        ensure!(
            events.len() == 1 && events[0].reason == "Paused",
            "{events:?}"
        );

        let patch = json!({"metadata": {"annotations": {"guesthouse.dev/paused": null}}});
        scene.patch(REPORT_JOBS, "paused", patch).await?;
        let job = scene.done("paused").await?;
        ensure!(job["status"]["observedGeneration"] == 2, "{job}");
        Ok(())
    })
}

/// Waits until an object had so many passes.
async fn ended(scene: &Scene<'_>, name: &str, count: usize) -> Result<()> {
    scene
        .until(&format!("{count} passes of {name} are over"), || {
            Ok(scene.passes_of(name)?.len() >= count)
        })
        .await
}
