//! Case files: an observation and what is to be answered, in the JSON form of the contract.
//!
//! The format is the one of the project's conformance suite (`tests/conformance/README.md`), so a case that a native test runs
//! is one that the built plugin can be judged by, too. Members of an observation that are empty may be left out; in an
//! expectation, what the contract lets be left out is left out.

use serde_json::{Map, Value, json};

use super::{Scene, base64};
use crate::contract::{
    Action, Answer, Body, Cause, Child, ChildState, Condition, ConditionStatus, Decision, Delivery,
    EventType, Extension, FailedSend, Failure, FailureKind, Kind, Mode, Need, ObjectRef, Objects,
    Observation, OnDelete, OnImmutable, Ownership, Receipt, ReceiptState, Related, Request,
    Response, Source, Status, View, Wake,
};
use crate::{Reconciler, door};

/// Reads a case file and judges the plugin by it; the error says what differs.
pub fn case<P: Reconciler>(path: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let case: Value = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    judge::<P>(&case).map_err(|why| format!("{path}: {why}"))
}

/// Judges the plugin by a case; the error says what differs.
pub fn judge<P: Reconciler>(case: &Value) -> Result<(), String> {
    let seen = observation(&case["observation"])?;
    let reply = match case["verb"].as_str() {
        Some("finalize") => door::finalize::<P>(&seen.0),
        _ => door::reconcile::<P>(&seen.0),
    };
    let found = match &reply {
        Ok(decision) => json!({"decision": of_decision(decision)?}),
        Err(failure) => json!({"failure": of_failure(failure)?}),
    };
    let mut wanted = case["expect"].clone();
    if let Some(members) = wanted.as_object_mut() {
        // The lines of the log go to the test's own output.
        members.remove("logs");
    }
    if found == wanted {
        return Ok(());
    }
    Err(format!("wanted {wanted}\n found {found}"))
}

// ---- from JSON ------------------------------------------------------------------------------------------------------------

/// An observation from its JSON form; what is empty may be left out.
pub fn observation(from: &Value) -> Result<Scene, String> {
    let or = |name: &str, other: &str| from[name].as_str().unwrap_or(other).to_owned();
    Ok(Scene(Observation {
        object: from["object"].to_string(),
        related: list(&from["related"], related)?,
        children: list(&from["children"], child)?,
        receipts: list(&from["receipts"], receipt)?,
        config: match &from["config"] {
            Value::Null => "{}".into(),
            config => config.to_string(),
        },
        mapping: or("mapping", "test"),
        now: or("now", "2026-01-01T00:00:00Z"),
        attempt: number(from, "attempt").unwrap_or(0),
        round: number(from, "round").unwrap_or(0),
        extensions: list(&from["extensions"], |it| {
            Ok(Extension {
                name: text(it, "name")?,
                value: it["value"].to_string(),
            })
        })?,
    }))
}

fn list<T>(from: &Value, read: impl Fn(&Value) -> Result<T, String>) -> Result<Vec<T>, String> {
    from.as_array().into_iter().flatten().map(read).collect()
}

fn text(from: &Value, name: &str) -> Result<String, String> {
    let found = from[name].as_str().map(str::to_owned);
    found.ok_or_else(|| format!("no text `{name}` in {from}"))
}

fn maybe(from: &Value, name: &str) -> Option<String> {
    from[name].as_str().map(str::to_owned)
}

fn number<N: TryFrom<u64>>(from: &Value, name: &str) -> Result<N, String> {
    let found = from[name].as_u64().and_then(|it| N::try_from(it).ok());
    found.ok_or_else(|| format!("no number `{name}` in {from}"))
}

/// A variant's name and payload; a case without payload is a text.
fn variant(from: &Value) -> Result<(&str, &Value), String> {
    let one = from.as_object().filter(|members| members.len() == 1);
    match (from.as_str(), one.and_then(|members| members.iter().next())) {
        (Some(name), _) => Ok((name, &Value::Null)),
        (_, Some((name, payload))) => Ok((name.as_str(), payload)),
        _ => Err(format!("not a variant: {from}")),
    }
}

fn cause(from: &Value) -> Result<Cause, String> {
    Ok(Cause {
        reason: text(from, "reason")?,
        message: maybe(from, "message").unwrap_or_default(),
    })
}

fn object_ref(from: &Value) -> Result<ObjectRef, String> {
    Ok(ObjectRef {
        kind: Kind {
            api_version: text(&from["kind"], "apiVersion")?,
            kind: text(&from["kind"], "kind")?,
        },
        namespace: maybe(from, "namespace"),
        name: text(from, "name")?,
    })
}

