//! Plugins as functions, one for each way of working.

use serde_json::{Map, Value, json};

use crate::{
    contract::{
        Action, Body, Cause, Decision, Delivery, Effect, Failure, FailureKind, Http, Json,
        Observation, Receipt, ReceiptState, Reply, Request, Status, Wake,
    },
    refusal::{Refusal, RefusalKind},
};

pub(super) type Said = Result<Reply, Refusal>;

pub(super) fn object(seen: &Observation) -> Value {
    seen.object.read().unwrap()
}

pub(super) fn effect(id: &str, key: Option<&str>, url: &str) -> Effect {
    Effect {
        id: id.into(),
        after: Vec::new(),
        action: Action::Http(Http {
            request: Request {
                method: "PUT".into(),
                url: url.into(),
                headers: Vec::new(),
                body: Body::Empty,
                credential: None,
                timeout: None,
            },
            delivery: Delivery::AtLeastOnce,
            key: key.map(Into::into),
            literal_key: None,
        }),
    }
}

fn export(seen: &Observation) -> Effect {
    let name = object(seen)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    effect("export", None, &format!("http://exporter/reports/{name}"))
}

pub(super) fn receipt<'a>(seen: &'a Observation, id: &str) -> Option<&'a ReceiptState> {
    seen.receipts
        .iter()
        .find(|receipt: &&Receipt| receipt.effect == id)
        .map(|receipt| &receipt.state)
}

pub(super) fn replace(status: Value) -> Option<Status> {
    Some(Status::Replace(Json::of(&status).unwrap()))
}

pub(super) fn said(decision: Decision) -> Said {
    Ok(Reply::Decision(decision))
}

/// A status with a phase, and the label that mirrors it.
fn phase(phase: &str, rest: Value, effects: Vec<Effect>) -> Said {
    let mut status: Map<String, Value> = rest.as_object().cloned().unwrap_or_default();
    status.insert("phase".into(), phase.into());
    said(Decision {
        status: replace(Value::Object(status)),
        labels: [("phase".to_owned(), Some(phase.to_lowercase()))].into(),
        effects,
        ..Decision::default()
    })
}

/// Terminal phases stay as they are.
fn terminal(seen: &Observation) -> Option<Said> {
    let object = object(seen);
    let had = object["status"]["phase"].as_str()?;
    matches!(had, "Done" | "Failed" | "Lost")
        .then(|| phase(had, object["status"].clone(), Vec::new()))
}

/// Exports a report once; gives up after five sends without an answer.
pub(super) fn report_job(seen: &Observation) -> Said {
    if let Some(said) = terminal(seen) {
        return said;
    }
    match receipt(seen, "export") {
        None => phase("Pending", json!({}), vec![export(seen)]),
        Some(ReceiptState::Answered(answer)) if answer.code < 300 => {
            phase("Done", json!({"url": "http://exporter/r"}), Vec::new())
        }
        Some(ReceiptState::Answered(answer)) => phase(
            "Failed",
            json!({"message": format!("refused with {}", answer.code)}),
            Vec::new(),
        ),
        Some(ReceiptState::Failed(failed)) if failed.attempts >= 5 => phase(
            "Failed",
            json!({"retries": failed.attempts, "message": failed.error.message}),
            Vec::new(),
        ),
        Some(ReceiptState::Failed(failed)) => phase(
            "Pending",
            json!({"retries": failed.attempts}),
            vec![export(seen)],
        ),
        Some(ReceiptState::Unknown) => phase("Lost", json!({}), Vec::new()),
    }
}

/// The same, sent at most once.
pub(super) fn at_most_once(seen: &Observation) -> Said {
    let mut said = report_job(seen)?;
    if let Reply::Decision(decision) = &mut said {
        for effect in &mut decision.effects {
            if let Action::Http(http) = &mut effect.action {
                http.delivery = Delivery::AtMostOnce;
            }
        }
    }
    Ok(said)
}

