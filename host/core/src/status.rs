//! What the status of an object shall be: the plugin's wish, the host's conditions and the generation, in one value.
//!
//! Status is the acknowledgement. It is computed as a whole from the version read and compared with it, so that a settled
//! object is never written; the shell writes it once, last, as a slim PUT. What the API server would drop is dropped and what
//! it would refuse is refused here, before any write; but only what the plugin wishes is judged, so that the host can always
//! say what is wrong.

mod conditions;
mod foreign;

use serde_json::{Map, Value};

pub use self::conditions::HOST_CONDITIONS;
use self::conditions::{Conditions, says_failed, take_conditions};
use crate::{
    contract::{Cause, Condition, Json, MAX_STATUS, Status},
    object::FieldPath,
    outcome::Outcome,
    schema::{StatusSchema, Violation, same},
    time::Time,
};

/// What of a plugin's reply concerns the status.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Its status.
    pub status: Option<&'a Status>,
    /// Its conditions beside those in the status.
    pub conditions: &'a [Condition],
    /// Paths that are not the plugin's to write, as in `.status.sync`: they stay as they were read. `.status.conditions.Synced`
    /// is the condition of that type, `.status.conditions` all those that nobody here names.
    pub foreign: &'a [FieldPath],
}

/// What the host says of the pass.
#[derive(Clone, Copy, Debug)]
pub struct Verdict<'a> {
    /// How it ends.
    pub outcome: Outcome,
    /// Why, where there is something to say.
    pub cause: Option<&'a Cause>,
    /// Generation of the object that the plugin saw.
    pub generation: i64,
    /// Whether the generation counts as handled: a decision was carried out.
    pub handled: bool,
    /// When the pass began.
    pub now: Time,
}

/// Violations that are named; more are counted.
const NAMED: usize = 5;

/// Why a plugin's status cannot be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// Not an object.
    #[error("the status must be a JSON object, not {0}")]
    NotAnObject(&'static str),
    /// `conditions` is no list of objects with a type.
    #[error("status.conditions must be a list of objects that each have a `type`")]
    BadConditions,
    /// A condition type of the host.
    #[error("the condition `{0}` is the host's; a plugin may set `Ready` and types of its own")]
    HostCondition(String),
    /// Over the budget: bytes of JSON text without what the host adds.
    #[error("the status has {0} bytes, more than the {MAX_STATUS} that fit")]
    TooLarge(usize),
    /// The API server would refuse it.
    #[error("the status does not fit the kind's schema: {}", named(violations))]
    Violates {
        /// What is wrong, at least one thing.
        violations: Vec<Violation>,
    },
}

fn named(violations: &[Violation]) -> String {
    let first = violations.iter().take(NAMED).map(ToString::to_string);
    let mut text = first.collect::<Vec<_>>().join("; ");
    if violations.len() > NAMED {
        text += &format!("; and {} more", violations.len() - NAMED);
    }
    text
}

/// The status an object shall have, and what of the wish will not be in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// The whole new status; none if it equals the one read.
    pub changed: Option<Value>,
    /// Paths the schema does not know, paths that are foreign, and the host's conditions that the schema refuses.
    pub dropped: Vec<String>,
}

/// Computes the status from the one read (absent = null), which is that of `object`.
pub fn compute(
    object: &Json,
    current: &Value,
    wish: Wish<'_>,
    verdict: Verdict<'_>,
    schema: &StatusSchema,
) -> Result<Computed, StatusError> {
    // Nothing is known that was not known before.
    if matches!(
        verdict.outcome,
        Outcome::Paused | Outcome::Gone | Outcome::ClusterFailed
    ) {
        return Ok(Computed {
            changed: None,
            dropped: Vec::new(),
        });
    }
    let (mut next, replaced) = wished(current, wish.status)?;
    let mut dropped = foreign::keep(&mut next, current, wish);
    if schema.lists_conditions() {
        let had = take_conditions(&mut current.as_object().cloned().unwrap_or_default())?;
        let named = take_conditions(&mut next)?;
        if schema.keeps("conditions") {
            let (merged, lost) = Conditions {
                had: &had,
                replaced,
                wish,
                verdict,
                schema,
            }
            .merge(named)?;
            dropped.extend(lost);
            if !merged.is_empty() {
                next.insert("conditions".into(), Value::Array(merged));
            }
        }
    }
    observe(&mut next, current, verdict, schema);
    let absent = current.is_null() && next.is_empty();
    let mut next = Value::Object(next);
    dropped.extend(pruned(schema, &mut next));
    if absent {
        return Ok(Computed {
            changed: None,
            dropped,
        });
    }
    schema.fill(&mut next);
    // The server fills in defaults when it reads too; a version read before a schema changed is no reason to write.
    let mut read = current.clone();
    schema.fill(&mut read);
    if same(&untimed(&next), &untimed(&read)) {
        return Ok(Computed {
            changed: None,
            dropped,
        });
    }
    judge(object, current, &next, wish, schema)?;
    Ok(Computed {
        changed: Some(next),
        dropped,
    })
}

