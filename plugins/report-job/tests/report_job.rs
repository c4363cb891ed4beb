//! What a ReportJob becomes, as data: status before and receipt, then status, label, event and whether the export is asked for.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use guesthouse_sdk::contract::{Body, Decision, EventType, ReceiptState};
use guesthouse_sdk::json;
use guesthouse_sdk::testing::{Scene, decide, observe};
use report_job::{EXPORT, PHASE_LABEL, Phase, ReportJob, ReportJobStatus};
use serde_json::Value;

const CONFIG: &str = r#"{"exporter": "http://exporter:80/"}"#;

fn job(phase: &str, label: Option<&str>) -> Scene {
    let mut job = json!({
        "apiVersion": "batch.acme.io/v1",
        "kind": "ReportJob",
        "metadata": {"name": "q1", "namespace": "acme", "uid": "u", "generation": 1},
        "spec": {"report": "sales", "priority": 5, "notBefore": "2030-01-01T00:00:00Z", "parameters": {"year": 2026}},
        "status": {"phase": phase, "observedGeneration": -1},
    });
    if let Some(label) = label {
        job["metadata"]["labels"] = json!({PHASE_LABEL: label});
    }
    observe(job).config(CONFIG)
}

/// The key that the export of [`job`] is sent under.
fn wish() -> String {
    let decision = run(&job("Pending", None)).0;
    decision
        .http(EXPORT)
        .and_then(|http| http.key.clone())
        .unwrap()
}

fn run(scene: &Scene) -> (Decision, ReportJobStatus) {
    let decision = decide::<ReportJob>(scene).unwrap();
    let status = decision.status_as().unwrap();
    (decision, status)
}

fn status(phase: Phase, retries: i64, message: Option<&str>, url: Option<&str>) -> ReportJobStatus {
    ReportJobStatus {
        phase,
        retries,
        message: message.map(String::from),
        url: url.map(String::from),
    }
}

#[test]
fn a_new_job_asks_for_one_put_named_after_it() {
    let (decision, now) = run(&job("Pending", Some("pending")));
    assert_eq!(now, status(Phase::Pending, 0, None, None));
    assert_eq!(decision.effects.len(), 1);
    let request = &decision.http(EXPORT).unwrap().request;
    assert_eq!(
        (request.method.as_str(), request.url.as_str()),
        ("PUT", "http://exporter:80/reports/acme.q1")
    );
    let Body::Text(body) = &request.body else {
        panic!("{:?}", request.body)
    };
    assert_eq!(
        body,
        r#"{"report":"sales","format":"pdf","namespace":"acme","name":"q1"}"#
    );
    assert_eq!(decision.labels, [], "the label is already right");
    assert_eq!(decision.events, []);
}

#[test]
fn a_receipt_decides_the_phase() {
    let answered = |code, body: &str| job("Pending", Some("pending")).answered(EXPORT, code, body);
    let failed = |attempts| {
        job("Pending", Some("pending"))
            .failed(EXPORT, attempts, "ServerError", "503 from http://exporter")
            .keyed(&wish())
    };
    let cause = Some("ServerError: 503 from http://exporter");
    // Receipt, status, label set, event, export asked for again.
    let cases = [
        (
            "201",
            answered(201, r#"{"url":"http://e/a"}"#),
            status(Phase::Done, 0, None, Some("http://e/a")),
            Some("done"),
            Some("Exported"),
            false,
        ),
        (
            "200 without url",
            answered(200, "thanks"),
            status(Phase::Done, 0, None, None),
            Some("done"),
            Some("Exported"),
            false,
        ),
        (
            "422",
            answered(422, " no such report\n"),
            status(
                Phase::Failed,
                0,
                Some("the exporter answered 422: no such report"),
                None,
            ),
            Some("failed"),
            Some("ExportFailed"),
            false,
        ),
        (
            "301",
            answered(301, ""),
            status(Phase::Failed, 0, Some("the exporter answered 301"), None),
            Some("failed"),
            Some("ExportFailed"),
            false,
        ),
        (
            "first failure",
            failed(1),
            status(Phase::Pending, 1, cause, None),
            None,
            None,
            true,
        ),
        (
            "fourth failure",
            failed(4),
            status(Phase::Pending, 4, cause, None),
            None,
            None,
            true,
        ),
        (
            "fifth failure",
            failed(5),
            status(Phase::Failed, 5, cause, None),
            Some("failed"),
            Some("ExportFailed"),
            false,
        ),
        (
            "more failures",
            failed(7),
            status(Phase::Failed, 7, cause, None),
            Some("failed"),
            Some("ExportFailed"),
            false,
        ),
        (
            "lost answer",
            job("Pending", Some("pending")).receipt(EXPORT, ReceiptState::Unknown),
            status(
                Phase::Failed,
                0,
                Some("the answer of the exporter was lost"),
                None,
            ),
            Some("failed"),
            Some("ExportFailed"),
            false,
        ),
    ];
    for (name, scene, wanted, label, event, again) in cases {
        let (decision, now) = run(&scene);
        assert_eq!(now, wanted, "{name}");
        assert_eq!(decision.label(PHASE_LABEL).flatten(), label, "{name}");
        assert_eq!(
            decision.events.first().map(|event| event.reason.as_str()),
            event,
            "{name}"
        );
        assert_eq!(decision.http(EXPORT).is_some(), again, "{name}");
        let ready: Vec<_> = decision
            .conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.reason.as_str()))
            .collect();
        let expected: &[_] = if label == Some("failed") {
            &[("Ready", "ExportFailed")]
        } else {
            &[]
        };
        assert_eq!(
            ready, expected,
            "{name}: Ready is the host's unless the job failed"
        );
        assert!(decision.wake.is_none(), "{name}: the rest is the host's");
    }
}

