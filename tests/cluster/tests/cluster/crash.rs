//! The host is killed at each of its named points: after a new start everything ends as if nothing had happened, and the
//! outside was made to act once.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    Arguments, Host, LEASES, Ledger, Life, REPORT_JOB, Scene, WORKLOADS, Workload, crash_binary,
    marked, output, scenario, side_by_side, unaccounted,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Objects of a run.
pub(super) const OBJECTS: usize = 6;
/// Scenes side by side: most of a scene is waiting.
const AT_ONCE: usize = 6;

type End = BTreeMap<String, Value>;
/// How everything stood at the end of each part of the objects' life.
type Ends = BTreeMap<Life, End>;

/// Where a host is killed.
#[derive(Clone, Copy)]
struct Kill {
    life: Life,
    point: &'static str,
    at: u64,
}

#[test]
fn a_host_killed_at_any_point_comes_to_the_same_end_and_acts_once() -> Result<()> {
    let references: Mutex<BTreeMap<&str, Ends>> = Mutex::default();
    side_by_side(AT_ONCE, WORKLOADS.to_vec(), |workload| {
        scenario(&format!("crash-none-{}", workload.name), async |scene| {
            let ends = live(scene, workload, None).await?;
            ensure!(
                ends[&Life::Create].len() >= 2 * OBJECTS,
                "objects and journals: {ends:#?}"
            );
            ensure!(ends[&Life::Create] != ends[&Life::Change], "{ends:#?}");
            locked(&references).insert(workload.name, ends);
            Ok(())
        })
    })?;
    let references = locked(&references).clone();
    let mut cases = Vec::new();
    for workload in WORKLOADS {
        for (life, point, all) in workload.points {
            let kills = all.iter().map(|&at| Kill {
                life: *life,
                point,
                at,
            });
            cases.extend(kills.map(|kill| (*workload, kill)));
        }
    }
    side_by_side(AT_ONCE, cases, |(workload, kill)| {
        let life = format!("{:?}", kill.life).to_lowercase();
        let name = format!("{}-{}-{life}-{}", kill.point, kill.at, workload.name);
        scenario(&name, async |scene| {
            let ends = live(scene, workload, Some(kill)).await?;
            for (life, reference) in &references[workload.name] {
                let differences = differences(reference, &ends[life]);
                ensure!(
                    differences.is_empty(),
                    "not as without a crash at the end of {life:?}: {differences:#?}"
                );
            }
            Ok(())
        })
    })
}

/// Points that only a replica with its Lease comes by.
const LEASE_POINTS: [&str; 2] = ["before-lease-renew", "after-lease-loss"];

#[test]
fn a_replica_killed_at_a_point_of_its_lease_is_followed_by_the_other_which_doubles_nothing()
-> Result<()> {
    side_by_side(2, LEASE_POINTS.to_vec(), |point| {
        scenario(&format!("replica-{point}"), async |scene| {
            let workload = &REPORT_JOB;
            begin(scene, workload).await?;
            scene.exporter.delay(300);
            let replica = |name: &str, point: Option<&str>| -> Result<Arguments> {
                let usual = Arguments::replica(name);
                Ok(Arguments {
                    replica: usual.replica,
                    arguments: [
                        usual.arguments,
                        Arguments::with(&["--http-in-flight", "1"]).arguments,
                    ]
                    .concat(),
                    ..how(scene, point)?
                })
            };
            // Not the first: that one gets the Lease.
            let at = if point == "before-lease-renew" { 3 } else { 1 };
            let first = scene.host_with(&replica("a", Some(&format!("{point}:{at}")))?)?;
            let lease = "guesthouse-replica-a";
            scene
                .eventually("it has its Lease and works", async || {
                    let held = scene.api.find(LEASES, &scene.home, lease).await?;
                    Ok(held.filter(|_| scene.exporter.stats().in_flight > 0 || killed(&first)))
                })
                .await?;
            let _second = scene.host_with(&replica("b", None)?)?;
            if point == "after-lease-loss" {
                let taken = json!({"spec": {"holderIdentity": null}});
                scene.api.patch(LEASES, &scene.home, lease, taken).await?;
            }
            await_kill(scene, &first, point).await?;
            scene.exporter.delay(0);
            workload.settled(scene, OBJECTS).await?;
            let findings = (workload.ledger)(&Ledger::of(scene), OBJECTS, Life::Create);
            ensure!(findings.is_empty(), "{findings:#?}");
            let passes = scene.passes_since(0)?;
            ensure!(
                passes.iter().any(|pass| pass["replica"] == "b"),
                "{passes:#?}"
            );
            Ok(())
        })
    })
}

