//! Whether a wish for a child has the right shape: everything that can be said of it without a cluster and without grants.
//!
//! A wish states fields and nothing else. What only the server or the host writes is refused by name with what to do, so
//! that a plugin's mistake is a message at its first call and not a puzzle in the cluster. Two things that typed languages
//! print without being asked are let through and left out: members that are null, and a status without a single value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Parent, Wish, members::Members};
use crate::{
    contract::{Apply, Effect, Generated, Kind, Mode, OnDelete, OnImmutable, Ownership},
    keys::Hash,
    mapping::{is_dns_label, is_dns_subdomain},
    plan::{Rejection, check_label_value, check_meta_key},
};

/// Most characters of a generated value.
const MAX_GENERATED: u32 = 1024;
/// Most characters to choose them from.
const MAX_ALPHABET: usize = 256;

/// The wish of an `apply` effect, if it has the right shape.
pub fn check_apply(effect: &Effect, apply: &Apply) -> Result<Wish, Rejection> {
    let bad = |why: String| Rejection::bad(format!("effect `{}`: {why}", effect.id));
    let text = apply.object.as_str();
    // One pass over all of it: JSON of bounded depth, and in a form that hashes the same however it was printed.
    let value: Value = serde_json::from_str(text)
        .map_err(|error| bad(format!("the object is not readable: {error}")))?;
    let object = Members::parse(text).map_err(|error| bad(error.to_string()))?;
    if !value.is_object() {
        return Err(bad("the object must be a JSON object".into()));
    }
    let kind = check_kind(&value).map_err(bad)?;
    let metadata = object
        .under("metadata")
        .map_err(|_| bad("metadata must be an object with at least a `name`".into()))?;
    check_members(&object, &metadata).map_err(bad)?;
    let (namespace, name) = check_names(&value["metadata"]).map_err(bad)?;
    check_marks(&effect.id, &value["metadata"])?;
    check_combination(apply).map_err(bad)?;
    check_generated(apply, &kind, &value).map_err(bad)?;
    Ok(Wish {
        effect: effect.id.clone(),
        after: effect.after.clone(),
        asked: asked(apply, &value),
        kind,
        namespace,
        name,
        object: apply.object.clone(),
        ownership: apply.ownership,
        mode: apply.mode,
        on_immutable: apply.on_immutable,
        on_delete: apply.on_delete,
        generate: apply.generate.clone(),
    })
}

/// What only shows when wishes stand side by side: no object is asked for twice, and none is the reconciled object itself.
pub fn check_wishes(wishes: &[Wish], parent: &Parent<'_>) -> Result<(), Rejection> {
    let mut seen = BTreeMap::new();
    for wish in wishes {
        let namespace = wish.namespace.as_deref();
        if parent.is(&wish.kind, namespace, &wish.name) {
            return Err(Rejection::bad(format!(
                "effect `{}`: {} {} is the reconciled object, which is no child of itself; use `labels`, `annotations` and `status` of the decision",
                wish.effect, wish.kind, wish.name
            )));
        }
        let place = (
            wish.kind.group(),
            &wish.kind.kind,
            parent.namespace_of(namespace),
            &wish.name,
        );
        if let Some(other) = seen.insert(place, &wish.effect) {
            return Err(Rejection::bad(format!(
                "the effects `{other}` and `{}` both ask for {} {}; make them one effect",
                wish.effect, wish.kind, wish.name
            )));
        }
    }
    Ok(())
}

/// Null, or an object without a single value in it.
pub(super) fn is_void(text: &str) -> bool {
    fn empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Object(map) => map.values().all(empty),
            _ => false,
        }
    }
    serde_json::from_str(text).is_ok_and(|value| empty(&value))
}

fn check_kind(object: &Value) -> Result<Kind, String> {
    let text = |name: &str| match &object[name] {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(format!(
            "the object has no `{name}`; write it as in a manifest"
        )),
    };
    let kind = Kind {
        api_version: text("apiVersion")?,
        kind: text("kind")?,
    };
    check_kind_names(&kind)?;
    Ok(kind)
}

