//! The conformance guest: a branch per case of `tests/conformance/cases.json`, by the SDK's own builders.

mod effects;
mod observed;
mod world;

use guesthouse_sdk::prelude::*;
use guesthouse_sdk::{ObjectRef, Value, log};

/// The plugin.
pub struct Conformance;

/// The config; any other member is fine.
#[derive(Deserialize, JsonSchema)]
pub struct Config {
    #[serde(default)]
    greeting: String,
}

/// The part of every spec that says what to do, and what some cases work on.
#[derive(Deserialize)]
struct Spec {
    case: String,
    #[serde(default)]
    number: i64,
    values: Option<Raw>,
}

type Answer = Result<Decision<Raw>, Failure>;

impl Reconciler for Conformance {
    type Spec = Raw;
    type Status = Raw;
    type Config = Config;

    fn describe() -> Plugin {
        Plugin::new("conformance", "1.2.3")
            .serves(Crd::of::<Self>("conformance.guesthouse.dev/v1", "Case"))
            .serves_kind("v1", "ConfigMap")
            .need(Need::object("settings", config_map("settings")))
            .finalizes()
            .grants(&json!({"http": [{"host": "example.test"}]}))
    }

    fn reconcile(seen: &Observation<Self>) -> Answer {
        let spec: Spec = serde_json::from_str(seen.spec().text())?;
        let decision = Decision::new();
        match spec.case.as_str() {
            "empty" => Ok(decision),
            "status-replace" => status(&json!({
                "phase": "Done", "count": 3, "ok": false, "ratio": 0.5, "list": ["a", ""], "nested": {"none": null},
            })),
            "status-merge" => Ok(decision.merge_status(&json!({"kept": "x", "gone": null}))),
            "values" => status(&json!({"values": spec.values})),
            "arithmetic" => status(&json!({"next": spec.number + 1})),
            "absent" => absent(seen),
            "conditions" => Ok(decision
                .condition("Synced", true, "Done", "all of it")
                .condition("Healthy", false, "Broken", "m")
                .condition("Ready", None, "Waiting", "")),
            "labels" => Ok(decision
                .label("team", "a")
                .remove_label("old")
                .annotation("acme.io/note", "n")
                .remove_annotation("acme.io/old")),
            "events" => Ok(decision.event("Told", "so").warning("Warned", "beware")),
            "wake-at" => Ok(decision.wake_at("2026-02-01T00:00:00Z")),
            "wake-after" => Ok(decision.wake_after(90)),
            "children" => Ok(decision.children(effects::children())),
            "delete" => Ok(effects::delete(decision)),
            "http" => Ok(effects::http(decision)),
            "needs" => Ok(effects::needs(decision)),
            "extension" => Ok(effects::extension(decision)),
            "retry" => Err(Failure::retry("NotYet", "the other side sleeps")
                .after(30)
                .merge_status(&json!({"phase": "Waiting"}))
                .condition("Synced", false, "NotYet", "m")),
            "stall" => Err(Failure::stall("Wrong", "the size is negative")),
            "throw" => throw(),
            "malformed" => Ok(decision.status_json("{\"a\":")),
            "logs" => {
                log::debug("d 1");
                log::info("i 2");
                log::warn("w 3");
                log::error("e 4");
                eprintln!("printed to stderr");
                Ok(decision)
            }
            "clock" => status(&json!({"now": world::now()})),
            "random" => status(&json!({"random": world::random()})),
            "large" => status(&json!({"text": "x".repeat(100_000)})),
            "observed" => status(&observed::told(seen)),
            other => Err(Failure::stall(
                "NoSuchCase",
                format!("there is no case `{other}`"),
            )),
        }
    }

    fn finalize(seen: &Observation<Self>) -> Answer {
        let spec: Spec = serde_json::from_str(seen.spec().text())?;
        match spec.case.as_str() {
            "finalized" => Ok(Decision::new()
                .finalized()
                .merge_status(&json!({"phase": "Gone"}))),
            _ => Ok(Decision::new().http(Http::delete("undo", "https://example.test/a"))),
        }
    }
}

guesthouse_sdk::export!(Conformance);

fn status(status: &Value) -> Answer {
    Ok(Decision::new().status_json(status.to_string()))
}

fn config_map(name: &str) -> ObjectRef {
    Kind::new("v1", "ConfigMap").named(name)
}

/// A value that is not there, is null, or is empty are three things.
fn absent(seen: &Observation<Conformance>) -> Answer {
    let spec: serde_json::Map<String, Value> = serde_json::from_str(seen.spec().text())?;
    let told = ["a", "b", "c", "d"].map(|name| {
        let what = match spec.get(name) {
            None => "absent",
            Some(Value::Null) => "null",
            Some(Value::String(text)) if text.is_empty() => "empty",
            Some(_) => "value",
        };
        (name.to_owned(), Value::from(what))
    });
    status(&Value::Object(told.into_iter().collect()))
}

/// What nobody catches.
#[allow(clippy::panic)] // what the case is about
fn throw() -> Answer {
    panic!("conformance throws")
}

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_sdk::testing::{describe, judge};

    /// What only the sandbox can show: a panic, a refusal, the world around a guest; and a text too long to stand in the suite.
    const ELSEWHERE: [&str; 5] = ["throw", "malformed", "clock", "random", "large"];

    #[test]
    fn every_case_of_the_suite_is_answered_natively() {
        let suite: Value =
            serde_json::from_str(include_str!("../../../../tests/conformance/cases.json")).unwrap();
        let cases = suite["cases"].as_array().unwrap();
        let native = |case: &&Value| !ELSEWHERE.iter().any(|name| case["name"] == *name);
        let judged: Vec<_> = cases.iter().filter(native).collect();
        assert_eq!(judged.len(), cases.len() - ELSEWHERE.len());
        for case in judged {
            judge::<Conformance>(case).unwrap_or_else(|why| panic!("{}: {why}", case["name"]));
        }
        assert_eq!(describe::<Conformance>().name, "conformance");
    }
}
