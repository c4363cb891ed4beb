//! What a guest does wrong, and the text the user gets.

use crate::support::*;

/// The refusal's text, which must be the same twice: it ends up in conditions.
#[track_caller]
fn check(order: &str, text: &str) {
    assert_eq!(refused(call(order)), text);
    assert_eq!(refused(call(order)), text);
}

/// adm-controller#1210, wasmtime#4054
#[test]
fn a_panics_text_reaches_the_user() {
    let text = refused(call(r#"{"do":"panic"}"#));
    let shape = text.strip_prefix("Panic: the plugin panicked: thread '<unnamed>' panicked at host/sandbox/tests/guests/src/guest.rs:");
    assert!(
        shape.is_some_and(|rest| rest.ends_with(":\nboom")),
        "{text}"
    );
    assert_eq!(
        refused(call(r#"{"do":"panic"}"#)),
        text,
        "the same from call to call"
    );
    assert!(refused(call(r#"{"do":"panic after noise"}"#)).ends_with(":\nboom"));
    assert!(
        refused(call(r#"{"do":"index","n":7}"#))
            .ends_with("\nindex out of bounds: the len is 3 but the index is 7")
    );
}

/// istio#38215, envoy#39395
#[test]
fn a_panic_costs_one_call() {
    refused(call(r#"{"do":"panic"}"#));
    assert_eq!(status(call(r#"{"do":"echo"}"#)).0, r#"{"do":"echo"}"#);
}

#[test]
fn a_silent_trap_is_named() {
    check(
        r#"{"do":"trap"}"#,
        "Trap: wasm trap: wasm `unreachable` instruction executed",
    );
}

#[test]
fn a_guest_that_exits_is_refused_whatever_its_code() {
    check(
        r#"{"do":"exit","n":0}"#,
        "Panic: the plugin ended itself instead of returning",
    );
    check(
        r#"{"do":"exit","n":3}"#,
        "Panic: the plugin ended itself with a failure instead of returning",
    );
}

#[test]
fn what_is_not_json_is_refused_with_member_and_place() {
    check(
        r#"{"do":"bad status"}"#,
        "BadOutput: decision.status.replace is not JSON: expected value at line 1 column 7",
    );
    check(
        r#"{"do":"bad child"}"#,
        "BadOutput: effect `child`: apply.object is not JSON: EOF while parsing an object at line 1 column 1",
    );
}

#[test]
fn a_label_named_twice_is_refused_even_with_one_value() {
    check(
        r#"{"do":"same label twice"}"#,
        "BadOutput: decision.labels has `a` twice",
    );
    check(
        r#"{"do":"same annotation twice"}"#,
        "BadOutput: decision.annotations has `x` twice",
    );
}

#[test]
fn what_was_said_before_a_panic_is_in_the_log() {
    let called = call(r#"{"do":"panic"}"#);
    let said: Vec<_> = called
        .logs
        .iter()
        .map(|line| line.message.as_str())
        .collect();
    assert!(said.contains(&"boom"), "{said:?}");
}
