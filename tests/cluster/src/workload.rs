//! What runs under faults and crashes, as data: one row a plugin.
//!
//! A row says what is mapped, what the objects are and how they are edited, when one has come to its end, and which of the
//! host's crash points its passes come by. The end of a run is compared with the end of one that nothing happened to, so a row
//! says nothing of how the end looks.

use crate::api::{ECHOES, JOURNALS, REPORT_JOBS, Resource};
use crate::ledger::Ledger;
use crate::scene::Scene;
use anyhow::Result;
use report_exporter::{Fail, Mode};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A plugin, its objects, and what is known of them.
pub struct Workload {
    /// Its name, which is its mapping's, too.
    pub name: &'static str,
    /// What it is mapped to.
    pub resource: Resource,
    /// The mapping.
    pub mapping: fn(&Scene<'_>) -> Result<Value>,
    /// What the outside is to do, before anything happens.
    pub outside: fn(&Scene<'_>),
    /// The object of a number, without its name.
    pub object: fn(usize) -> Value,
    /// The edit of a round, as a merge patch; it changes the generation.
    pub edit: fn(usize) -> Value,
    /// Whether an object has come to its end.
    pub is_settled: fn(&Value) -> bool,
    /// The outcome on record for an object that is there: its journal is written last.
    pub on_record: fn(&Value) -> &'static str,
    /// Kinds of which there are children in the objects' namespace: a part of the end.
    pub children: &'static [Resource],
    /// Members whose value may differ by what was interrupted, as JSON pointers into an object.
    pub volatile: &'static [&'static str],
    /// What is wrong with the outside's account after so many objects.
    pub ledger: fn(&Ledger, usize) -> Vec<String>,
    /// Crash points that its passes come by, each with the passings at which the host is killed.
    pub points: &'static [(&'static str, &'static [u64])],
}

const EACH: &[u64] = &[1, 3, 6];

/// Reports, each exported once; one of them at its second attempt.
pub const REPORT_JOB: Workload = Workload {
    name: "report-jobs",
    resource: REPORT_JOBS,
    mapping: |scene| scene.report_jobs(),
    outside: |scene| {
        let first = Fail::times(Mode::Http500, 1);
        scene.exporter.fail(first.only(scene.report(&name(0))));
    },
    object: |_| json!({"metadata": {"labels": {"workqueue.acme.io/phase": "pending"}}, "spec": {"report": "sales"}}),
    // Not the priority: whoever is edited would go first for ever.
    edit: |round| json!({"spec": {"parameters": {"round": round}}}),
    is_settled: |job| {
        job["status"]["phase"] == "Done"
            && job["status"]["observedGeneration"] == job["metadata"]["generation"]
    },
    on_record: |_| "applied",
    children: &[],
    // An attempt whose failure was not on record yet does not count.
    volatile: &["/status/retries"],
    ledger: |ledger, objects| {
        let mut findings = Vec::new();
        if (ledger.made, ledger.duplicates) != (objects as u64, 0) {
            findings.push(format!("{objects} reports were wanted: {ledger:?}"));
        }
        findings
    },
    points: &[
        ("before-send", EACH),
        ("after-send", EACH),
        ("after-answer", EACH),
        ("before-receipt", EACH),
        ("after-receipt", EACH),
        ("before-labels", EACH),
        ("after-labels", EACH),
        ("before-status", EACH),
        ("after-status", EACH),
        ("during-cache-write", &[1, 2]),
        ("before-cache-rename", &[1]),
        ("during-swap-publish", &[1]),
    ],
};

/// Objects that the plugin gives up until they are edited: what a journal holds without any effect.
pub const ECHO: Workload = Workload {
    name: "echoes",
    resource: ECHOES,
    mapping: |scene| scene.echoes(),
    outside: |_| {},
    object: |_| json!({"spec": {"fail": "terminal", "message": "not yet"}}),
    edit: |round| json!({"spec": {"fail": null, "round": round}}),
    is_settled: |echo| match echo["spec"]["fail"].is_null() {
        true => echo["status"]["echo"] == echo["spec"],
        false => has(echo, "Stalled"),
    },
    on_record: |echo| match echo["spec"]["fail"].is_null() {
        true => "applied",
        false => "stalled",
    },
    children: &[],
    volatile: &[],
    ledger: |_, _| Vec::new(),
    points: &[
        ("before-journal", EACH),
        ("after-journal", EACH),
        ("before-status", EACH),
        ("after-status", EACH),
    ],
};

/// All rows.
pub const WORKLOADS: &[&Workload] = &[&REPORT_JOB, &ECHO];

fn has(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let is = |c: &Value| c["type"] == condition && c["status"] == "True";
    conditions.into_iter().flatten().any(is)
}

/// Name of the object of a number.
pub fn name(number: usize) -> String {
    format!("object-{number:03}")
}

impl Workload {
    /// Maps it, and tells the outside how to behave.
    pub async fn install(&self, scene: &Scene<'_>) -> Result<()> {
        (self.outside)(scene);
        scene
            .map(self.name, &(self.mapping)(scene)?.to_string())
            .await
    }

