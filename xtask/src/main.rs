//! The project's tasks: `cargo xtask help` lists them.
//!
//! Thin on purpose: what is more than calling programs in the right order lives in a crate of its own (the control
//! plane in `deploy/local`).

mod artifacts;
mod bench;
mod chaos;
mod cluster;
mod conformance;
mod demo;
mod generate;
mod languages;
mod setup;
mod test;
mod tidy;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Setup(setup::Args),
    Cluster(cluster::Args),
    Test(test::Args),
    Bench(bench::Args),
    Chaos(chaos::Args),
    Demo(demo::Args),
    Tidy(tidy::Args),
    Generate(generate::Args),
    Languages(languages::Args),
    Conformance(conformance::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Setup(args) => setup::run(&args),
        Task::Cluster(args) => cluster::run(args),
        Task::Test(args) => test::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Chaos(args) => chaos::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Tidy(args) => tidy::run(&args),
        Task::Generate(args) => generate::run(&args),
        Task::Languages(args) => languages::run(&args),
        Task::Conformance(args) => conformance::run(&args),
    }
}
