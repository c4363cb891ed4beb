//! What the exporter's failures lead to.

use anyhow::{Result, ensure};
use guesthouse_tests::{Scene, scenario};
use report_exporter::{Exporter, Fail, Mode};
use serde_json::{Value, json};

#[test]
fn an_exporter_that_is_down_for_three_attempts_is_asked_again_after_1_2_and_4_seconds() -> Result<()>
{
    scenario("down-for-a-while", async |scene| {
        scene.map_report_jobs().await?;
        let _host = scene.host()?;
        let down = Fail::times(Mode::Down, 3).only(scene.report("late"));
        scene.exporter.fail(down);
        scene.job("late", json!({})).await?;
        for retries in 1..=3 {
            let counted = |job: &Value| job["status"]["retries"] == retries;
            let job = scene
                .job_is("late", &format!("at {retries} retries"), counted)
                .await?;
            if job["status"]["phase"] == "Pending" {
                ensure!(ready(&job)["status"] == "False", "{job}");
                ensure!(job["status"]["message"].is_string(), "{job}");
            }
        }
        let job = scene.done("late").await?;
        ensure!(
            job["status"]["retries"] == 3 && ready(&job)["status"] == "True",
            "{job}"
        );
        ensure!(job["status"].get("message").is_none(), "{job}");
        spaced(scene, "late", 4)?;
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.duplicates) == (1, 0), "{stats:?}");
        Ok(())
    })
}

#[test]
fn a_report_that_cannot_be_made_fails_after_five_attempts_with_the_cause_and_delays_no_other()
-> Result<()> {
    scenario("down-for-good", async |scene| {
        scene.map_report_jobs().await?;
        let _host = scene.host()?;
        let down = Fail::always(Mode::Down).only(scene.report("poisoned"));
        scene.exporter.fail(down);
        scene.job("poisoned", json!({})).await?;
        scene
            .job_is("poisoned", "retried", |job| job["status"]["retries"] == 1)
            .await?;
        for number in 0..10 {
            scene.job(&format!("good-{number}"), json!({})).await?;
        }
        for number in 0..10 {
            scene.done(&format!("good-{number}")).await?;
        }
        let meanwhile = scene.read_job("poisoned").await?;
        ensure!(meanwhile["status"]["phase"] == "Pending", "{meanwhile}");
        let failed = |job: &Value| job["status"]["phase"] == "Failed";
        let job = scene.job_is("poisoned", "Failed", failed).await?;
        ensure!(job["status"]["retries"] == 5, "{job}");
        let message = job["status"]["message"].as_str().unwrap_or_default();
        ensure!(message.starts_with("Unreachable: PUT http://"), "{job}");
        ensure!(
            job["metadata"]["labels"]["workqueue.acme.io/phase"] == "failed",
            "{job}"
        );
        spaced(scene, "poisoned", 5)?;
        // Failed is the plugin's answer, carried out: nothing is stuck.
        scene
            .told(&scene.namespace, "poisoned", "ExportFailed", "Unreachable")
            .await?;
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.duplicates) == (10, 0), "{stats:?}");
        Ok(())
    })
}

#[test]
fn an_exporter_that_does_not_listen_is_asked_until_it_does() -> Result<()> {
    scenario("refused", async |scene| {
        let exporter = Exporter::start("127.0.0.1:0").await?;
        let url = exporter.url();
        exporter.stop().await;
        let mut mapping = scene.report_jobs()?;
        mapping["config"]["exporter"] = json!(url);
        scene.map("report-jobs", &mapping.to_string()).await?;
        let _host = scene.host()?;
        scene.job("early", json!({})).await?;
        let job = scene
            .job_is("early", "retried", |job| job["status"]["retries"] == 1)
            .await?;
        let message = job["status"]["message"].as_str().unwrap_or_default();
        ensure!(message.contains("refused"), "{job}");
        let exporter = Exporter::start(url.trim_start_matches("http://")).await?;
        scene.done("early").await?;
        ensure!(exporter.stats().made == 1, "{:?}", exporter.stats());
        Ok(())
    })
}

