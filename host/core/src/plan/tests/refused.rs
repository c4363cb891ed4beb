//! What is refused, as whose fault, and what the message says to do.

use super::*;
use crate::contract::{
    Apply, Delete, Extension, Fetch, Mode, Need, ObjectRef, OnDelete, OnImmutable, Ownership,
    Source, Status, View,
};

#[test]
fn what_is_not_is_refused_as_the_plugins_error_with_what_to_do() {
    let long = "x".repeat(64);
    for (decision, expected) in [
        (
            conditions(&[("", "R")]),
            "`` is no condition type; write a name as in `Ready`",
        ),
        (conditions(&[("a b", "R")]), "is no condition type"),
        (conditions(&[("-x/Ready", "R")]), "is no condition type"),
        (
            conditions(&[("A", "R"), ("A", "S")]),
            "return each type once",
        ),
        (
            conditions(&[("A", "")]),
            "the reason `` of A is not CamelCase of at most 64 bytes, as in `NotReady`",
        ),
        (conditions(&[("A", "not ready")]), "is not CamelCase"),
        (conditions(&[("A", "1x")]), "is not CamelCase"),
        (conditions(&[("A", "X:")]), "is not CamelCase"),
        (conditions(&[("A", &"R".repeat(65))]), "is not CamelCase"),
        (
            event("has space"),
            "the reason `has space` of event is not CamelCase",
        ),
        (
            labels("", Some("v")),
            "`` is no valid label key; write at most 63 letters",
        ),
        (labels(&long, Some("v")), "is no valid label key"),
        (labels("a/b/c", Some("v")), "is no valid label key"),
        (labels("A.com/b", Some("v")), "is no valid label key"),
        (labels("a-.com/b", Some("v")), "is no valid label key"),
        (labels("/b", Some("v")), "is no valid label key"),
        (
            labels("a", Some("no spaces")),
            "no valid value of the label `a`; write at most 63",
        ),
        (labels("a", Some(&long)), "or use an annotation"),
        (labels("a", Some("-x")), "no valid value"),
        (annotations("a b", "v"), "is no valid annotation key"),
        (
            annotations("a", &"v".repeat(256 * 1024)),
            "more than 256 KiB, the most that Kubernetes keeps; return less",
        ),
        (
            wake("tomorrow"),
            "wake: `tomorrow` is not a point in time; write RFC 3339",
        ),
        (effects([plain("", &[])]), "must have 1 to 128 bytes"),
        (
            effects([http("a", &[], |http| http.key = Some("k".repeat(257)))]),
            "the key of the effect `a` must have at most 256 bytes; hash what is longer",
        ),
        (
            effects([plain(&"i".repeat(MAX_EFFECT_ID + 1), &[])]),
            "must have 1 to 128 bytes",
        ),
        (
            effects([plain("a", &[]), plain("a", &[])]),
            "`a` is there twice; ids must be unique",
        ),
        (
            effects([plain("a", &["b"])]),
            "comes after `b`, which is not among the effects; return it too",
        ),
        (effects([plain("a", &["a"])]), "`a` comes after itself"),
        (
            effects([
                plain("a", &["c"]),
                plain("b", &["a"]),
                plain("c", &["b"]),
                plain("d", &[]),
            ]),
            "break the circle in `after`",
        ),
    ] {
        let found = run(&decision, &journal()).expect_err(expected);
        assert_eq!(
            (found.outcome, found.cause.reason.as_str()),
            (Outcome::PluginFailed, "BadOutput")
        );
        assert!(
            found.cause.message.contains(expected),
            "{}",
            found.cause.message
        );
    }
}

#[test]
fn what_the_mapping_does_not_allow_is_denied_with_what_to_change() {
    let request = |change: fn(&mut Http)| effects([http("a", &[], change)]);
    for (decision, expected) in [
        (
            request(|http| http.request.url = "https://other:8443/x".into()),
            "add {host: 'other:8443', methods: [PUT]} to `grants.http`",
        ),
        (
            request(|http| http.request.method = "DELETE".into()),
            "methods: [DELETE]",
        ),
        (
            request(|http| http.request.url = "/x".into()),
            "effect `a`: `/x` is no address",
        ),
        (
            request(|http| http.request.headers = vec![("Host".into(), "x".into())]),
            "the header `Host` is the host's to set",
        ),
        (literal("http://h/x", "k"), "set `literalKey: true`"),
        (
            literal("http://l/x", "a b"),
            "must be printable ASCII without spaces",
        ),
        (
            labels("guesthouse.dev/owner", Some("x")),
            "the label `guesthouse.dev/owner` is the host's; use a prefix of your own",
        ),
        (
            annotations("x.guesthouse.dev/paused", "true"),
            "the annotation `x.guesthouse.dev/paused` is the host's",
        ),
    ] {
        let found = run(&decision, &journal()).expect_err(expected);
        assert_eq!(
            (found.outcome, found.cause.reason.as_str()),
            (Outcome::Denied, "Denied"),
            "{expected}"
        );
        assert!(
            found.cause.message.contains(expected),
            "{}",
            found.cause.message
        );
    }
}

