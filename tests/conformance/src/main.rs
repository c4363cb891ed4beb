//! `cargo xtask conformance FILE`: the suite on built guests, PASS or FAIL per case.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use guesthouse_conformance::{Suite, sandbox};

/// Run the conformance suite on the conformance guest of a language.
#[derive(Parser)]
#[command(
    name = "conformance",
    after_help = "\
Examples:
  cargo xtask conformance target/plugins/conformance_go.wasm
  cargo xtask conformance target/plugins/conformance_c.wasm --case values
  cargo xtask conformance my_guest.wasm --cases my-cases.json"
)]
struct Args {
    /// The guests, as they were built.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Another suite than the project's own.
    #[arg(long)]
    cases: Option<PathBuf>,
    /// Only this case.
    #[arg(long)]
    case: Option<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    let suite = match &args.cases {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("read {}", path.display()))?;
            Suite::read(&text).with_context(|| path.display().to_string())?
        }
        None => Suite::own()?,
    };
    let sandbox = sandbox()?;
    let mut all = true;
    for file in &args.files {
        let wasm = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let verdicts = suite.judge(&sandbox, &wasm, args.case.as_deref());
        let failed = verdicts.iter().filter(|one| one.fault.is_some()).count();
        for verdict in &verdicts {
            match &verdict.fault {
                None => println!("PASS  {}", verdict.case),
                Some(fault) => println!("FAIL  {}: {fault}", verdict.case),
            }
        }
        println!(
            "{}: {} passed, {failed} failed",
            file.display(),
            verdicts.len() - failed
        );
        all &= failed == 0 && !verdicts.is_empty();
    }
    Ok(all)
}