/// Group, version and kind become parts of addresses.
pub(crate) fn check_kind_names(kind: &Kind) -> Result<(), String> {
    let (group, version) = match kind.api_version.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, kind.api_version.as_str()),
    };
    if !group.is_none_or(is_dns_subdomain) || !is_dns_label(version) {
        return Err(format!(
            "apiVersion `{}` is none; write group/version as in `apps/v1`, or `v1` for the core group",
            kind.api_version
        ));
    }
    if kind.kind.is_empty() || !kind.kind.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(format!(
            "kind `{}` is none; write it as in a manifest, `ConfigMap`",
            kind.kind
        ));
    }
    Ok(())
}

/// Members that are not a plugin's to state, and what to do instead.
const NOT_STATED: [(&str, &str); 10] = [
    (
        "generateName",
        "write a `name` derived from the reconciled object's: a generated one is another with every pass",
    ),
    ("managedFields", "the server writes it; take it out"),
    ("uid", "the host knows it; take it out"),
    (
        "resourceVersion",
        "a child is stated, not edited; take it out",
    ),
    ("generation", "the server writes it; take it out"),
    ("creationTimestamp", "the server writes it; take it out"),
    ("deletionTimestamp", "the server writes it; take it out"),
    (
        "deletionGracePeriodSeconds",
        "the server writes it; take it out",
    ),
    (
        "ownerReferences",
        "the host writes the one to the reconciled object where it is legal; take it out",
    ),
    (
        "finalizers",
        "whoever takes a finalizer off puts it on; take it out, and use `after` to order deletions",
    ),
];

fn check_members(object: &Members<'_>, metadata: &Members<'_>) -> Result<(), String> {
    if object.get("status").is_some_and(|status| !is_void(status)) {
        return Err("`status` is written by the child's own controller; take it out".to_owned());
    }
    for (name, text) in metadata.iter().filter(|(_, text)| *text != "null") {
        if let Some((_, remedy)) = NOT_STATED.iter().find(|(stated, _)| *stated == name) {
            return Err(format!(
                "`metadata.{name}` is not a plugin's to state: {remedy}"
            ));
        }
        match name {
            "name" | "namespace" => {}
            "labels" | "annotations" if text.starts_with('{') => {}
            "labels" | "annotations" => {
                return Err(format!("`metadata.{name}` must be an object of texts"));
            }
            _ => {
                return Err(format!(
                    "`metadata.{name}` is unknown; there are name, namespace, labels and annotations"
                ));
            }
        }
    }
    Ok(())
}

fn check_names(metadata: &Value) -> Result<(Option<String>, String), String> {
    let name = match &metadata["name"] {
        Value::String(name) if is_object_name(name) => name.clone(),
        Value::String(name) => {
            return Err(format!(
                "`{name}` is no object's name; write lower-case letters, digits, `-` and `.`, at most 253"
            ));
        }
        _ => {
            return Err(
                "the object has no `metadata.name`; derive one from the reconciled object's".into(),
            );
        }
    };
    let namespace = match &metadata["namespace"] {
        Value::Null => None,
        // What typed languages print for none.
        Value::String(text) if text.is_empty() => None,
        Value::String(text) if is_dns_label(text) => Some(text.clone()),
        other => {
            return Err(format!(
                "{other} is no namespace's name; leave `metadata.namespace` out for the reconciled object's own"
            ));
        }
    };
    Ok((namespace, name))
}

/// What every kind allows in a name: one segment of a path. (Most want a DNS name; RBAC has `system:foo`.)
pub(crate) fn is_object_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text != "."
        && text != ".."
        && (text.bytes()).all(|b| b.is_ascii_graphic() && !b"/%?#\\\"'`".contains(&b))
}

fn check_marks(effect: &str, metadata: &Value) -> Result<(), Rejection> {
    for what in ["label", "annotation"] {
        let Some(marks) = metadata[format!("{what}s")].as_object() else {
            continue;
        };
        for (key, value) in marks {
            let of = format!("effect `{effect}`: ");
            check_meta_key(&of, what, key)?;
            let Some(text) = value.as_str() else {
                return Err(Rejection::bad(format!(
                    "{of}the {what} `{key}` must be a text, not {value}; one that shall go is left out"
                )));
            };
            if what == "label" {
                check_label_value(&of, key, text)?;
            }
        }
    }
    Ok(())
}

