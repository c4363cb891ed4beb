//! A host that does wrong on purpose is found out, and one that does not is not: so that one knows that the judge would see it.
//!
//! Not here: a status that is written before its children are applied. The pass is a value whose order only `core` decides, and
//! what a driver could do about it (say that an apply went well, and make it later) is mended by the next pass, crash or not.

use super::crash::{OBJECTS, await_kill, differences, enter, how};
use anyhow::{Result, ensure};
use guesthouse_tests::{
    Arguments, History, Ledger, Life, Nemesis, PROVISION_REQUEST, REPORT_JOB, Run, Scene, WEBSITE,
    WISH, Wire, Workload, collected, judge, now_ms, scenario, side_by_side,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A wrong (none: a control), what is served meanwhile, where the host is killed, and what must be found.
struct Case {
    wrong: &'static str,
    workload: &'static Workload,
    kill: Option<&'static str>,
    finding: &'static str,
}

const fn control(workload: &'static Workload, kill: Option<&'static str>) -> Case {
    Case {
        wrong: "",
        workload,
        kill,
        finding: "",
    }
}

const CONTROLS: [Case; 5] = [
    control(&REPORT_JOB, None),
    control(&REPORT_JOB, Some("after-answer:3")),
    control(&WEBSITE, None),
    control(&PROVISION_REQUEST, Some("after-send:2")),
    control(&WISH, None),
];

const fn wrong(wrong: &'static str, workload: &'static Workload, finding: &'static str) -> Case {
    Case {
        wrong,
        workload,
        kill: None,
        finding,
    }
}

const WRONGS: [Case; 8] = [
    wrong(
        "skip-receipt-journal",
        &REPORT_JOB,
        "says Done before a receipt was journaled",
    ),
    wrong(
        "list-from-cache",
        &REPORT_JOB,
        "lists from a version that was chosen",
    ),
    Case {
        kill: Some("after-answer:3"),
        ..wrong(
            "key-per-process",
            &REPORT_JOB,
            "made again under another key",
        )
    },
    wrong(
        "create-before-inventory",
        &WEBSITE,
        "was applied before it was on record",
    ),
    wrong(
        "delete-without-uid",
        &WEBSITE,
        "was deleted whatever its uid",
    ),
    wrong(
        "finalizer-after-effect",
        &PROVISION_REQUEST,
        "was provisioned before its finalizer was on",
    ),
    wrong(
        "let-go-early",
        &PROVISION_REQUEST,
        "is there without its object",
    ),
    // No rule knows what a plugin did not say; the end without the wrong does.
    wrong(
        "prune-without-complete",
        &WISH,
        "configmaps object-003-a: None",
    ),
];

type End = BTreeMap<String, Value>;

#[test]
fn a_host_that_does_wrong_is_found_out_and_one_that_does_not_is_not() -> Result<()> {
    let references: Mutex<BTreeMap<&str, End>> = Mutex::default();
    let run =
        |number: usize, case: &Case, check: &(dyn Fn(Vec<String>, End) -> Result<()> + Sync)| {
            scenario(&format!("wrong-{number}"), async |scene| {
                let (findings, end) = observe(scene, case).await?;
                check(findings, end)
            })
        };
    let controls = CONTROLS.iter().enumerate().collect();
    side_by_side(4, controls, |(number, case)| {
        run(number, case, &|findings, end| {
            ensure!(findings.is_empty(), "{findings:#?}");
            let mut references = references.lock().unwrap_or_else(PoisonError::into_inner);
            references.insert(case.workload.name, end);
            Ok(())
        })
    })?;
    let references = references
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let wrongs = (CONTROLS.len()..).zip(&WRONGS).collect();
    side_by_side(4, wrongs, |(number, case)| {
        run(number, case, &|mut findings, end| {
            findings.extend(differences(&references[case.workload.name], &end));
            let is_found = findings.iter().any(|f| f.contains(case.finding));
            ensure!(is_found, "{}: {findings:#?}", case.wrong);
            Ok(())
        })
    })
}

/// What the judge has against a run, and how it ended.
async fn observe(scene: &Scene<'_>, case: &Case) -> Result<(Vec<String>, End)> {
    let workload = case.workload;
    workload.install(scene).await?;
    enter(scene, workload, Life::Create).await?;
    let (proxy, through) = scene.proxy(Wire::Plain).await?;
    let run = |kill: Option<&str>| -> Result<Arguments> {
        let mut run = how(scene, kill)?;
        run.kubeconfig = through.kubeconfig.clone();
        let mutant = Some(case.wrong).filter(|wrong| !wrong.is_empty());
        let mutant = mutant.map(|wrong| ("GUESTHOUSE_MUTANT".to_owned(), wrong.to_owned()));
        run.environment.extend(mutant);
        Ok(run)
    };
    let mut nemeses = Vec::new();
    if let Some(point) = case.kill {
        let from = now_ms();
        let host = scene.host_with(&run(Some(point))?)?;
        let name = point.split(':').next().unwrap_or_default();
        await_kill(scene, &host, name).await?;
        nemeses.push(Nemesis {
            name: point.to_owned(),
            from,
            until: now_ms(),
            hits: 1,
        });
    }
    let _host = scene.host_with(&run(None)?)?;
    let objects = if workload.name == REPORT_JOB.name {
        // Not by its journals: they are what some wrongs are about.
        scene.drained(OBJECTS).await?
    } else {
        lives(scene, workload).await?
    };
    let run = Run {
        workload: workload.name.to_owned(),
        objects: objects.len(),
        changes: OBJECTS as u64,
        ledger: Ledger::of(scene),
        ..Run::default()
    };
    let history = History::of(scene, &proxy, run, nemeses, objects).await?;
    Ok((judge(&history), workload.end(scene).await?))
}

/// All are made and edited, and the first one is deleted.
async fn lives(scene: &Scene<'_>, workload: &Workload) -> Result<Vec<Value>> {
    workload.settled(scene, OBJECTS).await?;
    enter(scene, workload, Life::Change).await?;
    workload.settled(scene, OBJECTS).await?;
    workload.delete(scene, 0).await?;
    let objects = workload.settled(scene, OBJECTS - 1).await?;
    collected(scene).await?;
    Ok(objects)
}
