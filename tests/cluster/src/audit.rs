//! The judge of a run. It reads what server, proxy and receiver noted, never the host's own word on what it did.
//!
//! Safety is asked of the whole run, faults and all; that everything came to its end is asked of the end, when all faults are
//! off. A run that was idle, or whose faults did not take hold, is no proof of anything and is refused too.

mod children;
mod trace;

use crate::proxy::{Asked, Verb};
use crate::report::{History, Passing};
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
        children::are_recorded_before_they_are_made,
        children::are_deleted_by_their_uid,
        children::are_made_once,
        children::are_applied_in_bounds,
        children::are_all_accounted_for,
        children::resources_are_made_once_and_gone_with_their_objects,
        children::finalizers_come_before_what_they_are_for,
        children::nothing_is_left_on_its_way_out,
        trace::passes_of_a_key_do_not_overlap,
    ];
    rules.iter().flat_map(|rule| rule(history)).collect()
}

/// The most requests with one verb for one thing within one second.
pub fn busiest(requests: &[Asked]) -> (usize, String) {
    let mut times: BTreeMap<(Verb, String), Vec<u64>> = BTreeMap::new();
    for asked in requests {
        if asked.is_strike() {
            continue;
        }
        let path = asked.place();
        let path = match asked.verb {
            // Each page has a token of its own.
            Verb::List => asked.path.clone(),
            // Objects are created at one path.
            Verb::Create => format!("{path}/{}", asked.target.name),
            // Each selector is a watch of its own; one cut of a shared connection ends them all.
            Verb::Watch => format!("{path}?{}", selectors(&asked.path)),
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

/// Passes of one key that ran at the same time, one sentence each; empty: none.
pub fn overlaps(passes: Vec<Passing>) -> Vec<String> {
    trace::passes_of_a_key_do_not_overlap(&History {
        passes,
        ..History::default()
    })
}

fn selectors(path: &str) -> String {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let parts = query.split('&').filter(|part| part.contains("Selector="));
    parts.collect::<Vec<_>>().join("&")
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
        let wanted = match object["kind"].as_str() {
            // Histories of earlier versions hold reports alone.
            None | Some("ReportJob") => Some("Done"),
            Some("Website" | "ProvisionRequest") => Some("Ready"),
            Some(_) => None,
        };
        if wanted.is_some_and(|wanted| object["status"]["phase"] != wanted) {
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
        if is_report(object) && receipts.len() != 1 {
            findings.push(format!(
                "{name} has {} answered receipts on record",
                receipts.len()
            ));
        }
    }
    let made = history.run.ledger.made;
    let wanted = history.objects.iter().filter(|o| is_report(o)).count();
    if made != wanted as u64 {
        findings.push(format!("{made} reports of {wanted} were made"));
    }
    findings
}

fn is_report(object: &Value) -> bool {
    object["kind"].is_null() || object["kind"] == "ReportJob"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::proxy::{Target, Wrote};
    use crate::report::{Nemesis, Run};
    use serde_json::json;

    fn asked(at: u64, resource: &str, subresource: &str, wrote: Wrote) -> Asked {
        let target = Target {
            resource: resource.to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            subresource: subresource.to_owned(),
        };
        Asked {
            at,
            took: 1,
            verb: Verb::Update,
            path: format!("/{resource}/a/{subresource}"),
            target,
            code: 200,
            sent: true,
            server: 200,
            rule: None,
            wrote: Some(wrote),
        }
    }

    fn wrote(generation: Option<i64>, phase: Option<&str>) -> Wrote {
        Wrote {
            version: Some("1".to_owned()),
            uid: Some("u".to_owned()),
            generation,
            phase: phase.map(str::to_owned),
            about: Some("a".to_owned()),
            receipts: vec!["export/k answered".to_owned()],
            ..Wrote::default()
        }
    }

    /// One object, exported once, of which there is nothing to say.
    fn good() -> History {
        let object = json!({
            "metadata": {"name": "a", "uid": "u", "generation": 2},
            "status": {"phase": "Done", "observedGeneration": 2},
        });
        let receipt = json!({"effect": "export", "state": {"answered": {"code": 201}}});
        let journal = json!({"record": {"object": {"uid": "u"}, "receipts": [receipt]}});
        History {
            run: Run {
                objects: 1,
                changes: 100,
                traffic_ms: 1000,
                least_rate: 50,
                most_requests: 5,
                ledger: Ledger {
                    made: 1,
                    ..Ledger::default()
                },
                ..Run::default()
            },
            requests: vec![
                asked(0, "journals", "", wrote(None, None)),
                asked(10, "reportjobs", "status", wrote(Some(1), Some("Done"))),
                asked(20, "reportjobs", "status", wrote(Some(2), Some("Done"))),
            ],
            nemeses: Vec::new(),
            objects: vec![object],
            journals: vec![journal],
            ..History::default()
        }
    }

    #[track_caller]
    fn finds(finding: &str, change: impl FnOnce(&mut History)) {
        let mut history = good();
        change(&mut history);
        let findings = judge(&history);
        assert!(
            findings.iter().any(|f| f.contains(finding)),
            "{finding}: {findings:#?}"
        );
    }

    #[test]
    fn each_rule_finds_what_it_is_for_and_nothing_in_a_good_run() {
        assert_eq!(judge(&good()), [""; 0]);
        let wrote_of =
            |history: &mut History, at: usize| history.requests[at].wrote.take().unwrap();
        finds("without the version", |h| {
            let wrote = wrote_of(h, 1);
            h.requests[1].wrote = Some(Wrote {
                version: None,
                ..wrote
            });
        });
        finds("without the uid", |h| {
            let wrote = wrote_of(h, 1);
            h.requests[1].wrote = Some(Wrote { uid: None, ..wrote });
        });
        finds("generation 1 after 2", |h| h.requests.swap(1, 2));
        finds("before a receipt was journaled", |h| h.requests.swap(0, 1));
        finds("lists from a version", |h| {
            h.requests[1].path = "/things?sendInitialEvents=true&resourceVersion=0".to_owned();
        });
        finds("6 times within one second", |h| {
            h.requests.extend(vec![h.requests[2].clone(); 4])
        });
        finds("under another key", |h| h.run.ledger.duplicates = 1);
        finds("although nothing failed", |h| h.run.ledger.repeats = 1);
        finds("0 objects of 1", |h| h.objects.clear());
        finds("ended in phase", |h| {
            h.objects[0]["status"]["phase"] = "Pending".into()
        });
        finds("generation was not observed", |h| {
            h.objects[0]["metadata"]["generation"] = 3.into()
        });
        finds("0 answered receipts", |h| h.journals.clear());
        finds("2 reports of 1", |h| h.run.ledger.made = 2);
        finds("x never took hold", |h| {
            h.nemeses.push(Nemesis {
                name: "x".to_owned(),
                ..Nemesis::default()
            });
        });
        finds("a control run was struck", |h| {
            h.requests[0].rule = Some("x".to_owned())
        });
        finds("too few", |h| h.run.changes = 40);
        finds("nothing happened", |h| h.requests.clear());
    }

    #[test]
    fn a_history_is_judged_the_same_when_it_was_kept() {
        let dir = std::env::temp_dir().join(format!("guesthouse-history-{}", std::process::id()));
        good().save(&dir).unwrap();
        let kept = History::load(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(kept.unwrap(), good());
    }
}
