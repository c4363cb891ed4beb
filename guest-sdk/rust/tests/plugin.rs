//! The SDK as a plugin's author meets it, natively.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use guesthouse_sdk::contract::{
    Action, Answer, Body, Child, ChildState, ConditionStatus, Delivery, FailureKind, Mode, Objects,
    OnDelete, Ownership, ReceiptState, Status as Wanted, Wake,
};
use guesthouse_sdk::prelude::*;
use guesthouse_sdk::testing::{Scene, decide, describe, finalize, observe};

#[derive(Deserialize, JsonSchema)]
struct Spec {
    size: u32,
    mode: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Default, Clone, PartialEq, Debug)]
struct Status {
    seen: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Config {
    url: String,
}

struct Sample;

impl Reconciler for Sample {
    type Spec = Spec;
    type Status = Status;
    type Config = Config;

    fn describe() -> Plugin {
        Plugin::new("sample", "1.2.3")
            .serves(
                Crd::of::<Self>("example.com/v1", "Sample")
                    .with_conditions()
                    .short_name("sm")
                    .cluster_scoped(),
            )
            .serves_kind("v1", "ConfigMap")
            .need(Need::owned("jobs", Kind::new("batch/v1", "Job")).metadata())
            .finalizes()
            .grants(&json!({"http": [{"host": "a"}]}))
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Decision<Status>, Failure> {
        let status = |text: String| Status { seen: Some(text) };
        Ok(match seen.spec().mode.as_deref() {
            Some("meta") => Decision::new().status(status(format!(
                "{} {:?} {} {} {:?} {:?} {} {}",
                seen.name(),
                seen.namespace(),
                seen.uid(),
                seen.generation(),
                seen.label("a/b"),
                seen.annotation("c"),
                seen.now(),
                seen.attempt(),
            ))),
            Some("all") => Decision::new()
                .merge_status(&json!({"x": null}))
                .condition("Ready", None, "Waiting", "for it")
                .label("l", "v")
                .remove_label("m")
                .annotation("n", "w")
                .remove_annotation("o")
                .http(
                    Http::post("send", &seen.config().url)
                        .json(&[1])
                        .header("a", "b")
                        .key("k")
                        .timeout(3)
                        .after("map")
                        .at_most_once(),
                )
                .children([Apply::new("map", &json!({"kind": "ConfigMap"}))
                    .adopt()
                    .once()
                    .recreate()
                    .orphan()
                    .generate("p", 8)])
                .delete(Delete::new("gone", Kind::new("v1", "Pod").named("p")).uid("u"))
                .need(
                    Need::selected("pods", Kind::new("v1", "Pod"), "a=b")
                        .namespace("*")
                        .limit(5),
                )
                .event("Made", "it")
                .warning("Mind", "it")
                .wake_at("2026-01-01T00:00:00Z"),
            Some("retry") => {
                return Err(Failure::retry("Soon", "wait")
                    .after(9)
                    .status(&status("failing".into())));
            }
            Some("error") => Decision::new().status(status(
                char::from_digit(99, 10).ok_or(std::fmt::Error)?.to_string(),
            )),
            Some("related") => match seen.related("pods") {
                Related::Objects(objects) => {
                    let specs: Vec<Spec> = objects.parse()?;
                    Decision::new().status(status(
                        specs.iter().map(|spec| spec.size.to_string()).collect(),
                    ))
                }
                other => Decision::new().status(status(format!("{other:?}"))),
            },
            Some("receipts") => Decision::new().status(status(format!(
                "{:?} {:?}",
                matches!(seen.receipt("send"), Receipt::Unsent),
                matches!(seen.receipt_for("send", "k"), Receipt::Unknown),
            ))),
            Some("child") => Decision::new().status(status(format!(
                "{:?}",
                seen.child("map").map(|child| child.state)
            ))),
            _ => Decision::new().status(seen.status().cloned().unwrap_or_default()),
        })
    }
}

guesthouse_sdk::export!(Sample);

fn scene(mode: &str) -> Scene {
    let labels = json!({"a/b": "c", "x": "y"});
    observe(json!({
        "metadata": {"name": "n", "namespace": "ns", "uid": "u", "generation": 3, "labels": labels, "annotations": {"c": "\n"}},
        "spec": {"size": 1, "mode": mode, "other": [1, {"a": null}]},
    }))
    .config(json!({"url": "http://e"}))
}

fn seen(scene: &Scene) -> String {
    decide::<Sample>(scene)
        .unwrap()
        .status_as::<Status>()
        .unwrap()
        .seen
        .unwrap()
}

#[test]
fn metadata_labels_and_annotations_are_read_from_the_text() {
    let scene = scene("meta").now("2026-05-05T05:05:05Z").attempt(4);
    assert_eq!(
        seen(&scene),
        r#"n Some("ns") u 3 Some("c") Some("\n") 2026-05-05T05:05:05Z 4"#
    );
}

#[test]
fn a_decision_carries_everything_that_was_built() {
    let decision = decide::<Sample>(&scene("all")).unwrap();
    assert_eq!(decision.status, Some(Wanted::Merge(r#"{"x":null}"#.into())));
    assert_eq!(decision.conditions[0].status, ConditionStatus::Unknown);
    assert_eq!(
        decision.labels,
        [("l".into(), Some("v".into())), ("m".into(), None)]
    );
    assert_eq!(
        decision.annotations,
        [("n".into(), Some("w".into())), ("o".into(), None)]
    );
    let http = decision.http("send").unwrap();
    assert_eq!(
        (http.delivery, http.key.as_deref(), http.request.timeout),
        (Delivery::AtMostOnce, Some("k"), Some(3))
    );
    assert_eq!(
        (http.request.method.as_str(), http.request.url.as_str()),
        ("POST", "http://e")
    );
    assert_eq!(http.request.body, Body::Text("[1]".into()));
    assert_eq!(
        http.request.headers,
        [
            ("content-type".into(), "application/json".into()),
            ("a".into(), "b".into())
        ]
    );
    assert!(decision.complete, "children() names all of them");
    assert_eq!(
        decision
            .effects
            .iter()
            .map(|effect| effect.id.as_str())
            .collect::<Vec<_>>(),
        ["send", "map", "gone"]
    );
    assert_eq!(decision.effects[0].after, ["map"]);
    let Action::Apply(apply) = &decision.effects[1].action else {
        unreachable!()
    };
    assert_eq!(
        (apply.ownership, apply.mode, apply.on_delete),
        (Ownership::Adopt, Mode::Once, OnDelete::Orphan)
    );
    assert_eq!(
        (decision.needs[0].limit, decision.events.len()),
        (Some(5), 2)
    );
    assert_eq!(decision.wake, Some(Wake::At("2026-01-01T00:00:00Z".into())));
}

#[test]
fn failures_are_values_and_other_errors_become_a_retry() {
    let failure = decide::<Sample>(&scene("retry")).unwrap_err();
    assert_eq!(
        (failure.kind, failure.cause.reason.as_str(), failure.after),
        (FailureKind::Retry, "Soon", Some(9))
    );
    assert_eq!(
        failure.status,
        Some(Wanted::Replace(r#"{"seen":"failing"}"#.into()))
    );
    let failure = decide::<Sample>(&scene("error")).unwrap_err();
    assert_eq!(
        (failure.kind, failure.cause.reason.as_str()),
        (FailureKind::Retry, "Error")
    );
}

#[test]
fn what_does_not_fit_the_types_is_a_terminal_failure_that_names_the_path() {
    let config = r#"{"url": "u"}"#;
    for (object, config, reason, message) in [
        (
            r#"{"metadata":{},"spec":{"size":-1}}"#,
            config,
            "BadObject",
            "spec.size: invalid value: integer `-1`, expected u32",
        ),
        (
            r#"{"metadata":{}}"#,
            config,
            "BadObject",
            "spec: missing field `size`",
        ),
        (
            r#"{"metadata":{},"spec":{"mode":"x"}}"#,
            config,
            "BadObject",
            "spec: missing field `size`",
        ),
        (
            r#"{"metadata":{},"spec":{"size":1},"status":{"seen":[]}}"#,
            config,
            "BadObject",
            "status.seen: invalid type: sequence, expected a string",
        ),
        (
            r#"{"metadata":{},"spec":{"size":1}}"#,
            r#"{"url":7}"#,
            "BadConfig",
            "url: invalid type: integer `7`, expected a string",
        ),
        (
            r#"{"metadata":{},"spec":{"size":1}}"#,
            "{}",
            "BadConfig",
            "missing field `url`",
        ),
    ] {
        let failure = decide::<Sample>(&observe(object).config(config)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Terminal, "{object}");
        assert_eq!(
            (
                failure.cause.reason.as_str(),
                failure.cause.message.as_str()
            ),
            (reason, message),
            "{object}"
        );
    }
}

#[test]
fn related_objects_children_and_receipts_are_found_by_name_and_key() {
    assert_eq!(seen(&scene("related")), "Unasked");
    let items = vec![r#"{"size":1}"#.into(), r#"{"size":2}"#.into()];
    let found = scene("related").related(
        "pods",
        Answer::Objects(Objects {
            items,
            truncated: false,
        }),
    );
    assert_eq!(seen(&found), "12");

    assert_eq!(seen(&scene("receipts")), "true false");
    let mut keyed = scene("receipts").receipt("send", ReceiptState::Unknown);
    keyed.raw().receipts[0].key = Some("k".into());
    assert_eq!(seen(&keyed), "true true");

    let object = Kind::new("v1", "ConfigMap").named("m");
    let child = Child {
        effect: "map".into(),
        object,
        uid: None,
        state: ChildState::Current,
        message: String::new(),
        error: None,
    };
    assert_eq!(seen(&scene("child").child(child)), "Some(Current)");
}

#[test]
fn null_and_absent_status_are_both_none() {
    for status in [json!(null), json!({})] {
        let object = json!({"metadata": {}, "spec": {"size": 1}, "status": status});
        let decision = decide::<Sample>(&observe(object).config(r#"{"url":""}"#)).unwrap();
        assert_eq!(decision.status_text(), Some(r#"{"seen":null}"#));
    }
}

#[test]
fn without_a_finalize_of_its_own_a_plugin_is_done_at_once() {
    let decision = finalize::<Sample>(&scene("x")).unwrap();
    assert!(decision.finalized && decision.effects.is_empty());
}

#[test]
fn the_descriptor_says_it_all() {
    let said = describe::<Sample>();
    assert_eq!(
        (said.name.as_str(), said.version.as_str(), said.finalizes),
        ("sample", "1.2.3", true)
    );
    assert_eq!(said.kinds.len(), 2);
    let crd: serde_json::Value =
        serde_json::from_str(said.kinds[0].crd.as_deref().unwrap()).unwrap();
    assert_eq!(crd["metadata"]["name"], "samples.example.com");
    assert_eq!(crd["spec"]["scope"], "Cluster");
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["sm"]));
    let config: serde_json::Value =
        serde_json::from_str(said.config_schema.as_deref().unwrap()).unwrap();
    assert_eq!(config["required"], json!(["url"]));
    assert_eq!(said.grants, r#"{"http":[{"host":"a"}]}"#);
    assert_eq!(said.sdk, concat!("rust/", env!("CARGO_PKG_VERSION")));
}

#[test]
fn related_objects_are_read_into_a_type_one_or_all() {
    #[derive(Deserialize, Debug, PartialEq)]
    struct Size {
        size: u32,
    }
    struct Reader;
    impl Reconciler for Reader {
        type Spec = Unread;
        type Status = String;
        type Config = NoConfig;
        fn describe() -> Plugin {
            Plugin::new("reader", "1.0.0")
        }
        fn reconcile(seen: &Observation<Self>) -> Result<Decision<String>, Failure> {
            let related = seen.related("sizes");
            let (one, all) = (related.one::<Size>()?, related.all::<Size>()?);
            Ok(Decision::new().status(format!("{one:?} {}", all.len())))
        }
    }
    let empty = || observe(json!({"metadata": {"name": "n"}}));
    let said = |scene: Scene| decide::<Reader>(&scene).map(|d| d.status_as::<String>().unwrap());
    assert_eq!(said(empty()).unwrap(), "None 0", "not asked for yet");
    let nothing: [serde_json::Value; 0] = [];
    assert_eq!(said(empty().found("sizes", nothing)).unwrap(), "None 0");
    let two = [json!({"size": 1, "more": []}), json!({"size": 2})];
    assert_eq!(
        said(empty().found("sizes", two)).unwrap(),
        "Some(Size { size: 1 }) 2"
    );

    let failed = |scene: Scene| {
        let failure = said(scene).unwrap_err();
        (failure.kind, failure.cause.reason)
    };
    let cases = [
        (
            empty().unavailable("sizes", "NoSuchKind", "no kind Size"),
            (FailureKind::Retry, "NoSuchKind"),
        ),
        (
            empty().found("sizes", [json!({"size": "one"})]),
            (FailureKind::Terminal, "BadRelated"),
        ),
        (
            empty().fetched("sizes", 200, r#"{"size": 1}"#),
            (FailureKind::Terminal, "BadRelated"),
        ),
    ];
    for (scene, (kind, reason)) in cases {
        assert_eq!(failed(scene), (kind, reason.to_owned()));
    }
}
