//! What networks and API servers do to a host, each alone and all at once: it comes to the same end, loses nothing, doubles
//! nothing, and asks nobody in a tight loop.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    Fault, History, Host, Ledger, Nemesis, PROVISION_REQUEST, Proxy, REPORT_JOBS, Rule, Run, Scene,
    Verb, WEBSITE, Way, Wire, Workload, busiest, judge, now_ms, scenario, side_by_side,
};
use serde_json::{Value, json};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Jobs of a run: so many before the fault, so many while it is on.
const BEFORE: usize = 15;
const DURING: usize = 15;
/// Objects of each row beside them, before and during the fault.
const BESIDE: usize = 3;
/// How long edits go on during a fault.
const TIME: Duration = Duration::from_millis(1200);
/// Requests with one verb for one thing within a second: an edit and a retry each make some, a loop makes hundreds.
const MOST: usize = 10;

/// A fault, and how it is brought about.
struct Case {
    name: &'static str,
    wire: Wire,
    what: What,
    /// The host is killed and started again under the fault: it lists.
    restart: bool,
    /// Objects a page of its lists.
    page: usize,
    /// How long it lasts at least.
    time: Duration,
    /// What is served beside the jobs.
    beside: &'static [&'static Workload],
}

enum What {
    /// Nothing: the control.
    Nothing,
    Rules(Vec<Rule>),
    Block(Way),
}

impl Case {
    fn of(name: &'static str, what: What) -> Self {
        Self {
            name,
            wire: Wire::Plain,
            what,
            restart: false,
            page: 0,
            time: TIME,
            beside: &[],
        }
    }

    /// Objects with children and resources are served too.
    fn with_all(self) -> Self {
        Self {
            beside: &[&WEBSITE, &PROVISION_REQUEST],
            ..self
        }
    }

    fn over_tls(self) -> Self {
        Self {
            wire: Wire::Tls,
            ..self
        }
    }

    fn restarting(self) -> Self {
        Self {
            restart: true,
            ..self
        }
    }

    /// Lists come in pages of four, since the server seems too old for streamed ones.
    fn in_pages(self) -> Self {
        let What::Rules(mut rules) = self.what else {
            return self;
        };
        let old = Fault::Status(422, None);
        rules.push(Rule::new("old", old).query("sendInitialEvents"));
        Self {
            what: What::Rules(rules),
            page: 4,
            restart: true,
            ..self
        }
    }
}

#[test]
fn each_fault_alone_delays_and_loses_and_doubles_nothing() -> Result<()> {
    let cases = [
        slow(),
        refusals(),
        too_old(),
        broken_connections(),
        streams(),
    ];
    let cases = cases.into_iter().flatten().collect();
    side_by_side(6, cases, |case| {
        scenario(&format!("fault-{}", case.name), async |scene| {
            run(scene, case).await
        })
    })
}

#[test]
fn all_faults_mixed_at_random_for_a_minute_lose_and_double_nothing() -> Result<()> {
    scenario("fault-mixed", async |scene| {
        run(scene, mixed(20_261_130)).await
    })
}

const JOBS: &[&str] = &["reportjobs"];
const WRITTEN: &[&str] = &["reportjobs", "journals"];
/// Everything that a pass of any row writes, and watches.
const ALL: &[&str] = &[
    "reportjobs",
    "journals",
    "websites",
    "provisionrequests",
    "configmaps",
    "deployments",
    "services",
    "ingresses",
];

fn status(code: u16) -> Fault {
    Fault::Status(code, None)
}

/// One rule that bears the case's name.
fn one(name: &'static str, fault: Fault, narrow: impl FnOnce(Rule) -> Rule) -> Case {
    Case::of(name, What::Rules(vec![narrow(Rule::new(name, fault))]))
}

/// What sits out the host's own limits, 30 s for an answer and 90 s for a watch; and the control.
fn slow() -> Vec<Case> {
    vec![
        one("quiet", Fault::Quiet, |r| r.on(JOBS).times(1)),
        one("silent", Fault::Silent, |r| r.writes().times(5)),
        one(
            "slow-lists",
            Fault::Delay(Duration::from_secs(5), Duration::ZERO),
            |r| r.verbs(&[Verb::List, Verb::Watch]).times(6),
        )
        .restarting()
        .with_all(),
        Case::of("none", What::Nothing).over_tls().restarting(),
    ]
}

/// The server says no.
fn refusals() -> Vec<Case> {
    let wait = |code| Fault::Status(code, Some(1));
    vec![
        one("409", status(409), |r| r.writes().on(ALL).percent(40, 1)).with_all(),
        one("422", status(422), |r| {
            r.verbs(&[Verb::Update]).on(JOBS).times(6)
        }),
        one("429", wait(429), |r| r.on(ALL).percent(40, 2)).with_all(),
        one("429-bare", status(429), |r| r.on(WRITTEN).percent(40, 3)).over_tls(),
        one("500", status(500), |r| r.percent(40, 4)).with_all(),
        one("503", wait(503), |r| r.percent(40, 5))
            .over_tls()
            .with_all()
            .restarting(),
        one("401", status(401), |r| r.percent(30, 6)),
        one("403", status(403), |r| r.percent(30, 7)).restarting(),
        one("404-of-the-kind", status(404), |r| {
            r.on(JOBS).verbs(&[Verb::Watch, Verb::List]).times(4)
        })
        .restarting(),
    ]
}