#[test]
fn retry_after_of_a_429_is_honoured() -> Result<()> {
    scenario("throttled", async |scene| {
        scene.map_report_jobs().await?;
        let _host = scene.host()?;
        scene.exporter.fail(Fail {
            retry_after: Some(3),
            ..Fail::times(Mode::Http429, 1)
        });
        scene.job("throttled", json!({})).await?;
        let job = scene.done("throttled").await?;
        ensure!(job["status"]["retries"] == 1, "{job}");
        let attempts = scene.attempts("throttled");
        ensure!(attempts.len() == 2, "{attempts:?}");
        // Without the header it would have been asked after one second.
        ensure!(attempts[1] - attempts[0] >= 3000, "{attempts:?}");
        Ok(())
    })
}

#[test]
fn an_exporter_that_never_answers_costs_its_timeout_and_holds_up_no_other() -> Result<()> {
    scenario("hanging", async |scene| {
        let mut mapping = scene.report_jobs()?;
        mapping["grants"]["http"][0]["timeout"] = json!("1s");
        mapping["concurrency"] = json!(1);
        scene.map("report-jobs", &mapping.to_string()).await?;
        let _host = scene.host()?;
        let hang = Fail::times(Mode::Hang, 1).only(scene.report("hanging"));
        scene.exporter.fail(hang);
        scene.job("hanging", json!({})).await?;
        scene
            .until("the job waits for an answer", || {
                Ok(scene.exporter.stats().in_flight == 1)
            })
            .await?;
        // The only worker is not the one that waits.
        scene.job("other", json!({})).await?;
        scene.done("other").await?;
        let attempts = scene.attempts("hanging");
        ensure!(attempts.len() == 1, "{attempts:?}");
        let timed_out = |job: &Value| {
            let message = job["status"]["message"].as_str().unwrap_or_default();
            job["status"]["retries"] == 1 && message.starts_with("Timeout: ")
        };
        scene.job_is("hanging", "timed out", timed_out).await?;
        scene.done("hanging").await?;
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.duplicates) == (2, 0), "{stats:?}");
        Ok(())
    })
}

#[test]
fn a_definite_no_fails_a_job_at_once() -> Result<()> {
    scenario("rejected", async |scene| {
        scene.map_report_jobs().await?;
        let _host = scene.host()?;
        scene.exporter.fail(Fail::always(Mode::Http422));
        scene.job("rejected", json!({})).await?;
        let failed = |job: &Value| job["status"]["phase"] == "Failed";
        let job = scene.job_is("rejected", "Failed", failed).await?;
        let message = job["status"]["message"].as_str().unwrap_or_default();
        ensure!(message.starts_with("the exporter answered 422"), "{job}");
        ensure!(job["status"]["retries"] == 0, "{job}");
        ensure!(scene.attempts("rejected").len() == 1);
        Ok(())
    })
}

#[test]
fn a_wrong_address_of_the_exporter_is_corrected_in_the_mapping_and_waiting_jobs_go_there()
-> Result<()> {
    scenario("corrected", async |scene| {
        let nobody = Exporter::start("127.0.0.1:0").await?;
        let mut wrong = scene.report_jobs()?;
        wrong["config"]["exporter"] = json!(nobody.url());
        nobody.stop().await;
        scene.map("report-jobs", &wrong.to_string()).await?;
        let _host = scene.host()?;
        scene.job("job", json!({})).await?;
        scene
            .job_is("job", "retried", |job| job["status"]["retries"] == 1)
            .await?;
        scene.map_report_jobs().await?;
        scene.done("job").await?;
        ensure!(scene.exporter.stats().made == 1);
        Ok(())
    })
}

/// So many attempts, one, two, four … seconds apart, at most ten per cent less.
fn spaced(scene: &Scene<'_>, job: &str, count: usize) -> Result<()> {
    let attempts = scene.attempts(job);
    ensure!(attempts.len() == count, "{attempts:?}");
    for (number, pair) in attempts.windows(2).enumerate() {
        let least = 900 << number;
        ensure!(
            pair[1] - pair[0] >= least,
            "attempt {number} + 1 came early: {attempts:?}"
        );
    }
    Ok(())
}

fn ready(job: &Value) -> Value {
    let conditions = job["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|c| c["type"] == "Ready"));
    ready.cloned().unwrap_or_default()
}
