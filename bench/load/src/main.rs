//! `guesthouse-bench`: makes `ReportJob` objects, runs a controller over them as a child and measures it.
//!
//! The controller is a command that gets its cluster from `KUBECONFIG`, as this program does; nothing here knows which one it
//! is. Each measurement prints one line of JSON, and ends the child by its pid. `cargo xtask bench` calls this in the right
//! order; for another controller: `guesthouse-bench drain -n 2000 -- COMMAND`.

mod api;
mod call;
mod jobs;
mod process;
mod runs;
mod track;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "guesthouse-bench", about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create objects, optionally settled ones.
    Create(jobs::Create),
    /// Delete all ReportJobs of the namespace.
    Delete(jobs::Delete),
    /// Create objects, then start the controller and time it until all are Done and labelled.
    Drain(runs::Drain),
    /// Start the controller, create objects at a rate, time each from its creation to Done.
    Latency(runs::Latency),
    /// Start the controller over the objects that are there; when it is at rest, read its memory.
    Idle(runs::Idle),
    /// Call a plugin in this process, without cluster and host: open, call, drop.
    Call(call::Args),
}

/// What the measurements share.
#[derive(Args)]
struct Measured {
    /// Namespace of the objects.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Name of what is measured, copied to the output.
    #[arg(long, default_value = "")]
    name: String,
    /// Pid of the API server, whose CPU time is reported.
    #[arg(long)]
    server_pid: Option<u32>,
    /// Pid of a process that belongs to the measurement (etcd): its CPU time is no stranger's.
    #[arg(long)]
    beside_pid: Vec<u32>,
    /// File for the controller's output.
    #[arg(long, default_value = "/dev/null")]
    log: PathBuf,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 180)]
    timeout: u64,
    /// The controller's command.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let command = match command {
        Command::Call(args) => return call::run(&args),
        other => other,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match command {
            Command::Create(args) => jobs::create(&args).await,
            Command::Delete(args) => jobs::delete(&args).await,
            Command::Drain(args) => runs::drain(&args).await,
            Command::Latency(args) => runs::latency(&args).await,
            Command::Idle(args) => runs::idle(&args).await,
            Command::Call(_) => Ok(()),
        }
    })
}