/// 410, wherever it can come.
fn too_old() -> Vec<Case> {
    let cut = Rule::new("cut", Fault::CutStream).on(ALL).times(4);
    let start = Rule::new("410", status(410))
        .on(ALL)
        .query("&resourceVersion=");
    vec![
        one("410-in-a-list", status(410), |r| {
            r.on(JOBS).verbs(&[Verb::List]).times(2)
        })
        .in_pages(),
        one("410-at-a-token", status(410), |r| {
            r.on(JOBS).query("continue=").times(2)
        })
        .in_pages(),
        Case::of("410-at-the-start", What::Rules(vec![cut, start.times(4)])).with_all(),
        one("410-in-the-stream", Fault::GoneInStream, |r| {
            r.on(ALL).times(9)
        })
        .with_all(),
    ]
}

/// Requests whose connection breaks, or whose answer does.
fn broken_connections() -> Vec<Case> {
    let (late, more) = (Duration::from_millis(25), Duration::from_millis(100));
    vec![
        one("cut-before", Fault::CutBefore, |r| r.percent(20, 8)),
        one("cut-after", Fault::CutAfter, |r| r.writes().percent(30, 9)).with_all(),
        one("cut-in-the-body", Fault::CutInBody, |r| {
            r.requests().percent(30, 10)
        }),
        one("lost", Fault::Lost, |r| r.writes().percent(40, 11)).with_all(),
        one("lost-h2", Fault::Lost, |r| r.writes().percent(20, 12)).over_tls(),
        one("truncated", Fault::Truncated, |r| {
            r.requests().percent(30, 13)
        }),
        one("truncated-lists", Fault::Truncated, |r| {
            r.verbs(&[Verb::List]).times(3)
        })
        .in_pages(),
        one("late", Fault::Delay(late, more), |r| r.requests()),
        Case::of("block-both", What::Block(Way::Both)).over_tls(),
        Case::of("block-sending", What::Block(Way::Send)).over_tls(),
        Case::of("block-receiving", What::Block(Way::Receive)),
    ]
}

/// Everything that ends by itself, each befalling a few of a hundred.
fn mixed(seed: u64) -> Case {
    let (late, more) = (Duration::from_millis(25), Duration::from_millis(100));
    let faults = [
        ("409", status(409), 30),
        ("422", status(422), 5),
        ("429", Fault::Status(429, Some(1)), 20),
        ("429-bare", status(429), 20),
        ("500", status(500), 30),
        ("503", Fault::Status(503, Some(1)), 20),
        ("401", status(401), 10),
        ("403", status(403), 20),
        ("cut-before", Fault::CutBefore, 20),
        ("cut-after", Fault::CutAfter, 20),
        ("cut-in-the-body", Fault::CutInBody, 20),
        ("lost", Fault::Lost, 50),
        ("truncated", Fault::Truncated, 20),
        ("silent", Fault::Silent, 3),
        (
            "very-late",
            Fault::Delay(Duration::from_secs(5), Duration::ZERO),
            20,
        ),
        ("410-in-the-stream", Fault::GoneInStream, 5),
        ("cut-stream", Fault::CutStream, 5),
        // What is left is late.
        ("late", Fault::Delay(late, more), 500),
    ];
    let numbered = (seed..).zip(faults);
    let rules = numbered.map(|(seed, (name, fault, share))| match name {
        "422" => Rule::new(name, fault)
            .permille(share, seed)
            .on(WRITTEN)
            .writes(),
        _ => Rule::new(name, fault).permille(share, seed),
    });
    let all = Case::of("mixed", What::Rules(rules.collect()));
    Case {
        time: Duration::from_secs(60),
        ..all.with_all()
    }
}

/// Watches that break or say too little.
fn streams() -> Vec<Case> {
    vec![
        one("cut-stream", Fault::CutStream, |r| r.percent(10, 14)).with_all(),
        one("truncated-lines", Fault::Truncated, |r| {
            r.verbs(&[Verb::Watch]).percent(5, 15)
        }),
        one("bookmarks-only", Fault::BookmarksOnly, |r| r.on(JOBS)).over_tls(),
    ]
}

