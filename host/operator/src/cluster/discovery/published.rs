//! A CRD's schema as the server publishes it to every account, in OpenAPI v3.
//!
//! Rules and constraints of a CRD's schema all stand there; its own metadata (uid, generation) does not.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use guesthouse_core::keys::Hash;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::error::RequestError;
use super::super::resource::{CrdInfo, Resource};

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    components: Components<'a>,
}

/// All but the one that is wanted are skipped unread.
#[derive(Deserialize, Default)]
struct Components<'a> {
    #[serde(borrow, default)]
    schemas: BTreeMap<String, &'a RawValue>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "x-kubernetes-group-version-kind", default)]
    kinds: Vec<GroupVersionKind>,
}

#[derive(Deserialize)]
struct GroupVersionKind {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

/// The schema of a resource's kind in the document of its group and version.
pub(super) fn read(text: &str, resource: &Resource) -> Result<Option<CrdInfo>, RequestError> {
    let unreadable = |error: serde_json::Error| {
        let (group, version) = (&resource.group, &resource.version);
        RequestError::Unreadable(format!("OpenAPI of {group}/{version}: {error}"))
    };
    let document: Document<'_> = serde_json::from_str(text).map_err(unreadable)?;
    for raw in document.components.schemas.values() {
        // Every mention of a kind is cheaper to look for than to read.
        if !raw.get().contains(&*resource.kind) {
            continue;
        }
        let named: Named = serde_json::from_str(raw.get()).map_err(unreadable)?;
        let is = |gvk: &GroupVersionKind| {
            *gvk.group == *resource.group
                && *gvk.version == *resource.version
                && *gvk.kind == *resource.kind
        };
        if !named.kinds.iter().any(is) {
            continue;
        }
        let schema: serde_json::Value = serde_json::from_str(raw.get()).map_err(unreadable)?;
        let status = schema.pointer("/properties/status");
        // A CRD's schema stands in one piece. What refers to others is an aggregated API's, whose server has rules of its own.
        if status.is_some_and(refers) {
            return Ok(None);
        }
        let generation = i64::from_le_bytes(
            Hash::of("published schema")
                .part(raw.get())
                .number()
                .to_le_bytes(),
        );
        return Ok(Some(CrdInfo {
            name: format!("{}.{}", resource.plural, resource.group).into(),
            uid: "".into(),
            generation,
            schema: Some(schema),
            status: OnceLock::new(),
        }));
    }
    Ok(None)
}

/// Whether there is a reference, but for the one to metadata that the server adds to embedded objects.
fn refers(schema: &serde_json::Value) -> bool {
    match schema {
        serde_json::Value::Object(members) => members.iter().any(|(name, value)| {
            (name == "$ref" && value.is_string()) || (name != "metadata" && refers(value))
        }),
        serde_json::Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}
