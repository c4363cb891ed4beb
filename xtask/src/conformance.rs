//! `cargo xtask conformance`: the suite on any built guest.

use crate::artifacts::{cargo, run as run_command};
use anyhow::Result;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run the conformance suite on the built conformance guest of a language.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask conformance target/plugins/conformance_go.wasm
  cargo xtask conformance my_guest.wasm --case values

What a guest has to answer: tests/conformance/README.md.")]
pub(crate) struct Args {
    /// The guests.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Only this case.
    #[arg(long)]
    case: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut command = cargo();
    // The whole workspace's features, so that nothing is built twice.
    run_command(command.args(["build", "--workspace", "--bin", "conformance"]))?;
    let mut suite =
        std::process::Command::new(crate::artifacts::target_dir().join("debug/conformance"));
    suite.args(&args.files);
    if let Some(case) = &args.case {
        suite.args(["--case", case]);
    }
    let status = suite.status()?;
    Ok(ExitCode::from(
        u8::try_from(status.code().unwrap_or(1)).unwrap_or(1),
    ))
}
