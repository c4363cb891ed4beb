//! The limits again, each obeyed and violated, by a language with a large runtime that starts slowly: Python.

use std::sync::OnceLock;

use guesthouse_core::{
    contract::Reply,
    limits::Limits,
    units::{Bytes, Span},
};
use guesthouse_sandbox::{Called, Plugin, Settings, Verb};
use serde_json::{Value, json};

use crate::support::*;

/// The guest; none where its toolchain is missing, which CI does not let pass.
fn guest() -> Option<&'static Plugin> {
    static GUEST: OnceLock<Option<Plugin>> = OnceLock::new();
    let guest = GUEST.get_or_init(|| {
        let Some(wasm) = of_language("hostile_python.wasm") else {
            eprintln!("SKIPPED: no guest in Python; see `cargo xtask languages`");
            return None;
        };
        Some(sandbox(Settings::default()).load(&wasm).expect("it loads"))
    });
    guest.as_ref()
}

fn call(spec: &Value, limits: &Limits, check: impl FnOnce(Called) + Send) {
    let Some(guest) = guest() else { return };
    let object = json!({"metadata": {"name": "a"}, "spec": spec}).to_string();
    on_call_stack(|| check(guest.call(Verb::Reconcile, &seen(&object), limits)));
}

fn refused_as(spec: Value, limits: &Limits, wanted: &str) {
    call(&spec, limits, |called| {
        let text = refused(called);
        assert!(text.starts_with(wanted), "{text}");
    });
}

/// It works after whatever it did.
fn works() {
    call(&json!({"do": "nothing"}), &Limits::default(), |called| {
        assert!(called.result.is_ok(), "{:?}", called.result);
    });
}

#[test]
fn memory() {
    let limits = Limits {
        memory: Bytes(100 << 20),
        time: Span::from_secs(10),
        ..Limits::default()
    };
    call(&json!({"do": "eat", "n": 20}), &limits, |called| {
        assert!(called.used.memory_peak > 20 << 20, "{:?}", called.used);
        assert_eq!(status(called).1, json!({"ate": 20}));
    });
    let wanted = "OutOfMemory: memories and tables together would be over 100Mi (limits.memory)";
    call(&json!({"do": "eat", "n": 200}), &limits, |called| {
        assert!(called.used.memory_peak <= 100 << 20, "{:?}", called.used);
        // A language that turns want of memory into an exception has its say, and it reaches the user.
        match called.result {
            Err(refusal) => assert_eq!(refusal.to_string()[..wanted.len()], *wanted),
            Ok(Reply::Failure(failure)) => {
                assert!(failure.cause.message.contains("MemoryError"), "{failure:?}");
            }
            Ok(other) => panic!("{other:?}"),
        }
    });
    works();
}

#[test]
fn time_limits() {
    refused_as(
        json!({"do": "loop"}),
        &time(200),
        "Timeout: the call took longer than 200ms of CPU time",
    );
    call(&json!({"do": "sleep"}), &time(1000), |called| {
        assert!(called.used.elapsed.as_secs() < 60, "{:?}", called.used);
        assert_eq!(status(called).1, json!({"slept": 3600}));
    });
    works();
}

#[test]
fn depth() {
    let limits = Limits {
        memory: Bytes(200 << 20),
        time: Span::from_secs(10),
        ..Limits::default()
    };
    call(&json!({"do": "recurse"}), &limits, |called| {
        let text = match called.result {
            Err(refusal) => refusal.to_string(),
            Ok(Reply::Failure(failure)) => failure.cause.message,
            Ok(other) => panic!("{other:?}"),
        };
        let known = [
            "StackOverflow",
            "RecursionError",
            "OutOfMemory",
            "MemoryError",
            "recursion",
        ];
        assert!(known.iter().any(|word| text.contains(word)), "{text}");
    });
    works();
}

#[test]
fn floods() {
    let slow = |limits: Limits| Limits {
        time: Span::from_secs(10),
        ..limits
    };
    for way in ["print", "log"] {
        call(
            &json!({"do": way, "n": 3000}),
            &slow(logs(1000)),
            |called| {
                assert!(called.dropped_logs > 2000, "{way}: {}", called.dropped_logs);
                assert!(called.result.is_ok(), "{way}: {:?}", called.result);
            },
        );
    }
    call(
        &json!({"do": "status", "n": 9000}),
        &slow(output(10_000)),
        |called| {
            assert!(called.result.is_ok(), "{:?}", called.result);
        },
    );
    let wanted = "TooLarge: the plugin handed the host more than 10000 at once (limits.output)";
    refused_as(
        json!({"do": "status", "n": 50_000}),
        &slow(output(10_000)),
        wanted,
    );
    refused_as(
        json!({"do": "events", "n": 5000}),
        &slow(output(10_000)),
        wanted,
    );
    works();
}

#[test]
fn an_exceptions_text_reaches_the_user() {
    call(
        &json!({"do": "raise", "text": "boom"}),
        &Limits::default(),
        |called| {
            let text = match called.result {
                Err(refusal) => refusal.to_string(),
                Ok(Reply::Failure(failure)) => failure.cause.message,
                Ok(other) => panic!("{other:?}"),
            };
            assert!(text.contains("RuntimeError: boom"), "{text}");
        },
    );
}
