//! The contract's records through the component door, both ways.

use guesthouse_core::{
    contract::{
        Action, Answer, Body, Cause, Child, ChildState, Delivery, Extension, FailedSend, Json,
        Kind, ObjectRef, Objects, Receipt, ReceiptState, Related, Reply, Response, Status,
    },
    limits::Limits,
};
use guesthouse_sandbox::Verb;

use crate::support::*;

fn response(body: Body) -> Response {
    let headers = vec![("etag".into(), "W/1".into()), ("x".into(), "h2".into())];
    Response {
        code: 201,
        headers,
        body,
        truncated: true,
        at: "2026-01-01T00:00:00Z".into(),
    }
}

fn receipt(key: Option<&str>, state: ReceiptState) -> Receipt {
    Receipt {
        effect: "send".into(),
        key: key.map(str::to_owned),
        state,
    }
}

#[test]
fn every_part_of_an_observation_arrives() {
    let mut seen = seen(r#"{"do":"everything"}"#);
    let related = |name: &str, answer| Related {
        name: name.into(),
        answer,
    };
    let items = vec![
        Json::parse(r#"{"item":1}"#).unwrap(),
        Json::parse(r#"{"item":2}"#).unwrap(),
    ];
    seen.related = vec![
        related(
            "a",
            Answer::Objects(Objects {
                items,
                truncated: true,
            }),
        ),
        related("b", Answer::Response(response(Body::Text("body-b".into())))),
        related(
            "c",
            Answer::Unavailable(Cause::new("Denied", "not granted")),
        ),
    ];
    let kind = Kind {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
    };
    seen.children = vec![Child {
        effect: "child".into(),
        object: ObjectRef {
            kind,
            namespace: Some("ns".into()),
            name: "cm".into(),
        },
        uid: Some("uid-1".into()),
        state: ChildState::InProgress,
        message: "on its way".into(),
        error: Some(Cause::new("Conflict", "held by another")),
    }];
    let failed = FailedSend {
        attempts: 3,
        error: Cause::new("Timeout", "30s"),
        next_at: "2026-01-02T00:00:00Z".into(),
    };
    seen.receipts = vec![
        receipt(
            Some("k1"),
            ReceiptState::Answered(response(Body::Bytes(vec![0, 255]))),
        ),
        receipt(None, ReceiptState::Failed(failed)),
        receipt(Some("k3"), ReceiptState::Unknown),
    ];
    seen.extensions = vec![Extension {
        name: "ext".into(),
        value: Json::parse("[7]").unwrap(),
    }];
    (seen.attempt, seen.round) = (4, 2);
    let called = plugin().call(Verb::Reconcile, &seen, &Limits::default());
    let (_, said) = status(called);
    let said = said.as_str().unwrap();
    for part in [
        r#""{\"item\":1}", "{\"item\":2}""#,
        "truncated: true",
        r#""etag", "W/1""#,
        r#""x", "h2""#,
        "body-b",
        "not granted",
        "ConfigMap",
        r#"Some("ns")"#,
        r#"Some("uid-1")"#,
        "InProgress",
        "on its way",
        "held by another",
        r#"Some("k1")"#,
        "[0, 255]",
        "attempts: 3",
        "2026-01-02T00:00:00Z",
        r#"Some("k3")"#,
        "Unknown",
        "[7]",
        "attempt: 4",
        "round: 2",
        NOW,
        "test",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn every_part_of_a_decision_arrives() {
    let decision = decision(call(r#"{"do":"everything"}"#));
    assert_eq!(decision.labels["a"].as_deref(), Some("1"));
    assert_eq!(decision.labels["b"], None);
    assert!(decision.complete);
    assert_eq!(
        (
            decision.extensions[0].name.as_str(),
            decision.extensions[0].value.as_str()
        ),
        ("e", "[]")
    );
    let [child, send] = decision.effects.as_slice() else {
        panic!("two effects")
    };
    let Action::Apply(apply) = &child.action else {
        panic!("apply")
    };
    assert_eq!(apply.object.as_str(), r#"{"n":9007199254740993,"f":1.0}"#);
    assert_eq!(send.after, ["child"]);
    let Action::Http(http) = &send.action else {
        panic!("http")
    };
    assert_eq!(
        (http.request.body.clone(), http.delivery),
        (Body::Bytes(vec![0, 255]), Delivery::AtMostOnce)
    );
    assert_eq!(
        (
            http.request.timeout,
            http.key.as_deref(),
            http.literal_key.as_deref()
        ),
        (Some(3), Some("k"), None)
    );
}

#[test]
fn a_failure_and_finalize_arrive() {
    let Ok(Reply::Failure(failure)) = call(r#"{"do":"fail"}"#).result else {
        panic!("a failure")
    };
    assert_eq!(
        (failure.cause, failure.after),
        (Cause::new("Sad", "no"), Some(7))
    );
    assert!(
        matches!(failure.status, Some(Status::Merge(json)) if json.as_str() == r#"{"a":null}"#)
    );
    let finalized = plugin().call(Verb::Finalize, &seen("{}"), &Limits::default());
    assert!(decision(finalized).finalized);
}

#[test]
fn a_guest_serves_one_call() {
    let mut guest = plugin().open(&Limits::default()).unwrap();
    assert!(guest.call(Verb::Reconcile, &seen("{}")).is_ok());
    let again = guest.call(Verb::Reconcile, &seen("{}")).unwrap_err();
    assert_eq!(
        again.to_string(),
        "Host: a guest serves one call; open another"
    );
}
