//! `guesthouse run`.

use std::{io::IsTerminal, path::Path, time::Duration};

use anyhow::{Context, Result};
use guesthouse_artifact::policy::Policy;
use guesthouse_core::units::Span;
use guesthouse_operator::{HostOptions, LeaseOptions};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, OnOff, RunArgs};

pub(crate) fn run(args: &RunArgs) -> Result<()> {
    log(args.log_format);
    let options = HostOptions {
        namespace: args.namespace.clone(),
        concurrency: args.concurrency.into(),
        http_in_flight: args.http_in_flight.into(),
        api_in_flight: args.api_in_flight.into(),
        removal_grace: args.removal_grace,
        cache: args.cache.clone(),
        plugin_cache: args.plugin_cache.clone(),
        plugin_cache_size: args.plugin_cache_size,
        policy: policy(args.policy.as_deref())?,
        compiler: Some(
            std::env::current_exe().context("finding this program to compile plugins with")?,
        ),
        plugin_idle: args.plugin_idle.duration(),
        metrics: args.metrics,
        leases: (args.leases == OnOff::On).then(|| LeaseOptions {
            replica: args.replica_name.clone(),
            duration: Span::from_secs(args.lease_seconds.into()),
        }),
    };
    until_done(async {
        let mut term = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        };
        guesthouse_operator::run(options, stop)
            .await
            .context("the host cannot run")
    })
}

/// A host whose policy cannot be read does not run: it would let in what it is to keep out.
fn policy(path: Option<&Path>) -> Result<Policy> {
    let Some(path) = path else {
        return Ok(Policy::default());
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {shown}"))?;
    Policy::parse(&text, |file| std::fs::read_to_string(file))
        .with_context(|| format!("the policy {shown}"))
}

/// Runs the host in a runtime of its own, which ends with it.
fn until_done(host: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // Passes are small: more threads only hand them around.
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let result = runtime.block_on(host);
    // A read that hangs (a network mount) must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(2));
    result
}

/// To stderr: stdout is for results. `GUESTHOUSE_LOG` has the syntax of `RUST_LOG`.
fn log(format: LogFormat) {
    let filter =
        EnvFilter::try_from_env("GUESTHOUSE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, sync::mpsc};

    /// A plugin's file on a network mount that has gone is a read without an end.
    #[test]
    fn the_host_ends_although_a_read_of_a_file_hangs() {
        let (mut file, holds) = std::io::pipe().unwrap();
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let result = until_done(async move {
                let (begun, reads) = tokio::sync::oneshot::channel();
                tokio::task::spawn_blocking(move || {
                    let _ = begun.send(());
                    // Nobody writes to it, and it stays open.
                    file.read_to_end(&mut Vec::new())
                });
                reads.await.context("the read begins")
            });
            let _ = ended.send(result);
        });
        // Only a failing test waits so long.
        let result = end.recv_timeout(Duration::from_secs(60));
        assert!(result.expect("the host hangs on the read").is_ok());
        drop(holds);
    }
}
