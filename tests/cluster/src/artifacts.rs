//! What was built before the tests run: the host's binary and the plugins.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The checkout's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// cargo's target folder.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A path out of the environment.
fn named(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).filter(|path| !path.is_empty())?;
    Some(root().join(path))
}

/// The host's binary: `GUESTHOUSE_BIN`, or what cargo built last.
pub fn host_binary() -> Result<PathBuf> {
    let path = named("GUESTHOUSE_BIN").unwrap_or_else(|| target_dir().join("debug/guesthouse"));
    ensure!(
        path.is_file(),
        "the host's binary {} is not there; `cargo xtask test` builds it, or `cargo build --workspace --bins`",
        path.display()
    );
    Ok(path)
}

/// The host's binary with its points to crash at (feature `crash-points`): `GUESTHOUSE_CRASH_BIN`, or where
/// `cargo xtask test` puts it.
pub fn crash_binary() -> Result<PathBuf> {
    let path = named("GUESTHOUSE_CRASH_BIN")
        .unwrap_or_else(|| target_dir().join("crash-points/guesthouse"));
    ensure!(
        path.is_file(),
        "the host's binary with crash points {} is not there; `cargo xtask test` builds it, or \
         `cargo build --workspace --bin guesthouse --features guesthouse/crash-points`, put there before the usual one is built",
        path.display()
    );
    Ok(path)
}

/// The WebAssembly file of a plugin of this workspace, as in `report_job`: in the folder `GUESTHOUSE_PLUGINS`, or where cargo
/// puts guests.
pub fn plugin(name: &str) -> Result<PathBuf> {
    let built = "wasm32-wasip1/guest";
    let folders = match named("GUESTHOUSE_PLUGINS") {
        Some(folder) => vec![folder],
        None => vec![
            target_dir().join("plugins"),
            target_dir().join(built),
            target_dir().join("guests").join(built),
        ],
    };
    let file = format!("{name}.wasm");
    let found = folders
        .iter()
        .map(|folder| folder.join(&file))
        .find(|path| path.is_file());
    let Some(path) = found else {
        bail!(
            "the plugin {file} is in none of {folders:?}; `cargo xtask test` builds it, or \
             `cargo build --profile guest --target wasm32-wasip1 -p {}`",
            name.replace('_', "-")
        );
    };
    Ok(path)
}

/// The WebAssembly file of a plugin in another language than Rust. None where it was not built since its toolchain is missing:
/// that is said aloud, and in CI it is an error.
pub fn of_language(name: &str) -> Result<Option<PathBuf>> {
    let missing = match plugin(name) {
        Ok(path) => return Ok(Some(path)),
        Err(missing) => missing,
    };
    if std::env::var_os("CI").is_some() {
        return Err(missing.context("CI builds every language"));
    }
    eprintln!("SKIPPED: {missing:#}; see `cargo xtask languages`");
    Ok(None)
}

/// Runs a program to its end: its stdout, or an error with its stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("{command:?}"))
}