fn killed(host: &Host) -> bool {
    host.ended().is_ok_and(|ended| ended.is_some())
}

#[test]
fn each_of_the_24_points_of_a_host_is_one_that_a_test_kills_it_at() -> Result<()> {
    let points = output(Command::new(crash_binary()?).arg("crash-points"))?;
    let points: BTreeSet<&str> = points.lines().collect();
    ensure!(points.len() == 24, "{points:?}");
    let rows = WORKLOADS.iter().flat_map(|workload| workload.points);
    let rows = rows
        .filter(|(_, _, at)| !at.is_empty())
        .map(|(_, point, _)| *point);
    let tried: BTreeSet<&str> = rows.chain(LEASE_POINTS).collect();
    ensure!(points == tried, "{:?}", points.symmetric_difference(&tried));
    Ok(())
}

/// All parts of the objects' life; the host is killed in one of them, and started again.
async fn live(scene: &Scene<'_>, workload: &Workload, kill: Option<Kill>) -> Result<Ends> {
    let mut ends = Ends::new();
    let mut host: Option<Host> = None;
    workload.install(scene).await?;
    for life in Life::ALL {
        let killed = kill.filter(|kill| kill.life == life);
        if killed.is_some() {
            // Everything is there before the host: so each passing of a point is one of these objects'.
            host.take().into_iter().for_each(Host::kill);
        }
        enter(scene, workload, life).await?;
        if let Some(Kill { point, at, .. }) = killed {
            let how = how(scene, Some(&format!("{point}:{at}")))?;
            let doomed = scene.host_with(&how)?;
            await_kill(scene, &doomed, point).await?;
            // The usual program: what the other one left must be good for any.
            host = Some(scene.host_with(&Arguments {
                cache: how.cache,
                ..Arguments::default()
            })?);
        }
        if host.is_none() {
            host = Some(scene.host_with(&how(scene, None)?)?);
        }
        let end = come_to_the_end(scene, workload, life).await;
        ends.insert(life, end.with_context(|| format!("{life:?}"))?);
    }
    Ok(ends)
}

/// What happens to the objects in a part of their life.
pub(super) async fn enter(scene: &Scene<'_>, workload: &Workload, life: Life) -> Result<()> {
    for number in 0..OBJECTS {
        match life {
            Life::Create => workload.create(scene, number).await?,
            Life::Change => workload.edit(scene, number, 1).await?,
            Life::Delete => workload.delete(scene, number).await?,
        }
    }
    Ok(())
}

async fn begin(scene: &Scene<'_>, workload: &Workload) -> Result<()> {
    workload.install(scene).await?;
    enter(scene, workload, Life::Create).await
}

pub(super) async fn await_kill(scene: &Scene<'_>, host: &Host, point: &str) -> Result<()> {
    let ended = scene
        .eventually("the host kills itself", async || {
            scene.roll_out().await?;
            host.ended()
        })
        .await?;
    ensure!(ended.signal() == Some(9), "it ended with {ended}");
    let log = scene.log()?;
    let says = |line: &Value| line["message"] == "killing this host" && line["point"] == point;
    ensure!(log.iter().any(says));
    Ok(())
}

/// How everything stands when all is done, after a look for what nobody answers for.
async fn come_to_the_end(scene: &Scene<'_>, workload: &Workload, life: Life) -> Result<End> {
    if life == Life::Delete {
        workload.gone(scene).await?;
    } else {
        workload.settled(scene, OBJECTS).await?;
    }
    let mut findings = (workload.ledger)(&Ledger::of(scene), OBJECTS, life);
    findings.extend(unaccounted(&marked(scene).await?, &scene.journals().await?));
    ensure!(findings.is_empty(), "{findings:#?}");
    workload.end(scene).await
}

/// What is not as it was to be, and what is there beside it.
pub(super) fn differences(reference: &End, end: &End) -> Vec<String> {
    let names: BTreeSet<&String> = reference.keys().chain(end.keys()).collect();
    names
        .into_iter()
        .filter(|name| reference.get(*name) != end.get(*name))
        .map(|name| {
            let (expected, found) = (reference.get(name), end.get(name));
            format!("{name}: {found:#?} instead of {expected:#?}")
        })
        .collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// With the point to crash at, and an empty cache of its own where that is about the cache.
pub(super) fn how(scene: &Scene<'_>, crash: Option<&str>) -> Result<Arguments> {
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
