//! Mapping objects: the read-only kind in which the host says how each of its mappings stands, and what it begins from after
//! a restart.
//!
//! Nothing depends on them but what a start would know: a kind that is missing, or rights that are, cost a line in the log.

use guesthouse_core::{
    identity::Identity,
    life::{MappingStatus, State},
    object::Head,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    cluster::{Answer, Api, Preconditions, Propagation, RequestError, Resource, Scope, View, Want},
    journals::API_VERSION,
};

/// The kind as it is served.
pub fn resource() -> Resource {
    Resource {
        group: "guesthouse.dev".into(),
        version: "v1alpha1".into(),
        kind: "Mapping".into(),
        plural: "mappings".into(),
        namespaced: true,
        has_status: true,
        crd: None,
    }
}

/// Which object it is, and at which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    uid: String,
    version: String,
    pub(crate) generation: i64,
}

/// A Mapping object as it stands in the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Stands {
    pub(crate) known: Known,
    pub(crate) status: MappingStatus,
}

/// Reads and writes them, as the host.
#[derive(Clone)]
pub(crate) struct MappingObjects {
    api: Api,
    resource: std::sync::Arc<Resource>,
    namespace: std::sync::Arc<str>,
}

#[derive(Default, Deserialize)]
struct WithStatus {
    // What another version of the host wrote may be anything.
    #[serde(default)]
    status: Value,
}

fn stands(raw: &str) -> Result<Stands, RequestError> {
    let unreadable = |error: String| RequestError::Unreadable(error);
    let head = Head::parse(raw).map_err(|error| unreadable(error.to_string()))?;
    let read: WithStatus =
        serde_json::from_str(raw).map_err(|error| unreadable(error.to_string()))?;
    Ok(Stands {
        known: Known {
            uid: head.uid.to_string(),
            version: head.resource_version.to_string(),
            generation: head.generation,
        },
        status: serde_json::from_value(read.status).unwrap_or_default(),
    })
}

fn answered(answer: &Answer) -> Result<Stands, RequestError> {
    stands(answer.text()?)
}

impl MappingObjects {
    /// Those in the host's namespace.
    pub(crate) fn new(api: Api, namespace: &str) -> Self {
        Self {
            api,
            resource: std::sync::Arc::new(resource()),
            namespace: namespace.into(),
        }
    }

    /// One as the server has it now.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Stands>, RequestError> {
        let found = self
            .api
            .get(&Identity::Host, &self.resource, &self.namespace, name);
        match found.await {
            Ok(raw) => stands(&raw).map(Some),
            Err(RequestError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a status over the version known, or makes the object; `status` is asked for the generation it is about.
    pub(crate) async fn write(
        &self,
        name: &str,
        known: Option<Known>,
        status: impl Fn(&Known) -> MappingStatus,
    ) -> Result<Stands, RequestError> {
        let known = match known {
            Some(known) => known,
            None => match self.read(name).await? {
                Some(stands) => stands.known,
                None => self.make(name).await?,
            },
        };
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": "Mapping",
            "metadata": {
                "name": name, "namespace": &*self.namespace,
                "uid": known.uid, "resourceVersion": known.version,
            },
            "status": status(&known),
        });
        let answer = self
            .api
            .put_status(
                &Identity::Host,
                &self.resource,
                &self.namespace,
                name,
                body.to_string(),
                Want::Object,
            )
            .await?;
        answered(&answer)
    }

