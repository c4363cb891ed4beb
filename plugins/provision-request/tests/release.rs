//! What becomes of a ProvisionRequest that is being deleted.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use guesthouse_sdk::contract::{Decision, FailureKind, ReceiptState};
use guesthouse_sdk::json;
use guesthouse_sdk::testing::{Scene, finalize, observe};
use provision_request::{PROVISION, Phase, ProvisionRequest, ProvisionRequestStatus, RELEASE};

fn deleted() -> Scene {
    observe(json!({
        "metadata": {
            "name": "db", "namespace": "acme", "uid": "u-1", "generation": 2,
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["acme.io/cleanup"],
        },
        "spec": {"size": "small", "region": "eu"},
        "status": {"phase": "Ready", "endpoint": "db.eu:5432"},
    }))
    .config(r#"{"provisioner": "http://p:80"}"#)
}

fn run(scene: &Scene) -> Decision {
    let decision = finalize::<ProvisionRequest>(scene).unwrap();
    assert_eq!(finalize::<ProvisionRequest>(scene).as_ref(), Ok(&decision));
    let status: ProvisionRequestStatus = decision.status_as().unwrap();
    assert_eq!((status.phase, status.endpoint), (Phase::Deleting, None));
    decision
}

/// The key under which the deletion is asked for.
fn asked(decision: &Decision) -> Option<&str> {
    decision.http(RELEASE)?.key.as_deref()
}

#[test]
fn the_resource_is_taken_away_before_the_object_is_let_go() {
    let decision = run(&deleted());
    let request = &decision.http(RELEASE).unwrap().request;
    assert_eq!(request.method, "DELETE");
    assert_eq!(request.url, "http://p:80/resources/acme.db.u-1");
    assert_eq!(decision.effects.len(), 1);
    assert!(!decision.finalized);
}

#[test]
fn gone_is_what_was_taken_away_and_what_was_never_there() {
    for code in [200, 202, 204, 404, 410] {
        let decision = run(&deleted().answered(RELEASE, code, "").keyed("0"));
        assert!(decision.finalized && decision.effects.is_empty(), "{code}");
        assert_eq!(decision.condition("Ready").unwrap().reason, "Released");
    }
}

#[test]
fn a_deletion_without_an_answer_is_asked_for_again_under_its_key() {
    for attempt in [0, 4] {
        let scene = deleted()
            .failed(RELEASE, 2, "ServerError", "503")
            .keyed("0")
            .attempt(attempt);
        let decision = run(&scene);
        assert_eq!(asked(&decision), Some("0"), "attempt {attempt}");
        assert!(!decision.finalized);
        assert_eq!(decision.condition("Ready").unwrap().reason, "ServerError");
    }
}

#[test]
fn a_refused_deletion_is_retried_later_under_another_key() {
    let refused = [
        ("403", deleted().answered(RELEASE, 403, "locked")),
        ("301", deleted().answered(RELEASE, 301, "")),
        ("lost", deleted().receipt(RELEASE, ReceiptState::Unknown)),
    ];
    for (name, scene) in refused {
        let scene = scene.keyed("1");
        let failure = finalize::<ProvisionRequest>(&scene.clone().attempt(1)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Retry, "{name}");
        assert_eq!(failure.cause.reason, "DeletionRefused", "{name}");
        assert_eq!(
            failure.conditions[0].message, failure.cause.message,
            "{name}"
        );
        let decision = run(&scene.attempt(2));
        assert_eq!(asked(&decision), Some("2"), "{name}");
        assert!(!decision.finalized, "{name}");
    }
}

#[test]
fn a_creation_that_is_still_open_is_not_asked_for_again() {
    let open = [
        deleted().failed(PROVISION, 1, "Timeout", "30 s"),
        deleted().receipt(PROVISION, ReceiptState::Unknown),
        deleted().answered(PROVISION, 201, "{}"),
    ];
    for scene in open {
        let decision = run(&scene.keyed("1-x"));
        assert_eq!(decision.http(PROVISION), None);
        assert_eq!(asked(&decision), Some("0"));
    }
}
