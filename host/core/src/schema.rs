//! The part of a kind's schema that the host needs: what of a status the API server would keep.
//!
//! The server prunes unknown fields of a structural schema and answers 200 (kopf#574). If the host compared what the plugin
//! wants with what the server kept, it would write for ever; so the intent is pruned by the same rules first, and what went is
//! named once. Rules: <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning>.

use serde_json::{Map, Value};

/// What a kind's schema says of its status.
#[derive(Clone, Debug)]
pub struct StatusSchema {
    /// Schema of `status`; none where the kind's schema is not known: everything is taken to be kept.
    schema: Option<Value>,
}

impl StatusSchema {
    /// Nothing is known: built-in kinds, or a CRD that may not be read.
    pub const fn unknown() -> Self {
        Self { schema: None }
    }

    /// From the `openAPIV3Schema` of a CRD's version.
    pub fn of_crd(root: &Value) -> Self {
        let preserves = root.get(PRESERVE) == Some(&Value::Bool(true));
        match root.pointer("/properties/status") {
            Some(status) => Self {
                schema: Some(status.clone()),
            },
            None if preserves => Self::unknown(),
            None => Self {
                schema: Some(Value::Object(Map::new())),
            },
        }
    }

    /// Whether the server keeps a top-level field of status.
    pub fn keeps(&self, field: &str) -> bool {
        let Some(schema) = &self.schema else {
            return true;
        };
        preserves(schema) || property(schema, field).is_some()
    }

    /// Whether the schema *names* a top-level field of status: what the host adds of its own accord must be asked for.
    pub fn names(&self, field: &str) -> bool {
        self.schema
            .as_ref()
            .is_some_and(|schema| property(schema, field).is_some())
    }

    /// Takes out of `status` what the server would drop; returns the paths of it, in order.
    pub fn prune(&self, status: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        if let Some(schema) = &self.schema {
            prune(schema, status, "status", &mut dropped);
        }
        dropped
    }
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

fn preserves(schema: &Value) -> bool {
    schema.get(PRESERVE) == Some(&Value::Bool(true))
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

fn prune(schema: &Value, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => prune_object(schema, map, path, dropped),
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else {
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                prune(schema, item, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

fn prune_object(
    schema: &Value,
    map: &mut Map<String, Value>,
    path: &str,
    dropped: &mut Vec<String>,
) {
    let additional = schema
        .get("additionalProperties")
        .filter(|a| **a != Value::Bool(false));
    let names: Vec<String> = map.keys().cloned().collect();
    for name in names {
        let below = format!("{path}.{name}");
        if let Some(schema) = property(schema, &name) {
            let not_nullable = schema.get("nullable") != Some(&Value::Bool(true));
            if map[&name].is_null() && not_nullable && schema.get("default").is_some() {
                // A null that may not be is dropped before defaulting.
                map.insert(name, schema["default"].clone());
            } else if let Some(value) = map.get_mut(&name) {
                prune(schema, value, &below, dropped);
            }
        } else if let Some(additional) = additional {
            if let (Value::Object(_), Some(value)) = (additional, map.get_mut(&name)) {
                prune(additional, value, &below, dropped);
            }
        } else if !preserves(schema) {
            map.remove(&name);
            dropped.push(below);
        }
    }
}

/// Equality of JSON values as Kubernetes sees them: `1.0` is 1 (it stores the number, not its text), int64 is exact.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_would_drop_is_dropped_and_named() {
        let schema = StatusSchema::of_crd(
            &json!({"properties": {"status": {"type": "object", "properties": {
                "phase": {"type": "string", "default": "Pending"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object", "properties": {}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {}}}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"y": {}}}},
            }}}}),
        );
        let mut status = json!({"phase": null, "typo": 1, "free": {"any": {"b": null}, "a": {"gone": 1}}, "map": {"k": {"x": 1, "z": 2}}, "list": [{"y": 1}, {"n": 1}]});
        let dropped = schema.prune(&mut status);
        assert_eq!(
            status,
            json!({"phase": "Pending", "free": {"any": {"b": null}, "a": {}}, "map": {"k": {"x": 1}}, "list": [{"y": 1}, {}]})
        );
        assert_eq!(
            dropped,
            [
                "status.free.a.gone",
                "status.list[1].n",
                "status.map.k.z",
                "status.typo"
            ]
        );
    }

    #[test]
    fn a_field_is_kept_where_it_is_named_or_unknown_ones_are() {
        let named = StatusSchema::of_crd(
            &json!({"properties": {"status": {"properties": {"conditions": {}}}}}),
        );
        assert!(
            named.keeps("conditions")
                && named.names("conditions")
                && !named.keeps("observedGeneration")
        );
        let open = StatusSchema::of_crd(
            &json!({"properties": {"status": {"x-kubernetes-preserve-unknown-fields": true}}}),
        );
        assert!(open.keeps("conditions") && !open.names("conditions"));
        assert!(StatusSchema::unknown().keeps("x"));
        assert!(!StatusSchema::of_crd(&json!({"properties": {}})).keeps("x"));
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_integers_exactly() {
        assert!(same(&json!({"a": [1.0]}), &json!({"a": [1]})));
        assert!(!same(
            &json!(9007199254740993_i64),
            &json!(9007199254740992_i64)
        ));
        assert!(!same(&json!(null), &json!({})) && !same(&json!({"a": null}), &json!({})));
    }
}
