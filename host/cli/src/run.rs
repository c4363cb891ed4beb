//! `guesthouse run`.

use std::{io::IsTerminal, time::Duration};

use anyhow::{Context, Result};
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
        compiler: Some(
            std::env::current_exe().context("finding this program to compile plugins with")?,
        ),
        leases: (args.leases == OnOff::On).then(|| LeaseOptions {
            replica: args.replica_name.clone(),
            duration: Span::from_secs(args.lease_seconds.into()),
        }),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // Passes are small: more threads only hand them around.
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let result = runtime.block_on(async {
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
    });
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
