//! What is done to a host, its API server and its surroundings.

use super::Set;
use super::traffic::SERVED;
use crate::proxy::{Fault, Rule, Verb, Way, mix};
use guesthouse_local::Component;
use report_exporter::Mode;
use std::collections::BTreeSet;
use std::time::Duration;

const WRITTEN: &[&str] = &[
    "reportjobs",
    "websites",
    "provisionrequests",
    "journals",
    "configmaps",
    "deployments",
    "services",
    "ingresses",
];

/// One thing that is done.
pub(super) enum One {
    /// SIGKILL, wherever it stands.
    Kill,
    /// SIGKILL at a point.
    Crash(&'static str, u64),
    /// SIGSTOP for a while.
    Stop,
    /// SIGTERM in the middle of everything.
    Term,
    /// A rule at the proxy; the host is started anew if it is about lists.
    Rule(Rule, bool),
    /// Nothing passes that way.
    Block(Way),
    /// All connections are cut.
    CutAll,
    /// A component of the control plane ends and starts again.
    Restart(Component),
    /// A component of the control plane is killed and starts again.
    KillComponent(Component),
    /// The API server stands still.
    FreezeApi,
    /// The host's rights are withdrawn.
    Rights,
    /// A kind is deleted, and defined again.
    Kind,
    /// The exporter fails that way.
    Exporter(Mode),
    /// Compiled plugins on disk are cut to half their length.
    Cache,
    /// The plugin is another one.
    Swap,
    /// The mapping is edited.
    Mapping,
    /// There are two replicas, and something befalls the one that has the claim.
    Leader(Leader),
    /// A policy of the API server denies the host's writes.
    Admission,
    /// Another version of a kind becomes the one that is stored.
    Version,
}

/// What befalls a leader.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leader {
    /// SIGKILL.
    Killed,
    /// SIGSTOP for longer than its Lease.
    Frozen,
}

/// All of a set, in an order that differs from round to round.
pub(super) fn in_order(set: Set, seed: u64, round: u64) -> Vec<One> {
    let mut all = few();
    if set == Set::Nightly {
        all.extend(more(seed, round));
    }
    let numbered = (0_u64..).zip(all);
    let mut drawn: Vec<(u64, One)> = numbered
        .map(|(at, one)| (mix(seed ^ mix(round << 32 | at)), one))
        .collect();
    drawn.sort_by_key(|(draw, _)| *draw);
    drawn.into_iter().map(|(_, one)| one).collect()
}

/// One of each group.
fn few() -> Vec<One> {
    vec![
        One::Kill,
        One::Crash("after-send", 5),
        One::Block(Way::Both),
        rule("503", Fault::Status(503, Some(1)), |r| r.percent(40, 1)),
        rule("lost", Fault::Lost, |r| r.writes().percent(30, 2)),
        rule("410", Fault::GoneInStream, |r| r.percent(2, 3)),
        One::Restart(Component::KubeApiserver),
        One::Exporter(Mode::Http500),
        One::Swap,
    ]
}

fn more(seed: u64, round: u64) -> Vec<One> {
    let (late, more) = (Duration::from_millis(25), Duration::from_millis(100));
    let status = |code| Fault::Status(code, None);
    let mut all = vec![
        One::Stop,
        One::Term,
        One::Block(Way::Send),
        One::Block(Way::Receive),
        One::CutAll,
        One::KillComponent(Component::Etcd),
        One::KillComponent(Component::KubeApiserver),
        One::FreezeApi,
        One::Rights,
        One::Kind,
        One::Exporter(Mode::Http429),
        One::Exporter(Mode::Lost),
        One::Exporter(Mode::Close),
        One::Cache,
        One::Mapping,
        One::Leader(Leader::Killed),
        One::Leader(Leader::Frozen),
        One::Admission,
        One::Version,
        rule("409", status(409), |r| {
            r.writes().on(WRITTEN).percent(60, 4)
        }),
        rule("429", Fault::Status(429, Some(1)), |r| r.percent(40, 5)),
        rule("429-bare", status(429), |r| r.percent(40, 6)),
        rule("500", status(500), |r| r.percent(40, 7)),
        rule("401", status(401), |r| r.percent(40, 8)),
        rule("403", status(403), |r| r.percent(40, 9)),
        rule("cut-before", Fault::CutBefore, |r| r.percent(20, 10)),
        rule("cut-after", Fault::CutAfter, |r| r.percent(20, 11)),
        rule("cut-in-the-body", Fault::CutInBody, |r| r.percent(20, 12)),
        rule("truncated", Fault::Truncated, |r| r.percent(5, 13)),
        rule("late", Fault::Delay(late, more), |r| r.requests()),
        rule("bookmarks-only", Fault::BookmarksOnly, |r| {
            r.on(&["reportjobs"])
        }),
        rule("cut-stream", Fault::CutStream, |r| r.percent(5, 14)),
    ];
    let slow = Fault::Delay(Duration::from_secs(5), Duration::ZERO);
    let lists = Rule::new("slow-lists", slow)
        .verbs(&[Verb::List, Verb::Watch])
        .times(6);
    all.push(One::Rule(lists, true));
    let gone = Rule::new("404", status(404))
        .verbs(&[Verb::List, Verb::Watch])
        .on(&["reportjobs"]);
    all.push(One::Rule(gone.times(4), true));
    // Each point that any row comes by, at a passing that the traffic comes to; the other two wait for two replicas.
    let served = SERVED.iter().flat_map(|(workload, _)| workload.points);
    let points: BTreeSet<&str> = served.map(|(_, point, _)| *point).collect();
    all.extend(points.into_iter().enumerate().map(|(at, point)| {
        // Once in a process, or once in each pass, or once in an object's life.
        let once = point.contains("swap") || point.contains("cache");
        let seldom = point.contains("finalizer") || point.contains("delete");
        let most = if seldom { 3 } else { 20 };
        let passing = mix(seed ^ mix(round << 16 | at as u64)) % most + 1;
        One::Crash(point, if once { 1 } else { passing })
    }));
    all
}

fn rule(name: &str, fault: Fault, narrow: impl FnOnce(Rule) -> Rule) -> One {
    One::Rule(narrow(Rule::new(name, fault)), false)
}

impl One {
    pub(super) fn name(&self) -> String {
        match self {
            One::Kill => "kill".to_owned(),
            One::Crash(point, at) => format!("crash {point}:{at}"),
            One::Stop => "stop".to_owned(),
            One::Term => "term".to_owned(),
            One::Rule(rule, _) => format!("api {}", rule.name()),
            One::Block(way) => format!("block {way:?}").to_lowercase(),
            One::CutAll => "cut all".to_owned(),
            One::Restart(component) => format!("restart {}", component.name()),
            One::KillComponent(component) => format!("kill {}", component.name()),
            One::FreezeApi => "freeze kube-apiserver".to_owned(),
            One::Rights => "rights withdrawn".to_owned(),
            One::Kind => "kind deleted".to_owned(),
            One::Exporter(mode) => format!("exporter {mode:?}").to_lowercase(),
            One::Cache => "cache cut".to_owned(),
            One::Swap => "plugin swapped".to_owned(),
            One::Mapping => "mapping edited".to_owned(),
            One::Leader(what) => format!("leader {what:?}").to_lowercase(),
            One::Admission => "admission denied".to_owned(),
            One::Version => "kind stored in another version".to_owned(),
        }
    }
}
