//! What a ProvisionRequest becomes: what is seen of the resource and of the requests, then phase, condition and what is asked.
//!
//! Looks and answers carry the time of the scene they are added to, so `.now(…)` before each says which is newer.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use guesthouse_sdk::contract::{
    Body, ConditionStatus, Decision, Delivery, Failure, FailureKind, ReceiptState, Source, Wake,
};
use guesthouse_sdk::json;
use guesthouse_sdk::testing::{Scene, decide, observe};
use provision_request::{LOOK, PROVISION, Phase, ProvisionRequest, ProvisionRequestStatus};
use serde_json::Value;

const CONFIG: &str = r#"{"provisioner": "http://p:80/"}"#;
const URL: &str = "http://p:80/resources/acme.db.u-1";
const EARLIER: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:00:05Z";

fn request(generation: i64, size: &str, region: &str) -> Scene {
    observe(json!({
        "metadata": {"name": "db", "namespace": "acme", "uid": "u-1", "generation": generation},
        "spec": {"size": size, "region": region},
        "status": {"phase": "Pending", "observedGeneration": -1},
    }))
    .config(CONFIG)
}

/// The request as it is made: small, in eu.
fn new() -> Scene {
    request(1, "small", "eu")
}

fn there(size: &str, state: &str) -> Value {
    let mut body = json!({"id": "acme.db.u-1", "size": size, "region": "eu", "state": state});
    if state == "ready" {
        body["endpoint"] = json!("db.eu:5432");
    }
    body
}

/// The key that the request of this object is sent under.
fn key_of(scene: &Scene) -> String {
    let mut scene = scene.clone();
    (scene.raw().related, scene.raw().receipts) = (Vec::new(), Vec::new());
    let decision = decide::<ProvisionRequest>(&scene.fetched(LOOK, 404, "")).unwrap();
    decision.http(PROVISION).unwrap().key.clone().unwrap()
}

fn run(scene: &Scene) -> (Decision, ProvisionRequestStatus) {
    let decision = decide::<ProvisionRequest>(scene).unwrap();
    assert_eq!(
        decide::<ProvisionRequest>(scene).as_ref(),
        Ok(&decision),
        "equal observations, equal decisions"
    );
    assert_eq!(
        decision.needs.len(),
        1,
        "what is watched is named each time"
    );
    let status = decision.status_as().unwrap();
    (decision, status)
}

fn failure(scene: &Scene) -> Failure {
    decide::<ProvisionRequest>(scene).unwrap_err()
}

#[test]
fn a_new_request_looks_first_and_does_nothing_else() {
    let decision = decide::<ProvisionRequest>(&new()).unwrap();
    let Source::Fetch(fetch) = &decision.needs[0].source else {
        panic!("{:?}", decision.needs)
    };
    assert_eq!(
        (fetch.request.method.as_str(), fetch.request.url.as_str()),
        ("GET", URL)
    );
    assert_eq!(fetch.fresh, 4, "older than that when the wake of 5 s comes");
    assert!(decision.effects.is_empty() && decision.status.is_none());
}

