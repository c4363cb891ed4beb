//! `cargo xtask demo`: the product's story on a real API server, told in the terminal and checked at its end.
//!
//! It runs what a user runs (the host's binary, the plugin, kubectl) and shows the commands. Nothing it claims is taken
//! for granted: [`claims`] compares what cluster and exporter say in the end, and a number that is off ends the demo
//! with code 1. All it starts ends with it, also on Ctrl-C and when it is killed.

mod claims;
mod host;
mod interrupt;
mod jobs;
mod plugin;
mod story;
mod terminal;
mod world;

use crate::artifacts::{guest_plugins, host_binary, target_dir};
use crate::setup;
use anyhow::{Context, Result, bail};
use clap::Parser;
use guesthouse_local::Binaries;
use interrupt::{Interrupt, Interrupted};
use report_exporter::Exporter;
use std::path::PathBuf;
use std::process::ExitCode;
use story::Story;
use terminal::Terminal;
use world::World;

/// See it work: a hundred jobs drained by a WebAssembly plugin, through a hot swap and a SIGKILL, with every report made once.
///
/// Does all set-up itself (the first time it builds host, plugin and control plane), then takes under a minute. A
/// cluster of its own is started for it under target/cluster and removed at the end.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask demo
  cargo xtask demo --jobs 500
  cargo xtask demo --keep                       leave the cluster running, to look around with kubectl
  cargo xtask demo --kubeconfig ~/.kube/config  on a cluster you have (kind, k3s, ...), in namespaces of its own

Exit codes: 0 all that is claimed is true, 1 something is not, 130 interrupted.")]
pub(crate) struct Args {
    /// How many jobs, beside the one that fails.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(10..=5000))]
    jobs: u16,
    /// Leave cluster and objects as they are at the end, and say how to reach them.
    #[arg(long)]
    keep: bool,
    /// Use this cluster instead of starting one; what is made there is removed at the end.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The same with the cluster that kubectl talks to now: $KUBECONFIG, else ~/.kube/config.
    #[arg(long, conflicts_with = "kubeconfig")]
    external: bool,
}

impl Args {
    /// The kubeconfig of a cluster that is there already, if one is to be used.
    fn cluster(&self) -> Result<Option<PathBuf>> {
        if !self.external {
            return Ok(self.kubeconfig.clone());
        }
        if let Some(path) = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()) {
            return Ok(Some(path.into()));
        }
        let home = std::env::var_os("HOME").context("neither KUBECONFIG nor HOME is set")?;
        Ok(Some(PathBuf::from(home).join(".kube/config")))
    }
}

/// What was built before the story begins.
struct Built {
    binaries: Binaries,
    /// `guesthouse`.
    host: PathBuf,
    /// `report_job.wasm`.
    plugin: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(missing) = args.cluster()?.filter(|path| !path.is_file()) {
        bail!("no kubeconfig at {}", missing.display());
    }
    // While this builds, Ctrl-C ends cargo and this program as it ends anything.
    let built = Built {
        binaries: setup::ensure_all()?,
        host: host_binary()?,
        plugin: guest_plugins()?.join("report_job.wasm"),
    };
    // The exporter and the listening for signals.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let interrupt = Interrupt::listen(&runtime);
    match tell(args, &built, &runtime, &interrupt) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("interrupted");
            Ok(ExitCode::from(130))
        }
        Err(error) => Err(error),
    }
}

/// Tells the story; says whether all claims are true.
fn tell(
    args: &Args,
    built: &Built,
    runtime: &tokio::runtime::Runtime,
    interrupt: &Interrupt,
) -> Result<bool> {
    let folder = target_dir()
        .join("cluster")
        .join(format!("demo-{}", std::process::id()));
    let mut terminal = Terminal::new();
    terminal.title(args.jobs);
    let world = World::open(args, &built.binaries, folder, interrupt, &mut terminal)?;
    let exporter = runtime
        .block_on(Exporter::start("127.0.0.1:0"))
        .context("start the exporter")?;
    let mut story = Story::new(
        usize::from(args.jobs),
        built,
        &world,
        &exporter,
        &mut terminal,
    )?;
    let holds = story.tell()?;
    drop(story);
    if args.keep {
        world.leave(&built.host, &exporter, &terminal);
    } else {
        world.close(&terminal)?;
    }
    terminal.end(holds);
    Ok(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_used_only_when_it_is_asked_for() {
        let cluster = |line: &str| {
            let args = Args::try_parse_from(line.split(' ')).unwrap();
            args.cluster().unwrap()
        };
        assert_eq!(cluster("demo --jobs 10"), None);
        assert_eq!(cluster("demo --kubeconfig a"), Some("a".into()));
        assert!(cluster("demo --external").is_some());
        assert!(Args::try_parse_from(["demo", "--jobs", "9"]).is_err());
    }
}
