//! Journals in the cluster: kept in step by a watch, written with the version read.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use guesthouse_core::{
    contract::Kind,
    identity::Identity,
    journal::Journal,
    object::{Head, ObjectError, ObjectKey},
    outcome::Outcome,
    pass::{JournalWrite, StoredJournal, WriteError},
};
use serde::{Deserialize, Serialize};

use crate::{
    cluster::{Api, Preconditions, Propagation, RequestError, Resource, Scope, Store, View, Watch},
    errors::write_error,
};

/// API version of the host's own kinds.
pub const API_VERSION: &str = "guesthouse.dev/v1alpha1";
/// Label of a journal with the outcome.
pub const OUTCOME_LABEL: &str = "guesthouse.dev/outcome";
/// Label of a journal with the mapping.
pub const MAPPING_LABEL: &str = "guesthouse.dev/mapping";

/// The kind as it is served.
pub fn resource() -> Resource {
    Resource {
        group: "guesthouse.dev".into(),
        version: "v1alpha1".into(),
        kind: "Journal".into(),
        plural: "journals".into(),
        namespaced: true,
        has_status: false,
        crd: None,
    }
}

/// A journal as the API server stores it. Members beside these are left alone by the server's patching and re-sent by us
/// only inside `record`, which keeps what it does not know.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    record: Journal,
}

/// An object under a mapping: mapping, group, kind and place. Another kind of the same name is another object, whatever a
/// mapping says today.
type Subject = (String, String, String, ObjectKey);

/// Which journals there are for an object. Subjects are read once, when the watch tells of a journal.
#[derive(Default)]
struct Index {
    by_object: HashMap<Subject, BTreeSet<String>>,
    by_name: HashMap<String, Subject>,
}

impl Index {
    fn insert(&mut self, name: &str, subject: Subject) {
        if self.by_name.get(name) != Some(&subject) {
            self.remove(name);
            self.by_object
                .entry(subject.clone())
                .or_default()
                .insert(name.to_owned());
            self.by_name.insert(name.to_owned(), subject);
        }
    }

    fn remove(&mut self, name: &str) {
        let Some(subject) = self.by_name.remove(name) else {
            return;
        };
        if let Some(names) = self.by_object.get_mut(&subject) {
            names.remove(name);
            if names.is_empty() {
                self.by_object.remove(&subject);
            }
        }
    }
}

/// The journals of this host's namespace.
pub struct Journals {
    api: Api,
    resource: Resource,
    namespace: String,
    store: Arc<Store>,
    _watch: Option<Watch>,
    index: Mutex<Index>,
}

impl Journals {
    /// On top of a watch over the kind in `namespace`, which lives as long as this.
    pub fn new(api: Api, namespace: &str, watch: Watch) -> Self {
        let store = watch.store().clone();
        Self {
            api,
            resource: resource(),
            namespace: namespace.to_owned(),
            store,
            _watch: Some(watch),
            index: Mutex::default(),
        }
    }

    /// As they are now, read once: for a command that does not stay.
    pub async fn read_once(api: Api, namespace: &str) -> Result<Self, RequestError> {
        let (resource, store) = (resource(), Arc::new(Store::default()));
        let scope = Scope::namespace(namespace);
        let listed = api
            .list(&Identity::Host, &resource, &scope, View::Object, usize::MAX)
            .await?;
        let journals = Self {
            api,
            resource,
            namespace: namespace.to_owned(),
            store,
            _watch: None,
            index: Mutex::default(),
        };
        for raw in &listed.items {
            let unreadable = |error: ObjectError| RequestError::Unreadable(error.to_string());
            journals.store.absorb(raw.as_bytes()).map_err(unreadable)?;
        }
        Ok(journals)
    }

    /// The journals as the watch keeps them.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A journal was added or changed.
    pub fn changed(&self, key: &ObjectKey) {
        let subject = self.store.get(key).and_then(|entry| subject(entry.raw()));
        if let Some(subject) = subject {
            self.index().insert(key.name(), subject);
        }
    }

    /// A journal is gone.
    pub fn deleted(&self, key: &ObjectKey) {
        self.index().remove(key.name());
    }

    /// The objects of a kind that have journals under a mapping.
    pub fn objects(&self, mapping: &str, kind: &Kind) -> Vec<ObjectKey> {
        let is = |(of, group, name, _): &&Subject| {
            of == mapping && group == kind.group() && *name == kind.kind
        };
        let index = self.index();
        let found = index.by_object.keys().filter(is);
        found.map(|(.., object)| object.clone()).collect()
    }

