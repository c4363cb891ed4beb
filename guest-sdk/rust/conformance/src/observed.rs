//! All that an observation holds, told in a status.

use guesthouse_sdk::Value;
use guesthouse_sdk::contract::{self, Answer, Body, ChildState, Objects, ReceiptState, Response};
use guesthouse_sdk::prelude::*;

use crate::{Conformance, world};

pub(crate) fn told(seen: &Observation<Conformance>) -> Value {
    let raw = seen.raw();
    let old: Value = seen
        .status()
        .and_then(|status| serde_json::from_str(status.text()).ok())
        .unwrap_or_default();
    let deleting = serde_json::from_str::<Value>(seen.object_json())
        .is_ok_and(|object| object["metadata"].get("deletionTimestamp").is_some());
    json!({
        "name": seen.name(), "namespace": seen.namespace(), "uid": seen.uid(), "generation": seen.generation(),
        "label": seen.label("a"), "old": old["old"], "mapping": raw.mapping, "now": seen.now(),
        "attempt": seen.attempt(), "round": raw.round, "greeting": seen.config().greeting, "deleting": deleting,
        "related": raw.related.iter().map(related).collect::<Vec<_>>(),
        "children": seen.children().iter().map(child).collect::<Vec<_>>(),
        "receipts": raw.receipts.iter().map(receipt).collect::<Vec<_>>(),
    })
}

fn related(related: &contract::Related) -> Value {
    let name = &related.name;
    match &related.answer {
        Answer::Objects(objects) => json!({
            "name": name, "found": objects.items.len(), "truncated": objects.truncated, "first": first(objects),
        }),
        Answer::Response(response) => json!({
            "name": name, "code": response.code, "body": body(response), "header": response.header("x-a"),
            "truncated": response.truncated,
        }),
        Answer::Unavailable(cause) => {
            json!({"name": name, "unavailable": cause.reason, "message": cause.message})
        }
    }
}

fn first(objects: &Objects) -> Option<String> {
    let object: Value = serde_json::from_str(objects.items.first()?).ok()?;
    Some(object["metadata"]["name"].as_str()?.to_owned())
}

fn child(child: &contract::Child) -> Value {
    let state = match child.state {
        ChildState::Absent => "absent",
        ChildState::InProgress => "inProgress",
        ChildState::Current => "current",
        ChildState::Failed => "failed",
        ChildState::Terminating => "terminating",
    };
    json!({
        "effect": child.effect, "name": child.object.name, "namespace": child.object.namespace, "uid": child.uid,
        "state": state, "error": child.error.as_ref().map(|cause| &cause.reason),
    })
}

fn receipt(receipt: &contract::Receipt) -> Value {
    let (effect, key) = (&receipt.effect, &receipt.key);
    match &receipt.state {
        ReceiptState::Answered(response) => json!({
            "effect": effect, "key": key, "state": "answered", "code": response.code, "body": body(response),
        }),
        ReceiptState::Failed(failed) => json!({
            "effect": effect, "key": key, "state": "failed", "attempts": failed.attempts,
            "reason": failed.error.reason, "nextAt": failed.next_at,
        }),
        ReceiptState::Unknown => json!({"effect": effect, "key": key, "state": "unknown"}),
    }
}

fn body(response: &Response) -> String {
    match &response.body {
        Body::Empty => String::new(),
        Body::Text(text) => text.clone(),
        Body::Bytes(bytes) => world::base64(bytes),
    }
}