fn related(from: &Value) -> Result<Related, String> {
    let answer = match variant(&from["answer"])? {
        ("objects", it) => Answer::Objects(Objects {
            items: list(&it["items"], |item| Ok(item.to_string()))?,
            truncated: it["truncated"].as_bool().unwrap_or(false),
        }),
        ("response", it) => Answer::Response(response(it)?),
        ("unavailable", it) => Answer::Unavailable(cause(it)?),
        (other, _) => return Err(format!("no answer is called `{other}`")),
    };
    Ok(Related {
        name: text(from, "name")?,
        answer,
    })
}

fn child(from: &Value) -> Result<Child, String> {
    Ok(Child {
        effect: text(from, "effect")?,
        object: object_ref(&from["object"])?,
        uid: maybe(from, "uid"),
        state: match from["state"].as_str() {
            Some("absent") => ChildState::Absent,
            Some("inProgress") => ChildState::InProgress,
            Some("current") => ChildState::Current,
            Some("failed") => ChildState::Failed,
            Some("terminating") => ChildState::Terminating,
            _ => return Err(format!("no child's state: {}", from["state"])),
        },
        message: maybe(from, "message").unwrap_or_default(),
        error: from.get("error").map(cause).transpose()?,
    })
}

fn receipt(from: &Value) -> Result<Receipt, String> {
    let state = match variant(&from["state"])? {
        ("answered", it) => ReceiptState::Answered(response(it)?),
        ("failed", it) => ReceiptState::Failed(FailedSend {
            attempts: number(it, "attempts")?,
            error: cause(&it["error"])?,
            next_at: text(it, "nextAt")?,
        }),
        ("unknown", _) => ReceiptState::Unknown,
        (other, _) => return Err(format!("no receipt's state is called `{other}`")),
    };
    Ok(Receipt {
        effect: text(from, "effect")?,
        key: maybe(from, "key"),
        state,
    })
}

fn response(from: &Value) -> Result<Response, String> {
    let header = |pair: &Value| match (pair[0].as_str(), pair[1].as_str()) {
        (Some(name), Some(value)) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("not a header: {pair}")),
    };
    Ok(Response {
        code: number(from, "code")?,
        headers: list(&from["headers"], header)?,
        body: match variant(&from["body"])? {
            ("text", it) => Body::Text(it.as_str().unwrap_or_default().to_owned()),
            ("bytes", it) => Body::Bytes(base64::decode(it.as_str().unwrap_or_default())?),
            _ => Body::Empty,
        },
        truncated: from["truncated"].as_bool().unwrap_or(false),
        at: text(from, "at")?,
    })
}

// ---- to JSON --------------------------------------------------------------------------------------------------------------

/// An object in the making, in which what is empty is left out.
struct Members(Map<String, Value>);

impl Members {
    fn new() -> Self {
        Self(Map::new())
    }

