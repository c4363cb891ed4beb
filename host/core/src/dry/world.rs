//! A cluster of a few objects in memory, for passes that are not made.
//!
//! It holds the reconciled object, what is told to stand beside it, and what the pass applies. It is as kind as can be: every
//! write succeeds, and every child is as ready as its own status says.

use crate::{
    contract::{Answer, Cause, Json, JsonError, Kind, ObjectRef},
    needs,
    object::{Head, ObjectKey},
    pass::{ChildRef, ChildWrite, FinalizerWrite, Found, Gather, Gathered, Looked, Removal, Way},
    plan::MetaPatch,
};
use serde_json::{Value, json};

/// Kinds of Kubernetes itself that have no namespace; of others it is taken that they have one.
const CLUSTER_SCOPED: [&str; 11] = [
    "Namespace",
    "Node",
    "PersistentVolume",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "PriorityClass",
    "IngressClass",
    "CustomResourceDefinition",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];

/// Whether objects of a kind are in namespaces, as far as that is known without asking.
pub fn is_namespaced(kind: &Kind) -> bool {
    !CLUSTER_SCOPED.contains(&kind.kind.as_str())
}

/// Why an object cannot be passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Incomplete(String);

/// The objects there are.
#[derive(Clone, Debug)]
pub struct World {
    /// The reconciled object.
    pub object: Value,
    others: Vec<Value>,
    made: u32,
}

impl World {
    /// The object and what stands beside it.
    pub fn new(object: Value, others: Vec<Value>) -> Self {
        Self {
            object,
            others,
            made: 0,
        }
    }

    fn namespace(&self) -> String {
        text(&self.object, "/metadata/namespace").to_owned()
    }

    /// What is read beside the object.
    pub fn gather(&self, gather: &Gather) -> Gathered {
        let all: Vec<(ObjectKey, Kind, String)> = self
            .others
            .iter()
            .map(|object| (key_of(object), kind_of(object), object.to_string()))
            .collect();
        let answer = |reading: &needs::Reading| match reading.source.kind() {
            None => Answer::Unavailable(Cause::new("Failed", "a rendering sends nothing")),
            Some(kind) => needs::select(
                all.iter()
                    .filter(|(_, of, _)| of.same(kind))
                    .map(|(key, _, raw)| (key, raw.as_str())),
                reading,
            ),
        };
        let child = |child: &ChildRef| match self.find(&child.kind, &child.namespace, &child.name) {
            Some(found) => Found::Object(Json::trusted(found.to_string())),
            None => Found::Absent,
        };
        Gathered {
            answers: gather.readings.iter().map(answer).collect(),
            children: gather.children.iter().map(child).collect(),
        }
    }

    /// An object at the first contact.
    pub fn look(&self, object: &ObjectRef) -> Looked {
        let namespaced = is_namespaced(&object.kind);
        let namespace = match (&object.namespace, namespaced) {
            (_, false) => String::new(),
            (Some(namespace), true) => namespace.clone(),
            (None, true) => self.namespace(),
        };
        let found = self.find(&object.kind, &namespace, &object.name);
        Looked {
            namespaced,
            object: found.map(|found| Json::trusted(found.to_string())),
        }
    }

    /// What a server would answer to an apply: the body, with a uid, a version and a generation.
    pub fn apply(&mut self, write: &ChildWrite) -> Result<Json, JsonError> {
        let mut body: Value = write.body.read()?;
        let namespace = write.object.namespace.clone().unwrap_or_default();
        let place = self.place(&write.object.kind, &namespace, &write.object.name);
        self.made += 1;
        let uid = match place {
            Some(at) => text(&self.others[at], "/metadata/uid").to_owned(),
            None => format!("00000000-0000-0000-0001-{:012}", self.made),
        };
        body["metadata"]["uid"] = json!(uid);
        body["metadata"]["resourceVersion"] = json!(self.made.to_string());
        body["metadata"]["generation"] = json!(self.made);
        let answer = Json::of(&body)?;
        match place {
            Some(at) => self.others[at] = body,
            None => self.others.push(body),
        }
        Ok(answer)
    }

    /// A child goes.
    pub fn remove(&mut self, removal: &Removal) -> bool {
        let namespace = removal.object.namespace.as_deref().unwrap_or("");
        if let (Way::Delete, Some(at)) = (
            &removal.way,
            self.place(&removal.object.kind, namespace, &removal.object.name),
        ) {
            self.others.remove(at);
        }
        true
    }

    /// Our finalizer is put on or taken off.
    pub fn finalizer(&mut self, write: &FinalizerWrite) {
        let list = &mut self.object["metadata"]["finalizers"];
        let mut names: Vec<Value> = list.as_array().cloned().unwrap_or_default();
        names.retain(|name| *name != json!(write.name));
        if write.put {
            names.push(json!(write.name));
        }
        *list = json!(names);
    }

    /// A merge patch of labels and annotations.
    pub fn patch(&mut self, patch: &MetaPatch) {
        for (field, wish) in [
            ("labels", &patch.labels),
            ("annotations", &patch.annotations),
        ] {
            for (key, value) in wish {
                match value {
                    Some(value) => self.object["metadata"][field][key] = json!(value),
                    None => {
                        if let Some(map) = self.object["metadata"][field].as_object_mut() {
                            map.remove(key);
                        }
                    }
                }
            }
        }
    }

    fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.place(kind, namespace, name).map(|at| &self.others[at])
    }

    fn place(&self, kind: &Kind, namespace: &str, name: &str) -> Option<usize> {
        self.others.iter().position(|object| {
            let key = key_of(object);
            kind_of(object).same(kind) && key.namespace() == namespace && key.name() == name
        })
    }
}

fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object
        .pointer(at)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
    )
}

fn kind_of(object: &Value) -> Kind {
    Kind {
        api_version: text(object, "/apiVersion").to_owned(),
        kind: text(object, "/kind").to_owned(),
    }
}

/// What the API server would have given an object: without uid and version nothing could be planned.
pub fn complete(mut object: Value, uid: &str) -> Result<Value, Incomplete> {
    let Some(Value::Object(meta)) = object.get_mut("metadata") else {
        return Err(Incomplete("the object has no metadata".to_owned()));
    };
    if !meta.get("name").is_some_and(Value::is_string) {
        return Err(Incomplete("the object has no metadata.name".to_owned()));
    }
    for (field, value) in [
        ("uid", json!(uid)),
        ("resourceVersion", json!("1")),
        ("generation", json!(1)),
    ] {
        meta.entry(field).or_insert(value);
    }
    // A head that cannot be read would end every pass.
    Head::parse(&object.to_string()).map_err(|error| Incomplete(error.to_string()))?;
    Ok(object)
}