/// Healthy, a fault under traffic, healed, and judged.
async fn run(scene: &Scene<'_>, case: Case) -> Result<()> {
    let (proxy, how) = scene.proxy(case.wire).await?;
    scene.map_report_jobs().await?;
    for beside in case.beside {
        beside.install(scene).await?;
    }
    let mut host = Some(scene.host_with(&how)?);
    for number in 0..BEFORE {
        scene.job(&job(number), json!({})).await?;
    }
    for (beside, number) in beside(&case, 0..BESIDE) {
        beside.create(scene, number).await?;
    }
    settled(scene, &case, BEFORE, BESIDE)
        .await
        .context("healthy before")?;
    proxy.page_size(case.page);
    let begun = now_ms();
    bring(&proxy, &case);
    if case.restart {
        host.take().into_iter().for_each(Host::kill);
        host = Some(scene.host_with(&how)?);
    }
    let changes = traffic(scene, &case).await?;
    let traffic_ms = now_ms() - begun;
    let nemeses = held(scene, &proxy, &case, begun).await?;
    proxy.heal();
    let objects = settled(scene, &case, BEFORE + DURING, 2 * BESIDE)
        .await
        .context("after the fault")?;
    ensure!(host.context("a host")?.ended()?.is_none());
    let run = Run {
        workload: names(&case),
        objects: objects.len(),
        changes,
        traffic_ms,
        most_requests: MOST,
        ledger: Ledger::of(scene),
        ..Run::default()
    };
    let history = History::of(scene, &proxy, run, nemeses, objects).await?;
    tell(&case, &history, now_ms() - begun);
    let findings = judge(&history);
    ensure!(findings.is_empty(), "{findings:#?}");
    Ok(())
}

/// For whoever looks at the figures: `--nocapture`.
fn tell(case: &Case, history: &History, took: u64) {
    let hits = history.nemeses.iter().map(|n| (n.name.as_str(), n.hits));
    let hits: Vec<_> = hits.collect();
    let (most, what) = busiest(&history.requests);
    let name = case.name;
    eprintln!("{name}: {took} ms, struck {hits:?}; at most {most} a second: {what}");
}

fn job(number: usize) -> String {
    format!("job-{number:02}")
}

fn bring(proxy: &Proxy, case: &Case) {
    match &case.what {
        What::Nothing => {}
        What::Rules(rules) => rules.iter().cloned().for_each(|rule| proxy.set(rule)),
        What::Block(way) => proxy.block(*way),
    }
}

/// Objects of the rows beside the jobs.
fn beside(case: &Case, numbers: Range<usize>) -> impl Iterator<Item = (&'static Workload, usize)> {
    let beside = case.beside;
    numbers.flat_map(move |number| beside.iter().map(move |workload| (*workload, number)))
}

fn names(case: &Case) -> String {
    let beside = case.beside.iter().map(|workload| workload.name);
    let names: Vec<_> = std::iter::once("report-jobs").chain(beside).collect();
    names.join(" ")
}

/// New objects, and edits of all there are until the time is over; how many changes that is.
async fn traffic(scene: &Scene<'_>, case: &Case) -> Result<u64> {
    let mut changes = 0;
    for number in BEFORE..BEFORE + DURING {
        scene.job(&job(number), json!({})).await?;
        changes += 1;
    }
    for (workload, number) in beside(case, BESIDE..2 * BESIDE) {
        workload.create(scene, number).await?;
        changes += 1;
    }
    let started = Instant::now();
    for round in 1.. {
        for number in 0..BEFORE + DURING {
            let edit = json!({"spec": {"priority": round}});
            scene.patch(REPORT_JOBS, &job(number), edit).await?;
            changes += 1;
        }
        for (workload, number) in beside(case, 0..2 * BESIDE) {
            workload.edit(scene, number, round).await?;
            changes += 1;
        }
        scene.roll_out().await?;
        // Rounds that the host tells from each other; nothing is concluded from it.
        tokio::time::sleep(Duration::from_millis(500)).await;
        if started.elapsed() > case.time {
            break;
        }
    }
    Ok(changes)
}

/// Waits until the fault struck, and notes it.
async fn held(scene: &Scene<'_>, proxy: &Proxy, case: &Case, from: u64) -> Result<Vec<Nemesis>> {
    if matches!(case.what, What::Nothing) {
        return Ok(Vec::new());
    }
    let what = format!("each rule of {} strikes", case.name);
    let hits = scene
        .eventually(&what, async || {
            let hits = proxy.hits();
            let all = !hits.is_empty() && hits.values().all(|hits| *hits > 0);
            Ok(all.then_some(hits))
        })
        .await?;
    let nemesis = |(name, hits)| Nemesis {
        name,
        from,
        until: now_ms(),
        hits,
    };
    Ok(hits.into_iter().map(nemesis).collect())
}

/// Waits until all jobs, and so many objects of each row beside them, are at their end; all of them.
async fn settled(scene: &Scene<'_>, case: &Case, jobs: usize, others: usize) -> Result<Vec<Value>> {
    let is_settled = |job: &Value| {
        job["status"]["phase"] == "Done"
            && job["status"]["observedGeneration"] == job["metadata"]["generation"]
    };
    let mut objects = scene
        .eventually_slowly("all jobs are done", async || {
            let found = scene.api.list(REPORT_JOBS, &scene.namespace).await?;
            Ok((found.len() == jobs && found.iter().all(is_settled)).then_some(found))
        })
        .await?;
    for workload in case.beside {
        objects.extend(workload.settled(scene, others).await?);
    }
    Ok(objects)
}