    /// The journals of an object under a mapping, of whatever uid. One that cannot be read is an error: acting without it
    /// could do again what it says was done.
    pub fn of(
        &self,
        mapping: &str,
        kind: &Kind,
        object: &ObjectKey,
    ) -> Result<Vec<StoredJournal>, String> {
        let (group, name) = (kind.group().to_owned(), kind.kind.clone());
        let subject = (mapping.to_owned(), group, name, object.clone());
        let names = self.index().by_object.get(&subject).cloned();
        let found = names.unwrap_or_default().into_iter().filter_map(|name| {
            let entry = self.store.get(&ObjectKey::new(&self.namespace, &name))?;
            Some(
                read(&name, entry.raw())
                    .map_err(|error| format!("journal {name} cannot be read: {error}")),
            )
        });
        found.collect()
    }

    /// The journals that have a finalizer on record.
    pub fn finalizing(&self) -> Vec<StoredJournal> {
        let all = self.stored().into_iter();
        all.filter(|stored| stored.journal.finalizer.is_some())
            .collect()
    }

    /// Journals of mappings that are none of the configured ones: at most so many, others in each round.
    pub fn of_others(
        &self,
        is_configured: impl Fn(&str) -> bool,
        round: usize,
        most: usize,
    ) -> Vec<StoredJournal> {
        let mut names: Vec<String> = {
            let index = self.index();
            let others = index.by_name.iter();
            let others = others.filter(|(_, (mapping, ..))| !is_configured(mapping));
            others.map(|(name, _)| name.clone()).collect()
        };
        names.sort_unstable();
        let begin = round
            .wrapping_mul(most)
            .checked_rem(names.len())
            .unwrap_or(0);
        names.rotate_left(begin);
        names.truncate(most);
        let read = |name: String| {
            let entry = self.store.get(&ObjectKey::new(&self.namespace, &name))?;
            read(&name, entry.raw()).ok()
        };
        names.into_iter().filter_map(read).collect()
    }

    /// All that can be read; the others are told of when their object is passed.
    fn stored(&self) -> Vec<StoredJournal> {
        let entries = self.store.entries().into_iter();
        entries
            // Most have none: those are not read whole.
            .filter(|(_, entry)| entry.raw().contains("\"finalizer\":"))
            .filter_map(|(key, entry)| read(key.name(), entry.raw()).ok())
            .collect()
    }

    /// Creates or replaces one; the new version.
    pub async fn write(
        &self,
        identity: &Identity,
        write: &JournalWrite,
    ) -> Result<String, WriteError> {
        let body =
            body(write, &self.namespace).map_err(|error| WriteError::Invalid(error.to_string()))?;
        let answer = match &write.version {
            None => {
                self.api
                    .create(identity, &self.resource, &self.namespace, body)
                    .await
            }
            Some(_) => {
                self.api
                    .replace(identity, &self.resource, &self.namespace, &write.name, body)
                    .await
            }
        };
        let answer = answer.map_err(write_error)?;
        let version = answer
            .stamp()
            .map_err(write_error)?
            .resource_version
            .to_string();
        // Read your own writes: the next pass may come before the watch does.
        let _ = self.store.absorb(&answer.body);
        self.changed(&ObjectKey::new(&self.namespace, &write.name));
        Ok(version)
    }

    /// Deletes one at the version read.
    pub async fn remove(
        &self,
        identity: &Identity,
        name: &str,
        version: &str,
    ) -> Result<String, WriteError> {
        let only = Preconditions {
            uid: None,
            resource_version: Some(version),
        };
        self.api
            .delete(
                identity,
                &self.resource,
                &self.namespace,
                name,
                only,
                Propagation::Background,
            )
            .await
            .map_err(write_error)?;
        self.deleted(&ObjectKey::new(&self.namespace, name));
        Ok(String::new())
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(name: &str, raw: &str) -> Result<StoredJournal, String> {
    let head = Head::parse(raw).map_err(|error| error.to_string())?;
    let stored: Stored = serde_json::from_str(raw).map_err(|error| error.to_string())?;
    Ok(StoredJournal {
        name: name.to_owned(),
        version: head.resource_version.to_string(),
        journal: stored.record,
    })
}

/// Whose a journal is, or nothing if it is none of ours.
fn subject(raw: &str) -> Option<Subject> {
    #[derive(Deserialize)]
    struct Outline<'a> {
        #[serde(borrow)]
        record: Record<'a>,
    }
    #[derive(Deserialize)]
    struct Record<'a> {
        mapping: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        object: Whose<'a>,
    }
    #[derive(Deserialize)]
    struct Whose<'a> {
        #[serde(default)]
        group: std::borrow::Cow<'a, str>,
        kind: std::borrow::Cow<'a, str>,
        #[serde(default)]
        namespace: std::borrow::Cow<'a, str>,
        name: std::borrow::Cow<'a, str>,
    }
    let outline: Outline<'_> = serde_json::from_str(raw).ok()?;
    let object = outline.record.object;
    Some((
        outline.record.mapping.into_owned(),
        object.group.into_owned(),
        object.kind.into_owned(),
        ObjectKey::new(&object.namespace, &object.name),
    ))
}

