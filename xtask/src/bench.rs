//! `cargo xtask bench`: the host against a native controller, in the same run and on the same API server.
//!
//! Rounds are interleaved, so that a machine that slows down does so for all; every figure is the median of the rounds. What is
//! measured how stands in `docs/performance.md`, whose table a full run replaces.

mod environment;
mod start;
mod tables;

use crate::artifacts::{cargo, guest_plugins, root, run as run_command, target_dir};
use crate::languages;
use crate::setup;
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use guesthouse_local::{Cluster, Component, Options};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use tables::Results;

/// Namespace of the mapping; the objects are in `default`.
const NAMESPACE: &str = "guesthouse-bench";

/// Measure the host against a native controller on a real API server, and the call of a plugin alone.
#[derive(Parser)]
#[command(after_help = "\
A full run (about seven minutes once built) writes its figures into docs/performance.md and every single measurement to
target/bench/results.jsonl. Figures are only worth something on a machine that does nothing else: the column `others` says
how many cores other processes used meanwhile.

Examples:
  cargo xtask bench                             everything, three rounds
  cargo xtask bench --quick                     one round of less, nothing written
  cargo xtask bench --only call                 the call of a plugin alone, no cluster")]
pub(crate) struct Args {
    /// One round of fewer objects; docs/performance.md stays as it is.
    #[arg(long)]
    quick: bool,
    /// Only these parts; docs/performance.md stays as it is.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Objects are there, the controller starts: time and CPU until all are done.
    Drain,
    /// Objects come at a rate: time from creation to done.
    Latency,
    /// Settled objects: memory.
    Idle,
    /// A hundred mappings with plugins of their own, an object for each: time from the host's start.
    Start,
    /// A plugin's call without cluster and host.
    Call,
}

/// How much of it.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    pub(crate) drain: usize,
    pub(crate) rate: usize,
    pub(crate) seconds: usize,
    pub(crate) idle: usize,
    pub(crate) calls: usize,
}

