//! `guesthouse-chaos`: what `cargo xtask chaos` runs once everything is built.

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use guesthouse_tests::chaos::{self, Plan, Set};
use guesthouse_tests::{History, judge};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Parser)]
struct Args {
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, value_enum, default_value = "nightly")]
    set: Chosen,
    /// Where the history goes.
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
    /// Only judge the history in this folder.
    #[arg(long)]
    judge: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Chosen {
    Pr,
    Nightly,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let findings = match &args.judge {
        Some(dir) => {
            let history = History::load(dir)?;
            chaos::tell(&history);
            judge(&history)
        }
        None => {
            let plan = Plan {
                set: match args.set {
                    Chosen::Pr => Set::Pr,
                    Chosen::Nightly => Set::Nightly,
                },
                seed: args.seed,
                time: Duration::from_secs_f64(args.minutes.max(0.0) * 60.0),
            };
            let dir = args.out.join(args.seed.to_string());
            let findings = chaos::run(&plan, &dir)?;
            println!("kept in {}", dir.display());
            findings
        }
    };
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("findings: {}", findings.len());
    }
    println!("nothing to be found");
    Ok(())
}
