//! What the status of an object shall be: the plugin's wish, the host's conditions and the generation, in one value.
//!
//! Status is the acknowledgement. It is computed as a whole from the version read and compared with it, so that a settled
//! object is never written; the shell writes it once, last, as a slim PUT.

use serde_json::{Map, Value, json};

use crate::{
    contract::{Cause, Condition, ConditionStatus, MAX_MESSAGE, MAX_STATUS, Status, cut},
    outcome::Outcome,
    schema::{StatusSchema, same},
    time::Time,
};

/// Condition types that only the host writes.
pub const HOST_CONDITIONS: [&str; 2] = ["Reconciling", "Stalled"];

/// What of a plugin's reply concerns the status.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Its status.
    pub status: Option<&'a Status>,
    /// Its conditions beside those in the status.
    pub conditions: &'a [Condition],
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
    /// Over the budget.
    #[error("the status has {0} bytes, more than the {MAX_STATUS} that fit")]
    TooLarge(usize),
}

/// The status an object shall have, and what the server would have dropped of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// The whole new status; none if it equals the one read.
    pub changed: Option<Value>,
    /// Paths the schema does not know.
    pub dropped: Vec<String>,
}

/// Computes the status from the one read (absent = null).
pub fn compute(
    current: &Value,
    wish: Wish<'_>,
    verdict: Verdict<'_>,
    schema: &StatusSchema,
) -> Result<Computed, StatusError> {
    let (mut next, replaced) = wished(current, wish.status)?;
    let had = take_conditions(&mut current.as_object().cloned().unwrap_or_default())?;
    let named = take_conditions(&mut next)?;
    if schema.keeps("conditions") {
        let conditions = merge_conditions(&had, named, replaced, wish.conditions, verdict, schema)?;
        if !conditions.is_empty() {
            next.insert("conditions".into(), Value::Array(conditions));
        }
    }
    // The host's to write, whatever the plugin says.
    match current.get("observedGeneration") {
        Some(observed) => next.insert("observedGeneration".into(), observed.clone()),
        None => next.remove("observedGeneration"),
    };
    let says_so = verdict.handled || says_failed(&next);
    if says_so
        && schema.keeps("observedGeneration")
        && (schema.names("observedGeneration") || !next.is_empty())
    {
        next.insert("observedGeneration".into(), verdict.generation.into());
    }
    let mut next = Value::Object(next);
    let dropped = schema.prune(&mut next);
    let size = next.to_string().len();
    if size > MAX_STATUS {
        return Err(StatusError::TooLarge(size));
    }
    let absent = current.is_null() && next.as_object().is_some_and(Map::is_empty);
    let changed = (!absent && !same(&untimed(&next), &untimed(current))).then_some(next);
    Ok(Computed { changed, dropped })
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

fn take_conditions(
    status: &mut Map<String, Value>,
) -> Result<Vec<Map<String, Value>>, StatusError> {
    let Some(value) = status.remove("conditions") else {
        return Ok(Vec::new());
    };
    let Value::Array(items) = value else {
        return if value.is_null() {
            Ok(Vec::new())
        } else {
            Err(StatusError::BadConditions)
        };
    };
    items
        .into_iter()
        .map(|item| match item {
            Value::Object(map) if map.get("type").is_some_and(Value::is_string) => Ok(map),
            _ => Err(StatusError::BadConditions),
        })
        .collect()
}

fn type_of(condition: &Map<String, Value>) -> &str {
    condition
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Merges by type, in the order they stand; new ones go to the end. With `replaced`, plugin types no longer named go.
fn merge_conditions(
    had: &[Map<String, Value>],
    named: Vec<Map<String, Value>>,
    replaced: bool,
    plugin: &[Condition],
    verdict: Verdict<'_>,
    schema: &StatusSchema,
) -> Result<Vec<Value>, StatusError> {
    let mut wanted: Vec<Map<String, Value>> = Vec::new();
    for condition in named {
        // A plugin that returns the status it saw returns the host's conditions too: they are not its own.
        if !HOST_CONDITIONS.contains(&type_of(&condition)) {
            put(&mut wanted, condition);
        }
    }
    for condition in plugin {
        if HOST_CONDITIONS.contains(&condition.type_.as_str()) {
            return Err(StatusError::HostCondition(condition.type_.clone()));
        }
        put(
            &mut wanted,
            written(
                &condition.type_,
                condition.status,
                &condition.reason,
                &condition.message,
                verdict.generation,
            ),
        );
    }
    // The host speaks up only where the kind names conditions, or has some already.
    if schema.names("conditions") || !had.is_empty() {
        let plugins_ready = plugin.iter().any(|c| c.type_ == "Ready");
        for condition in host_conditions(verdict, plugins_ready) {
            put(&mut wanted, condition);
        }
    }
    if !replaced {
        for condition in had {
            let known = wanted.iter().any(|c| type_of(c) == type_of(condition));
            if !known && !HOST_CONDITIONS.contains(&type_of(condition)) {
                wanted.push(condition.clone());
            }
        }
    }
    let place = |condition: &Map<String, Value>| {
        had.iter()
            .position(|h| type_of(h) == type_of(condition))
            .unwrap_or(had.len())
    };
    wanted.sort_by_key(place);
    Ok(wanted
        .into_iter()
        .map(|condition| Value::Object(stamped(condition, had, verdict.now)))
        .collect())
}

fn put(into: &mut Vec<Map<String, Value>>, condition: Map<String, Value>) {
    match into.iter_mut().find(|c| type_of(c) == type_of(&condition)) {
        Some(slot) => *slot = condition,
        None => into.push(condition),
    }
}

fn written(
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    generation: i64,
) -> Map<String, Value> {
    let value = json!({
        "type": type_,
        "status": status.as_str(),
        "reason": reason,
        "message": cut(message, MAX_MESSAGE),
        "observedGeneration": generation,
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The transition time stays as long as the status does.
fn stamped(
    mut condition: Map<String, Value>,
    had: &[Map<String, Value>],
    now: Time,
) -> Map<String, Value> {
    let before = had.iter().find(|h| type_of(h) == type_of(&condition));
    let since = before
        .filter(|before| before.get("status") == condition.get("status"))
        .and_then(|before| before.get("lastTransitionTime").cloned());
    condition.insert(
        "lastTransitionTime".into(),
        since.unwrap_or_else(|| now.seconds().into()),
    );
    condition
}

/// Ready, Reconciling and Stalled so that kstatus, Flux and `kubectl wait` read the pass right: Reconciling and Stalled stand
/// only when True, never both (cli-utils `pkg/kstatus/status/generic.go`, fluxcd/pkg `apis/meta/conditions.go`).
fn host_conditions(verdict: Verdict<'_>, plugins_ready: bool) -> Vec<Map<String, Value>> {
    use ConditionStatus::{False, True, Unknown};
    let generation = verdict.generation;
    let message = verdict.cause.map_or("", |cause| &cause.message);
    let reason = |default: &'static str| {
        verdict
            .cause
            .map_or(default, |cause| &cause.reason)
            .to_owned()
    };
    let (ready, ready_reason, also) = match verdict.outcome {
        Outcome::Unchanged | Outcome::Applied => (True, reason("Succeeded"), None),
        Outcome::Waiting => (
            Unknown,
            reason("Progressing"),
            Some(("Reconciling", "Progressing".to_owned())),
        ),
        Outcome::Retrying | Outcome::PluginFailed => (
            False,
            reason(verdict.outcome.reason()),
            Some(("Reconciling", "ProgressingWithRetry".to_owned())),
        ),
        Outcome::Denied => (
            False,
            reason("Denied"),
            Some(("Stalled", "Denied".to_owned())),
        ),
        Outcome::Stalled => (
            False,
            reason("Terminal"),
            Some(("Stalled", reason("Terminal"))),
        ),
        // These write no status.
        Outcome::ClusterFailed | Outcome::Paused | Outcome::Gone => return Vec::new(),
    };
    let mut conditions = Vec::new();
    if !(plugins_ready
        && matches!(
            verdict.outcome,
            Outcome::Unchanged | Outcome::Applied | Outcome::Waiting
        ))
    {
        conditions.push(written("Ready", ready, &ready_reason, message, generation));
    }
    if let Some((type_, reason)) = also {
        conditions.push(written(type_, True, &reason, message, generation));
    }
    conditions
}

/// Whether the status itself says that the last pass failed: then its generation may count as seen.
fn says_failed(status: &Map<String, Value>) -> bool {
    let stands = |condition: &Value| {
        let type_ = condition
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        HOST_CONDITIONS.contains(&type_)
    };
    status
        .get("conditions")
        .and_then(Value::as_array)
        .is_some_and(|all| all.iter().any(stands))
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