const FULL: Size = Size {
    rounds: 3,
    drain: 2_000,
    rate: 20,
    seconds: 16,
    idle: 20_000,
    calls: 20_000,
};
const QUICK: Size = Size {
    rounds: 1,
    drain: 1_000,
    rate: 20,
    seconds: 8,
    idle: 4_000,
    calls: 5_000,
};

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let size = if args.quick { QUICK } else { FULL };
    let wanted = |part: Part| args.only.is_empty() || args.only.contains(&part);
    let binaries = setup::ensure_all()?;
    let built = build()?;
    let work = target_dir().join("bench");
    std::fs::create_dir_all(&work).with_context(|| format!("make {}", work.display()))?;
    let started = Instant::now();
    let mut results = Results::new(&work.join("results.jsonl"))?;
    if wanted(Part::Call) {
        call(&built, &size, &mut results)?;
    }
    let on_a_cluster = [Part::Drain, Part::Latency, Part::Idle, Part::Start];
    if on_a_cluster.into_iter().any(wanted) {
        let cluster = Cluster::start(&binaries, Options::new(work.join("cluster")))?;
        let bench = Bench::new(&built, &cluster, work)?;
        bench.install()?;
        bench.warm_up()?;
        if wanted(Part::Drain) {
            bench.drain(&size, &mut results)?;
        }
        if wanted(Part::Latency) {
            bench.latency(&size, &mut results)?;
        }
        if wanted(Part::Start) {
            bench.start(size.rounds, &mut results)?;
        }
        // Last: its objects stay.
        if wanted(Part::Idle) {
            bench.idle(&size, &mut results)?;
        }
        drop(bench);
        cluster.stop()?;
    }
    let report = tables::report(&results);
    println!("\n{report}");
    println!("measured in {} s", started.elapsed().as_secs());
    if !args.quick && args.only.is_empty() {
        let environment = environment::describe(&binaries.kubernetes_version()?)?;
        tables::write(&root().join("docs/performance.md"), &environment, &report)?;
        println!("written to docs/performance.md");
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the programs are.
struct Built {
    host: PathBuf,
    load: PathBuf,
    native: PathBuf,
    plugins: PathBuf,
}

fn build() -> Result<Built> {
    let plugins = guest_plugins()?;
    languages::ensure(false)?;
    // The whole workspace at once: chosen packages would be built with other features, and so once more.
    run_command(cargo().args(["build", "--release", "--workspace", "--bins"]))?;
    let target = target_dir().join("bench-native");
    let mut native = cargo();
    native.args(["build", "--release", "--locked", "--manifest-path"]);
    native.arg(root().join("bench/native/Cargo.toml"));
    native.arg("--target-dir").arg(&target);
    run_command(&mut native)?;
    let release = target_dir().join("release");
    Ok(Built {
        host: release.join("guesthouse"),
        load: release.join("guesthouse-bench"),
        native: target.join("release/bench-native"),
        plugins,
    })
}

/// The call path of the example plugin and of the benchmark's own.
fn call(built: &Built, size: &Size, results: &mut Results) -> Result<()> {
    let calls = size.calls.to_string();
    for _ in 0..size.rounds {
        for (plugin, config) in [
            ("report_job", r#"{"exporter":"http://exporter.reports"}"#),
            ("peer_plugin", "{}"),
        ] {
            let mut command = Command::new(&built.load);
            command
                .arg("call")
                .arg(built.plugins.join(format!("{plugin}.wasm")));
            command.args(["--config", config, "-n", &calls]);
            results.take(&output(&mut command)?)?;
        }
        for (language, file) in tables::LANGUAGES {
            let guest = built.plugins.join(file);
            if !guest.is_file() {
                eprintln!("*** SKIPPED: no guest in {language}: see cargo xtask languages ***");
                continue;
            }
            let mut command = Command::new(&built.load);
            command.arg("call").arg(guest).args(["--name", language]);
            command.arg("--object").arg(root().join("bench/case.json"));
            command.args(["-n", &(size.calls / 20).to_string()]);
            results.take(&output(&mut command)?)?;
        }
    }
    Ok(())
}

/// A controller under test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Native,
    Native32,
    Host,
    /// The host with a hundred mappings.
    HostOfMany,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Native => tables::NATIVE,
            Who::Native32 => tables::NATIVE_32,
            Who::Host => tables::HOST,
            Who::HostOfMany => tables::HOST_OF_MANY,
        }
    }
}

impl Who {
    /// Where the host finds its mappings.
    fn namespace(self) -> &'static str {
        match self {
            Who::HostOfMany => start::NAMESPACE,
            _ => NAMESPACE,
        }
    }
}

struct Bench<'a> {
    built: &'a Built,
    cluster: &'a Cluster,
    work: PathBuf,
    server_pid: u32,
    beside: Vec<u32>,
}

impl<'a> Bench<'a> {
    fn new(built: &'a Built, cluster: &'a Cluster, work: PathBuf) -> Result<Self> {
        let pids = cluster.pids();
        let server = pids.iter().find(|(c, _)| *c == Component::KubeApiserver);
        let beside = pids.iter().filter(|(c, _)| *c != Component::KubeApiserver);
        Ok(Self {
            built,
            cluster,
            work,
            server_pid: server.context("the API server does not run")?.1,
            beside: beside.map(|(_, pid)| *pid).collect(),
        })
    }

    /// The kind, the host's own kinds and the mapping.
    fn install(&self) -> Result<()> {
        let crd = root().join("bench/crd.yaml");
        self.apply(&std::fs::read_to_string(&crd).context("read bench/crd.yaml")?)?;
        self.apply(&output(
            Command::new(&self.built.host).args(["crd", "--host"]),
        )?)?;
        let plugin = self.built.plugins.join("peer_plugin.wasm");
        self.apply(&mapping(&plugin.display().to_string()).to_string())?;
        let mut wait = self.cluster.kubectl();
        wait.args([
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ]);
        output(&mut wait)?;
        Ok(())
    }

