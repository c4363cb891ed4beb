//! The host is killed at each of its named points: after a new start everything ends as if nothing had happened, and the
//! outside was made to act once.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    Arguments, History, Ledger, Nemesis, REPORT_JOB, Run, Scene, WORKLOADS, Wire, Workload,
    crash_binary, judge, now_ms, output, scenario, side_by_side,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Objects of a run.
const OBJECTS: usize = 6;

type End = BTreeMap<String, Value>;

#[test]
fn a_host_killed_at_any_point_comes_to_the_same_end_and_acts_once() -> Result<()> {
    for workload in WORKLOADS {
        let mut reference = End::new();
        scenario(&format!("crash-none-{}", workload.name), async |scene| {
            reference = without(scene, workload).await?;
            Ok(())
        })?;
        ensure!(
            reference.len() >= 2 * OBJECTS,
            "objects and journals: {reference:#?}"
        );
        let all = workload.points.iter();
        let cases = all.flat_map(|(point, at)| at.iter().map(|at| (*point, *at)));
        side_by_side(4, cases.collect(), |(point, at)| {
            let name = format!("{point}-{at}-{}", workload.name);
            scenario(&name, async |scene| {
                crash(scene, workload, point, at, &reference).await
            })
        })?;
    }
    Ok(())
}

#[test]
fn every_point_of_a_workload_is_one_that_the_host_has_and_there_are_24() -> Result<()> {
    let points = output(Command::new(crash_binary()?).arg("crash-points"))?;
    let points: BTreeSet<&str> = points.lines().collect();
    ensure!(points.len() == 24, "{points:?}");
    for workload in WORKLOADS {
        for (point, at) in workload.points {
            ensure!(points.contains(point) && !at.is_empty(), "{point}");
        }
    }
    Ok(())
}

/// What must be found of a host that does wrong, and where it has to be killed for that.
const WRONGS: &[(&str, Option<&str>, &str)] = &[
    (
        "skip-receipt-journal",
        None,
        "says Done before a receipt was journaled",
    ),
    (
        "list-from-cache",
        None,
        "lists from a version that was chosen",
    ),
    (
        "key-per-process",
        Some("after-answer:3"),
        "made again under another key",
    ),
];

#[test]
fn a_host_that_does_wrong_is_found_out_and_one_that_does_not_is_not() -> Result<()> {
    let controls = [("", None, ""), ("", Some("after-answer:3"), "")];
    let cases = WRONGS.iter().copied().chain(controls);
    side_by_side(
        3,
        cases.enumerate().collect(),
        |(number, (wrong, kill, finding))| {
            scenario(&format!("wrong-{number}"), async |scene| {
                let findings = findings(scene, wrong, kill).await?;
                let found = match wrong.is_empty() {
                    true => findings.is_empty(),
                    false => findings.iter().any(|f| f.contains(finding)),
                };
                ensure!(found, "{wrong}: {findings:#?}");
                Ok(())
            })
        },
    )
}

/// What the judge has against a run of report jobs.
async fn findings(scene: &Scene<'_>, wrong: &str, kill: Option<&str>) -> Result<Vec<String>> {
    let workload = &REPORT_JOB;
    begin(scene, workload).await?;
    let (proxy, through) = scene.proxy(Wire::Plain).await?;
    let mutant = ("GUESTHOUSE_MUTANT".to_owned(), wrong.to_owned());
    let mutant = Some(mutant).filter(|_| !wrong.is_empty());
    let run = |kill: Option<&str>| -> Result<Arguments> {
        let mut run = how(scene, kill)?;
        run.kubeconfig = through.kubeconfig.clone();
        run.environment.extend(mutant.clone());
        Ok(run)
    };
    let mut nemeses = Vec::new();
    if let Some(point) = kill {
        let from = now_ms();
        let host = scene.host_with(&run(kill)?)?;
        scene
            .eventually("the host kills itself", async || host.ended())
            .await?;
        nemeses.push(Nemesis {
            name: point.to_owned(),
            from,
            until: now_ms(),
            hits: 1,
        });
    }
    let _host = scene.host_with(&run(None)?)?;
    // Not by its journals: they are what some wrongs are about.
    let objects = scene.drained(OBJECTS).await?;
    let history = History {
        run: Run {
            workload: workload.name.to_owned(),
            objects: OBJECTS,
            changes: OBJECTS as u64,
            ledger: Ledger::of(&scene.exporter),
            ..Run::default()
        },
        requests: proxy.requests(),
        nemeses,
        objects,
        journals: scene.journals().await?,
    };
    Ok(judge(&history))
}

/// The control: the same host and the same objects, and nobody is killed.
async fn without(scene: &Scene<'_>, workload: &Workload) -> Result<End> {
    begin(scene, workload).await?;
    let _host = scene.host_with(&how(scene, None)?)?;
    come_to_the_end(scene, workload).await
}

async fn crash(
    scene: &Scene<'_>,
    workload: &Workload,
    point: &str,
    at: u64,
    reference: &End,
) -> Result<()> {
    begin(scene, workload).await?;
    let killed = how(scene, Some(&format!("{point}:{at}")))?;
    let host_cache = killed.cache.clone();
    let host = scene.host_with(&killed)?;
    let ended = scene
        .eventually("the host kills itself", async || host.ended())
        .await?;
    ensure!(ended.signal() == Some(9), "it ended with {ended}");
    let log = scene.log()?;
    ensure!(
        log.iter()
            .any(|line| line["message"] == "killing this host" && line["point"] == point)
    );
    let mut how = how(scene, None)?;
    // The usual program: what the other one left must be good for any.
    how.binary = None;
    how.cache = host_cache;
    let _host = scene.host_with(&how)?;
    let end = come_to_the_end(scene, workload).await?;
    for (name, expected) in reference {
        let found = end.get(name).unwrap_or(&Value::Null);
        ensure!(
            found == expected,
            "{name} is not as without a crash: {found:#} instead of {expected:#}"
        );
    }
    let more: Vec<_> = end
        .keys()
        .filter(|name| !reference.contains_key(*name))
        .collect();
    ensure!(more.is_empty(), "without a crash there were no {more:?}");
    Ok(())
}

/// Everything is there before the host: so each passing of a point is one of these objects'.
async fn begin(scene: &Scene<'_>, workload: &Workload) -> Result<()> {
    workload.install(scene).await?;
    for number in 0..OBJECTS {
        workload.create(scene, number).await?;
    }
    Ok(())
}

async fn come_to_the_end(scene: &Scene<'_>, workload: &Workload) -> Result<End> {
    workload.settled(scene, OBJECTS).await?;
    for number in 0..OBJECTS {
        workload.edit(scene, number, 1).await?;
    }
    workload
        .settled(scene, OBJECTS)
        .await
        .context("after an edit")?;
    let ledger = Ledger::of(&scene.exporter);
    let findings = (workload.ledger)(&ledger, OBJECTS);
    ensure!(findings.is_empty(), "{findings:#?}");
    workload.end(scene).await
}

/// With the point to crash at, and an empty cache of its own where that is about the cache.
fn how(scene: &Scene<'_>, crash: Option<&str>) -> Result<Arguments> {
    let point = crash.map(|point| ("GUESTHOUSE_CRASH".to_owned(), point.to_owned()));
    Ok(Arguments {
        environment: point.into_iter().collect(),
        binary: Some(crash_binary()?),
        cache: crash
            .filter(|point| point.contains("cache"))
            .map(|_| scene.dir.join("cache")),
        may_end: crash.is_some(),
        ..Arguments::default()
    })
}