/// No phase: every generation is handled.
pub(super) fn mirror(seen: &Observation) -> Said {
    said(Decision {
        status: replace(json!({"value": object(seen)["spec"]["value"]})),
        ..Decision::default()
    })
}

/// `publish` comes after `upload`.
pub(super) fn two_sends(seen: &Observation) -> Said {
    if let Some(said) = terminal(seen) {
        return said;
    }
    if let Some(ReceiptState::Answered(_)) = receipt(seen, "publish") {
        return phase("Done", json!({}), Vec::new());
    }
    let mut publish = effect("publish", None, "http://exporter/publish");
    publish.after = vec!["upload".into()];
    phase(
        "Pending",
        json!({}),
        vec![publish, effect("upload", None, "http://exporter/upload")],
    )
}

/// Three sends at once.
pub(super) fn batch(seen: &Observation) -> Said {
    if let Some(said) = terminal(seen) {
        return said;
    }
    let ids = ["a", "b", "c"];
    let answered = |id: &&str| matches!(receipt(seen, id), Some(ReceiptState::Answered(_)));
    if ids.iter().all(answered) {
        return phase("Done", json!({}), Vec::new());
    }
    let effects = ids.map(|id| effect(id, None, &format!("http://exporter/{id}")));
    phase("Pending", json!({}), effects.into())
}

/// Does what `spec.mode` says, or the annotation `mode`, which changes without a new generation.
pub(super) fn moody(seen: &Observation) -> Said {
    let object = object(seen);
    let spec = object["spec"].clone();
    let told = object["metadata"]["annotations"]["mode"].as_str();
    let failure = |kind| {
        Ok(Reply::Failure(Failure {
            kind,
            cause: Cause::new("NotReady", "the other side is not ready"),
            after: spec["after"].as_u64().map(|seconds| seconds as u32),
            status: replace(json!({"phase": "Broken"})),
            conditions: Vec::new(),
        }))
    };
    match told.or(spec["mode"].as_str()).unwrap() {
        "panic" => Err(Refusal::new(RefusalKind::Panic, "index out of bounds")),
        "retry" => failure(FailureKind::Retry),
        "terminal" => failure(FailureKind::Terminal),
        "no-status" => said(Decision {
            status: replace(json!([])),
            ..Decision::default()
        }),
        "huge" => said(Decision {
            status: replace(json!({"phase": "x".repeat(300 * 1024)})),
            ..Decision::default()
        }),
        "deny" => said(Decision {
            status: replace(json!({"phase": "Sent"})),
            effects: vec![effect("x", None, "http://elsewhere/")],
            ..Decision::default()
        }),
        "wake" => said(Decision {
            wake: Some(Wake::After(spec["after"].as_u64().unwrap() as u32)),
            ..Decision::default()
        }),
        _ => said(Decision {
            status: replace(json!({"phase": "Fine"})),
            ..Decision::default()
        }),
    }
}

/// Never content with its label.
pub(super) fn flips(seen: &Observation) -> Said {
    let had = object(seen)["metadata"]["labels"]["side"] == "a";
    let side = if had { "b" } else { "a" };
    said(Decision {
        labels: [("side".to_owned(), Some(side.to_owned()))].into(),
        ..Decision::default()
    })
}

/// Asks for one thing more in every call, under one id.
pub(super) fn insatiable(seen: &Observation) -> Said {
    let had = seen
        .receipts
        .first()
        .and_then(|receipt| receipt.key.as_deref());
    let next = had
        .map_or(0, |key| key.parse::<u32>().unwrap() + 1)
        .to_string();
    said(Decision {
        effects: vec![effect("more", Some(&next), "http://exporter/more")],
        ..Decision::default()
    })
}

/// Sends another request under the same id once the first was answered.
pub(super) fn changes_its_mind(seen: &Observation) -> Said {
    let url = if seen.receipts.is_empty() {
        "http://exporter/a"
    } else {
        "http://exporter/b"
    };
    said(Decision {
        effects: vec![effect("x", None, url)],
        ..Decision::default()
    })
}
