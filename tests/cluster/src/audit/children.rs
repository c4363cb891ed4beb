//! Rules about children, about what is made outside, and about finalizers.

use crate::proxy::{Asked, Verb};
use crate::report::History;
use crate::workload::{CHILDREN, unaccounted};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a request is about a kind of which there are children.
fn is_about_a_child(asked: &Asked) -> bool {
    CHILDREN
        .iter()
        .any(|kind| kind.plural == asked.target.resource)
}

/// A child that is made before its journal knows of it is nobody's, should the host die in between.
pub(super) fn are_recorded_before_they_are_made(history: &History) -> Vec<String> {
    let mut recorded: BTreeSet<&str> = BTreeSet::new();
    let mut findings = Vec::new();
    for asked in history.requests.iter().filter(|asked| asked.may_be_done()) {
        let Some(wrote) = &asked.wrote else { continue };
        recorded.extend(wrote.inventory.iter().map(String::as_str));
        if asked.applies() && asked.is_done() && is_about_a_child(asked) {
            let kind = wrote.kind.as_deref().unwrap_or_default();
            let child = format!("{kind} {}", asked.target.name);
            if !recorded.contains(child.as_str()) {
                findings.push(format!("{child} was applied before it was on record"));
            }
        }
    }
    findings
}

/// By its name alone another one's would go, which has that name by now.
pub(super) fn are_deleted_by_their_uid(history: &History) -> Vec<String> {
    let deletes = |asked: &&Asked| asked.verb == Verb::Delete && is_about_a_child(asked);
    let unnamed = |asked: &&Asked| asked.wrote.as_ref().is_none_or(|w| w.uid.is_none());
    let found = history.requests.iter().filter(deletes).filter(unnamed);
    found
        .map(|asked| format!("{} was deleted whatever its uid", asked.place()))
        .collect()
}

/// As often as it was deleted, and once more.
pub(super) fn are_made_once(history: &History) -> Vec<String> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for asked in history
        .requests
        .iter()
        .filter(|asked| is_about_a_child(asked))
    {
        let (made, deleted) = counts.entry(asked.place()).or_default();
        *made += usize::from(asked.applies() && asked.server == 201);
        *deleted += usize::from(asked.verb == Verb::Delete && asked.may_be_done());
    }
    let found = counts
        .into_iter()
        .filter(|(_, (made, deleted))| *made > deleted + 1);
    found
        .map(|(child, (made, deleted))| {
            format!("{child} was made {made} times and deleted {deleted} times")
        })
        .collect()
}

/// A change of the object is a few applies of a child, and so is each request that failed; a loop makes more.
pub(super) fn are_applied_in_bounds(history: &History) -> Vec<String> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    let generations: BTreeMap<_, _> = history
        .objects
        .iter()
        .map(|object| {
            (
                uid(object),
                object["metadata"]["generation"].as_u64().unwrap_or(1),
            )
        })
        .collect();
    let mut findings = Vec::new();
    for child in &history.children {
        let metadata = &child["metadata"];
        let owner = metadata["ownerReferences"][0]["uid"]
            .as_str()
            .map(str::to_owned);
        let Some(generation) = generations.get(&owner) else {
            continue;
        };
        let (kind, name) = (child["kind"].as_str(), metadata["name"].as_str());
        let applies = history.requests.iter().filter(|asked| {
            let wrote = asked.wrote.as_ref();
            asked.applies()
                && wrote.and_then(|wrote| wrote.kind.as_deref()) == kind
                && Some(asked.target.name.as_str()) == name
        });
        let (well, badly): (Vec<_>, Vec<_>) =
            applies.partition(|asked| asked.is_done() && asked.code == asked.server);
        let bound = 2 * generation + 2 * badly.len() as u64 + history.nemeses.len() as u64 + 4;
        if well.len() as u64 > bound {
            let count = well.len();
            findings.push(format!(
                "{kind:?} {name:?} was applied {count} times for {generation} generations"
            ));
        }
    }
    findings
}

