//! How far an object is on its way to what was asked for: the rules of kstatus, which `kubectl wait`-like tools and Flux
//! follow (kubernetes-sigs/cli-utils, `pkg/kstatus/status`).
//!
//! Where this differs, and why: a Job counts as current when it is complete and not before, as in Flux (fluxcd/pkg,
//! `runtime/statusreaders/job.go`), since what comes `after` a Job waits for its end; a Pod that ended without success has
//! failed, there it is current for having ended; a Pod that cannot be scheduled is in progress for as long as that lasts,
//! since there is no clock here and a node may come. Messages hold no counters: each new value would be a call and a write.

mod kinds;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::Readiness;
use crate::{
    contract::{ChildState, group_of},
    object::ObjectError,
};

/// How far the object is. Its deletion counts before all else, then an unobserved generation, then its conditions
/// `Reconciling` and `Stalled`, then the rules of its kind, last its condition `Ready`. An object that says nothing of all
/// this is current.
pub fn ready(object: &str) -> Result<Readiness, ObjectError> {
    let unreadable = |error: serde_json::Error| ObjectError::Unreadable(error.to_string());
    let outline: Outline<'_> = serde_json::from_str(object).map_err(unreadable)?;
    let read = |part: Option<&RawValue>| {
        part.map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get()))
            .map_err(unreadable)
    };
    let status = read(outline.status)?;
    if outline.metadata.deletion_timestamp.is_some() {
        return Ok(is(ChildState::Terminating, "being deleted"));
    }
    let observed = int(&status, "/observedGeneration");
    if let (Some(generation), Some(observed)) = (outline.metadata.generation, observed)
        && observed != generation
    {
        return Ok(in_progress(
            "its controller has not seen the last change yet",
        ));
    }
    let status = Seen {
        generation: outline.metadata.generation,
        status,
    };
    if let Some(said) = status.abnormal() {
        return Ok(said);
    }
    if let Some(rule) = kinds::rule(group_of(&outline.api_version), &outline.kind) {
        return Ok(rule(&read(outline.spec)?, &status));
    }
    Ok(status.by_ready().unwrap_or_else(current))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Meta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    generation: Option<i64>,
    deletion_timestamp: Option<String>,
}

/// What an object says of itself.
struct Seen {
    generation: Option<i64>,
    status: Value,
}

/// One condition.
struct Said<'a> {
    type_: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl Said<'_> {
    /// In its own words.
    fn words(&self) -> String {
        match (self.reason, self.message) {
            (reason, "") => reason.to_owned(),
            (_, message) => message.to_owned(),
        }
    }
}

impl Seen {
    fn int(&self, pointer: &str) -> i64 {
        int(&self.status, pointer).unwrap_or(0)
    }

    fn text(&self, pointer: &str) -> &str {
        text(&self.status, pointer)
    }

    /// Its conditions; none where they are of another shape.
    fn conditions(&self) -> impl Iterator<Item = Said<'_>> {
        self.status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|condition| Said {
                type_: text(condition, "/type"),
                status: text(condition, "/status"),
                reason: text(condition, "/reason"),
                message: text(condition, "/message"),
            })
    }

    fn condition(&self, type_: &str) -> Option<Said<'_>> {
        self.conditions().find(|said| said.type_ == type_)
    }

    fn is_true(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|said| said.status == "True")
    }

    /// `Reconciling` and `Stalled`, whichever comes first and is true.
    fn abnormal(&self) -> Option<Readiness> {
        self.conditions()
            .filter(|said| said.status == "True")
            .find_map(|said| match said.type_ {
                "Reconciling" => Some(is(ChildState::InProgress, said.words())),
                "Stalled" => Some(is(ChildState::Failed, said.words())),
                _ => None,
            })
    }

    fn by_ready(&self) -> Option<Readiness> {
        let said = self.condition("Ready")?;
        Some(match said.status {
            "True" => current(),
            _ => is(ChildState::InProgress, said.words()),
        })
    }
}

fn int(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn is(state: ChildState, message: impl Into<String>) -> Readiness {
    Readiness {
        state,
        message: message.into(),
    }
}

fn current() -> Readiness {
    is(ChildState::Current, "")
}

fn in_progress(message: &str) -> Readiness {
    is(ChildState::InProgress, message)
}

fn failed(message: impl Into<String>) -> Readiness {
    is(ChildState::Failed, message)
}

/// The first of these that is not so says why the object is in progress.
fn all(checks: &[(bool, &str)]) -> Readiness {
    match checks.iter().find(|(holds, _)| !holds) {
        Some((_, message)) => in_progress(message),
        None => current(),
    }
}
