//! The call path alone: what one call of a plugin costs, in its parts.

use crate::jobs;
use anyhow::{Context, Result};
use guesthouse_core::contract::{Json, Observation};
use guesthouse_core::limits::Limits;
use guesthouse_sandbox::{Sandbox, Settings, Verb};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The plugin's WebAssembly file.
    plugin: PathBuf,
    /// The object it is shown [default: a ReportJob of 2 KB].
    #[arg(long)]
    object: Option<PathBuf>,
    /// The mapping's config, as JSON.
    #[arg(long, default_value = "{}")]
    config: String,
    /// Name in the output [default: the plugin's own].
    #[arg(long)]
    name: Option<String>,
    /// How many calls.
    #[arg(short, default_value_t = 20_000)]
    n: usize,
}

/// Times in microseconds, medians but for the last.
#[derive(Serialize)]
struct Line {
    test: &'static str,
    name: String,
    calls: usize,
    object_bytes: usize,
    plugin_bytes: usize,
    load_ms: f64,
    open_us: f64,
    call_us: f64,
    drop_us: f64,
    all_us: f64,
    all_p99_us: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wasm =
        std::fs::read(&args.plugin).with_context(|| format!("read {}", args.plugin.display()))?;
    let object = match &args.object {
        Some(path) => {
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?
        }
        None => sample(),
    };
    let object_bytes = object.len();
    let sandbox = Sandbox::new(Settings::default())?;
    let began = Instant::now();
    let plugin = sandbox.load(&wasm)?;
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    let seen = Observation {
        object: Json::parse(object)?,
        related: Vec::new(),
        children: Vec::new(),
        receipts: Vec::new(),
        config: Json::parse(args.config.as_str())?,
        mapping: "bench".into(),
        now: "2026-11-29T21:53:00Z".into(),
        attempt: 0,
        round: 0,
        extensions: Vec::new(),
    };
    let limits = Limits::default();
    let mut parts: [Vec<Duration>; 4] = Default::default();
    for _ in 0..args.n {
        let start = Instant::now();
        let mut guest = plugin.open(&limits)?;
        let opened = Instant::now();
        let reply = guest.call(Verb::Reconcile, &seen)?;
        let called = Instant::now();
        drop(guest);
        let gone = Instant::now();
        // Read once it is out of the clock, so that it is made in earnest.
        std::hint::black_box(reply);
        let times = [opened - start, called - opened, gone - called, gone - start];
        for (part, time) in parts.iter_mut().zip(times) {
            part.push(time);
        }
    }
    let [open, call, drop, all] = parts.map(|mut times| {
        times.sort_unstable();
        times
    });
    let line = Line {
        test: "call",
        name: args
            .name
            .clone()
            .unwrap_or_else(|| plugin.descriptor().name.clone()),
        calls: args.n,
        object_bytes,
        plugin_bytes: wasm.len(),
        load_ms: round(load_ms),
        open_us: micros(&open, 500),
        call_us: micros(&call, 500),
        drop_us: micros(&drop, 500),
        all_us: micros(&all, 500),
        all_p99_us: micros(&all, 990),
    };
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}

fn micros(sorted: &[Duration], per_mille: usize) -> f64 {
    let at = sorted.len() * per_mille / 1000;
    sorted
        .get(at)
        .map_or(0.0, |time| round(time.as_secs_f64() * 1e6))
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// An object as the API server stores it, without `managedFields`, 2 KB long.
fn sample() -> String {
    serde_json::json!({
        "apiVersion": "batch.acme.io/v1",
        "kind": "ReportJob",
        "metadata": {
            "creationTimestamp": "2026-11-29T21:50:00Z",
            "generation": 1,
            "labels": {jobs::PHASE_LABEL: "pending"},
            "name": "job-000001",
            "namespace": "default",
            "resourceVersion": "2048",
            "uid": "6f3a1c52-9a0e-4d0c-8d3e-2f6f0f1b7a11",
        },
        "spec": jobs::spec(1, 3),
        "status": {"phase": "Pending", "observedGeneration": -1},
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_two_kilobytes() {
        let length = sample().len();
        assert!((1900..2200).contains(&length), "{length}");
    }
}
