//! Which job goes first.

use anyhow::{Result, ensure};
use guesthouse_tests::{Arguments, REPORT_JOBS, now_ms, scenario};
use serde_json::json;
use std::collections::BTreeMap;

#[test]
fn with_one_worker_jobs_are_exported_by_priority() -> Result<()> {
    scenario("priority", async |scene| {
        let mut mapping = scene.report_jobs()?;
        mapping["concurrency"] = json!(1);
        scene.map("report-jobs", &mapping.to_string()).await?;
        let mut priorities = BTreeMap::new();
        for number in 0_i64..24 {
            // Every priority from -2 to 3 four times, in no order.
            let (name, priority) = (format!("job-{number}"), number * 7 % 6 - 2);
            scene.job(&name, json!({"priority": priority})).await?;
            priorities.insert(scene.report(&name), priority);
        }
        // While it waits for an answer a pass gives its worker back; one request at a time keeps the order visible.
        scene.exporter.delay(20);
        let _host = scene.host_with(&Arguments::with(&["--http-in-flight", "1"]))?;
        scene.drained(24).await?;
        let attempts = scene.exporter.stats().attempts;
        let mut order: Vec<_> = attempts
            .iter()
            .map(|(id, at)| (at[0], priorities[id]))
            .collect();
        order.sort();
        let falls = |pair: &[(u64, i64)]| pair[0].1 >= pair[1].1;
        ensure!(order.windows(2).all(falls), "{order:?}");
        ensure!(order.len() == 24, "{order:?}");
        Ok(())
    })
}

#[test]
fn a_job_is_not_exported_before_its_time_whatever_its_priority() -> Result<()> {
    scenario("not-before", async |scene| {
        scene.map_report_jobs().await?;
        let at = jiff::Timestamp::from_second(i64::try_from(now_ms() / 1000)? + 6)?;
        let soon = json!({"priority": 100, "notBefore": at.to_string()});
        scene.job("soon", soon).await?;
        let far = json!({"priority": 100, "notBefore": "2999-01-01T00:00:00Z"});
        scene.job("far", far).await?;
        scene.job("now", json!({})).await?;
        let _host = scene.host()?;
        scene.done("now").await?;
        scene.done("soon").await?;
        let attempts = scene.attempts("soon");
        let earliest = u64::try_from(at.as_millisecond())?;
        ensure!(
            attempts.len() == 1 && attempts[0] >= earliest,
            "{attempts:?} {earliest}"
        );
        ensure!(scene.attempts("far").is_empty(), "exported centuries early");
        // Moved to now, it goes at once.
        let patch = json!({"spec": {"notBefore": null}});
        scene.patch(REPORT_JOBS, "far", patch).await?;
        scene.done("far").await?;
        Ok(())
    })
}