#[test]
fn an_answer_that_names_no_url_leaves_it_to_the_location_header() {
    let mut scene = job("Pending", None).answered(EXPORT, 201, "");
    let ReceiptState::Answered(answer) = &mut scene.raw().receipts[0].state else {
        unreachable!()
    };
    answer
        .headers
        .push(("location".into(), "/reports/acme.q1".into()));
    assert_eq!(run(&scene).1.url.as_deref(), Some("/reports/acme.q1"));
}

#[test]
fn a_success_after_failures_keeps_the_retries_and_drops_the_message() {
    let object = json!({
        "metadata": {"name": "q1", "namespace": "acme"},
        "spec": {"report": "r"},
        "status": {"phase": "Pending", "retries": 3, "message": "Unreachable: x"},
    });
    let scene = observe(object)
        .config(CONFIG)
        .answered(EXPORT, 201, r#"{"url":"u"}"#);
    assert_eq!(run(&scene).1, status(Phase::Done, 3, None, Some("u")));
}

#[test]
fn a_terminal_job_stays_as_it_is_whatever_its_spec_and_receipts_say() {
    for (phase, label) in [("Done", "done"), ("Failed", "failed")] {
        let before = json!({"phase": phase, "retries": 2, "message": "m", "url": "u"});
        let object = |label: &str| {
            json!({
                "metadata": {"name": "q1", "namespace": "acme", "generation": 9, "labels": {PHASE_LABEL: label}},
                "spec": {"report": "another"},
                "status": before,
            })
        };
        for scene in [
            observe(object(label)).config(CONFIG),
            observe(object(label))
                .config(CONFIG)
                .answered(EXPORT, 422, "no"),
            observe(object(label))
                .config(CONFIG)
                .failed(EXPORT, 3, "Timeout", "t"),
        ] {
            let (decision, now) = run(&scene);
            assert_eq!(serde_json::to_value(now).unwrap(), before);
            assert_eq!(
                (
                    decision.effects.len(),
                    decision.labels.len(),
                    decision.events.len()
                ),
                (0, 0, 0),
                "{phase}"
            );
        }
        let (decision, _) = run(&observe(object("pending")).config(CONFIG));
        assert_eq!(
            decision.label(PHASE_LABEL),
            Some(Some(label)),
            "a label that was lost or changed is put right"
        );
    }
}

#[test]
fn an_observed_generation_is_left_to_the_host() {
    let (decision, _) = run(&job("Pending", None));
    let status: Value = decision.status_as().unwrap();
    assert_eq!(status.get("observedGeneration"), None);
    assert_eq!(status.get("conditions"), None);
}

#[test]
fn a_job_without_label_or_status_gets_both() {
    let scene =
        observe(json!({"metadata": {"name": "q1", "namespace": "acme"}, "spec": {"report": "r"}}))
            .config(CONFIG);
    let (decision, now) = run(&scene);
    assert_eq!(now, ReportJobStatus::default());
    assert_eq!(decision.label(PHASE_LABEL), Some(Some("pending")));
}

#[test]
fn names_are_escaped_in_the_address() {
    let object =
        json!({"metadata": {"name": "a/../ä?", "namespace": "n"}, "spec": {"report": "r"}});
    let (decision, _) = run(&observe(object).config(CONFIG));
    assert_eq!(
        decision.http(EXPORT).unwrap().request.url,
        "http://exporter:80/reports/n.a%2F..%2F%C3%A4%3F"
    );
}

#[test]
fn a_long_rejection_is_cut_between_characters() {
    let (_, now) = run(&job("Pending", None).answered(EXPORT, 400, "ä".repeat(600)));
    let message = now.message.unwrap();
    assert_eq!(
        message,
        format!("the exporter answered 400: {}", "ä".repeat(256))
    );
}

#[test]
fn only_a_failure_is_an_event_that_asks_somebody_to_act() {
    for (code, wanted) in [(201, EventType::Normal), (400, EventType::Warning)] {
        assert_eq!(
            run(&job("Pending", None).answered(EXPORT, code, ""))
                .0
                .events[0]
                .type_,
            wanted
        );
    }
}

#[test]
fn another_spec_is_another_wish_until_one_was_answered() {
    let key = |scene: &Scene| run(scene).0.http(EXPORT).map(|http| http.key.clone());
    let unsent = key(&job("Pending", None));
    let failed = job("Pending", None)
        .failed(EXPORT, 4, "Unreachable", "x")
        .keyed("of another spec");
    assert_eq!(
        key(&failed),
        unsent,
        "a failure of the old wish counts for nothing"
    );
    assert_eq!(run(&failed).1.retries, 0);
    let answered = job("Pending", None)
        .answered(EXPORT, 201, "")
        .keyed("of another spec");
    assert_eq!(
        key(&answered),
        None,
        "the report is made: nothing is sent again"
    );
    assert_eq!(run(&answered).1.phase, Phase::Done);
}