#[test]
fn what_is_not_there_is_asked_for_with_all_of_the_spec() {
    let (decision, status) = run(&new().fetched(LOOK, 404, ""));
    let http = decision.http(PROVISION).unwrap();
    assert_eq!(
        (http.request.method.as_str(), http.request.url.as_str()),
        ("PUT", URL)
    );
    let body = Body::Text(r#"{"size":"small","region":"eu"}"#.into());
    assert_eq!(http.request.body, body);
    assert_eq!(http.delivery, Delivery::AtLeastOnce);
    assert_eq!(status.phase, Phase::Pending);
    assert_eq!(status.resource.as_deref(), Some("acme.db.u-1"));
    assert!(
        !decision.finalized && decision.wake.is_none(),
        "the rest is the host's"
    );
}

/// What a pass comes to: phase, condition `Ready` with its reason, whether the resource is asked for, and whether it looks again.
type Outcome = (Phase, ConditionStatus, &'static str, bool, bool);

#[test]
fn look_and_receipt_decide_what_comes_next() {
    use ConditionStatus::{False, True, Unknown};
    let looked = |code, body: Value| new().now(EARLIER).fetched(LOOK, code, body).now(LATER);
    let gone = || looked(404, Value::Null);
    let own = key_of(&new());
    let seen_after = |answer: Scene, code, body: Value| {
        answer
            .keyed(&own)
            .now("2026-01-01T00:00:09Z")
            .fetched(LOOK, code, body)
    };
    let made = || {
        new()
            .now(LATER)
            .answered(PROVISION, 201, there("small", "provisioning"))
    };
    let cases: Vec<(&str, Scene, Outcome)> = vec![
        (
            "on its way",
            looked(200, there("small", "provisioning")),
            (Phase::Provisioning, Unknown, "Provisioning", false, true),
        ),
        (
            "ready",
            looked(200, there("small", "ready")),
            (Phase::Ready, True, "Provisioned", false, false),
        ),
        (
            "failed over there",
            looked(200, there("small", "failed")),
            (Phase::Failed, False, "ProvisioningFailed", false, false),
        ),
        (
            "a state of a later version",
            looked(200, there("small", "migrating")),
            (Phase::Provisioning, Unknown, "Provisioning", false, true),
        ),
        (
            "another size",
            looked(200, there("large", "ready")),
            (Phase::Provisioning, Unknown, "Requested", true, false),
        ),
        (
            "accepted",
            gone()
                .answered(PROVISION, 201, there("small", "provisioning"))
                .keyed(&own),
            (Phase::Provisioning, Unknown, "Provisioning", false, true),
        ),
        (
            "accepted without a word",
            gone().answered(PROVISION, 202, "").keyed(&own),
            (Phase::Provisioning, Unknown, "Provisioning", false, true),
        ),
        (
            "accepted, and ready at once",
            gone()
                .answered(PROVISION, 201, there("small", "ready"))
                .keyed(&own),
            (Phase::Ready, True, "Provisioned", false, false),
        ),
        (
            "not answered",
            gone()
                .failed(PROVISION, 3, "ServerError", "503")
                .keyed(&own),
            (Phase::Pending, Unknown, "ServerError", true, false),
        ),
        (
            "not answered, and seen: it may be a look from before",
            looked(200, there("small", "ready"))
                .failed(PROVISION, 1, "Timeout", "30 s")
                .keyed(&own),
            (Phase::Provisioning, Unknown, "Timeout", true, false),
        ),
        (
            "rejected: one more look",
            gone().answered(PROVISION, 409, "quota").keyed(&own),
            (Phase::Failed, False, "Rejected", false, true),
        ),
        (
            "rejected, and not there since",
            seen_after(
                new().now(LATER).answered(PROVISION, 422, "no"),
                404,
                Value::Null,
            ),
            (Phase::Failed, False, "Rejected", false, false),
        ),
        (
            "an answer that is lost for good",
            gone().receipt(PROVISION, ReceiptState::Unknown).keyed(&own),
            (Phase::Failed, False, "AnswerLost", false, true),
        ),
        (
            "an answer that is lost for good, and the resource is there",
            looked(200, there("small", "ready"))
                .receipt(PROVISION, ReceiptState::Unknown)
                .keyed(&own),
            (Phase::Ready, True, "Provisioned", false, false),
        ),
        (
            "made, and gone since",
            seen_after(made(), 404, Value::Null),
            (Phase::Failed, False, "ResourceLost", false, false),
        ),
        (
            "made, and changed by somebody else since",
            seen_after(made(), 200, there("large", "ready")),
            (Phase::Failed, False, "ResourceChanged", false, false),
        ),
        (
            "made, and ready since",
            seen_after(made(), 200, there("small", "ready")),
            (Phase::Ready, True, "Provisioned", false, false),
        ),
    ];
    for (name, scene, wanted) in cases {
        let (decision, status) = run(&scene);
        let ready = decision.condition("Ready").unwrap();
        let asks = decision.http(PROVISION).is_some();
        let looks_again = match decision.wake {
            None => false,
            Some(Wake::After(5)) => true,
            other => panic!("{name}: {other:?}"),
        };
        let found = (
            status.phase,
            ready.status,
            ready.reason.as_str(),
            asks,
            looks_again,
        );
        assert_eq!(found, wanted, "{name}");
        assert!(!decision.finalized, "{name}");
    }
}

#[test]
fn another_size_is_asked_for_under_another_key_and_the_endpoint_stays() {
    let object = |size: &str| {
        let object = json!({
            "metadata": {"name": "db", "namespace": "acme", "uid": "u-1", "generation": 2},
            "spec": {"size": size, "region": "eu"},
            "status": {"phase": "Ready", "endpoint": "db.eu:5432", "size": "small"},
        });
        observe(object).config(CONFIG)
    };
    let first = key_of(&new());
    let before = || {
        object("large")
            .now(EARLIER)
            .fetched(LOOK, 200, there("small", "ready"))
    };
    let (decision, status) = run(&before());
    let http = decision.http(PROVISION).unwrap();
    assert_ne!(http.key.as_ref(), Some(&first));
    assert_eq!(status.phase, Phase::Provisioning);
    assert_eq!(status.endpoint.as_deref(), Some("db.eu:5432"));
    let resized = before()
        .now(LATER)
        .answered(PROVISION, 200, there("large", "provisioning"))
        .keyed(&key_of(&object("large")));
    let (decision, status) = run(&resized);
    assert_eq!(decision.http(PROVISION), None, "asked for once");
    assert_eq!(status.size.as_deref(), Some("large"));
    assert_eq!(status.endpoint.as_deref(), Some("db.eu:5432"));
}

#[test]
fn a_size_that_comes_back_is_a_new_wish() {
    let (first, third) = (new(), request(3, "small", "eu"));
    assert_ne!(key_of(&first), key_of(&third));
    // The look is from before the answer that made it large: it says small, and that is over.
    let scene = third
        .now(EARLIER)
        .fetched(LOOK, 200, there("small", "ready"))
        .now(LATER)
        .answered(PROVISION, 200, there("large", "provisioning"))
        .keyed(&key_of(&request(2, "large", "eu")));
    assert!(run(&scene).0.http(PROVISION).is_some());
}

#[test]
fn an_older_wish_without_an_answer_is_overruled_by_the_new_one() {
    let older = key_of(&request(2, "large", "eu"));
    for state in ["ready", "provisioning"] {
        let scene = request(3, "small", "eu")
            .fetched(LOOK, 200, there("small", state))
            .failed(PROVISION, 1, "Timeout", "30 s")
            .keyed(&older);
        let decision = run(&scene).0;
        assert!(
            decision.http(PROVISION).is_some(),
            "{state}: it may still turn large"
        );
        assert_eq!(decision.condition("Ready").unwrap().reason, "Requested");
    }
}

#[test]
fn every_part_of_the_request_is_in_its_key() {
    let keys = [
        key_of(&new()),
        key_of(&request(2, "small", "eu")),
        key_of(&request(1, "large", "eu")),
        key_of(&request(1, "small", "us")),
        key_of(&new().config(r#"{"provisioner": "http://other"}"#)),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{key}");
        assert!(key.len() < 64);
    }
}

#[test]
fn a_changed_region_stalls_the_object_and_counts_only_once_there_is_a_resource() {
    let moved = request(2, "small", "us");
    let stalled = failure(&moved.clone().fetched(LOOK, 200, there("small", "ready")));
    assert_eq!(stalled.kind, FailureKind::Terminal);
    assert_eq!(stalled.cause.reason, "RegionImmutable");
    assert!(
        stalled.cause.message.contains("in eu"),
        "{}",
        stalled.cause.message
    );
    let ready = &stalled.conditions[0];
    assert_eq!(
        (ready.type_.as_str(), ready.status),
        ("Ready", ConditionStatus::False)
    );
    let decision = run(&moved.fetched(LOOK, 404, "")).0;
    assert!(decision.http(PROVISION).is_some(), "nothing is there yet");
}

#[test]
fn without_a_look_nothing_is_asked_for() {
    use FailureKind::{Retry, Terminal};
    let cases = [
        (
            new().unavailable(LOOK, "Failed", "connection refused"),
            Retry,
            "Failed",
        ),
        (
            new().unavailable(LOOK, "Denied", "not granted"),
            Terminal,
            "Denied",
        ),
        (new().fetched(LOOK, 403, ""), Retry, "UnexpectedAnswer"),
        (new().fetched(LOOK, 200, "<html>"), Retry, "BadAnswer"),
    ];
    for (scene, kind, reason) in cases {
        let failure = failure(&scene);
        assert_eq!(
            (failure.kind, failure.cause.reason.as_str()),
            (kind, reason)
        );
    }
}

#[test]
fn a_ready_resource_that_cannot_be_looked_at_stays_ready() {
    let object = json!({
        "metadata": {"name": "db", "namespace": "acme", "uid": "u-1", "generation": 1},
        "spec": {"size": "small", "region": "eu"},
        "status": {"phase": "Ready"},
    });
    let ready = observe(object).config(CONFIG);
    let blind = |scene: Scene| failure(&scene.unavailable(LOOK, "Failed", "no route"));
    assert_eq!(blind(ready).conditions, []);
    assert_eq!(blind(new()).conditions[0].status, ConditionStatus::Unknown);
}

#[test]
fn two_objects_of_one_name_are_two_resources() {
    let url = |uid: &str| {
        let object = json!({
            "metadata": {"name": "db", "namespace": "acme", "uid": uid, "generation": 1},
            "spec": {"size": "small", "region": "eu"},
        });
        let scene = observe(object).config(CONFIG).fetched(LOOK, 404, "");
        let http = run(&scene).0.http(PROVISION).unwrap().clone();
        http.request.url
    };
    assert_ne!(url("u-1"), url("u-2"));
}