#[test]
fn what_this_host_does_not_carry_out_yet_is_named_and_not_passed_over() {
    let extension = || Extension {
        name: "example.com/x".into(),
        value: Json::empty_object(),
    };
    for (decision, expected) in [
        (
            Decision {
                extensions: vec![extension()],
                ..Decision::default()
            },
            "the extension `example.com/x`",
        ),
        (
            effects([action("a", Action::Other(extension()))]),
            "the extension `example.com/x` (`a`)",
        ),
    ] {
        let found = run(&decision, &journal()).expect_err(expected);
        assert_eq!(
            (found.outcome, found.cause.reason.as_str()),
            (Outcome::PluginFailed, "Unsupported")
        );
        let message = format!(
            "the decision uses {expected}, which this host does not carry out yet; leave it out"
        );
        assert_eq!(found.cause.message, message);
    }
}

fn apply(id: &str, object: serde_json::Value) -> Effect {
    let object = Json::of(&object).unwrap();
    action(
        id,
        Action::Apply(Apply {
            object,
            ownership: Ownership::Owned,
            mode: Mode::Keep,
            on_immutable: OnImmutable::Fail,
            on_delete: OnDelete::Delete,
            generate: Vec::new(),
        }),
    )
}

fn delete(api_version: &str, kind: &str, name: &str) -> Decision {
    let object = ObjectRef {
        kind: Kind {
            api_version: api_version.into(),
            kind: kind.into(),
        },
        namespace: None,
        name: name.into(),
    };
    effects([action("a", Action::Delete(Delete { object, uid: None }))])
}

fn need(method: &str) -> Decision {
    let request = Request {
        method: method.into(),
        url: "http://h/x".into(),
        headers: Vec::new(),
        body: Body::Empty,
        credential: None,
        timeout: None,
    };
    Decision {
        needs: vec![Need {
            name: "n".into(),
            source: Source::Fetch(Fetch { request, fresh: 0 }),
            view: View::Full,
            limit: None,
        }],
        ..Decision::default()
    }
}

/// crossplane#1910, crossplane#6631: children of generated names leak or double. One bad part, and nothing is done.
#[test]
fn children_needs_and_the_end_are_checked_before_anything_is_done() {
    let map = |metadata: serde_json::Value| serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let named = |name: &str| map(serde_json::json!({"name": name}));
    let finalized = Decision {
        finalized: true,
        ..Decision::default()
    };
    let bad = |decision: Decision, expected| (decision, Outcome::PluginFailed, expected);
    let denied = |decision: Decision, expected| (decision, Outcome::Denied, expected);
    let secret =
        serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}});
    let elsewhere = map(serde_json::json!({"name": "x", "namespace": "other"}));
    let generated = map(serde_json::json!({"generateName": "x-"}));
    let crowd = (0..=MAX_CHILDREN).map(|n| apply(&n.to_string(), named(&format!("c{n}"))));
    for (decision, outcome, expected) in [
        bad(finalized, "`finalized` is the answer of `finalize` only"),
        bad(need("PUT"), "a fetch is a GET or HEAD"),
        bad(effects([apply("a", generated)]), "generateName"),
        bad(
            effects([apply("a", named("x")), apply("b", named("x"))]),
            "make them one effect",
        ),
        denied(effects([apply("a", secret)]), "grants.apply"),
        denied(effects([apply("a", elsewhere)]), "namespaces: [other]"),
        denied(delete("v1", "Secret", "x"), "grants.apply"),
        denied(delete("g/v1", "K", "n"), "`deleteSelf: true`"),
        denied(effects(crowd.collect::<Vec<_>>()), "more than 256 children"),
        denied(
            effects([http("a", &[], |http| {
                http.request.credential = Some("c".into());
            })]),
            "no credential `c`",
        ),
    ] {
        let found = run(&decision, &journal()).expect_err(expected);
        assert_eq!(found.outcome, outcome, "{expected}");
        let message = &found.cause.message;
        assert!(message.contains(expected), "{message}");
    }
    assert!(run(&effects([apply("a", named("x"))]), &journal()).is_ok());
    assert!(run(&delete("v1", "ConfigMap", "x"), &journal()).is_ok());
    assert!(run(&need("GET"), &journal()).is_ok());
}

#[test]
fn finalize_may_say_that_it_is_finished() {
    let decision = Decision {
        finalized: true,
        ..Decision::default()
    };
    let found = run_with(&decision, &journal(), |bounds| {
        bounds.verb = Verb::Finalize;
    });
    assert!(found.is_ok(), "{found:?}");
}

/// GCP/metacontroller#171: without `/status` a status is refused and said so.
#[test]
fn a_status_for_a_kind_without_one_is_denied_and_the_rest_is_not() {
    let without = |decision: &Decision| {
        run_with(decision, &journal(), |bounds| {
            bounds.takes_status = Err("ConfigMap has no /status");
        })
    };
    let status = Decision {
        status: Some(Status::Merge(Json::empty_object())),
        ..Decision::default()
    };
    for decision in [status, conditions(&[("A", "R")])] {
        let found = without(&decision).unwrap_err();
        assert_eq!(found.outcome, Outcome::Denied);
        assert!(found.cause.message.ends_with("ConfigMap has no /status"));
        assert!(run(&decision, &journal()).is_ok());
    }
    assert!(without(&labels("a", Some("b"))).is_ok());
}
