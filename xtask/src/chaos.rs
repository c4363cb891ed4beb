//! `cargo xtask chaos`: a host under load to which one thing after the other is done. The work is in `tests/cluster`.

use crate::artifacts::{cargo, run as run_command, target_dir};
use crate::test::prepare;
use anyhow::Result;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Disturb a host under load for a while, keep the history, and judge it.
///
/// The history of a run goes to target/chaos/SEED: what the proxy saw, what was done when, how everything ended, and the
/// host's log. It can be judged again, also by rules that came later.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask chaos                             everything once, and again until ten minutes are over
  cargo xtask chaos --minutes 60 --seed 7
  cargo xtask chaos --set pr --minutes 1        one of each group
  cargo xtask chaos --judge target/chaos/7      only judge what was kept")]
pub(crate) struct Args {
    /// How long; each of the set is met at least once.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Where all choices come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How much of everything.
    #[arg(long, value_enum, default_value = "nightly")]
    set: Set,
    /// Only judge the history in this folder.
    #[arg(long)]
    judge: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Set {
    /// One of each group.
    Pr,
    /// Everything.
    Nightly,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // The whole workspace's features: what everything else is built with.
    run_command(cargo().args(["build", "--workspace", "--bin", "guesthouse-chaos"]))?;
    let mut chaos = Command::new(target_dir().join("debug/guesthouse-chaos"));
    match &args.judge {
        Some(dir) => {
            chaos.arg("--judge").arg(std::path::absolute(dir)?);
        }
        None => {
            let set = match args.set {
                Set::Pr => "pr",
                Set::Nightly => "nightly",
            };
            let (minutes, seed) = (args.minutes.to_string(), args.seed.to_string());
            chaos.args(["--set", set, "--minutes", &minutes, "--seed", &seed]);
            chaos.arg("--out").arg(target_dir().join("chaos"));
            prepare(&mut chaos)?;
        }
    }
    run_command(&mut chaos)?;
    Ok(ExitCode::SUCCESS)
}
