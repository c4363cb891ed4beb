//! A host under load to which one thing after the other is done, for as long as one likes.
//!
//! Traffic never stops: edits, new objects and deletions of three kinds at a rate below which the run does not count. Before and after each nemesis a
//! new object must come to its end, so that each meets a healthy host and no one hides behind another. At the end everything
//! is healed, all objects have to be settled, and the whole history goes to the judge.

mod nemesis;
mod subject;
mod traffic;

use crate::audit::judge;
use crate::ledger::Ledger;
use crate::plane::Plane;
use crate::proxy::Wire;
use crate::report::{History, Nemesis, Run};
use crate::run::{now_ms, scenario_on};
use crate::workload::{Workload, collected};
use anyhow::{Context, Result, ensure};
use nemesis::in_order;
use provisioner::Acts;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use subject::Subject;
use traffic::{SERVED, Traffic};

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// One of each group.
    Pr,
    /// Everything, again and again.
    Nightly,
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How much of everything.
    pub set: Set,
    /// Where all choices come from.
    pub seed: u64,
    /// How long: the nemeses start over until it is reached. Each is met once whatever it is.
    pub time: Duration,
}

/// Changes a second below which a run proves nothing.
const LEAST_RATE: u64 = 50;
/// Requests with one verb for one thing within a second; a loop makes hundreds.
const MOST_REQUESTS: usize = 20;

/// Runs a plan on a control plane of its own, and keeps its history and the host's log in a folder; what the judge says.
pub fn run(plan: &Plan, dir: &Path) -> Result<Vec<String>> {
    let plane = Plane::start("chaos")?;
    let mut findings = Vec::new();
    scenario_on(&plane, "chaos", async |scene| {
        let outcome = history(scene, plan).await;
        std::fs::create_dir_all(dir)?;
        std::fs::copy(scene.dir.join("host.jsonl"), dir.join("host.jsonl"))
            .context("keep the host's log")?;
        let history = outcome?;
        history.save(dir)?;
        findings = judge(&history);
        tell(&history);
        Ok(())
    })?;
    Ok(findings)
}

async fn history(scene: &crate::Scene<'_>, plan: &Plan) -> Result<History> {
    let kubeconfig = subject::identity(scene).await?;
    let (proxy, how) = scene.proxy_as(&kubeconfig, Wire::Tls).await?;
    let subject = Subject::start(scene, &proxy, how, plan.seed).await?;
    let traffic = Traffic::new(scene, plan.seed);
    traffic.fill().await?;
    let begun = Instant::now();
    let disturbing = async {
        let result = disturb(&subject, plan).await;
        traffic.stop();
        result
    };
    let (nemeses, ()) = futures::future::join(disturbing, traffic.run()).await;
    let traffic_ms = u64::try_from(begun.elapsed().as_millis())?;
    let nemeses = nemeses?;
    proxy.heal();
    subject.alone()?;
    let mut objects = Vec::new();
    for (workload, there) in traffic.there() {
        objects.extend(ended(scene, workload, &there).await?);
    }
    // What never is, the judge names.
    let _ = collected(scene).await;
    let run = Run {
        workload: SERVED.map(|(workload, _)| workload.name).join(" "),
        seed: plan.seed,
        objects: objects.len(),
        changes: traffic.changes(),
        traffic_ms,
        least_rate: LEAST_RATE,
        most_requests: MOST_REQUESTS,
        ledger: Ledger::of(scene),
    };
    History::of(scene, &proxy, run, nemeses, objects).await
}

/// Waits until all objects of a row are at their end; those that must be there are.
async fn ended(
    scene: &crate::Scene<'_>,
    workload: &Workload,
    wanted: &BTreeSet<String>,
) -> Result<Vec<Value>> {
    let objects = workload
        .all_settled(scene, wanted.len())
        .await
        .context("settled after the last heal")?;
    let there: BTreeSet<_> = objects
        .iter()
        .filter_map(|o| o["metadata"]["name"].as_str())
        .collect();
    let lost: Vec<_> = wanted
        .iter()
        .filter(|name| !there.contains(name.as_str()))
        .collect();
    ensure!(lost.is_empty(), "created and not there: {lost:?}");
    Ok(objects)
}

/// One nemesis after the other, each between two objects that come to their end.
async fn disturb(subject: &Subject<'_>, plan: &Plan) -> Result<Vec<Nemesis>> {
    let begun = Instant::now();
    let mut struck = Vec::new();
    subject
        .is_healthy()
        .await
        .context("healthy at the beginning")?;
    for round in 0_u64.. {
        for one in in_order(plan.set, plan.seed, round) {
            if round > 0 && begun.elapsed() > plan.time {
                return Ok(struck);
            }
            eprint!("{}: ", one.name());
            let from = now_ms();
            let hits = subject.meet(&one).await.with_context(|| one.name())?;
            let until = now_ms();
            subject
                .is_healthy()
                .await
                .with_context(|| format!("healthy after {}", one.name()))?;
            eprintln!(
                "{} ms, {hits} hits, healthy after {} ms",
                until - from,
                now_ms() - until
            );
            struck.push(Nemesis {
                name: one.name(),
                from,
                until,
                hits,
            });
        }
        if begun.elapsed() > plan.time {
            break;
        }
    }
    Ok(struck)
}

/// The figures of a run.
pub fn tell(history: &History) {
    let run = &history.run;
    let (most, what) = crate::audit::busiest(&history.requests);
    println!(
        "seed {}: {} nemeses, {} objects, {} changes in {} s ({} a second), {} requests, at most {most} a second ({what})",
        run.seed,
        history.nemeses.len(),
        run.objects,
        run.changes,
        run.traffic_ms / 1000,
        run.changes * 1000 / run.traffic_ms.max(1),
        history.requests.len(),
    );
    let acts: Vec<_> = run.ledger.acts.values().collect();
    let sum = |of: fn(&Acts) -> u64| acts.iter().map(|acts| of(acts)).sum::<u64>();
    println!(
        "{} resources made, {} resized, {} taken away; {} children at the end; {} passes",
        sum(|acts| acts.created),
        sum(|acts| acts.resized),
        sum(|acts| acts.deleted),
        history.children.len(),
        history.passes.iter().filter(|passing| passing.ends).count(),
    );
    println!(
        "{:?}",
        Ledger {
            reports: Vec::new(),
            asked: Vec::new(),
            acts: Default::default(),
            resources: Vec::new(),
            ..run.ledger.clone()
        }
    );
}
