//! `cargo xtask test`: all set-up, then all tests, those on a real API server included.

use crate::artifacts::{cargo, crash_binary, guest_plugins, host_binary, run as run_command};
use crate::languages;
use crate::setup;
use anyhow::Result;
use clap::Parser;
use guesthouse_local::Registry;
use std::process::{Command, ExitCode};

/// Run all tests, with all set-up they need.
///
/// Tests find what was built in the environment: GUESTHOUSE_BIN (the host's binary),
/// GUESTHOUSE_CRASH_BIN (the same with points to kill it at), GUESTHOUSE_PLUGINS (the folder of
/// the plugins' .wasm files) and KUBEBUILDER_ASSETS (the control plane's programs).
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask test                                          everything
  cargo xtask test -- -p guesthouse-core                    one crate
  cargo xtask test -- -p guesthouse-tests drain -- --nocapture")]
pub(crate) struct Args {
    /// Arguments for cargo test.
    #[arg(last = true)]
    cargo_test: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut test = cargo();
    test.arg("test");
    if !chooses_packages(&args.cargo_test) {
        test.arg("--workspace");
    }
    test.args(&args.cargo_test);
    prepare(&mut test)?;
    // Who chooses some tests of Rust wants those.
    languages::ensure(args.cargo_test.is_empty())?;
    run_command(&mut test)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds what tests run and names it in the command's environment.
pub(crate) fn prepare(command: &mut Command) -> Result<()> {
    let binaries = setup::ensure_all()?;
    // Before tests with deadlines of their own come to it.
    Registry::locate_or_build()?;
    // Before the usual one, which is to be the one that lies where cargo puts it.
    command.env("GUESTHOUSE_CRASH_BIN", crash_binary()?);
    command.env("GUESTHOUSE_BIN", host_binary()?);
    command.env("GUESTHOUSE_PLUGINS", guest_plugins()?);
    // Spread over PATH they have no one folder; tests then find them as this task did.
    if let Some(dir) = binaries.dir() {
        command.env("KUBEBUILDER_ASSETS", dir);
    }
    Ok(())
}

fn chooses_packages(args: &[String]) -> bool {
    let before_dashes = args.iter().take_while(|arg| *arg != "--");
    before_dashes.into_iter().any(|arg| {
        arg.starts_with("-p") || arg.starts_with("--package") || arg.starts_with("--manifest-path")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tested_unless_the_arguments_choose_packages() {
        let args = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert!(!chooses_packages(&args("--no-fail-fast a_test -- -p")));
        assert!(chooses_packages(&args("-p guesthouse-core")));
        assert!(chooses_packages(&args("--package=guesthouse-core")));
    }
}