/// At the end: what carries a mark is in an inventory, and what is in an inventory is there.
pub(super) fn are_all_accounted_for(history: &History) -> Vec<String> {
    unaccounted(&history.children, &history.journals)
}

/// Of an object outside: one in its whole life, and none after it.
pub(super) fn resources_are_made_once_and_gone_with_their_objects(
    history: &History,
) -> Vec<String> {
    let ledger = &history.run.ledger;
    let mut findings = Vec::new();
    for (id, acts) in &ledger.acts {
        if acts.created > 1 || acts.deleted > 1 {
            findings.push(format!("resource {id}: {acts:?}"));
        }
    }
    let requests = history
        .objects
        .iter()
        .filter(|o| o["kind"] == "ProvisionRequest");
    let wanted: BTreeSet<&str> = requests
        .filter_map(|request| request["status"]["resource"].as_str())
        .collect();
    let there: BTreeSet<&str> = ledger.resources.iter().map(|r| r.id.as_str()).collect();
    let leaked = there.difference(&wanted);
    findings.extend(leaked.map(|id| format!("resource {id} is there without its object")));
    let lost = wanted.difference(&there);
    findings.extend(lost.map(|id| format!("resource {id} is not there")));
    findings
}

/// What is made outside while nothing holds its object stays when the object goes.
pub(super) fn finalizers_come_before_what_they_are_for(history: &History) -> Vec<String> {
    let mut put: BTreeMap<&str, u64> = BTreeMap::new();
    for asked in history.requests.iter().filter(|asked| asked.may_be_done()) {
        let has = asked.wrote.as_ref().is_some_and(|w| w.finalizer.is_some());
        if has && asked.target.resource == "provisionrequests" {
            let at = put.entry(&asked.target.name).or_insert(asked.at);
            *at = asked.at.min(*at);
        }
    }
    let mut findings = BTreeSet::new();
    for asked in history
        .run
        .ledger
        .asked
        .iter()
        .filter(|asked| asked.method == "PUT")
    {
        // NAMESPACE.NAME.UID
        let name = asked.resource.split('.').nth(1).unwrap_or_default();
        if put.get(name).is_none_or(|at| *at > asked.at) {
            findings.insert(format!(
                "{name} was provisioned before its finalizer was on"
            ));
        }
    }
    findings.into_iter().collect()
}

