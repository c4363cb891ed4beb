//! What a spec can say, and the decision it makes.

use guesthouse_sdk::contract::{ChildState, ReceiptState};
use guesthouse_sdk::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What is wanted, under the verb it is wanted at: `{"reconcile": Wish, "finalize": Wish}`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Wish {
    /// All the children there shall be; none at all: nothing is said of children, and none is pruned.
    children: Option<Vec<Child>>,
    /// Http effects.
    http: Vec<Request>,
    /// Labels of the object.
    labels: BTreeMap<String, String>,
    /// Seconds: the first pass writes the time so much later into `status.at`, and the first one from then on `status.woke`.
    wait: Option<u32>,
    /// Every pass writes another `status.turn` and wants the next one at once.
    restless: bool,
    /// The clean-up is not over.
    unfinished: bool,
    /// Fails for good, with this message.
    fail: Option<String>,
}

/// A child.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Child {
    id: String,
    object: Raw,
    #[serde(default)]
    after: Vec<String>,
    /// `adopt`, `fields`, `once`, `recreate`, `orphan`.
    #[serde(default)]
    how: Vec<String>,
    /// Keys of a Secret, and their lengths.
    #[serde(default)]
    generate: BTreeMap<String, u32>,
}

/// An http effect.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    id: String,
    method: String,
    url: String,
    key: Option<String>,
    body: Option<String>,
    credential: Option<String>,
    #[serde(default)]
    at_most_once: bool,
}

/// The decision that the member `verb` of the spec asks for; nothing, and nothing left to do, where there is none.
pub(crate) fn decided<P: Reconciler>(
    seen: &Observation<P>,
    verb: &str,
) -> Result<Decision<Raw>, Failure> {
    let bad = |error: serde_json::Error| Failure::stall("BadWish", error.to_string());
    let spec: Map<String, Value> =
        serde_json::from_str(seen.spec_json().unwrap_or("{}")).map_err(bad)?;
    let wish = spec.get(verb).cloned().unwrap_or_else(|| json!({}));
    let wish: Wish = serde_json::from_value(wish).map_err(bad)?;
    if let Some(message) = wish.fail {
        return Err(Failure::stall("AsAsked", message));
    }
    let mut status = saw(seen);
    let before = status_before(seen);
    let mut decision = Decision::new();
    if let Some(children) = wish.children {
        decision = decision.children(children.into_iter().map(apply));
    }
    for request in wish.http {
        decision = decision.http(http(request));
    }
    for (key, value) in wish.labels {
        decision = decision.label(key, value);
    }
    if let Some(seconds) = wish.wait {
        decision = wait(decision, seen.now(), seconds, &before, &mut status);
    }
    if wish.restless {
        let turn = before.get("turn").and_then(Value::as_u64).unwrap_or(0);
        status.insert("turn".into(), json!(turn + 1));
        decision = decision.wake_after(0);
    }
    if verb == "finalize" && !wish.unfinished {
        decision = decision.finalized();
    }
    Ok(decision.status_json(Value::Object(status).to_string()))
}

/// How children and receipts stand, by id.
fn saw<P: Reconciler>(seen: &Observation<P>) -> Map<String, Value> {
    let state = |state: ChildState| match state {
        ChildState::Absent => "Absent",
        ChildState::InProgress => "InProgress",
        ChildState::Current => "Current",
        ChildState::Failed => "Failed",
        ChildState::Terminating => "Terminating",
    };
    let children = seen.children().iter();
    let children: Map<String, Value> = children
        .map(|child| (child.effect.clone(), json!(state(child.state))))
        .collect();
    let receipts = seen.raw().receipts.iter();
    let receipts: Map<String, Value> = receipts
        .map(|receipt| {
            let state = match &receipt.state {
                ReceiptState::Answered(answer) => answer.code.to_string(),
                ReceiptState::Failed(failed) => failed.error.reason.clone(),
                ReceiptState::Unknown => "Unknown".to_owned(),
            };
            (receipt.effect.clone(), json!(state))
        })
        .collect();
    Map::from_iter([
        ("children".to_owned(), Value::Object(children)),
        ("receipts".to_owned(), Value::Object(receipts)),
    ])
}

fn status_before<P: Reconciler>(seen: &Observation<P>) -> Map<String, Value> {
    #[derive(Deserialize)]
    struct Object {
        #[serde(default)]
        status: Map<String, Value>,
    }
    let object: Option<Object> = serde_json::from_str(seen.object_json()).ok();
    object.map(|object| object.status).unwrap_or_default()
}

/// The time stands in the status, so that a restart changes nothing about it.
fn wait(
    decision: Decision<Raw>,
    now: &str,
    seconds: u32,
    before: &Map<String, Value>,
    status: &mut Map<String, Value>,
) -> Decision<Raw> {
    let text = |member: &str| before.get(member).and_then(Value::as_str);
    let at = match text("at") {
        Some(at) => at.to_owned(),
        None => later(now, seconds),
    };
    status.insert("at".into(), json!(at));
    if let Some(woke) = text("woke") {
        status.insert("woke".into(), json!(woke));
        return decision;
    }
    // Both are RFC 3339 in UTC with whole seconds: they compare as text.
    if now >= at.as_str() {
        status.insert("woke".into(), json!(now));
        return decision;
    }
    decision.wake_at(at)
}

/// `now` and so many seconds, at most up to the end of its day.
fn later(now: &str, seconds: u32) -> String {
    let number = |from: usize| now.get(from..from + 2)?.parse::<u32>().ok();
    let (Some(hours), Some(minutes), Some(rest)) = (number(11), number(14), number(17)) else {
        return now.to_owned();
    };
    let total = (hours * 3600 + minutes * 60 + rest + seconds).min(86_399);
    let (hours, minutes, rest) = (total / 3600, total / 60 % 60, total % 60);
    format!("{}T{hours:02}:{minutes:02}:{rest:02}Z", &now[..10])
}

fn apply(child: Child) -> Apply {
    let mut apply = Apply::new(child.id, &child.object);
    for id in child.after {
        apply = apply.after(id);
    }
    for how in child.how {
        apply = match how.as_str() {
            "adopt" => apply.adopt(),
            "fields" => apply.fields(),
            "once" => apply.once(),
            "recreate" => apply.recreate(),
            "orphan" => apply.orphan(),
            _ => apply,
        };
    }
    for (key, length) in child.generate {
        apply = apply.generate(key, length);
    }
    apply
}

fn http(request: Request) -> Http {
    let mut http = Http::new(&request.method, request.id, request.url);
    if let Some(key) = request.key {
        http = http.key(key);
    }
    if let Some(body) = request.body {
        http = http.text(body);
    }
    if let Some(credential) = request.credential {
        http = http.credential(credential);
    }
    if request.at_most_once {
        http = http.at_most_once();
    }
    http
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_so_many_seconds_later_stays_within_its_day() {
        assert_eq!(later("2026-11-29T21:59:58Z", 5), "2026-11-29T22:00:03Z");
        assert_eq!(later("2026-11-29T23:59:58Z", 5), "2026-11-29T23:59:59Z");
    }
}
