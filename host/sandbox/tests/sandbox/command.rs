//! The command door: a program without an SDK, as a core module and as a component that exports `wasi:cli/run`.

use std::sync::OnceLock;

use guesthouse_core::{
    contract::{Decision, FailureKind, Reply},
    limits::Limits,
    refusal::{Refusal, RefusalKind::*},
};
use guesthouse_sandbox::{Called, Door, Plugin, Settings, Verb};
use serde_json::json;

use crate::support::*;

/// The program in both forms, with what the form is called.
fn forms() -> &'static [(&'static str, Plugin)] {
    static FORMS: OnceLock<Vec<(&'static str, Plugin)>> = OnceLock::new();
    FORMS.get_or_init(|| {
        let core = command();
        let adapter =
            wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER;
        let component = wit_component::ComponentEncoder::default()
            .module(core)
            .and_then(|encoder| encoder.adapter("wasi_snapshot_preview1", adapter))
            .and_then(|mut encoder| encoder.encode())
            .expect("a component around the program");
        let sandbox = sandbox(Settings::default());
        let load = |wasm| sandbox.load(wasm).expect("the program loads");
        vec![("core", load(core)), ("component", load(&component))]
    })
}

fn both(object: &serde_json::Value, limits: &Limits, check: impl Fn(&str, Called) + Sync) {
    for (form, plugin) in forms() {
        let object = object.to_string();
        on_call_stack(|| check(form, plugin.call(Verb::Reconcile, &seen(&object), limits)));
    }
}

#[track_caller]
fn refused_as(object: &serde_json::Value, limits: &Limits, text: &str) {
    both(object, limits, |form, called| {
        let refusal = refused(called);
        assert!(refusal.starts_with(text), "{form}: {refusal}");
    });
}

#[test]
fn a_program_describes_itself_decides_and_finalizes() {
    for (form, plugin) in forms() {
        assert_eq!(plugin.door(), Door::Command, "{form}");
        assert_eq!(plugin.descriptor().name, "command");
        assert!(plugin.descriptor().finalizes);
        let called = plugin.call(
            Verb::Finalize,
            &seen(r#"{"do":"nothing"}"#),
            &Limits::default(),
        );
        assert!(decision(called).finalized, "{form}");
    }
    both(
        &json!({"do": "exit after the reply"}),
        &Limits::default(),
        |_, called| {
            assert_eq!(decision(called), Decision::default());
        },
    );
}

#[test]
fn an_exit_code_asks_for_a_retry_with_the_last_words_as_its_message() {
    let wanted = |object: serde_json::Value, message: &str| {
        both(&object, &Limits::default(), |form, called| {
            let Ok(Reply::Failure(failure)) = called.result else {
                panic!("{form}: a failure, not {:?}", called.result);
            };
            assert_eq!(failure.kind, FailureKind::Retry, "{form}");
            assert_eq!(failure.cause.reason, "CommandFailed");
            assert_eq!(failure.cause.message, message, "{form}");
        });
    };
    wanted(
        json!({"do": "exit", "n": 1, "text": "the other side sleeps"}),
        "the other side sleeps",
    );
    let two = "first\nsecond at 0xdeadbeef";
    wanted(
        json!({"do": "exit", "n": 1, "text": two}),
        "first\nsecond at 0x…",
    );
}

#[test]
fn an_exit_code_without_a_word_is_told_as_what_it_is() {
    // A component is told of success or failure alone: its code is 1.
    both(
        &json!({"do": "exit in silence"}),
        &Limits::default(),
        |form, called| {
            let code = if form == "core" { 3 } else { 1 };
            let Ok(Reply::Failure(failure)) = called.result else {
                panic!("{form}: a failure, not {:?}", called.result);
            };
            let wanted = format!("exit code {code}, and nothing on standard error");
            assert_eq!(failure.cause.message, wanted);
        },
    );
}

#[test]
fn a_panic_is_a_refusal_with_its_text() {
    both(
        &json!({"do": "panic", "text": "boom"}),
        &Limits::default(),
        |form, called| {
            let text = refused(called);
            assert!(text.starts_with("Panic: "), "{form}: {text}");
            assert!(text.contains("boom"), "{form}: {text}");
        },
    );
}

#[test]
fn what_is_no_reply_is_refused_with_what_was_wanted() {
    let print = |text: &str| json!({"do": "print", "text": text});
    let usual = Limits::default();
    let wanted =
        "BadOutput: standard output is not {\"decision\": …} or {\"failure\": …}: expected value";
    refused_as(&print("hello"), &usual, wanted);
    refused_as(
        &json!({"do": "silence"}),
        &usual,
        "BadOutput: standard output is empty",
    );
    refused_as(
        &print(r#"{"decision":{"wish":1}}"#),
        &usual,
        "BadOutput: standard output is not {\"decision\": …} or {\"failure\": …}: unknown field `wish`",
    );
    refused_as(
        &print(r#"{"decision":{}}{"decision":{}}"#),
        &usual,
        "BadOutput: standard output is not {\"decision\": …} or {\"failure\": …}: trailing characters",
    );
}

#[test]
fn limits_hold_for_programs_too() {
    let flood = |n: u64| json!({"do": "flood", "n": n});
    both(&flood(900), &output(1000), |_, called| {
        assert!(called.result.is_ok());
    });
    refused_as(
        &flood(2000),
        &output(1000),
        "TooLarge: the plugin handed the host more than 1000 at once (limits.output)",
    );
    refused_as(
        &json!({"do": "loop"}),
        &time(50),
        "Timeout: the call took longer than 50ms",
    );
    refused_as(
        &json!({"do": "recurse"}),
        &Limits::default(),
        "StackOverflow: ",
    );
    refused_as(
        &json!({"do": "eat", "n": 100}),
        &memory(64),
        "OutOfMemory: memories and tables together would be over 64Mi",
    );
    both(&json!({"do": "eat", "n": 20}), &memory(64), |_, called| {
        assert_eq!(status(called).0, r#"{"ate":20}"#)
    });
    let chatter = json!({"do": "chatter", "n": 5000, "text": "a line of some length"});
    both(&chatter, &logs(1000), |form, called| {
        assert!(
            called.dropped_logs > 4000,
            "{form}: {}",
            called.dropped_logs
        );
        assert_eq!(decision(called), Decision::default(), "{form}");
    });
}

#[test]
fn a_program_sees_the_same_closed_world() {
    both(
        &json!({"do": "world"}),
        &Limits::default(),
        |form, called| {
            let world = status(called).1;
            assert_eq!(world["arguments"], json!(["plugin", "reconcile"]), "{form}");
            assert_eq!(world["environment"], 0, "{form}");
            assert_eq!(world["now"], 1_795_989_180, "{form}: {NOW}");
            assert!(world["file"].is_string(), "{form}: a file was opened");
            assert!(world["random"].is_u64(), "{form}");
        },
    );
    let draw = || {
        let (_, plugin) = &forms()[0];
        status(plugin.call(
            Verb::Reconcile,
            &seen(r#"{"do":"world"}"#),
            &Limits::default(),
        ))
        .0
    };
    assert_eq!(draw(), draw(), "randomness is one constant stream");
}

#[test]
fn a_program_that_sleeps_takes_no_time_of_the_host() {
    both(&json!({"do": "sleep"}), &time(500), |form, called| {
        assert!(called.used.elapsed.as_secs() < 10, "{form}");
        assert_eq!(status(called).0, r#"{"slept":3600}"#, "{form}");
    });
}

#[test]
fn a_program_names_the_contract_it_is_written_for() {
    // A program that prints one text, whatever it is asked.
    let prints = |text: &str| {
        let quoted = text.replace('"', "\\22");
        let len = text.len();
        wat::parse_str(format!(
            r#"(module
                (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 1)
                (data (i32.const 0) "\10\00\00\00") (data (i32.const 4) "{}")
                (data (i32.const 16) "{quoted}")
                (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#,
            (len as u32).to_le_bytes().map(|byte| format!("\\{byte:02x}")).concat(),
        ))
        .expect("valid text")
    };
    let refusal = |text: &str| load_error(&sandbox(Settings::default()), &prints(text));
    let Refusal { kind, message } = refusal(r#"{"descriptor":{"name":"p","version":"1"}}"#);
    assert_eq!(kind, ContractMismatch);
    assert!(
        message.contains("names no contract: print {\"contract\": \"guesthouse:reconciler@0.1.0\""),
        "{message}"
    );
    let other =
        r#"{"contract":"guesthouse:reconciler@0.2.0","descriptor":{"name":"p","version":"1"}}"#;
    let Refusal { kind, message } = refusal(other);
    assert_eq!(kind, ContractMismatch);
    assert!(
        message.contains(
            "written for guesthouse:reconciler@0.2.0, this host serves guesthouse:reconciler@0.1.0"
        ),
        "{message}"
    );
    let Refusal { kind, message } = refusal("hello");
    assert_eq!(kind, BadOutput, "{message}");
}

#[test]
fn a_program_that_imports_more_than_wasi_is_refused_by_name() {
    let text = r#"(module (import "env" "print" (func)) (func (export "_start")))"#;
    let (kind, message) = load_refused(text);
    assert_eq!(kind, ContractMismatch);
    assert!(message.contains("imports `env`"), "{message}");
}

#[test]
fn pointers_that_lead_nowhere_and_unknown_functions_are_the_programs_errors() {
    // 21 is EFAULT, 52 ENOSYS; the program traps if it is told anything else.
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "sock_accept" (func $accept (param i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func $is (param i32 i32) (if (i32.ne (local.get 0) (local.get 1)) (then unreachable)))
        (func (export "_start")
            (call $is (call $write (i32.const 1) (i32.const -8) (i32.const 1) (i32.const 0)) (i32.const 21))
            (i32.store (i32.const 0) (i32.const -1))
            (i32.store (i32.const 4) (i32.const 100))
            (call $is (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (i32.const 21))
            (call $is (call $write (i32.const 7) (i32.const 0) (i32.const 1) (i32.const 8)) (i32.const 8))
            (call $is (call $write (i32.const 1) (i32.const 0) (i32.const 99999999) (i32.const 8)) (i32.const 28))
            (call $is (call $args (i32.const -1) (i32.const -1)) (i32.const 21))
            (call $is (call $poll (i32.const -1) (i32.const 0) (i32.const 1) (i32.const 0)) (i32.const 21))
            (call $is (call $poll (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const 28))
            (call $is (call $accept (i32.const 3) (i32.const 0) (i32.const 0)) (i32.const 52))))"#;
    let (kind, message) = load_refused(text);
    // It came to its end and had nothing to say.
    assert_eq!(kind, BadOutput, "{message}");
    assert!(message.contains("standard output is empty"), "{message}");
}