    /// A member that is there unless it is null, false, or an empty list or object.
    fn put(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        let empty = match &value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if !empty {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    /// A member that is always there.
    fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// A member that names one of several, left out where it is the usual one.
    fn unless(self, name: &str, value: &str, usual: &str) -> Self {
        self.put(name, (value != usual).then_some(value))
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: `{text}`: {error}"))
}

fn of_decision(it: &Decision) -> Result<Value, String> {
    let effects: Vec<Value> = it
        .effects
        .iter()
        .map(|effect| {
            let members = Members::new()
                .set("id", effect.id.clone())
                .put("after", effect.after.clone())
                .set("action", of_action(&effect.action)?);
            Ok(members.done())
        })
        .collect::<Result<_, String>>()?;
    let events = it.events.iter().map(|event| {
        let type_ = match event.type_ {
            EventType::Normal => "normal",
            EventType::Warning => "warning",
        };
        json!({"type": type_, "reason": event.reason, "note": event.note})
    });
    let wake = it.wake.as_ref().map(|wake| match wake {
        Wake::At(at) => json!({"at": at}),
        Wake::After(seconds) => json!({"after": seconds}),
    });
    let members = Members::new()
        .put("status", of_status(it.status.as_ref())?)
        .put("conditions", of_conditions(&it.conditions))
        .put("labels", of_pairs(&it.labels))
        .put("annotations", of_pairs(&it.annotations))
        .put("needs", it.needs.iter().map(of_need).collect::<Vec<_>>())
        .put("effects", effects)
        .put("complete", it.complete)
        .put("events", events.collect::<Vec<_>>())
        .put("wake", wake)
        .put("finalized", it.finalized)
        .put("extensions", of_extensions(&it.extensions)?);
    Ok(members.done())
}

fn of_failure(it: &Failure) -> Result<Value, String> {
    let kind = match it.kind {
        FailureKind::Retry => "retry",
        FailureKind::Terminal => "terminal",
    };
    let members = Members::new()
        .set("kind", kind)
        .set(
            "cause",
            json!({"reason": it.cause.reason, "message": it.cause.message}),
        )
        .put("after", it.after)
        .put("status", of_status(it.status.as_ref())?)
        .put("conditions", of_conditions(&it.conditions));
    Ok(members.done())
}

fn of_status(status: Option<&Status>) -> Result<Option<Value>, String> {
    let value = match status {
        None => return Ok(None),
        Some(Status::Replace(text)) => json!({"replace": parsed(text)?}),
        Some(Status::Merge(text)) => json!({"merge": parsed(text)?}),
    };
    Ok(Some(value))
}

fn of_conditions(conditions: &[Condition]) -> Vec<Value> {
    let one = |it: &Condition| {
        let status = match it.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        json!({"type": it.type_, "status": status, "reason": it.reason, "message": it.message})
    };
    conditions.iter().map(one).collect()
}

fn of_pairs(pairs: &[(String, Option<String>)]) -> Map<String, Value> {
    let pair = |(key, value): &(String, Option<String>)| (key.clone(), json!(value));
    pairs.iter().map(pair).collect()
}

fn of_extensions(extensions: &[Extension]) -> Result<Vec<Value>, String> {
    let one = |it: &Extension| Ok(json!({"name": it.name, "value": parsed(&it.value)?}));
    extensions.iter().map(one).collect()
}

fn of_kind(kind: &Kind) -> Value {
    json!({"apiVersion": kind.api_version, "kind": kind.kind})
}

fn of_object_ref(it: &ObjectRef) -> Value {
    Members::new()
        .set("kind", of_kind(&it.kind))
        .put("namespace", it.namespace.clone())
        .set("name", it.name.clone())
        .done()
}

fn of_need(it: &Need) -> Value {
    let source = match &it.source {
        Source::Object(object) => json!({"object": of_object_ref(object)}),
        Source::Selected(selection) => {
            let members = Members::new()
                .set("kind", of_kind(&selection.kind))
                .put("namespace", selection.namespace.clone())
                .unless("labels", &selection.labels, "");
            json!({"selected": members.done()})
        }
        Source::Owned(kind) => json!({"owned": of_kind(kind)}),
        Source::Fetch(fetch) => {
            json!({"fetch": {"request": of_request(&fetch.request), "fresh": fetch.fresh}})
        }
    };
    let view = match it.view {
        View::Full => "full",
        View::Metadata => "metadata",
    };
    Members::new()
        .set("name", it.name.clone())
        .set("source", source)
        .unless("view", view, "full")
        .put("limit", it.limit)
        .done()
}

fn of_request(it: &Request) -> Value {
    let body = match &it.body {
        Body::Empty => None,
        Body::Text(text) => Some(json!({"text": text})),
        Body::Bytes(bytes) => Some(json!({"bytes": base64::encode(bytes)})),
    };
    let headers = it.headers.iter().map(|(name, value)| json!([name, value]));
    Members::new()
        .set("method", it.method.clone())
        .set("url", it.url.clone())
        .put("headers", headers.collect::<Vec<_>>())
        .put("body", body)
        .put("credential", it.credential.clone())
        .put("timeout", it.timeout)
        .done()
}

fn of_action(action: &Action) -> Result<Value, String> {
    Ok(match action {
        Action::Apply(it) => {
            let ownership = match it.ownership {
                Ownership::Owned => "owned",
                Ownership::Adopt => "adopt",
                Ownership::Fields => "fields",
            };
            let mode = match it.mode {
                Mode::Keep => "keep",
                Mode::Once => "once",
            };
            let on_immutable = match it.on_immutable {
                OnImmutable::Fail => "fail",
                OnImmutable::Recreate => "recreate",
            };
            let on_delete = match it.on_delete {
                OnDelete::Delete => "delete",
                OnDelete::Orphan => "orphan",
            };
            let generate = it.generate.iter().map(|one| {
                Members::new()
                    .set("key", one.key.clone())
                    .set("length", one.length)
                    .put("alphabet", one.alphabet.clone())
                    .done()
            });
            let members = Members::new()
                .set("object", parsed(&it.object)?)
                .unless("ownership", ownership, "owned")
                .unless("mode", mode, "keep")
                .unless("onImmutable", on_immutable, "fail")
                .unless("onDelete", on_delete, "delete")
                .put("generate", generate.collect::<Vec<_>>());
            json!({"apply": members.done()})
        }
        Action::Delete(it) => {
            let members = Members::new()
                .set("object", of_object_ref(&it.object))
                .put("uid", it.uid.clone());
            json!({"delete": members.done()})
        }
        Action::Http(it) => {
            let delivery = match it.delivery {
                Delivery::AtLeastOnce => "atLeastOnce",
                Delivery::AtMostOnce => "atMostOnce",
            };
            let members = Members::new()
                .set("request", of_request(&it.request))
                .unless("delivery", delivery, "atLeastOnce")
                .put("key", it.key.clone())
                .put("literalKey", it.literal_key.clone());
            json!({"http": members.done()})
        }
        Action::Other(it) => json!({"other": {"name": it.name, "value": parsed(&it.value)?}}),
    })
}
