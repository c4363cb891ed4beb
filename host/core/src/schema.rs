//! What a kind's schema says of its status: what the API server would keep of a value, what it would add, and what it would
//! refuse.
//!
//! The server prunes unknown fields of a structural schema and answers 200 (kopf#574). If the host compared what the plugin
//! wants with what the server kept, it would write for ever (crossplane#5007); so the intent is pruned and defaulted by the
//! same rules first, and what went is named once. What the server would refuse is found before anything is written, so that a
//! broken status costs a retry of the plugin and no request.
//!
//! The server has the last word: what cannot be judged here (a pattern or rule outside of what these libraries know) is let
//! through and named by [`StatusSchema::skipped`]. Rules:
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/>; they were compared
//! with a real server, value by value (`tests/cluster`, `schema.rs`).

mod fill;
mod formats;
mod node;
mod pattern;
mod prune;
mod rules;
mod validate;

use std::sync::Arc;

use serde_json::{Map, Value};

use self::{
    node::{Node, Type},
    rules::Rules,
};
use crate::contract::Json;

pub use self::validate::Violation;

/// What a kind's schema says of its status. Compiled once; cheap to clone.
#[derive(Clone, Debug)]
pub struct StatusSchema {
    /// None where the kind's schema is not known: everything is taken to be kept.
    known: Option<Arc<Known>>,
}

#[derive(Debug)]
struct Known {
    status: Node,
    /// Rules over the whole object that speak of its status.
    root: Option<Rules>,
    skipped: Vec<String>,
}

impl StatusSchema {
    /// Nothing is known: built-in kinds, or a schema that may not be read.
    pub const fn unknown() -> Self {
        Self { known: None }
    }

    /// From the `openAPIV3Schema` of a CRD's version, or the same as it is published in the server's OpenAPI v3.
    pub fn of_crd(root: &Value) -> Self {
        let preserves = root.get(node::PRESERVE) == Some(&Value::Bool(true));
        let none = Value::Object(Map::new());
        let status = match root.pointer("/properties/status") {
            Some(status) => status,
            None if preserves => return Self::unknown(),
            None => &none,
        };
        let mut skipped = Vec::new();
        let status = Node::read(status, "status", &mut skipped);
        let root = Rules::of_root(root, &mut skipped);
        Self {
            known: Some(Arc::new(Known {
                status,
                root,
                skipped,
            })),
        }
    }

    /// Rules and patterns of the schema that cannot be judged here and are left to the server, each with its reason; to be
    /// told once.
    pub fn skipped(&self) -> &[String] {
        self.known.as_ref().map_or(&[], |known| &known.skipped)
    }

    /// Whether the server keeps a top-level field of status.
    pub fn keeps(&self, field: &str) -> bool {
        self.known
            .as_ref()
            .is_none_or(|known| known.status.keeps(field))
    }

    /// Whether the schema *names* a top-level field of status: what the host adds of its own accord must be asked for.
    pub fn names(&self, field: &str) -> bool {
        self.property(field).is_some()
    }

    /// Whether `status.conditions` may be a list: a kind could name something else so.
    pub fn lists_conditions(&self) -> bool {
        self.property("conditions")
            .is_none_or(|node| matches!(node.type_, None | Some(Type::Array)))
    }

    /// What is wrong with one of `status.conditions`, if anything is.
    pub fn condition(&self, condition: &Value) -> Option<Violation> {
        let items = self.property("conditions")?.items.as_deref()?;
        let mut condition = condition.clone();
        prune::prune(items, &mut condition, "", &mut Vec::new());
        fill::fill(items, &mut condition);
        let mut found = Vec::new();
        validate::validate(items, &condition, None, "status.conditions[]", &mut found);
        found.into_iter().next()
    }

    /// Takes out of `status` what the server would drop; returns the paths of it, in order.
    pub fn prune(&self, status: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        if let Some(known) = &self.known {
            prune::prune(&known.status, status, "status", &mut dropped);
        }
        dropped
    }

    /// Adds the defaults that the server would add below a status that is there, and drops nulls where none may be.
    pub fn fill(&self, status: &mut Value) {
        if let Some(known) = &self.known {
            fill::fill(&known.status, status);
        }
    }

    /// What the server would refuse in `next`, which was pruned and filled, over the status `current` of `object`.
    ///
    /// As the server does it, what did not change is not judged again: a schema may have been tightened since
    /// (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-ratcheting>).
    pub fn violations(&self, next: &Value, current: &Value, object: &Json) -> Vec<Violation> {
        let mut found = Vec::new();
        let Some(known) = &self.known else {
            return found;
        };
        let old = (!current.is_null()).then_some(current);
        validate::validate(&known.status, next, old, "status", &mut found);
        let twice = validate::duplicates(&known.status, next, "status");
        if !twice.is_empty()
            && old.is_none_or(|old| validate::duplicates(&known.status, old, "status").is_empty())
        {
            found.extend(twice);
        }
        // As the server, which evaluates rules only on values of the right shape.
        if found.is_empty() {
            rules::judge(&known.status, next, old, "status", &mut found);
            if let Some(root) = &known.root {
                found.extend(root.judge_object(object, next));
            }
        }
        found
    }

    fn property(&self, name: &str) -> Option<&Node> {
        self.known.as_ref()?.status.properties.get(name)
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
mod tests;