/// The whole object to send.
fn body(write: &JournalWrite, namespace: &str) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Whole<'a> {
        api_version: &'static str,
        kind: &'static str,
        metadata: Metadata<'a>,
        record: &'a Journal,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        name: &'a str,
        namespace: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        resource_version: Option<&'a str>,
        labels: BTreeMap<&'static str, &'a str>,
    }
    let labels = BTreeMap::from([
        (OUTCOME_LABEL, write.journal.outcome.as_str()),
        (MAPPING_LABEL, write.journal.mapping.as_str()),
    ]);
    serde_json::to_string(&Whole {
        api_version: API_VERSION,
        kind: "Journal",
        metadata: Metadata {
            name: &write.name,
            namespace,
            resource_version: write.version.as_deref(),
            labels,
        },
        record: &write.journal,
    })
}

/// The CustomResourceDefinition of the kind.
pub fn crd() -> serde_json::Value {
    let outcomes: Vec<_> = Outcome::ALL
        .iter()
        .map(|outcome| outcome.as_str())
        .collect();
    let string = || serde_json::json!({"type": "string"});
    serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "journals.guesthouse.dev"},
        "spec": {
            "group": "guesthouse.dev",
            "names": {"plural": "journals", "singular": "journal", "kind": "Journal", "listKind": "JournalList"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    {"name": "Kind", "type": "string", "jsonPath": ".record.object.kind"},
                    {"name": "Object", "type": "string", "jsonPath": ".record.object.name"},
                    {"name": "Outcome", "type": "string", "jsonPath": ".record.outcome"},
                    {"name": "Attempt", "type": "integer", "jsonPath": ".record.retry.attempt"},
                    {"name": "Next", "type": "string", "jsonPath": ".record.retry.nextAt"},
                    {"name": "Message", "type": "string", "jsonPath": ".record.message", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "What Guesthouse remembers of one object under one mapping. Written by the host alone; deleted after its object.",
                    "required": ["record"],
                    "properties": {"record": {
                        "type": "object",
                        // A host that was rolled back must not lose what a newer one recorded.
                        "x-kubernetes-preserve-unknown-fields": true,
                        "required": ["object", "mapping", "outcome"],
                        "properties": {
                            "object": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": true,
                                "properties": {"group": string(), "kind": string(), "namespace": string(), "name": string(), "uid": string()},
                            },
                            "mapping": string(),
                            "outcome": {"type": "string", "enum": outcomes},
                            "message": string(),
                        },
                    }},
                }},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mapping whose kind was changed must not take the journals of the old kind for those of objects that are gone.
    #[test]
    fn journals_of_another_kind_are_another_objects_whatever_the_mapping_is_called() {
        let raw = |group: &str, kind: &str| {
            format!(
                r#"{{"record":{{"mapping":"m","outcome":"applied","object":{{"group":"{group}","kind":"{kind}","namespace":"ns","name":"a","uid":"u"}}}}}}"#
            )
        };
        let mut index = Index::default();
        for (name, group, kind) in [("1", "g", "A"), ("2", "g", "B"), ("3", "h", "A")] {
            index.insert(name, subject(&raw(group, kind)).unwrap());
        }
        let of = |group: &str, kind: &str| {
            let object = ObjectKey::new("ns", "a");
            index.by_object[&("m".to_owned(), group.to_owned(), kind.to_owned(), object)].len()
        };
        assert_eq!((of("g", "A"), of("g", "B"), of("h", "A")), (1, 1, 1));
        index.remove("2");
        assert_eq!(index.by_object.len(), 2);
    }
}