    fn apply(&self, text: &str) -> Result<()> {
        let mut kubectl = self.cluster.kubectl();
        kubectl
            .args(["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = kubectl.spawn().context("start kubectl")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text.as_bytes()).context("feed kubectl")?;
        }
        let status = child.wait().context("wait for kubectl")?;
        if !status.success() {
            bail!("kubectl apply: {status}");
        }
        Ok(())
    }

    /// Compiled code into the host's cache, programs into the page cache; not measured.
    fn warm_up(&self) -> Result<()> {
        for who in [Who::Native, Who::Host] {
            self.measure("drain", &["-n", "50"], Some(who))?;
            self.measure("delete", &[], None)?;
        }
        Ok(())
    }

    fn drain(&self, size: &Size, results: &mut Results) -> Result<()> {
        let n = size.drain.to_string();
        for _ in 0..size.rounds {
            for who in [Who::Native, Who::Host, Who::Native32] {
                results.take(&self.measure("drain", &["-n", &n], Some(who))?)?;
                self.measure("delete", &[], None)?;
            }
        }
        Ok(())
    }

    fn latency(&self, size: &Size, results: &mut Results) -> Result<()> {
        let (rate, seconds) = (size.rate.to_string(), size.seconds.to_string());
        let args = ["--rate", &rate, "--seconds", &seconds];
        for _ in 0..size.rounds {
            for who in [Who::Native, Who::Host] {
                results.take(&self.measure("latency", &args, Some(who))?)?;
                self.measure("delete", &[], None)?;
            }
        }
        Ok(())
    }

    /// One round: memory hardly varies, and making the objects takes a while.
    fn idle(&self, size: &Size, results: &mut Results) -> Result<()> {
        let n = size.idle.to_string();
        self.measure("create", &["--done", "--big", "-n", &n], None)?;
        for who in [Who::Native, Who::Host] {
            results.take(&self.measure("idle", &[], Some(who))?)?;
        }
        Ok(())
    }

    /// One run of the load program, with a controller or without.
    fn measure(&self, verb: &str, args: &[&str], who: Option<Who>) -> Result<String> {
        let mut command = Command::new(&self.built.load);
        command
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .arg(verb)
            .args(args);
        if let Some(who) = who {
            let log = self
                .work
                .join(format!("{}.log", who.name().replace([' ', ','], "-")));
            command
                .args(["--name", who.name()])
                .arg("--log")
                .arg(log)
                .args(["--server-pid", &self.server_pid.to_string()]);
            for pid in &self.beside {
                command.args(["--beside-pid", &pid.to_string()]);
            }
            command.arg("--");
            match who {
                Who::Native => command.arg(&self.built.native),
                Who::Native32 => command.arg(&self.built.native).env("CONCURRENCY", "32"),
                Who::Host | Who::HostOfMany => command
                    .arg(&self.built.host)
                    .args(["run", "--namespace", who.namespace(), "--cache"])
                    .arg(self.work.join("cache")),
            };
        }
        output(&mut command)
    }
}

/// What a command says on stdout; what it says on stderr the user sees.
fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!("{}: {}", command.get_program().display(), output.status);
    }
    String::from_utf8(output.stdout).context("the output is not UTF-8")
}

/// The namespace and, in it, the mapping to the benchmark's plugin.
fn mapping(plugin: &str) -> serde_json::Value {
    let mapping = serde_json::json!({
        "for": {"apiVersion": "batch.acme.io/v1", "kind": "ReportJob"},
        "plugin": {"file": plugin},
        "serviceAccount": "bench",
    });
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "bench", "namespace": NAMESPACE,
                "labels": {"guesthouse.dev/mappings": "true"},
            },
            // JSON is YAML.
            "data": {"bench.yaml": mapping.to_string()},
        },
    ]})
}
