//! What tests, demo and benchmark run: the host's binary and the guest plugins, built by cargo.

use crate::languages;
use crate::setup::WASM_TARGET;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The checkout's folder.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// cargo's target folder.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|d| !d.is_empty()) {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that runs this task, in the checkout.
///
/// Without what `cargo run` tells this program of its own package: ring's build script looks at those variables, and everything
/// with TLS would be built again at each change from `cargo xtask` to plain cargo and back.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let own = |prefix: &str| name.to_string_lossy().starts_with(prefix);
        if own("CARGO_PKG_") || own("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a command whose output the user sees.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = std::iter::once(command.get_program()).chain(command.get_args());
    let shown: Vec<_> = shown
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let shown = shown.join(" ");
    let status = command.status().with_context(|| format!("start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Builds the host's binary (development profile) and returns its path.
pub(crate) fn host_binary() -> Result<PathBuf> {
    // The whole workspace's features: what the tests are built with, so nothing is built twice.
    run(cargo().args(["build", "--workspace", "--bin", "guesthouse"]))?;
    Ok(target_dir().join("debug/guesthouse"))
}

/// Builds the host with the points at which tests kill it, puts it aside and returns its path.
pub(crate) fn crash_binary() -> Result<PathBuf> {
    // The same folder, so that only the host's own crates are built twice; both builds stay there side by side.
    let features = ["--features", "guesthouse/crash-points"];
    run(cargo()
        .args(["build", "--workspace", "--bin", "guesthouse"])
        .args(features))?;
    let dir = target_dir().join("crash-points");
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let (built, aside) = (
        target_dir().join("debug/guesthouse"),
        dir.join("guesthouse"),
    );
    // A file that runs cannot be written to, but another one can take its name.
    let new = dir.join("new");
    std::fs::copy(&built, &new).with_context(|| format!("copy {}", built.display()))?;
    std::fs::rename(&new, &aside).with_context(|| format!("put {} in place", aside.display()))?;
    Ok(aside)
}

/// Builds every guest of the workspace for WebAssembly and returns the folder of the `.wasm` files, which is the one of all
/// plugins whatever they are written in. Needs [`crate::setup::ensure_wasm_target`] first.
pub(crate) fn guest_plugins() -> Result<PathBuf> {
    let guests = guest_packages()?;
    let mut build = cargo();
    build.args(["build", "--profile", "guest", "--target", WASM_TARGET]);
    for guest in &guests {
        build.args(["-p", guest]);
    }
    run(&mut build)?;
    let built = target_dir().join(WASM_TARGET).join("guest");
    for entry in built
        .read_dir()
        .with_context(|| format!("read {}", built.display()))?
    {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(name) = name.filter(|name| name.ends_with(".wasm")) {
            languages::keep(&path, name)?;
        }
    }
    Ok(languages::plugins_dir())
}

/// What cargo tells of the workspace's members, read as far as `T` asks.
pub(crate) fn cargo_metadata<T: DeserializeOwned>() -> Result<T> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("run cargo")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("parse cargo metadata")
}

/// Guests are the packages whose library is a `cdylib` (nothing else in the workspace is linked that way), and those
/// in a folder called `guests` (programs for the command door).
fn guest_packages() -> Result<Vec<String>> {
    let metadata: Metadata = cargo_metadata()?;
    let guests: Vec<String> = metadata
        .packages
        .into_iter()
        .filter(Package::is_guest)
        .map(|p| p.name)
        .collect();
    if guests.is_empty() {
        bail!("the workspace has no guest");
    }
    Ok(guests)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

impl Package {
    fn is_guest(&self) -> bool {
        let in_guests = self
            .manifest_path
            .components()
            .any(|part| part.as_os_str() == "guests");
        in_guests
            || self
                .targets
                .iter()
                .any(|t| t.kind.iter().any(|k| k == "cdylib"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guests_of_the_workspace_are_its_plugins_and_not_its_host() {
        let guests = guest_packages().unwrap();
        assert!(guests.contains(&"report-job".to_owned()), "{guests:?}");
        assert!(!guests.contains(&"guesthouse".to_owned()), "{guests:?}");
    }
}
