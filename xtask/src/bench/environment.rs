//! On what, with what and when figures were taken.

use crate::artifacts::root;
use anyhow::{Context, Result};
use std::process::Command;

/// Lines of Markdown.
pub(crate) fn describe(kubernetes: &str) -> Result<String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).context("read Cargo.lock")?;
    let version = |name: &str| locked(&lock, name).unwrap_or("?").to_owned();
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d");
    Ok(format!(
        "- Machine: {cores} cores ({}), {} GiB of memory, Linux {}; API server, etcd, load and controller share them.\n\
         - Versions: Kubernetes {kubernetes}, etcd {}, {}, wasmtime {}, kube {}, tokio {}, commit {}.\n\
         - Taken on {day} by `cargo xtask bench`.",
        cpu_model().unwrap_or_else(|| "unknown".to_owned()),
        memory_gib().unwrap_or(0),
        first_line("/proc/sys/kernel/osrelease"),
        guesthouse_local::ETCD_VERSION,
        said(Command::new("rustc").arg("--version"))
            .split(" (")
            .next()
            .unwrap_or_default(),
        version("wasmtime"),
        version("kube"),
        version("tokio"),
        said(Command::new("git").args(["describe", "--always", "--dirty"])),
    ))
}

/// The version of a package in a lock file.
fn locked<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("\nname = \"{name}\"\nversion = \""))?;
    rest.split('"').next()
}

fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_gib() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some((kib + (1 << 19)) >> 20)
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// What a program says, or nothing: a missing git is no reason not to measure.
fn said(command: &mut Command) -> String {
    let output = command.current_dir(root()).output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_by_the_whole_name() {
        let lock = "[[package]]\nname = \"kube-core\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"kube\"\nversion = \"5.0.0\"\n";
        assert_eq!(locked(lock, "kube"), Some("5.0.0"));
        assert_eq!(locked(lock, "tokio"), None);
    }
}
