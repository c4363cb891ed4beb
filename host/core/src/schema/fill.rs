//! What the server adds to a value: defaults; and nulls that may not be, which it drops before
//! (kubernetes `apiextensions-apiserver/pkg/apiserver/schema/defaulting`).

use serde_json::{Map, Value};

use super::node::Node;

/// Drops nulls of fields that may not be null and have no default, then fills in defaults.
pub(super) fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            drop_nulls(node, map);
            for (name, below) in &node.properties {
                let Some(default) = &below.default else {
                    continue;
                };
                let missing = map
                    .get(name)
                    .is_none_or(|value| value.is_null() && !below.nullable);
                if missing {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map {
                if let Some(below) = node.below(name) {
                    if let (Value::Null, false, Some(default)) =
                        (&*value, below.nullable, &below.default)
                    {
                        *value = default.clone();
                    }
                    fill(below, value);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = &node.items else { return };
            for item in items {
                if let (Value::Null, false, Some(default)) =
                    (&*item, below.nullable, &below.default)
                {
                    *item = default.clone();
                }
                fill(below, item);
            }
        }
        _ => {}
    }
}

fn drop_nulls(node: &Node, map: &mut Map<String, Value>) {
    map.retain(|name, value| {
        let below = node.below(name);
        !value.is_null() || below.is_none_or(|below| below.nullable || below.default.is_some())
    });
}