    /// Creates the object of a number.
    pub async fn create(&self, scene: &Scene<'_>, number: usize) -> Result<()> {
        let mut object = (self.object)(number);
        object["metadata"]["name"] = name(number).into();
        scene.create(self.resource, object).await?;
        Ok(())
    }

    /// Edits it.
    pub async fn edit(&self, scene: &Scene<'_>, number: usize, round: usize) -> Result<()> {
        scene
            .patch(self.resource, &name(number), (self.edit)(round))
            .await?;
        Ok(())
    }

    /// Waits until so many objects are there and no others, and all are at their end.
    pub async fn settled(&self, scene: &Scene<'_>, count: usize) -> Result<Vec<Value>> {
        let exactly = |there: usize| there == count;
        self.settled_if(scene, exactly).await
    }

    /// The same of at least so many: a creation whose answer was lost may have happened.
    pub async fn all_settled(&self, scene: &Scene<'_>, count: usize) -> Result<Vec<Value>> {
        self.settled_if(scene, |there| there >= count).await
    }

    async fn settled_if(
        &self,
        scene: &Scene<'_>,
        enough: impl Fn(usize) -> bool,
    ) -> Result<Vec<Value>> {
        let what = format!("all {} are settled", self.resource.plural);
        scene
            .eventually_slowly(&what, async || {
                let objects = scene.api.list(self.resource, &scene.namespace).await?;
                let journals = scene.journals().await?;
                let outcomes: BTreeMap<&str, &Value> = journals
                    .iter()
                    .map(|journal| &journal["record"])
                    .map(|record| (text(&record["object"]["uid"]), &record["outcome"]))
                    .collect();
                let is_settled = |object: &Value| {
                    let outcome = outcomes.get(text(&object["metadata"]["uid"]));
                    (self.is_settled)(object)
                        && outcome.is_some_and(|outcome| **outcome == (self.on_record)(object))
                };
                let all = enough(objects.len()) && objects.iter().all(is_settled);
                Ok(all.then_some(objects))
            })
            .await
    }

    /// How everything stands, without what differs from run to run: objects, children, journals.
    pub async fn end(&self, scene: &Scene<'_>) -> Result<BTreeMap<String, Value>> {
        let mut end = BTreeMap::new();
        for resource in std::iter::once(&self.resource).chain(self.children) {
            for object in scene.api.list(*resource, &scene.namespace).await? {
                let name = format!("{} {}", resource.plural, text(&object["metadata"]["name"]));
                end.insert(name, self.comparable(scene, object));
            }
        }
        for journal in scene.api.list(JOURNALS, &scene.home).await? {
            let record = &journal["record"];
            let receipts = record["receipts"].as_array().cloned().unwrap_or_default();
            let receipts: Vec<Value> = receipts
                .iter()
                .map(|r| json!({"effect": r["effect"], "code": r["state"]["answered"]["code"]}))
                .collect();
            let about = format!("journal of {}", text(&record["object"]["name"]));
            let twice = end.insert(
                about.clone(),
                json!({"outcome": record["outcome"], "receipts": receipts}),
            );
            if twice.is_some() {
                end.insert(about, "there are two".into());
            }
        }
        Ok(end)
    }

    fn comparable(&self, scene: &Scene<'_>, mut object: Value) -> Value {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for member in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "managedFields",
                "namespace",
            ] {
                metadata.remove(member);
            }
            for owner in metadata
                .get_mut("ownerReferences")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                owner["uid"] = Value::Null;
            }
        }
        for condition in object["status"]["conditions"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            condition["lastTransitionTime"] = Value::Null;
        }
        for pointer in self.volatile {
            if let Some(member) = object.pointer_mut(pointer) {
                *member = Value::Null;
            }
        }
        // Each scene has a namespace and an exporter of its own.
        let text = object.to_string();
        let text = text
            .replace(&scene.exporter.url(), "EXPORTER")
            .replace(&scene.namespace, "NAMESPACE");
        serde_json::from_str(&text).unwrap_or(object)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