/// `observedGeneration` is the host's to write, whatever the plugin says.
fn observe(
    next: &mut Map<String, Value>,
    current: &Value,
    verdict: Verdict<'_>,
    schema: &StatusSchema,
) {
    match current.get("observedGeneration") {
        Some(observed) => next.insert("observedGeneration".into(), observed.clone()),
        None => next.remove("observedGeneration"),
    };
    let says_so = verdict.handled || says_failed(next);
    if says_so
        && schema.keeps("observedGeneration")
        && (schema.names("observedGeneration") || !next.is_empty())
    {
        next.insert("observedGeneration".into(), verdict.generation.into());
    }
}

/// What the schema drops, but for members of conditions that only the host writes: nobody asked for those.
fn pruned(schema: &StatusSchema, next: &mut Value) -> Vec<String> {
    let mut dropped = schema.prune(next);
    dropped.retain(|path| {
        let member = path.strip_prefix("status.conditions[");
        let member = member.and_then(|rest| rest.split_once("].")?.1.into());
        !matches!(member, Some("observedGeneration" | "lastTransitionTime"))
    });
    dropped
}

/// Whether the plugin's part of the status may be. Without a wish there is nothing to refuse, and the host's word must get
/// out; and what the plugin left as it was is not held against it.
fn judge(
    object: &Json,
    current: &Value,
    next: &Value,
    wish: Wish<'_>,
    schema: &StatusSchema,
) -> Result<(), StatusError> {
    if wish.status.is_none() && wish.conditions.is_empty() {
        return Ok(());
    }
    let mine = plugins_part(next, wish);
    if same(&mine, &plugins_part(current, wish)) {
        return Ok(());
    }
    let size = mine.to_string().len();
    if size > MAX_STATUS {
        return Err(StatusError::TooLarge(size));
    }
    let violations = schema.violations(next, current, object);
    if violations.is_empty() {
        Ok(())
    } else {
        Err(StatusError::Violates { violations })
    }
}

/// The status without what the host writes of its own accord.
fn plugins_part(status: &Value, wish: Wish<'_>) -> Value {
    let mut part = untimed(status);
    let Some(map) = part.as_object_mut() else {
        return Value::Object(Map::new());
    };
    map.remove("observedGeneration");
    let Some(Value::Array(conditions)) = map.get_mut("conditions") else {
        return part;
    };
    conditions.retain(|condition| {
        let is = |type_: &str| condition.get("type").and_then(Value::as_str) == Some(type_);
        let plugins = wish.conditions.iter().any(|c| is(&c.type_));
        plugins || !(is("Ready") || HOST_CONDITIONS.iter().any(|type_| is(type_)))
    });
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        condition.remove("observedGeneration");
    }
    if conditions.is_empty() {
        map.remove("conditions");
    }
    part
}

/// The plugin's status applied to the one read, and whether it replaces it.
fn wished(
    current: &Value,
    wish: Option<&Status>,
) -> Result<(Map<String, Value>, bool), StatusError> {
    let read = |json: &crate::contract::Json| match json.read::<Value>() {
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => Err(StatusError::NotAnObject(type_name(&other))),
        Err(_) => Err(StatusError::NotAnObject("what does not parse")),
    };
    let mut base = current.as_object().cloned().unwrap_or_default();
    match wish {
        None => Ok((base, false)),
        Some(Status::Replace(json)) => Ok((read(json)?, true)),
        Some(Status::Merge(json)) => {
            merge_patch(&mut base, read(json)?);
            Ok((base, false))
        }
    }
}

/// RFC 7386.
fn merge_patch(base: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                base.remove(&name);
            }
            Value::Object(below) => {
                let slot = base
                    .entry(name)
                    .or_insert_with(|| Value::Object(Map::new()));
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                if let Value::Object(slot) = slot {
                    merge_patch(slot, below);
                }
            }
            other => {
                base.insert(name, other);
            }
        }
    }
}

/// Without the transition times, which alone are no reason to write.
fn untimed(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
    }
    status
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