/// A part of somebody else's object is neither made nor deleted by us.
fn check_combination(apply: &Apply) -> Result<(), String> {
    if apply.ownership != Ownership::Fields {
        return Ok(());
    }
    let wrong = if apply.mode == Mode::Once {
        "`mode: once`: fields are kept as stated for as long as they are asked for"
    } else if apply.on_delete == OnDelete::Orphan {
        "`onDelete: orphan`: the object is somebody else's and stays in any case"
    } else if apply.on_immutable == OnImmutable::Recreate {
        "`onImmutable: recreate`: the object is somebody else's and is never deleted"
    } else {
        return Ok(());
    };
    Err(format!("`ownership: fields` does not go with {wrong}"))
}

fn check_generated(apply: &Apply, kind: &Kind, object: &Value) -> Result<(), String> {
    if apply.generate.is_empty() {
        return Ok(());
    }
    if kind.api_version != "v1" || kind.kind != "Secret" {
        return Err(format!(
            "`generate` makes values of a v1 Secret only, not of {kind}; put them into a Secret and refer to it"
        ));
    }
    let mut seen = BTreeSet::new();
    for generated in &apply.generate {
        let key = &generated.key;
        let in_object = ["data", "stringData"]
            .iter()
            .any(|member| object[member].get(key).is_some());
        if in_object {
            return Err(format!(
                "`{key}` is generated and stands in the Secret too; keep one of the two"
            ));
        }
        if !seen.insert(key) {
            return Err(format!("`{key}` is generated twice"));
        }
        check_one_generated(generated)?;
    }
    Ok(())
}

fn check_one_generated(generated: &Generated) -> Result<(), String> {
    let key = &generated.key;
    let is_key = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if key.is_empty()
        || key.len() > 253
        || !key.bytes().all(is_key)
        || key.starts_with("..")
        || key == "."
    {
        return Err(format!(
            "`{key}` is no key of a Secret; write letters, digits, `-`, `_`, `.`"
        ));
    }
    if !(1..=MAX_GENERATED).contains(&generated.length) {
        return Err(format!(
            "the length of the generated `{key}` must be from 1 to {MAX_GENERATED}"
        ));
    }
    let fits = |alphabet: &String| {
        (1..=MAX_ALPHABET).contains(&alphabet.len())
            && alphabet.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
    };
    if !generated.alphabet.as_ref().is_none_or(fits) {
        return Err(format!(
            "the alphabet of the generated `{key}` must have 1 to {MAX_ALPHABET} printable ASCII characters; leave it out for A-Z, a-z, 0-9"
        ));
    }
    Ok(())
}

/// Hash of all that is asked for. Members in another order and white space are the same wish; `1.0` and `1` are not.
fn asked(apply: &Apply, object: &Value) -> String {
    let ownership = match apply.ownership {
        Ownership::Owned => "owned",
        Ownership::Adopt => "adopt",
        Ownership::Fields => "fields",
    };
    let on_delete = match apply.on_delete {
        OnDelete::Delete => "delete",
        OnDelete::Orphan => "orphan",
    };
    let mut hash = canonical(Hash::of("asked"), object)
        .part(ownership)
        .part(on_delete);
    for generated in &apply.generate {
        hash = (hash
            .part(&generated.key)
            .part(generated.length.to_le_bytes()))
        .maybe(generated.alphabet.as_deref());
    }
    hash.hex()
}

fn canonical(hash: Hash, value: &Value) -> Hash {
    match value {
        Value::Null => hash.part("null"),
        Value::Bool(value) => hash.part(if *value { "true" } else { "false" }),
        Value::Number(number) => hash.part("number").part(number.to_string()),
        Value::String(text) => hash.part("text").part(text),
        Value::Array(items) => items
            .iter()
            .fold(hash.part("list").part(items.len().to_le_bytes()), canonical),
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().collect();
            sorted.into_iter().fold(
                hash.part("object").part(map.len().to_le_bytes()),
                |hash, (key, value)| canonical(hash.part(key), value),
            )
        }
    }
}
