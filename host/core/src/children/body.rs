//! What is written to a child: the plugin's object with what makes it a child.

use serde::Serialize;
use serde_json::{Value, json};

use super::{OWNER_LABEL, PARENT_ANNOTATION, Parent, Wish, check::is_void, members::Members};
use crate::{
    contract::{Json, OnDelete, Ownership},
    journal::ChildRecord,
    keys::Hash,
    object::{ObjectError, Uid},
};

/// Value of [`OWNER_LABEL`] on the children of one object under one mapping.
pub fn owner_mark(mapping: &str, uid: &Uid) -> String {
    Hash::of("owner").part(mapping).part(uid.as_str()).hex()
}

/// Field manager of a mapping's children. A mapping's name has at most 63 characters, a manager's at most 128.
pub fn field_manager(mapping: &str) -> String {
    format!("guesthouse/{mapping}")
}

/// Value of [`PARENT_ANNOTATION`]: `mapping group/kind namespace/name`.
pub fn parent_text(parent: &Parent<'_>) -> String {
    let slash = if parent.kind.group().is_empty() {
        ""
    } else {
        "/"
    };
    format!(
        "{} {}{slash}{} {}",
        parent.mapping,
        parent.kind.group(),
        parent.kind.kind,
        parent.key
    )
}

/// Whether the garbage collector honours an owner reference from a child to its parent; empty is cluster-scoped. An owner
/// in a namespace may only own what lies in the same one; any other reference names an owner that does not exist there, and
/// the collector deletes the child (kubernetes#65200).
pub fn reference_is_legal(parent_namespace: &str, child_namespace: &str) -> bool {
    parent_namespace.is_empty() || parent_namespace == child_namespace
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    // `blockOwnerDeletion` is left out: setting it needs a right on the parent's finalizers.
    controller: bool,
}

/// The body of the server-side apply of a wish: the plugin's object, every value as it was written, with the resolved
/// `namespace` (empty: cluster-scoped), the `uid` once known, and, unless it is only a part of somebody else's object, our
/// mark and the owner reference where it is legal and wanted. `parent_api_version` is the version the parent is served at.
pub fn body(
    wish: &Wish,
    parent: &Parent<'_>,
    parent_api_version: &str,
    namespace: &str,
    uid: Option<&str>,
) -> Result<Json, ObjectError> {
    let mut object = Members::parse(wish.object.as_str())?;
    // What typed languages print for a status they do not set.
    if object.get("status").is_none_or(is_void) {
        object.remove("status");
    }
    let written = Members::parse(wish.object.as_str())?;
    let mut metadata = written.under("metadata")?;
    let absent: Vec<String> = (metadata.iter())
        .filter(|(_, text)| *text == "null")
        .map(|(name, _)| name.to_owned())
        .collect();
    absent.iter().for_each(|name| metadata.remove(name));
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.set("namespace", namespace)?;
    }
    if let Some(uid) = uid {
        metadata.set("uid", uid)?;
    }
    let marked;
    if wish.ownership != Ownership::Fields {
        marked = Marked::of(&written, parent)?;
        metadata.set("labels", &marked.labels)?;
        metadata.set("annotations", &marked.annotations)?;
        if wish.on_delete == OnDelete::Delete
            && reference_is_legal(parent.key.namespace(), namespace)
        {
            let owner = OwnerReference {
                api_version: parent_api_version,
                kind: &parent.kind.kind,
                name: parent.key.name(),
                uid: parent.uid.as_str(),
                controller: true,
            };
            metadata.set("ownerReferences", &[owner])?;
        }
    }
    object.set("metadata", &metadata)?;
    Json::of(&object).map_err(|error| ObjectError::Unreadable(error.to_string()))
}

/// Labels and annotations with ours among them, as text.
struct Marked {
    labels: Value,
    annotations: Value,
}

impl Marked {
    fn of(object: &Members<'_>, parent: &Parent<'_>) -> Result<Self, ObjectError> {
        let metadata = object.under("metadata")?;
        let with = |name: &str, key: &str, value: &str| -> Result<Value, ObjectError> {
            let mut map: serde_json::Map<String, Value> = match metadata.get(name) {
                None => serde_json::Map::new(),
                Some(text) => serde_json::from_str(text)
                    .map_err(|error| ObjectError::Unreadable(error.to_string()))?,
            };
            map.insert(key.to_owned(), value.into());
            Ok(Value::Object(map))
        };
        Ok(Self {
            labels: with(
                "labels",
                OWNER_LABEL,
                &owner_mark(parent.mapping, parent.uid),
            )?,
            annotations: with("annotations", PARENT_ANNOTATION, &parent_text(parent))?,
        })
    }
}

/// Merge patch that takes our mark off a child that stays. The uid in it is a precondition: the server refuses to change one.
pub fn unmark_patch(uid: &str) -> Value {
    json!({"metadata": {
        "uid": uid,
        "labels": {OWNER_LABEL: null},
        "annotations": {PARENT_ANNOTATION: null},
    }})
}

/// The body of the server-side apply by which our manager lets go of all fields of an object that is only partly ours. Its
/// uid keeps the apply from making an object that is gone; without one there is nothing to let go of.
pub fn released_body(record: &ChildRecord) -> Json {
    let mut metadata = json!({"name": record.name});
    if !record.namespace.is_empty() {
        metadata["namespace"] = record.namespace.as_str().into();
    }
    if let Some(uid) = &record.uid {
        metadata["uid"] = uid.as_str().into();
    }
    let object = json!({
        "apiVersion": record.kind.api_version,
        "kind": record.kind.kind,
        "metadata": metadata,
    });
    Json::trusted(object.to_string())
}
