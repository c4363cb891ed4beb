//! Conditions: the plugin's and the host's in one list, as kstatus, Flux and `kubectl wait` read them.

use serde_json::{Map, Value, json};

use super::{StatusError, Verdict, Wish, foreign};
use crate::{
    contract::{ConditionStatus, MAX_MESSAGE, cut},
    outcome::Outcome,
    schema::StatusSchema,
    time::Time,
};

/// Condition types that only the host writes.
pub const HOST_CONDITIONS: [&str; 2] = ["Reconciling", "Stalled"];

pub(super) fn take_conditions(
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

/// What the list of conditions is made of.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub(super) had: &'a [Map<String, Value>],
    /// Whether the plugin's status replaces the one read.
    pub(super) replaced: bool,
    pub(super) wish: Wish<'a>,
    pub(super) verdict: Verdict<'a>,
    pub(super) schema: &'a StatusSchema,
}

impl Conditions<'_> {
    /// Merges by type, in the order they stand; new ones go to the end. With `replaced`, plugin types no longer named go.
    /// Beside the list: what of it was wished and is not in it.
    pub(super) fn merge(
        self,
        named: Vec<Map<String, Value>>,
    ) -> Result<(Vec<Value>, Vec<String>), StatusError> {
        let mut dropped = Vec::new();
        let mut wanted = self.plugins(named, &mut dropped)?;
        self.add_hosts(&mut wanted, &mut dropped);
        for condition in self.had {
            let type_ = type_of(condition);
            let known = wanted.iter().any(|c| type_of(c) == type_);
            let stays = !self.replaced || foreign::type_is(self.wish, type_);
            if stays && !known && !HOST_CONDITIONS.contains(&type_) {
                wanted.push(condition.clone());
            }
        }
        let place = |condition: &Map<String, Value>| {
            self.had
                .iter()
                .position(|h| type_of(h) == type_of(condition))
                .unwrap_or(self.had.len())
        };
        wanted.sort_by_key(place);
        let now = self.verdict.now;
        let stamped = |condition: Map<String, Value>| match foreign::names_type(
            self.wish,
            type_of(&condition),
        ) {
            // Another's condition stays as it is, its time too.
            true => Value::Object(condition),
            false => Value::Object(stamped(condition, self.had, now)),
        };
        Ok((wanted.into_iter().map(stamped).collect(), dropped))
    }

    fn plugins(
        self,
        named: Vec<Map<String, Value>>,
        dropped: &mut Vec<String>,
    ) -> Result<Vec<Map<String, Value>>, StatusError> {
        let mut wanted: Vec<Map<String, Value>> = Vec::new();
        let mut add = |condition: Map<String, Value>, dropped: &mut Vec<String>| {
            let type_ = type_of(&condition);
            if !foreign::names_type(self.wish, type_) {
                return put(&mut wanted, condition);
            }
            let seen = self.had.iter().find(|had| type_of(had) == type_);
            if seen != Some(&condition) {
                dropped.push(format!("status.conditions[type={type_}] (foreign)"));
            }
        };
        for condition in named {
            // A plugin that returns the status it saw returns the host's conditions too: they are not its own.
            if !HOST_CONDITIONS.contains(&type_of(&condition)) {
                add(condition, dropped);
            }
        }
        for condition in self.wish.conditions {
            if HOST_CONDITIONS.contains(&condition.type_.as_str()) {
                return Err(StatusError::HostCondition(condition.type_.clone()));
            }
            let condition = written(
                &condition.type_,
                condition.status,
                &condition.reason,
                &condition.message,
                self.verdict.generation,
            );
            add(condition, dropped);
        }
        Ok(wanted)
    }

    /// The host speaks up only where the kind names conditions, or has some already; and only as the schema allows, because
    /// a condition that the server refuses would take the plugin's status with it.
    fn add_hosts(self, wanted: &mut Vec<Map<String, Value>>, dropped: &mut Vec<String>) {
        if !self.schema.names("conditions") && self.had.is_empty() {
            return;
        }
        let plugins_ready = self.wish.conditions.iter().any(|c| c.type_ == "Ready");
        for condition in host_conditions(self.verdict, plugins_ready) {
            let stamped = Value::Object(stamped(condition.clone(), self.had, self.verdict.now));
            match self.schema.condition(&stamped) {
                None => put(wanted, condition),
                Some(violation) => dropped.push(format!(
                    "status.conditions[type={}] (the kind's schema: {violation})",
                    type_of(&condition)
                )),
            }
        }
    }
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
pub(super) fn says_failed(status: &Map<String, Value>) -> bool {
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