    async fn make(&self, name: &str) -> Result<Known, RequestError> {
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": "Mapping",
            "metadata": {"name": name, "namespace": &*self.namespace},
        });
        let answer = self
            .api
            .create(
                &Identity::Host,
                &self.resource,
                &self.namespace,
                body.to_string(),
            )
            .await?;
        Ok(answered(&answer)?.known)
    }

    /// Deletes one, whatever it says; one that is not there is as good as deleted.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), RequestError> {
        let deleted = self.api.delete(
            &Identity::Host,
            &self.resource,
            &self.namespace,
            name,
            Preconditions::default(),
            Propagation::Background,
        );
        match deleted.await {
            Ok(_) | Err(RequestError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The names of all there are.
    pub(crate) async fn names(&self) -> Result<Vec<String>, RequestError> {
        let scope = Scope::namespace(&*self.namespace);
        let listed = self
            .api
            .list(
                &Identity::Host,
                &self.resource,
                &scope,
                View::Metadata,
                usize::MAX,
            )
            .await?;
        let name = |raw: &str| Some(Head::parse(raw).ok()?.name.to_string());
        Ok(listed.items.iter().filter_map(|raw| name(raw)).collect())
    }
}

/// The CustomResourceDefinition of the kind.
pub fn crd() -> Value {
    let states: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
    let string = || json!({"type": "string"});
    let count = || json!({"type": "integer", "format": "int64", "minimum": 0});
    let open = |properties: Value| {
        json!({
            "type": "object",
            // A host that was rolled back must not lose what a newer one recorded.
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": properties,
        })
    };
    let list = |item: Value| json!({"type": "array", "items": item});
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": string(), "reason": string(), "message": string(),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    });
    let mut conditions = list(condition);
    conditions["x-kubernetes-list-type"] = json!("map");
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    let plugin = json!({"name": string(), "version": string(), "digest": string(), "short": string(), "origin": string(), "since": string()});
    let past = json!({"digest": string(), "version": string(), "since": string(), "until": string(), "ended": string()});
    let rehearsal = json!({
        "digest": string(), "objects": count(), "same": count(), "different": count(), "failed": count(),
        "notComparable": count(), "changes": list(string()),
    });
    let status = open(json!({
        "observedGeneration": {"type": "integer", "format": "int64"},
        "state": {"type": "string", "enum": states},
        "message": string(),
        "for": open(json!({"apiVersion": string(), "kind": string()})),
        "plugin": open(plugin),
        "newest": open(json!({"digest": string(), "basis": string(), "state": string(), "why": string()})),
        "rehearsal": open(rehearsal),
        "objects": count(), "queued": count(), "retrying": count(), "stalled": count(),
        "lastSwap": {"type": "string", "format": "date-time"},
        "history": list(open(past)),
        "lastGood": open(json!({"text": string()})),
        "conditions": conditions,
    }));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "mappings.guesthouse.dev"},
        "spec": {
            "group": "guesthouse.dev",
            "names": {
                "plural": "mappings", "singular": "mapping", "kind": "Mapping", "listKind": "MappingList",
                "categories": ["guesthouse"],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns(),
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "How one mapping of Guesthouse stands. Written by the host alone; to change a mapping, edit its ConfigMap.",
                    "properties": {"status": status},
                }},
            }],
        },
    })
}

fn columns() -> Value {
    let column = |name: &str, type_: &str, path: &str, priority: i32| {
        let mut column = json!({"name": name, "type": type_, "jsonPath": path});
        if priority > 0 {
            column["priority"] = priority.into();
        }
        column
    };
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    json!([
        column("Kind", "string", ".status.for.kind", 0),
        column("Plugin", "string", ".status.plugin.name", 0),
        column("Version", "string", ".status.plugin.version", 0),
        column("Digest", "string", ".status.plugin.short", 0),
        column("State", "string", ".status.state", 0),
        column("Objects", "integer", ".status.objects", 0),
        column("Stalled", "integer", ".status.stalled", 0),
        column("Ready", "string", ready, 0),
        column("Age", "date", ".metadata.creationTimestamp", 0),
        column("Queued", "integer", ".status.queued", 1),
        column("Retrying", "integer", ".status.retrying", 1),
        column("Swapped", "date", ".status.lastSwap", 1),
        column("Message", "string", ".status.message", 1),
    ])
}
