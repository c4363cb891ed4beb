mod refused;

use super::*;
use crate::contract::{Action, Delivery, Effect, Http, MAX_EFFECT_ID};
use crate::keys::idempotency_key;
use crate::{
    contract::{Body, ConditionStatus, Event, EventType, Json, Kind, MAX_RECEIPTS},
    journal::{ReceiptRecord, RecordState, Subject},
};

const NOW: Time = Time(1_700_000_000_250);

const GRANTS: &str = r#"{"http":[{"host":"h","methods":["PUT"],"timeout":"10s","answerHeaders":["etag"],"answerBody":"1Ki"},{"host":"l","methods":["PUT"],"literalKey":true}],"apply":[{"apiVersion":"v1","kind":"ConfigMap"}]}"#;

fn mapping() -> Mapping {
    let text = format!(
        r#"{{"for":{{"apiVersion":"g/v1","kind":"K"}},"plugin":{{"file":"p"}},"serviceAccount":"a","grants":{GRANTS}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Checks as a reconcile of `ns/n` with these changes to what it is checked against.
fn run_with(
    decision: &Decision,
    journal: &Journal,
    change: impl FnOnce(&mut Bounds<'_>),
) -> Result<Checked, Rejection> {
    let (mapping, kind) = (mapping(), kind());
    let (key, uid) = (ObjectKey::new("ns", "n"), Uid::new("u"));
    let mut bounds = Bounds {
        name: "m",
        mapping: &mapping,
        kind: &kind,
        key: &key,
        uid: &uid,
        journal,
        takes_status: Ok(()),
        verb: Verb::Reconcile,
        needs: &[],
        now: NOW,
    };
    change(&mut bounds);
    check(decision, bounds)
}

fn kind() -> Kind {
    Kind {
        api_version: "g/v1".into(),
        kind: "K".into(),
    }
}

fn journal() -> Journal {
    Journal::new(Subject::new(&kind(), "ns", "n", &Uid::new("u")), "m")
}

fn run(decision: &Decision, journal: &Journal) -> Result<Checked, Rejection> {
    run_with(decision, journal, |_| {})
}

fn http(id: &str, after: &[&str], change: impl FnOnce(&mut Http)) -> Effect {
    let mut http = Http {
        request: Request {
            method: "PUT".into(),
            url: "http://h/x".into(),
            headers: Vec::new(),
            body: Body::Empty,
            credential: None,
            timeout: None,
        },
        delivery: Delivery::AtLeastOnce,
        key: None,
        literal_key: None,
    };
    change(&mut http);
    Effect {
        id: id.into(),
        after: after.iter().map(|id| (*id).to_owned()).collect(),
        action: Action::Http(http),
    }
}

fn plain(id: &str, after: &[&str]) -> Effect {
    http(id, after, |_| {})
}

fn action(id: &str, action: Action) -> Effect {
    Effect {
        id: id.into(),
        after: Vec::new(),
        action,
    }
}

fn effects(effects: impl Into<Vec<Effect>>) -> Decision {
    Decision {
        effects: effects.into(),
        ..Decision::default()
    }
}

fn condition(type_: &str, reason: &str) -> Condition {
    Condition {
        type_: type_.into(),
        status: ConditionStatus::True,
        reason: reason.into(),
        message: String::new(),
    }
}

fn conditions(all: &[(&str, &str)]) -> Decision {
    Decision {
        conditions: all
            .iter()
            .map(|(type_, reason)| condition(type_, reason))
            .collect(),
        ..Decision::default()
    }
}

fn labels(key: &str, value: Option<&str>) -> Decision {
    Decision {
        labels: [(key.to_owned(), value.map(Into::into))].into(),
        ..Decision::default()
    }
}

fn annotations(key: &str, value: &str) -> Decision {
    Decision {
        annotations: [(key.to_owned(), Some(value.to_owned()))].into(),
        ..Decision::default()
    }
}

fn event(reason: &str) -> Decision {
    Decision {
        events: vec![Event {
            type_: EventType::Normal,
            reason: reason.into(),
            note: String::new(),
        }],
        ..Decision::default()
    }
}

fn wake(at: &str) -> Decision {
    Decision {
        wake: Some(Wake::At(at.into())),
        ..Decision::default()
    }
}

fn literal(url: &str, key: &str) -> Decision {
    effects([http("a", &[], |http| {
        http.request.url = url.into();
        http.literal_key = Some(key.into());
    })])
}

#[test]
fn what_is_sound_is_accepted() {
    let long = "x".repeat(63);
    for decision in [
        Decision::default(),
        effects([plain("a", &[]), plain("b", &["a"]), plain("c", &["a", "b"])]),
        effects([plain(&"i".repeat(MAX_EFFECT_ID), &[])]),
        conditions(&[("Ready", "R"), ("example.com/Db_up.x", "A_b:c,d1")]),
        conditions(&[("Ready", &"R".repeat(MAX_REASON))]),
        labels("a", Some("")),
        labels("a-b.c/x", None),
        labels(&long, Some(&long)),
        labels("notguesthouse.dev/x", Some("v")),
        annotations("example.com/x", "any text {} \n"),
        annotations("a", &"v".repeat(256 * 1024 - 1)),
        event("Exported"),
        wake("2026-01-01T00:00:00+02:00"),
        literal("http://l/x", "job-1"),
        effects([http("a", &[], |http| {
            http.request.headers = vec![("X-A".into(), "b".into())]
        })]),
    ] {
        let found = run(&decision, &journal());
        assert!(found.is_ok(), "{decision:?}: {found:?}");
    }
}

fn record(effect: &str, key: Option<&str>, request: &str) -> ReceiptRecord {
    ReceiptRecord {
        effect: effect.into(),
        key: key.map(Into::into),
        request: request.into(),
        state: RecordState::Unknown,
    }
}

#[test]
fn another_request_under_the_same_id_and_key_is_refused_and_under_another_key_it_is_a_new_wish() {
    let with = |key: Option<&str>, url: &str| {
        effects([http("a", &[], |http| {
            http.key = key.map(Into::into);
            http.request.url = url.into();
        })])
    };
    let first = run(&with(Some("1"), "http://h/x"), &journal()).unwrap();
    let mut journal = journal();
    journal.file(record("a", Some("1"), &first.sends[0].fingerprint));
    assert!(run(&with(Some("1"), "http://h/x"), &journal).is_ok());
    let error = run(&with(Some("1"), "http://h/y"), &journal).unwrap_err();
    assert_eq!(error.outcome, Outcome::PluginFailed);
    assert!(
        error.cause.message.contains("a new wish takes a new `key`"),
        "{}",
        error.cause.message
    );
    for key in [Some("2"), Some(""), None] {
        assert!(run(&with(key, "http://h/y"), &journal).is_ok(), "{key:?}");
    }
}

#[test]
fn the_65th_receipt_is_denied_and_a_new_key_of_a_known_id_is_not() {
    let mut journal = journal();
    for id in 0..MAX_RECEIPTS {
        journal.file(record(&format!("e{id}"), None, "r"));
    }
    let error = run(&effects([plain("new", &[])]), &journal).unwrap_err();
    assert_eq!(error.outcome, Outcome::Denied);
    assert!(
        error
            .cause
            .message
            .contains("use one effect id with changing keys")
    );
    let known = effects([http("e3", &[], |http| http.key = Some("2".into()))]);
    assert!(run(&known, &journal).is_ok());
}

#[test]
fn what_is_to_be_sent_is_said_in_full() {
    let decision = effects([
        http("a", &[], |http| http.request.timeout = Some(3600)),
        http("b", &["a"], |http| {
            http.request.timeout = Some(2);
            http.delivery = Delivery::AtMostOnce;
            http.key = Some("k".into());
        }),
        http("c", &[], |http| {
            http.request.url = "http://l/".into();
            http.literal_key = Some("mine".into());
        }),
    ]);
    let sends = run(&decision, &journal()).unwrap().sends;
    let [a, b, c] = sends.as_slice() else {
        panic!("{sends:?}")
    };
    assert_eq!(
        (a.timeout, b.timeout, c.timeout),
        (Span::from_secs(10), Span::from_secs(2), Span::from_secs(30)),
        "at most the grant's"
    );
    assert_eq!((a.at_most_once, b.at_most_once), (false, true));
    assert_eq!(
        a.idempotency_key,
        idempotency_key(&Uid::new("u"), "a", None)
    );
    assert_eq!(
        b.idempotency_key,
        idempotency_key(&Uid::new("u"), "b", Some("k"))
    );
    assert_eq!(c.idempotency_key, "mine");
    assert_eq!(
        (&a.answer_headers[..], a.answer_body),
        (&["etag".to_owned()][..], Bytes(1024))
    );
    assert_eq!(b.after, ["a"]);
}

#[test]
fn a_wake_counts_from_whole_seconds_so_that_the_plugin_and_the_host_mean_the_same() {
    let after = |seconds| Decision {
        wake: Some(Wake::After(seconds)),
        ..Decision::default()
    };
    let at = |decision: &Decision| run(decision, &journal()).unwrap().wake;
    assert_eq!(at(&after(0)), Some(Time(1_700_000_000_000)));
    assert_eq!(
        at(&after(u32::MAX)),
        Some(Time(1_700_000_000_000 + i64::from(u32::MAX) * 1000))
    );
    assert_eq!(
        at(&wake("1970-01-01T00:00:01+00:00")),
        Some(Time(1000)),
        "the queue heeds it at once"
    );
    assert_eq!(at(&Decision::default()), None);
}

/// "Never write when equal": what the object shows already is no part of the patch.
#[test]
fn a_patch_holds_only_what_differs() {
    let object =
        r#"{"metadata":{"labels":{"same":"1","other":"2","gone":"3"},"annotations":{"a":"x"}}}"#;
    let head = Head::parse(object).unwrap();
    let some = |text: &str| Some(text.to_owned());
    let wish = BTreeMap::from([
        ("same".to_owned(), some("1")),
        ("other".to_owned(), some("9")),
        ("gone".to_owned(), None),
        ("absent".to_owned(), None),
        ("new".to_owned(), some("")),
    ]);
    let patch = MetaPatch::of(&wish, &BTreeMap::new(), &head).unwrap();
    let expected = BTreeMap::from([
        ("other".to_owned(), some("9")),
        ("gone".to_owned(), None),
        ("new".to_owned(), some("")),
    ]);
    assert_eq!(
        (patch.labels, patch.annotations),
        (expected, BTreeMap::new())
    );
    let shown = BTreeMap::from([("a".to_owned(), some("x"))]);
    assert_eq!(MetaPatch::of(&BTreeMap::new(), &shown, &head), None);
}

#[test]
fn a_reason_is_what_the_api_server_takes_as_one() {
    for (text, good) in [
        ("A", true),
        ("a1_:,b", true),
        ("", false),
        ("A:", false),
        ("é", false),
        ("A-b", false),
    ] {
        assert_eq!(is_reason(text), good, "{text}");
    }
}
