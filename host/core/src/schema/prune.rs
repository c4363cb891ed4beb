//! What the server drops of a value: fields that a structural schema does not know
//! (kubernetes `apiextensions-apiserver/pkg/apiserver/schema/pruning`).

use serde_json::Value;

use super::node::{Additional, Node};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops below `value`; the paths of it go to `dropped`, in order.
pub(super) fn prune(node: &Node, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let any = matches!(node.additional, Some(Additional::Any));
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                if node.embedded && META.contains(&name.as_str()) {
                    continue;
                }
                let path = format!("{path}.{name}");
                match (node.below(&name), map.get_mut(&name)) {
                    (Some(below), Some(value)) => prune(below, value, &path, dropped),
                    (None, Some(value)) if any && !node.preserve => {
                        strip(value, &path, dropped);
                    }
                    (None, _) if !node.preserve => {
                        map.remove(&name);
                        dropped.push(path);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            // A structural list says what its items are.
            let Some(below) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                let path = format!("{path}[{index}]");
                if node.preserve {
                    keep(below, item, &path, dropped);
                } else {
                    prune(below, item, &path, dropped);
                }
            }
        }
        _ => {}
    }
}

/// Below `additionalProperties: true` nothing is known, so no field below its values is kept.
fn strip(value: &mut Value, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            dropped.extend(map.keys().map(|name| format!("{path}.{name}")));
            map.clear();
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                strip(item, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

/// Items of a list whose unknown fields are kept keep theirs too.
fn keep(node: &Node, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let meta = node.embedded && META.contains(&name.as_str());
                if let (false, Some(below)) = (meta, node.below(name)) {
                    prune(below, value, &format!("{path}.{name}"), dropped);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                if let Some(below) = &node.items {
                    keep(below, item, &format!("{path}[{index}]"), dropped);
                }
            }
        }
        _ => {}
    }
}
