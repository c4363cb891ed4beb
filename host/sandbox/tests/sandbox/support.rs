//! The guest that does what its object says, and short ways to call it.

use std::{path::PathBuf, process::Command, sync::OnceLock};

use guesthouse_core::{
    contract::{Decision, Json, Observation, Reply, Status},
    limits::Limits,
    refusal::{Refusal, RefusalKind},
    units::{Bytes, Span},
};
use guesthouse_sandbox::{CALL_STACK, Called, Plugin, Sandbox, Settings, Verb};
use serde_json::Value;

pub(crate) const NOW: &str = "2026-11-29T21:53:00Z";

/// The guest as cargo leaves it, a core module: from the folder `GUESTHOUSE_PLUGINS`, or built once.
pub(crate) fn wasm() -> &'static [u8] {
    static WASM: OnceLock<Vec<u8>> = OnceLock::new();
    WASM.get_or_init(|| built("sandbox_guests.wasm"))
}

/// The program of the command door's tests, likewise.
pub(crate) fn command() -> &'static [u8] {
    static WASM: OnceLock<Vec<u8>> = OnceLock::new();
    WASM.get_or_init(|| built("sandbox_command.wasm"))
}

/// A guest in another language than Rust, from the folder `GUESTHOUSE_PLUGINS`; in CI it must be there.
pub(crate) fn of_language(file: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("GUESTHOUSE_PLUGINS").map(PathBuf::from);
    let wasm = folder.and_then(|folder| std::fs::read(folder.join(file)).ok());
    let must = std::env::var_os("CI").is_some();
    assert!(
        wasm.is_some() || !must,
        "{file} was not built: CI builds every language"
    );
    wasm
}

fn built(file: &str) -> Vec<u8> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| match std::env::var_os("GUESTHOUSE_PLUGINS") {
        Some(folder) => folder.into(),
        None => build(),
    });
    std::fs::read(folder.join(file)).expect("the guest was built")
}

fn build() -> PathBuf {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    // A target folder of its own: cargo runs these tests and may hold the lock of the usual one.
    let target = root.join("target/guests");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .current_dir(root)
        .args(["build", "--quiet", "--profile", "guest"])
        .args(["--target", "wasm32-wasip1"])
        .args([
            "-p",
            "sandbox-guests",
            "-p",
            "sandbox-command",
            "--target-dir",
        ])
        .arg(&target)
        .status()
        .expect("cargo starts");
    assert!(
        status.success(),
        "the guests do not build; is the target wasm32-wasip1 there? (cargo xtask setup)"
    );
    target.join("wasm32-wasip1/guest")
}

pub(crate) fn sandbox(settings: Settings) -> Sandbox {
    Sandbox::new(settings).expect("a sandbox")
}

/// The guest in a sandbox that all tests share.
pub(crate) fn plugin() -> &'static Plugin {
    static PLUGIN: OnceLock<Plugin> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        sandbox(Settings {
            slots: 4,
            ..Settings::default()
        })
        .load(wasm())
        .expect("the guest loads")
    })
}

pub(crate) fn seen(object: &str) -> Observation {
    Observation {
        object: Json::parse(object).expect("an object of JSON"),
        related: Vec::new(),
        children: Vec::new(),
        receipts: Vec::new(),
        config: Json::empty_object(),
        mapping: "test".into(),
        now: NOW.into(),
        attempt: 0,
        round: 0,
        extensions: Vec::new(),
    }
}

/// One call with the usual limits.
pub(crate) fn call(object: &str) -> Called {
    within(object, &Limits::default())
}

/// One call within these limits, on a thread as callers are told to have it.
pub(crate) fn within(object: &str, limits: &Limits) -> Called {
    on_call_stack(|| plugin().call(Verb::Reconcile, &seen(object), limits))
}

pub(crate) fn on_call_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(CALL_STACK);
        thread
            .spawn_scoped(scope, work)
            .expect("a thread")
            .join()
            .expect("no panic on the caller's side")
    })
}

/// The decision that must have come.
pub(crate) fn decision(called: Called) -> Decision {
    match called.result {
        Ok(Reply::Decision(decision)) => decision,
        other => panic!("a decision, not {other:?}"),
    }
}

/// The status that must have come, as text and as a value.
pub(crate) fn status(called: Called) -> (String, Value) {
    match decision(called).status {
        Some(Status::Replace(json)) => (json.as_str().to_owned(), json.read().expect("JSON")),
        other => panic!("a whole status, not {other:?}"),
    }
}

/// The refusal that must have come; compared as text, which is what users see.
pub(crate) fn refused(called: Called) -> String {
    called.result.expect_err("a refusal").to_string()
}

pub(crate) fn load_refused(wat: &str) -> (RefusalKind, String) {
    let Refusal { kind, message } = load_error(
        &sandbox(Settings::default()),
        &wat::parse_str(wat).expect("valid text"),
    );
    (kind, message)
}

pub(crate) fn load_error(sandbox: &Sandbox, wasm: &[u8]) -> Refusal {
    sandbox.load(wasm).expect_err("a refusal")
}

pub(crate) fn memory(mebibytes: u64) -> Limits {
    Limits {
        memory: Bytes(mebibytes << 20),
        ..Limits::default()
    }
}

pub(crate) fn time(milliseconds: u64) -> Limits {
    Limits {
        time: Span(milliseconds),
        ..Limits::default()
    }
}

pub(crate) fn output(bytes: u64) -> Limits {
    Limits {
        output: Bytes(bytes),
        ..Limits::default()
    }
}

pub(crate) fn logs(bytes: u64) -> Limits {
    Limits {
        logs: Bytes(bytes),
        ..Limits::default()
    }
}

/// Runs an ignored test of this program in a process of its own, where memory can be measured: other tests compile, which takes
/// and gives back memory as it likes.
pub(crate) fn in_own_process(test: &str) {
    let this = std::env::current_exe().expect("this program");
    let out = Command::new(this)
        .args(["--exact", test, "--ignored"])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}

/// Resident memory of this process, bytes.
pub(crate) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a line of its own");
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .expect("a number")
        << 10
}
