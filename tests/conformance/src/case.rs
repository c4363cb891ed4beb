//! One case: an observation, and what the guest is to answer.

use guesthouse_core::{
    contract::{FailureKind, Observation, Reply},
    limits::Limits,
};
use guesthouse_sandbox::{Called, Door, Level, Plugin, Verb};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One case of the suite; the format of a case file of the SDKs, too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    name: String,
    #[serde(rename = "about")]
    _about: Option<String>,
    #[serde(default)]
    verb: CaseVerb,
    observation: Map<String, Value>,
    expect: Expect,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CaseVerb {
    #[default]
    Reconcile,
    Finalize,
}

/// One of the first five members, and the lines that are logged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    decision: Option<Value>,
    failure: Option<Value>,
    broken: Option<String>,
    refused: Option<String>,
    #[serde(default)]
    same: bool,
    logs: Option<Vec<(String, String)>>,
}

impl Case {
    /// What the guest looks for in `.spec.case`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls the guest twice and says what is wrong.
    pub fn judge(&self, plugin: &Plugin, limits: &Limits) -> Option<String> {
        let seen = match self.observation() {
            Ok(seen) => seen,
            Err(error) => return Some(format!("the case itself: {error}")),
        };
        let verb = match self.verb {
            CaseVerb::Reconcile => Verb::Reconcile,
            CaseVerb::Finalize => Verb::Finalize,
        };
        let first = plugin.call(verb, &seen, limits);
        let second = plugin.call(verb, &seen, limits);
        if first.result != second.result || first.logs != second.logs {
            return Some(format!(
                "two calls with one observation differ\n      first  {:?}\n      second {:?}",
                first.result, second.result
            ));
        }
        self.answer(&first)
            .and_then(|()| self.logs(plugin, &first))
            .err()
    }

    /// The observation, with what was left out.
    fn observation(&self) -> Result<Observation, serde_json::Error> {
        let mut whole = json!({
            "config": {}, "mapping": "conformance", "now": "2026-01-01T00:00:00Z", "attempt": 0, "round": 0,
        });
        for (name, value) in &self.observation {
            whole[name] = value.clone();
        }
        // By way of text, which is how objects are held.
        serde_json::from_str(&whole.to_string())
    }

    fn answer(&self, called: &Called) -> Result<(), String> {
        let expect = &self.expect;
        if let Some(text) = &expect.broken {
            let message = match &called.result {
                Err(refusal) => &refusal.message,
                Ok(Reply::Failure(failure)) if failure.kind == FailureKind::Retry => {
                    &failure.cause.message
                }
                Ok(reply) => return Err(format!("wanted a broken call, found {reply:?}")),
            };
            return match message.contains(text) {
                true => Ok(()),
                false => Err(format!("`{text}` is not in `{message}`")),
            };
        }
        if let Some(kind) = &expect.refused {
            return match &called.result {
                Err(refusal) if refusal.kind.as_str() == kind => Ok(()),
                other => Err(format!("wanted to be refused as {kind}, found {other:?}")),
            };
        }
        let reply = called.result.as_ref().map_err(ToString::to_string)?;
        if expect.same {
            return Ok(());
        }
        let wanted = match (&expect.decision, &expect.failure) {
            (Some(decision), None) => json!({"decision": spread(decision)}),
            (None, Some(failure)) => json!({"failure": spread(failure)}),
            _ => return Err("the case itself: `expect` has not exactly one answer".into()),
        };
        // Read as the host reads it, so that what may be left out may be left out.
        let wanted: Reply = serde_json::from_str(&wanted.to_string())
            .map_err(|error| format!("the case itself: {error}"))?;
        let [wanted, found] = [&wanted, reply].map(serde_json::to_value);
        match (wanted, found) {
            (Ok(wanted), Ok(found)) if wanted == found => Ok(()),
            (Ok(wanted), Ok(found)) => Err(format!("wanted {wanted}\n      found  {found}")),
            (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
        }
    }

    fn logs(&self, plugin: &Plugin, called: &Called) -> Result<(), String> {
        let Some(wanted) = &self.expect.logs else {
            return Ok(());
        };
        // The command door has one level.
        let of = |level: &str| match plugin.door() {
            Door::Contract => level.to_owned(),
            Door::Command => "info".to_owned(),
        };
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(level, text)| (of(level), text.clone()))
            .collect();
        let name = |level: Level| match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        let found: Vec<_> = called
            .logs
            .iter()
            .map(|line| (name(line.level).to_owned(), line.message.clone()))
            .collect();
        match wanted == found {
            true => Ok(()),
            false => Err(format!(
                "wanted the lines {wanted:?}\n      found  {found:?}"
            )),
        }
    }
}

/// An expectation with its repeated texts written out.
fn spread(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            if let Some(Value::Array(parts)) = members.get("repeat").filter(|_| members.len() == 1)
                && let [Value::String(text), Value::Number(times)] = &parts[..]
            {
                let times = times.as_u64().and_then(|n| usize::try_from(n).ok());
                return Value::String(text.repeat(times.unwrap_or(0)));
            }
            Value::Object(
                members
                    .iter()
                    .map(|(name, value)| (name.clone(), spread(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(spread).collect()),
        other => other.clone(),
    }
}
