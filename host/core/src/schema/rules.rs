//! `x-kubernetes-validations`: rules in CEL, as the server evaluates them on an update.
//!
//! kube-cel evaluates one place's rules; which value was there before is decided here, because list maps go by key. A rule
//! that it cannot evaluate never refuses anything: the server will.

use std::{error::Error as _, sync::Arc};

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, cel::ExecutionError};
use serde_json::{Value, json};

use super::{
    node::{Node, Type},
    same,
    validate::Violation,
};
use crate::contract::Json;

const RULES: &str = "x-kubernetes-validations";
/// What CEL at the server knows and the evaluator here does not: named at once instead of failing at each value.
const NOT_HERE: [&str; 8] = [
    "sortBy(",
    "cel.bind(",
    "transformList(",
    "transformMap(",
    "transformMapEntry(",
    "optional.",
    ".?",
    "[?",
];

/// The rules of one place, compiled.
#[derive(Clone, Debug)]
pub(super) struct Rules(Arc<CompiledSchema>);

impl Rules {
    /// The rules that stand at this place of a schema.
    pub(super) fn of(schema: &Value, path: &str, skipped: &mut Vec<String>) -> Option<Self> {
        Self::compile(schema, path, |_| true, skipped)
    }

    /// Rules over the whole object that speak of its status; others a write to the status can neither break nor mend.
    pub(super) fn of_root(schema: &Value, skipped: &mut Vec<String>) -> Option<Self> {
        let of_status = |rule: &str| {
            rule.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "status")
        };
        Self::compile(schema, "the object", of_status, skipped)
    }

    fn compile(
        schema: &Value,
        path: &str,
        wanted: impl Fn(&str) -> bool,
        skipped: &mut Vec<String>,
    ) -> Option<Self> {
        let all = schema.get(RULES)?.as_array()?;
        let mut usable = Vec::new();
        for rule in all {
            let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
            if !wanted(text) {
                continue;
            }
            match checked(rule, text) {
                Ok(rule) => usable.push(rule),
                Err(why) => skipped.push(format!("{path}: rule `{text}`: {why}")),
            }
        }
        if usable.is_empty() {
            return None;
        }
        // Below this place only the types are of use.
        let mut bare = without_rules(schema);
        bare[RULES] = Value::Array(usable);
        Some(Self(Arc::new(kube_cel::compile_schema(&bare))))
    }

    /// What the rules say of a value and the one that was there before.
    fn judge(&self, value: &Value, old: Option<&Value>, path: &str) -> Vec<Violation> {
        let errors = Validator::new()
            .validate_compiled(&self.0, value, old)
            .err()
            .map(|errors| errors.into_vec())
            .unwrap_or_default();
        let broken = errors.iter().filter(|error| is_refusal(error));
        broken
            .map(|error| {
                let path = if error.field_path.is_empty() {
                    path.to_owned()
                } else {
                    [path, error.field_path.trim_start_matches('.')].join(".")
                };
                Violation::new(&path, value, format!("must hold: {}", error.message))
            })
            .collect()
    }

    /// What rules over the whole object say of it with another status.
    pub(super) fn judge_object(&self, object: &Json, status: &Value) -> Vec<Violation> {
        let Ok(old) = object.read::<Value>() else {
            return Vec::new();
        };
        let mut new = old.clone();
        new["status"] = status.clone();
        self.judge(&new, Some(&old), "the object")
    }
}

/// Evaluates the rules below `node` on what changed.
pub(super) fn judge(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    found: &mut Vec<Violation>,
) {
    if old.is_some_and(|old| same(old, value)) {
        return;
    }
    // The server evaluates no rule on a null.
    if value.is_null() {
        return;
    }
    if let Some(rules) = &node.rules {
        found.extend(rules.judge(value, old, path));
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(below) = node.below(name) {
                    let before = old.and_then(|old| old.get(name));
                    judge(below, value, before, &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(items) if node.type_ != Some(Type::Object) => {
            let Some(below) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                let before = node.list.before(item, old);
                judge(below, item, before, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// A rule that compiles, without a message that does not.
fn checked(rule: &Value, text: &str) -> Result<Value, String> {
    if let Some(unknown) = NOT_HERE.iter().find(|word| text.contains(**word)) {
        return Err(format!("`{unknown}` cannot be evaluated here"));
    }
    let first_error = |rule: &Value| {
        let compiled = kube_cel::compile_schema(&json!({RULES: [rule]}));
        compiled.compilation_errors().first().map(|e| e.to_string())
    };
    let mut rule = rule.clone();
    if first_error(&rule).is_some()
        && let Some(members) = rule.as_object_mut()
    {
        members.remove("messageExpression");
    }
    match first_error(&rule) {
        None => Ok(rule),
        Some(error) => Err(error.lines().collect::<Vec<_>>().join(" ")),
    }
}

/// Whether the server would refuse for this: not what only the evaluator here does not know. An error of evaluation counts
/// where it is one at the server too.
fn is_refusal(error: &ValidationError) -> bool {
    match error.kind {
        ErrorKind::ValidationFailure => true,
        ErrorKind::EvaluationError => error
            .source()
            .and_then(|source| source.downcast_ref::<ExecutionError>())
            .is_some_and(|error| match error {
                ExecutionError::NoSuchKey(_)
                | ExecutionError::IndexOutOfBounds(_)
                | ExecutionError::DivisionByZero(_)
                | ExecutionError::RemainderByZero(_) => true,
                // Go's regular expressions are not quite Rust's.
                ExecutionError::FunctionError { function, .. } => {
                    !["matches", "find", "findAll"].contains(&function.as_str())
                }
                _ => false,
            }),
        _ => false,
    }
}

/// The schema without any rule; properties may be *named* like a keyword.
fn without_rules(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let mut bare = serde_json::Map::new();
    for (name, value) in members {
        let value = match name.as_str() {
            RULES | "allOf" | "anyOf" | "oneOf" | "not" | "enum" => continue,
            "properties" => match value {
                Value::Object(all) => all
                    .iter()
                    .map(|(name, schema)| (name.clone(), without_rules(schema)))
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
                other => other.clone(),
            },
            "items" | "additionalProperties" => without_rules(value),
            _ => value.clone(),
        };
        bare.insert(name.clone(), value);
    }
    Value::Object(bare)
}