/// Everybody deletes things; nothing of ours may hold them up for good.
pub(super) fn nothing_is_left_on_its_way_out(history: &History) -> Vec<String> {
    let all = history.objects.iter().chain(&history.children);
    let terminating = all.filter(|object| object["metadata"]["deletionTimestamp"].is_string());
    terminating
        .map(|object| {
            let metadata = &object["metadata"];
            let (name, finalizers) = (&metadata["name"], &metadata["finalizers"]);
            format!(
                "{} {name} is still terminating, held by {finalizers}",
                object["kind"]
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::proxy::{Target, Wrote};
    use provisioner::{Acts, Entry};
    use serde_json::json;

    fn asked(at: u64, verb: Verb, path: &str, wrote: Wrote) -> Asked {
        let mut parts = path
            .split('?')
            .next()
            .unwrap_or_default()
            .split('/')
            .skip(1);
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let target = Target {
            resource: part(),
            namespace: "n".to_owned(),
            name: part(),
            subresource: part(),
        };
        Asked {
            at,
            took: 1,
            verb,
            target,
            path: path.to_owned(),
            code: 201,
            sent: true,
            server: 201,
            rule: None,
            wrote: Some(wrote),
        }
    }

    /// A website's content, and a resource, as they should be.
    fn good() -> History {
        let applied = Wrote {
            kind: Some("ConfigMap".to_owned()),
            ..Wrote::default()
        };
        let recorded = Wrote {
            inventory: vec!["ConfigMap c".to_owned()],
            ..Wrote::default()
        };
        let put = Wrote {
            finalizer: Some("f".to_owned()),
            ..Wrote::default()
        };
        let removed = Wrote {
            uid: Some("old".to_owned()),
            ..Wrote::default()
        };
        let apply = "/configmaps/c?fieldManager=guesthouse%2Fsites&force=true";
        let acts = Acts {
            created: 1,
            ..Acts::default()
        };
        let ledger = Ledger {
            acts: [("n.r.u".to_owned(), acts)].into(),
            resources: vec![
                serde_json::from_value(
                    json!({"id": "n.r.u", "size": "s", "region": "r", "state": "ready"}),
                )
                .unwrap(),
            ],
            asked: vec![Entry {
                at: 20,
                method: "PUT".to_owned(),
                resource: "n.r.u".to_owned(),
                key: None,
                body: String::new(),
                answer: Some(201),
            }],
            ..Ledger::default()
        };
        let mut history = History {
            requests: vec![
                asked(1, Verb::Update, "/journals/j", recorded),
                asked(2, Verb::Patch, apply, applied.clone()),
                asked(3, Verb::Delete, "/configmaps/c", removed),
                asked(4, Verb::Patch, apply, applied),
                asked(10, Verb::Patch, "/provisionrequests/r", put),
            ],
            objects: vec![
                json!({"kind": "Website", "metadata": {"uid": "w", "generation": 1}}),
                json!({"kind": "ProvisionRequest", "metadata": {"uid": "u"}, "status": {"resource": "n.r.u"}}),
            ],
            journals: vec![
                json!({"record": {"inventory": [{"kind": {"kind": "ConfigMap"}, "name": "c", "uid": "1"}]}}),
            ],
            children: vec![
                json!({"kind": "ConfigMap", "metadata": {"name": "c", "uid": "1", "ownerReferences": [{"uid": "w"}]}}),
            ],
            ..History::default()
        };
        history.run.ledger = ledger;
        history
    }

    fn judged(history: &History) -> Vec<String> {
        let rules = [
            are_recorded_before_they_are_made,
            are_deleted_by_their_uid,
            are_made_once,
            are_applied_in_bounds,
            are_all_accounted_for,
            resources_are_made_once_and_gone_with_their_objects,
            finalizers_come_before_what_they_are_for,
            nothing_is_left_on_its_way_out,
        ];
        rules.iter().flat_map(|rule| rule(history)).collect()
    }

    #[track_caller]
    fn finds(finding: &str, change: impl FnOnce(&mut History)) {
        let mut history = good();
        change(&mut history);
        let findings = judged(&history);
        assert!(
            findings.iter().any(|f| f.contains(finding)),
            "{finding}: {findings:#?}"
        );
    }

    #[test]
    fn each_rule_about_children_finds_what_it_is_for_and_nothing_in_a_good_run() {
        assert_eq!(judged(&good()), [""; 0]);
        finds("applied before it was on record", |h| h.requests.swap(0, 1));
        finds("whatever its uid", |h| h.requests[2].wrote = None);
        finds("made 2 times and deleted 0", |h| {
            h.requests.remove(2);
        });
        finds("applied 9 times for 1 generations", |h| {
            let mut again = h.requests[1].clone();
            (again.code, again.server) = (200, 200);
            h.requests.extend(vec![again; 7]);
        });
        finds("in no inventory", |h| h.journals.clear());
        finds("and not there", |h| h.children.clear());
        finds("created: 2", |h| {
            h.run.ledger.acts.get_mut("n.r.u").unwrap().created = 2;
        });
        finds("without its object", |h| {
            h.objects.pop();
        });
        finds("resource n.r.u is not there", |h| {
            h.run.ledger.resources.clear()
        });
        finds("before its finalizer was on", |h| h.requests[4].at = 21);
        finds("still terminating", |h| {
            h.objects[0]["metadata"]["deletionTimestamp"] = "now".into();
        });
    }
}
