//! `cargo xtask cluster`: local control planes that go on until they are taken down.

use crate::artifacts::target_dir;
use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use guesthouse_local::{Binaries, Cluster, Options, Progress};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a real Kubernetes control plane on this machine (etcd, API server, controller manager).
///
/// No containers and no root: three processes on 127.0.0.1, files under target/cluster/NAME. Several may run side by
/// side. There are no nodes: objects, RBAC, garbage collection and namespaces are real, pods never start.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask cluster up                        start (or find running) the cluster `dev`
  eval \"$(cargo xtask cluster up)\"              the same, and set KUBECONFIG in this shell
  cargo xtask cluster up --name two --audit     a second one that logs every request
  cargo xtask cluster status                    all clusters and their components
  cargo xtask cluster reset                     the same ports and kubeconfig, but empty
  cargo xtask cluster down --name two           end it; its objects stay for the next `up`")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Start the cluster, or find it running; print the line that points kubectl to it.
    Up {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        how: How,
    },
    /// End the cluster's processes. Its objects stay for the next `up`.
    Down {
        #[command(flatten)]
        which: Which,
    },
    /// Start the cluster empty, whether it runs or not. The kubeconfig stays valid.
    Reset {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        how: How,
    },
    /// Show what runs. Ends with code 1 when something that should serve does not.
    Status {
        /// Only this one; all by default.
        #[arg(long, value_parser = name)]
        name: Option<String>,
    },
}

#[derive(clap::Args)]
struct Which {
    /// The cluster's name: a folder under target/cluster.
    #[arg(long, default_value = "dev", value_parser = name)]
    name: String,
}

#[derive(clap::Args)]
struct How {
    /// Log every request, one JSON line each, to audit.jsonl in the cluster's folder.
    #[arg(long)]
    audit: bool,
    /// Let etcd wait for the disk at each write, as a production cluster does.
    #[arg(long)]
    fsync: bool,
}

/// A name becomes a folder, so it must not lead out of its parent.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() || text.len() > 63 || !text.chars().all(fits) {
        return Err("use 1 to 63 lower-case letters, digits and dashes".to_owned());
    }
    Ok(text.to_owned())
}

fn folder(name: &str) -> PathBuf {
    target_dir().join("cluster").join(name)
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        ClusterCommand::Up { which, how } => up(&which.name, &how),
        ClusterCommand::Reset { which, how } => reset(&which.name, &how),
        ClusterCommand::Down { which } => {
            match Cluster::down(&folder(&which.name))? {
                0 => eprintln!("cluster {} was not running", which.name),
                n => eprintln!("cluster {} is down ({n} processes ended)", which.name),
            }
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Status { name } => status(name),
    }
}

fn options(name: &str, how: &How) -> Options {
    let mut options = Options::new(folder(name));
    (options.audit, options.fsync, options.keep_data) = (how.audit, how.fsync, true);
    options
}

fn up(name: &str, how: &How) -> Result<ExitCode> {
    let binaries = Binaries::locate_or_build()?;
    let step = Progress::start(format!("starting cluster {name}"));
    let (cluster, started) = Cluster::up(&binaries, options(name, how))?;
    step.finish();
    if !started {
        eprintln!("cluster {name} was running already");
    }
    announce(&cluster);
    Ok(ExitCode::SUCCESS)
}

fn reset(name: &str, how: &How) -> Result<ExitCode> {
    let binaries = Binaries::locate_or_build()?;
    let step = Progress::start(format!("emptying cluster {name}"));
    let cluster = Cluster::reset(&binaries, options(name, how))?;
    step.finish();
    announce(&cluster);
    Ok(ExitCode::SUCCESS)
}

/// The one line on stdout is for the shell; what is for people goes to stderr.
fn announce(cluster: &Cluster) {
    eprintln!("API server  {}", cluster.url());
    eprintln!("kubectl     {}", cluster.binaries().kubectl.display());
    if let Some(log) = cluster.audit_log() {
        eprintln!("audit log   {}", log.display());
    }
    println!("export KUBECONFIG='{}'", cluster.kubeconfig().display());
}

fn status(name: Option<String>) -> Result<ExitCode> {
    let asked_for = name.is_some();
    let names = match name {
        Some(name) => vec![name],
        None => all_names()?,
    };
    if names.is_empty() {
        println!("no cluster yet: cargo xtask cluster up");
    }
    let mut all_ready = true;
    for name in names {
        let status = Cluster::status(&folder(&name))?;
        let runs = status.components.iter().any(|c| c.pid.is_some());
        let state = match (status.is_ready(), runs) {
            (true, _) => "ready",
            (false, true) => "degraded",
            (false, false) => "down",
        };
        // A cluster that was taken down is all right, unless it is the one asked for.
        all_ready &= state == "ready" || (state == "down" && !asked_for);
        let owner = if status.detached {
            ""
        } else {
            ", ends with the process that started it"
        };
        println!(
            "{name}: {state}, Kubernetes {}, {}{owner}",
            status.version, status.url
        );
        for component in status.components {
            let pid = component
                .pid
                .map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            let memory = component
                .memory
                .map_or_else(String::new, |b| format!("{} MiB", b >> 20));
            let problem = component.problem.unwrap_or_else(|| "serves".to_owned());
            println!(
                "  {:<24} {pid:>8} {memory:>9}  {problem}",
                component.component.name()
            );
        }
        println!("  export KUBECONFIG='{}'", status.kubeconfig.display());
    }
    Ok(if all_ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Every folder under target/cluster that holds a cluster's record.
fn all_names() -> Result<Vec<String>> {
    let parent = target_dir().join("cluster");
    let entries = match std::fs::read_dir(&parent) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => bail!("read {}: {e}", parent.display()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("read {}", parent.display()))?;
        if entry.path().join("cluster.json").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_out_of_its_folder_is_refused() {
        assert!(name("two-2").is_ok());
        for bad in ["", "..", "a/b", "A", "a b"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }
}
