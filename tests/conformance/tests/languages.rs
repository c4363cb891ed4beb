//! The suite over the guests of all languages, as `cargo xtask test` built them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Also in the tests' helpers.

use std::path::PathBuf;

use guesthouse_conformance::{Suite, sandbox};

/// The guest of a language; none where its toolchain is missing, which CI does not let pass.
fn guest(language: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("GUESTHOUSE_PLUGINS").map(PathBuf::from);
    let folder = folder.expect("GUESTHOUSE_PLUGINS is not set: run `cargo xtask test`");
    let path = folder.join(format!("conformance_{language}.wasm"));
    match std::fs::read(&path) {
        Ok(wasm) => Some(wasm),
        Err(error) if std::env::var_os("CI").is_some() => {
            panic!("{}: {error}; CI builds every language", path.display())
        }
        Err(error) => {
            eprintln!(
                "SKIPPED: {}: {error}; see `cargo xtask languages`",
                path.display()
            );
            None
        }
    }
}

fn conforms(language: &str, wasm: &[u8]) {
    let suite = Suite::own().unwrap();
    let verdicts = suite.judge(&sandbox().unwrap(), wasm, None);
    let faults: Vec<String> = verdicts
        .iter()
        .filter_map(|verdict| Some(format!("{}: {}", verdict.case, verdict.fault.as_ref()?)))
        .collect();
    assert!(faults.is_empty(), "{language}:\n{}", faults.join("\n"));
    // All of them, and what it says of itself.
    assert_eq!(verdicts.len(), suite.names().len() + 1);
}

fn language(name: &str) {
    if let Some(wasm) = guest(name) {
        conforms(name, &wasm);
    }
}

#[test]
fn rust_conforms() {
    language("rust");
}

#[test]
fn go_conforms() {
    language("go");
}

#[test]
fn javascript_conforms() {
    language("js");
}

#[test]
fn python_conforms() {
    language("python");
}

#[test]
fn c_conforms() {
    language("c");
}

/// The same program as a component that exports `wasi:cli/run`.
#[test]
fn a_command_that_is_a_component_conforms() {
    let Some(core) = guest("c") else {
        return;
    };
    let adapter = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER;
    let component = wit_component::ComponentEncoder::default()
        .module(&core)
        .and_then(|encoder| encoder.adapter("wasi_snapshot_preview1", adapter))
        .and_then(|mut encoder| encoder.encode())
        .expect("a component around the program");
    conforms("c as a component", &component);
}

/// The suite finds what is wrong: a guest that answers another case's answer fails by name.
#[test]
fn a_guest_that_answers_wrong_is_found_out() {
    let text = include_str!("../cases.json").replace("\"phase\": \"Done\"", "\"phase\": \"Doing\"");
    let suite = Suite::read(&text).unwrap();
    let wasm = guest("rust").expect("Rust is always there");
    let verdicts = suite.judge(&sandbox().unwrap(), &wasm, Some("status-replace"));
    let fault = verdicts[0].fault.as_deref().expect("a fault");
    assert!(fault.contains("Doing") && fault.contains("Done"), "{fault}");
}
