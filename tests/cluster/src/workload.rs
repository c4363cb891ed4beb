//! What runs under faults and crashes, as data: one row a plugin.
//!
//! A row says what is mapped, what the objects are and how they are edited, when one has come to its end, and which of the
//! host's crash points its passes come by. The end of a run is compared with the end of one that nothing happened to, so a row
//! says nothing of how the end looks.

mod rows;

use crate::api::{CONFIG_MAPS, DEPLOYMENTS, INGRESSES, JOURNALS, Resource, SERVICES};
use crate::ledger::Ledger;
use crate::scene::Scene;
use anyhow::Result;
use guesthouse_core::children::OWNER_LABEL;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub use rows::{ECHO, PROVISION_REQUEST, REPORT_JOB, WEBSITE, WISH};

/// All rows.
pub const WORKLOADS: &[&Workload] = &[&REPORT_JOB, &ECHO, &WEBSITE, &PROVISION_REQUEST, &WISH];

/// Kinds of which any row has children.
pub const CHILDREN: &[Resource] = &[CONFIG_MAPS, DEPLOYMENTS, SERVICES, INGRESSES];

/// A part of the life of a row's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// They are made.
    Create,
    /// They are edited.
    Change,
    /// They are deleted.
    Delete,
}

impl Life {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Create, Self::Change, Self::Delete];
}

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
    /// Whether each effect leaves its receipt, whatever was interrupted.
    pub has_receipts: bool,
    /// Members whose value may differ by what was interrupted, as JSON pointers into an object.
    pub volatile: &'static [&'static str],
    /// What is wrong with the outside's account at the end of a part of the life of so many objects.
    pub ledger: fn(&Ledger, usize, Life) -> Vec<String>,
    /// Crash points that its passes come by in a part of its objects' life, each with the passings at which the host is killed.
    pub points: &'static [(Life, &'static str, &'static [u64])],
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
                scene.roll_out().await?;
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

    /// Deletes the object of a number.
    pub async fn delete(&self, scene: &Scene<'_>, number: usize) -> Result<()> {
        scene.delete(self.resource, &name(number)).await
    }

    /// Waits until all objects, their journals and their children are gone. The last of the children are the garbage collector's.
    pub async fn gone(&self, scene: &Scene<'_>) -> Result<()> {
        let what = format!(
            "all {} are gone with all that was theirs",
            self.resource.plural
        );
        scene
            .eventually_slowly(&what, async || {
                let objects = scene.api.list(self.resource, &scene.namespace).await?;
                let journals = scene.journals().await?;
                let gone = objects.is_empty() && journals.is_empty();
                Ok((gone && marked(scene).await?.is_empty()).then_some(()))
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
                .filter(|_| self.has_receipts)
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
        let uid = text(&object["metadata"]["uid"]).to_owned();
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
            // A hash over the owner's uid.
            if let Some(mark) = metadata
                .get_mut("labels")
                .and_then(|labels| labels.get_mut(OWNER_LABEL))
            {
                *mark = Value::Null;
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
            .replace(&uid, "UID")
            .replace(&scene.namespace, "NAMESPACE");
        serde_json::from_str(&text).unwrap_or(object)
    }
}

/// All objects in the scene's namespace that carry an owner's mark.
pub async fn marked(scene: &Scene<'_>) -> Result<Vec<Value>> {
    let mut marked = Vec::new();
    for resource in CHILDREN {
        let mut all = scene.api.list(*resource, &scene.namespace).await?;
        all.retain(|object| object["metadata"]["labels"][OWNER_LABEL].is_string());
        for mut object in all {
            // Members of a list of a built-in kind do not say what they are.
            object["kind"] = resource.kind.into();
            marked.push(object);
        }
    }
    Ok(marked)
}

/// Waits until the garbage collector has taken what went with its owner.
pub async fn collected(scene: &Scene<'_>) -> Result<()> {
    scene
        .eventually("everything is accounted for", async || {
            let (marked, journals) = (marked(scene).await?, scene.journals().await?);
            Ok(unaccounted(&marked, &journals).is_empty().then_some(()))
        })
        .await
}

/// What carries an owner's mark and is in no journal's inventory, and the other way round.
pub fn unaccounted(marked: &[Value], journals: &[Value]) -> Vec<String> {
    let there: BTreeSet<String> = marked
        .iter()
        .map(|o| {
            let metadata = &o["metadata"];
            let (kind, name) = (text(&o["kind"]), text(&metadata["name"]));
            format!("{kind} {name} {}", text(&metadata["uid"]))
        })
        .collect();
    let records = journals
        .iter()
        .filter_map(|journal| journal["record"]["inventory"].as_array())
        .flatten();
    let recorded: BTreeSet<String> = records
        .map(|record| {
            let kind = text(&record["kind"]["kind"]);
            format!("{kind} {} {}", text(&record["name"]), text(&record["uid"]))
        })
        .collect();
    let leaked = there.difference(&recorded);
    let leaked = leaked.map(|child| format!("{child} is marked and in no inventory"));
    let lost = recorded.difference(&there);
    leaked
        .chain(lost.map(|child| format!("{child} is in an inventory and not there")))
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
