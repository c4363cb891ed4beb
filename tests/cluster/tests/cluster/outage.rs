//! The host is asked to end in the middle of something; the API server stops answering.

use anyhow::{Result, ensure};
use guesthouse_tests::{Arguments, Plane, scenario, scenario_on};
use serde_json::json;
use std::time::Duration;

#[test]
fn sigterm_lets_a_running_pass_end_and_write_its_status() -> Result<()> {
    scenario("sigterm", async |scene| {
        scene.map_report_jobs().await?;
        let host = scene.host()?;
        scene.exporter.delay(1000);
        scene.job("job", json!({})).await?;
        scene
            .until("the job is being exported", || {
                Ok(scene.exporter.stats().in_flight == 1)
            })
            .await?;
        host.terminate()?;
        // Too late for this host.
        scene.job("late", json!({})).await?;
        scene.stop(host).await?;
        let job = scene.read_job("job").await?;
        ensure!(job["status"]["phase"] == "Done", "{job}");
        let late = scene.read_job("late").await?;
        ensure!(late["status"]["phase"] == "Pending", "{late}");
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.repeats) == (1, 0), "{stats:?}");
        // Nothing is left for the next one to repair.
        let _host = scene.host()?;
        scene.done("late").await?;
        ensure!(scene.attempts("job").len() == 1);
        Ok(())
    })
}

#[test]
fn an_api_server_that_freezes_or_restarts_in_the_middle_of_a_drain_delays_jobs_and_doubles_none()
-> Result<()> {
    scenario_on(&Plane::start("frozen")?, "frozen", async |scene| {
        scene.map_report_jobs().await?;
        for number in 0..60 {
            scene.job(&format!("job-{number}"), json!({})).await?;
        }
        scene.exporter.delay(50);
        let host = scene.host_with(&Arguments::with(&["--http-in-flight", "4"]))?;
        scene
            .until("some reports are made", || {
                Ok(scene.exporter.stats().made >= 10)
            })
            .await?;
        scene.freeze_api_server(true)?;
        let made = scene.exporter.stats().made;
        ensure!(made < 60, "all was done before the freeze");
        // How long it is frozen; nothing is concluded from it.
        tokio::time::sleep(Duration::from_secs(4)).await;
        scene.freeze_api_server(false)?;
        for job in scene.drained(60).await? {
            ensure!(job["status"]["phase"] == "Done", "{job}");
        }
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.duplicates) == (60, 0), "{stats:?}");

        // And one that goes away and comes back: watches are taken up again, what was missed is found.
        scene.exporter.delay(0);
        for number in 60..80 {
            scene.job(&format!("job-{number}"), json!({})).await?;
        }
        scene.restart_api_server()?;
        scene
            .eventually("jobs can be created again", async || {
                Ok(scene.job("job-80", json!({})).await.ok())
            })
            .await?;
        for job in scene.drained(81).await? {
            ensure!(job["status"]["phase"] == "Done", "{job}");
        }
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.duplicates) == (81, 0), "{stats:?}");
        ensure!(host.ended()?.is_none());
        Ok(())
    })
}
