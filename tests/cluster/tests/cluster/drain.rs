//! Nothing is lost and nothing is done twice, whatever becomes of the host.

use anyhow::{Result, ensure};
use guesthouse_tests::{Arguments, Scene, scenario};
use report_exporter::{Fail, Mode};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_hundred_jobs_created_while_the_host_is_down_are_all_done_after_it_starts() -> Result<()> {
    scenario("downtime", async |scene| {
        scene.map_report_jobs().await?;
        create(scene, 100).await?;
        let _host = scene.host()?;
        let jobs = scene.drained(100).await?;
        for job in &jobs {
            ensure!(job["status"]["phase"] == "Done", "{job}");
            ensure!(job["status"]["observedGeneration"] == 1, "{job}");
            ensure!(label(job) == "done", "{job}");
            let url = job["status"]["url"].as_str().unwrap_or_default();
            ensure!(url.starts_with(&scene.exporter.url()), "{job}");
        }
        let stats = scene.exporter.stats();
        ensure!(
            (stats.made, stats.repeats, stats.duplicates) == (100, 0, 0),
            "{stats:?}"
        );
        let journals = scene.journals().await?;
        ensure!(journals.len() == 100, "{} journals", journals.len());
        for journal in &journals {
            let receipt = &journal["record"]["receipts"][0];
            ensure!(receipt["state"]["answered"]["code"] == 201, "{journal}");
        }
        Ok(())
    })
}

#[test]
fn two_hosts_at_once_hinder_each_other_and_make_no_report_twice() -> Result<()> {
    scenario("two-hosts", async |scene| {
        scene.map_report_jobs().await?;
        create(scene, 60).await?;
        scene.exporter.delay(30);
        let _hosts = ["a", "b"].map(|name| scene.host_with(&Arguments::replica(name)));
        for job in scene.drained(60).await? {
            ensure!(
                job["status"]["phase"] == "Done" && label(&job) == "done",
                "{job}"
            );
            ensure!(job["status"]["observedGeneration"] == 1, "{job}");
        }
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.duplicates) == (60, 0), "{stats:?}");
        ensure!(scene.journals().await?.len() == 60);
        Ok(())
    })
}

/// Reports whose first answer is lost after they were made.
const LOST: [usize; 3] = [20, 90, 160];
/// A report that is never made.
const POISONED: usize = 7;

#[test]
fn a_host_killed_at_five_random_moments_makes_each_of_200_reports_once_and_forgets_no_retry()
-> Result<()> {
    scenario("killed", async |scene| {
        let mut random = Random::seeded();
        let mut mapping = scene.report_jobs()?;
        mapping["retry"] = json!({"base": "400ms"});
        scene.map("report-jobs", &mapping.to_string()).await?;
        create(scene, 200).await?;
        let poisoned = name(POISONED);
        scene
            .exporter
            .fail(Fail::always(Mode::Http500).only(scene.report(&poisoned)));
        for number in LOST {
            let fail = Fail::times(Mode::Lost, 1).only(scene.report(&name(number)));
            scene.exporter.fail(fail);
        }
        scene.exporter.delay(80);
        // Four at a time, so that there is always something in flight.
        let how = Arguments::with(&["--http-in-flight", "4"]);
        let mut attempts = 0;
        for kill in 1..=5 {
            let host = scene.host_with(&how)?;
            let made = 28 * kill - random.below(25);
            let pause = Duration::from_millis(random.below(100));
            scene
                .eventually(&format!("{made} reports are made"), async || {
                    retries_stay(scene, &poisoned, &mut attempts).await?;
                    Ok((scene.exporter.stats().made >= made).then_some(()))
                })
                .await?;
            tokio::time::sleep(pause).await;
            println!("kill {kill}: at {made} reports, {pause:?} later");
            host.kill();
        }
        ensure!(
            scene.exporter.stats().made < 199,
            "all was done before the last kill"
        );
        let _host = scene.host_with(&how)?;
        scene
            .eventually("the poisoned job is Failed", async || {
                retries_stay(scene, &poisoned, &mut attempts).await?;
                let job = scene.read_job(&poisoned).await?;
                Ok((job["status"]["phase"] == "Failed").then_some(()))
            })
            .await?;
        let jobs = scene.drained(200).await?;
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.duplicates) == (199, 0), "{stats:?}");
        ensure!(
            stats.repeats >= LOST.len() as u64,
            "lost answers were not asked for again: {stats:?}"
        );
        for job in &jobs {
            let poison = job["metadata"]["name"] == poisoned.as_str();
            let (phase, retries) = if poison { ("Failed", 5) } else { ("Done", 0) };
            ensure!(
                job["status"]["phase"] == phase && label(job) == phase.to_lowercase(),
                "{job}"
            );
            // A kill may hide an attempt from the count, but a retry that was counted stays counted.
            let found = job["status"]["retries"].as_u64().unwrap_or_default();
            let lost = LOST
                .iter()
                .any(|&number| job["metadata"]["name"] == name(number).as_str());
            ensure!(found == retries || (lost && found == 1), "{job}");
        }
        // Each kill can hide at most one attempt of a job from the count.
        let tried = scene.attempts(&poisoned).len();
        ensure!(
            (5..=10).contains(&tried),
            "the poisoned report was tried {tried} times"
        );
        Ok(())
    })
}

/// Once counted in the journal, an attempt stays counted.
async fn retries_stay(scene: &Scene<'_>, job: &str, before: &mut u64) -> Result<()> {
    let journal = scene.journal(job).await?.unwrap_or_default();
    let failed = &journal["record"]["receipts"][0]["state"]["failed"];
    let attempts = failed["attempts"].as_u64().unwrap_or_default();
    ensure!(
        attempts >= *before,
        "{before} attempts were on record: {journal}"
    );
    *before = attempts;
    Ok(())
}

fn name(number: usize) -> String {
    format!("job-{number:03}")
}

async fn create(scene: &Scene<'_>, count: usize) -> Result<()> {
    for number in 0..count {
        scene.job(&name(number), json!({})).await?;
    }
    Ok(())
}

fn label(job: &Value) -> &str {
    let label = &job["metadata"]["labels"]["workqueue.acme.io/phase"];
    label.as_str().unwrap_or_default()
}

/// SplitMix64 (Steele, Lea, Flood 2014): a seed that is printed makes the same run again.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let seed = std::env::var("GUESTHOUSE_TEST_SEED");
        let seed = seed.ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(guesthouse_tests::now_ms);
        println!("GUESTHOUSE_TEST_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
