//! The judge of a run. It reads what server, proxy and receiver noted, never the host's own word on what it did.
//!
//! Safety is asked of the whole run, faults and all; that everything came to its end is asked of the end, when all faults are
//! off. A run that was idle, or whose faults did not take hold, is no proof of anything and is refused too.

use crate::proxy::{Asked, Verb};
use crate::report::History;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that is wrong with a run, one sentence each; empty: nothing.
pub fn judge(history: &History) -> Vec<String> {
    let rules = [
        writes_name_what_they_replace,
        generations_never_fall,
        receipts_come_before_what_is_built_on_them,
        lists_are_from_the_most_recent_state,
        nobody_asks_in_a_tight_loop,
        nothing_is_doubled,
        everything_came_to_its_end,
        faults_took_hold,
        there_was_traffic,
    ];
    rules.iter().flat_map(|rule| rule(history)).collect()
}

/// The most requests with one verb for one thing within one second.
pub fn busiest(requests: &[Asked]) -> (usize, String) {
    let mut times: BTreeMap<(Verb, String), Vec<u64>> = BTreeMap::new();
    for asked in requests {
        let path = asked.path.split('?').next().unwrap_or_default();
        let path = match asked.verb {
            // Each page has a token of its own.
            Verb::List => asked.path.clone(),
            // Objects are created at one path.
            Verb::Create => format!("{path}/{}", asked.target.name),
            _ => path.to_owned(),
        };
        times.entry((asked.verb, path)).or_default().push(asked.at);
    }
    let mut most = (0, String::new());
    for ((verb, path), mut at) in times {
        at.sort_unstable();
        let mut first = 0;
        for last in 0..at.len() {
            while at[last] - at[first] >= 1000 {
                first += 1;
            }
            if last + 1 - first > most.0 {
                most = (last + 1 - first, format!("{verb:?} {path}"));
            }
        }
    }
    most
}

/// A write that does not say which version it replaces overwrites whatever came between.
fn writes_name_what_they_replace(history: &History) -> Vec<String> {
    let replaces = |asked: &&Asked| {
        let target = &asked.target;
        let journal = target.resource == "journals" && asked.verb == Verb::Update;
        let status = target.subresource == "status" && asked.verb == Verb::Update;
        journal || status
    };
    let mut findings = Vec::new();
    for asked in history.requests.iter().filter(replaces) {
        let wrote = asked.wrote.clone().unwrap_or_default();
        if wrote.version.is_none() {
            findings.push(format!(
                "{} was written without the version it replaces",
                asked.path
            ));
        }
        if asked.target.subresource == "status" && wrote.uid.is_none() {
            findings.push(format!(
                "{} was written without the uid it is about",
                asked.path
            ));
        }
    }
    findings
}

fn generations_never_fall(history: &History) -> Vec<String> {
    let mut seen: BTreeMap<&str, i64> = BTreeMap::new();
    let mut findings = Vec::new();
    for asked in history.requests.iter().filter(|asked| asked.is_done()) {
        let Some(generation) = asked.wrote.as_ref().and_then(|wrote| wrote.generation) else {
            continue;
        };
        let before = seen.entry(&asked.path).or_insert(generation);
        if generation < *before {
            findings.push(format!(
                "{}: generation {generation} after {before}",
                asked.path
            ));
        }
        *before = generation;
    }
    findings
}

/// A phase of success stands on an answer that is journaled.
fn receipts_come_before_what_is_built_on_them(history: &History) -> Vec<String> {
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    let mut findings = Vec::new();
    for asked in history.requests.iter().filter(|asked| asked.may_be_done()) {
        let Some(wrote) = &asked.wrote else { continue };
        if asked.target.resource == "journals" {
            let has = wrote.receipts.iter().any(|r| r.ends_with(" answered"));
            if let (true, Some(about)) = (has, &wrote.about) {
                answered.insert(about);
            }
        } else if asked.is_done()
            && wrote.phase.as_deref() == Some("Done")
            && !answered.contains(asked.target.name.as_str())
        {
            findings.push(format!(
                "{} says Done before a receipt was journaled",
                asked.path
            ));
        }
    }
    findings
}

/// Listing from any cached version after a restart would bring an older state back (sieve: time travel).
fn lists_are_from_the_most_recent_state(history: &History) -> Vec<String> {
    let lists = history.requests.iter().filter(|asked| asked.lists());
    let stale = lists.filter(|asked| asked.path.contains("resourceVersion="));
    stale
        .map(|asked| format!("{} lists from a version that was chosen", asked.path))
        .collect()
}

fn nobody_asks_in_a_tight_loop(history: &History) -> Vec<String> {
    let (count, what) = busiest(&history.requests);
    if history.run.most_requests > 0 && count > history.run.most_requests {
        return vec![format!("{count} times within one second: {what}")];
    }
    Vec::new()
}

fn nothing_is_doubled(history: &History) -> Vec<String> {
    let ledger = &history.run.ledger;
    let mut findings = Vec::new();
    if ledger.duplicates > 0 {
        findings.push(format!(
            "{} reports were made again under another key",
            ledger.duplicates
        ));
    }
    if history.nemeses.is_empty() && ledger.failed == 0 && ledger.repeats > 0 {
        findings.push(format!(
            "{} requests were repeated although nothing failed",
            ledger.repeats
        ));
    }
    findings
}

fn everything_came_to_its_end(history: &History) -> Vec<String> {
    let mut findings = Vec::new();
    if history.objects.len() != history.run.objects {
        let (there, made) = (history.objects.len(), history.run.objects);
        findings.push(format!("{there} objects of {made} are there"));
    }
    for object in &history.objects {
        let name = name(object);
        if object["status"]["phase"] != "Done" {
            findings.push(format!(
                "{name} ended in phase {}",
                object["status"]["phase"]
            ));
        }
        if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
            findings.push(format!("{name}: its last generation was not observed"));
        }
        let journals = history
            .journals
            .iter()
            .filter(|journal| journal["record"]["object"]["uid"] == object["metadata"]["uid"]);
        let receipts: Vec<_> = journals
            .flat_map(|journal| {
                journal["record"]["receipts"]
                    .as_array()
                    .into_iter()
                    .flatten()
            })
            .filter(|receipt| receipt["state"]["answered"].is_object())
            .collect();
        if receipts.len() != 1 {
            findings.push(format!(
                "{name} has {} answered receipts on record",
                receipts.len()
            ));
        }
    }
    let ledger = &history.run.ledger;
    if ledger.made != history.run.objects as u64 {
        findings.push(format!(
            "{} reports of {} were made",
            ledger.made, history.run.objects
        ));
    }
    findings
}

fn faults_took_hold(history: &History) -> Vec<String> {
    let idle = history.nemeses.iter().filter(|nemesis| nemesis.hits == 0);
    let mut findings: Vec<_> = idle
        .map(|nemesis| format!("{} never took hold", nemesis.name))
        .collect();
    if history.nemeses.is_empty() {
        let struck = history.requests.iter().filter(|asked| asked.rule.is_some());
        findings.extend(struck.map(|asked| format!("a control run was struck at {}", asked.path)));
    }
    findings
}

fn there_was_traffic(history: &History) -> Vec<String> {
    let run = &history.run;
    let rate = run.changes * 1000 / run.traffic_ms.max(1);
    let mut findings = Vec::new();
    if rate < run.least_rate {
        findings.push(format!(
            "{rate} changes a second are too few of {}",
            run.least_rate
        ));
    }
    if history.requests.is_empty() || run.objects == 0 {
        findings.push("nothing happened".to_owned());
    }
    findings
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
