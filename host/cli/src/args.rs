//! The command line.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};

use guesthouse_core::units::{Bytes, Span};

use crate::{artifact, crd, diff, drain, exit, new, render, rollback, run, schema};

#[derive(Parser)]
#[command(
    name = "guesthouse",
    version,
    about = "A Kubernetes operator host: controllers as WebAssembly plugins",
    after_help = EXAMPLES
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  guesthouse crd --host | kubectl apply -f -          the kinds the host itself needs
  guesthouse crd plugin.wasm | kubectl apply -f -     the kinds a plugin brings
  guesthouse new greeter --lang go                    a project for a plugin of your own
  guesthouse render plugin.wasm -f object.yaml        what would the host do?
  guesthouse push plugin.wasm registry.example/team/report-job:1.2.0
  guesthouse run --namespace guesthouse-system        serve the mappings of a namespace
  guesthouse diff old.wasm new.wasm -f objects.yaml   what would change?
  guesthouse rollback -n guesthouse-system report-jobs   have the version before serve again
  guesthouse drain -n guesthouse-system report-jobs   let go of the objects of a removed mapping

Exit codes: 0 fine, 1 there are differences, 2 usage, 3 the tool could not work (file, cluster, network), 4 the plugin was refused.";

#[derive(Subcommand)]
enum Command {
    /// Serve the mappings of a namespace until SIGTERM.
    Run(RunArgs),
    /// Make a project for a plugin: source, test, SDK, and what to apply.
    New(NewArgs),
    /// Print what the host would do for an object, without a cluster.
    Render(RenderArgs),
    /// Show what another version of a plugin decides otherwise, object by object.
    Diff(DiffArgs),
    /// Have an older version of a mapping's plugin serve again.
    Rollback(RollbackArgs),
    /// Print CustomResourceDefinitions as YAML.
    Crd(CrdArgs),
    /// Print a JSON Schema of the contract, of a mapping or of a policy.
    Schema {
        /// Which one.
        #[arg(value_enum)]
        of: SchemaOf,
    },
    /// Put a plugin into a registry.
    Push(artifact::PushArgs),
    /// Get a plugin out of a registry.
    Pull(artifact::PullArgs),
    /// Take finalizers off the objects of mappings, without their plugins' clean-up.
    Drain(DrainArgs),
    /// List the points at which tests kill the host, one a line.
    #[cfg(feature = "crash-points")]
    #[command(hide = true)]
    CrashPoints,
    /// Compile a plugin; run by the host as a child with limits of its own.
    #[command(hide = true)]
    Compile {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// The committed schemas.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum SchemaOf {
    /// What a plugin sees.
    Observation,
    /// What a plugin answers.
    Decision,
    /// What a command prints of itself.
    Descriptor,
    /// One key of a mappings ConfigMap.
    Mapping,
    /// The file of `guesthouse run --policy`.
    Policy,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  guesthouse run
  guesthouse run --namespace guesthouse-system --cache /var/cache/guesthouse
  guesthouse run --policy /etc/guesthouse/policy.yaml  only plugins that this allows
  GUESTHOUSE_LOG=debug guesthouse run                 every pass
  GUESTHOUSE_LOG=guesthouse::step=trace guesthouse run   every step with its content

The cluster is found as kubectl finds it: KUBECONFIG, ~/.kube/config, or the pod's service account.")]
pub(crate) struct RunArgs {
    /// Namespace of mappings, plugins in ConfigMaps and journals [default: the kubeconfig's].
    #[arg(short, long, env = "GUESTHOUSE_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Passes at once, over all mappings.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: u16,
    /// Http effects in flight at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) http_in_flight: u16,
    /// Requests to the API server in flight at once.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) api_in_flight: u16,
    /// How long a mapping must be gone before its finalizers are taken off; for tests.
    #[arg(long, hide = true, default_value = "60s", value_parser = str::parse::<Span>)]
    pub(crate) removal_grace: Span,
    /// Where compiled plugins are kept [default: compiled anew at each start].
    #[arg(long, env = "GUESTHOUSE_CACHE_DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// How long a plugin is not called before its native code is given up; the next call brings it back from the cache.
    #[arg(long, default_value = "10m", value_parser = str::parse::<Span>)]
    pub(crate) plugin_idle: Span,
    /// Where metrics are served, as in 127.0.0.1:9464 [default: nowhere].
    #[arg(long, env = "GUESTHOUSE_METRICS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Where plugins are kept as they came, so that a restart needs no network [default: the folder `plugins` in that of
    /// --cache].
    #[arg(long, env = "GUESTHOUSE_PLUGIN_CACHE_DIR")]
    pub(crate) plugin_cache: Option<PathBuf>,
    /// Most that is kept there; what was used longest ago goes first.
    #[arg(long, default_value = "1Gi", value_parser = str::parse::<Bytes>)]
    pub(crate) plugin_cache_size: Bytes,
    /// YAML file that says which plugins may be loaded at all: from where, by which digest, signed by whom
    /// [default: any].
    #[arg(long, env = "GUESTHOUSE_POLICY")]
    pub(crate) policy: Option<PathBuf>,
    /// A name that no other replica has at the same time; a process started under it takes over at once what an earlier
    /// one of that name left behind [default: the machine's name and something random].
    #[arg(long, env = "GUESTHOUSE_REPLICA_NAME", value_parser = replica_name)]
    pub(crate) replica_name: Option<String>,
    /// Whether the mappings are shared with other replicas by Leases; `off` only where there is one host at a time, as in
    /// development.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) leases: OnOff,
    /// How long a replica's Lease lasts, in seconds.
    #[arg(long, hide = true, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) lease_seconds: u16,
    /// How the log is written.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// A switch.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum OnOff {
    /// Yes.
    On,
    /// No.
    Off,
}

/// What can stand in a Lease's name.
fn replica_name(text: &str) -> Result<String, String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edge = |c: Option<char>| c.is_some_and(|c| c != '-');
    let fits = text.len() <= 63 && text.chars().all(inner);
    if fits && edge(text.chars().next()) && edge(text.chars().next_back()) {
        Ok(text.to_owned())
    } else {
        Err(
            "a replica's name is a DNS label: at most 63 of a-z, 0-9 and `-`, not at the ends"
                .to_owned(),
        )
    }
}

/// Form of the log.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  guesthouse render plugin.wasm -f job.yaml
  guesthouse render plugin.wasm -f job.yaml --mapping report-jobs.yaml
  guesthouse render plugin.wasm -f job.yaml --mapping report-jobs.yaml --receipts receipts.yaml --now 2026-11-29T21:53:00Z

A plugin with a config needs --mapping: a mappings ConfigMap with one key, or the text of one.

RECEIPTS is a list as in an observation:
  - {effect: export, state: {answered: {code: 201, body: {text: '{}'}, at: '2026-11-29T21:53:00Z'}}}

Http effects without a receipt end the rendering: what follows depends on their answers.")]
pub(crate) struct RenderArgs {
    /// The plugin's WebAssembly file.
    pub(crate) plugin: PathBuf,
    /// The object, as YAML or JSON; `-` is stdin.
    #[arg(short = 'f', long = "filename")]
    pub(crate) object: PathBuf,
    /// The mapping [default: no config, and the grants that the plugin itself asks for].
    #[arg(short, long)]
    pub(crate) mapping: Option<PathBuf>,
    /// Namespace of the host, where the mapping's service account lies.
    #[arg(short, long, default_value = "guesthouse-system")]
    pub(crate) namespace: String,
    /// Receipts of http effects.
    #[arg(short, long)]
    pub(crate) receipts: Option<PathBuf>,
    /// Objects that its needs and children are answered from, several documents to a file; may be given more than once.
    #[arg(long)]
    pub(crate) related: Vec<PathBuf>,
    /// CustomResourceDefinition of the kind [default: the one the plugin brings].
    #[arg(long)]
    pub(crate) crd: Option<PathBuf>,
    /// When the pass begins, RFC 3339 [default: now].
    #[arg(long)]
    pub(crate) now: Option<String>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  guesthouse crd plugin.wasm | kubectl apply -f -
  guesthouse crd --host | kubectl apply -f -")]
pub(crate) struct CrdArgs {
    /// The plugin's WebAssembly file.
    #[arg(required_unless_present = "host", conflicts_with = "host")]
    pub(crate) plugin: Option<PathBuf>,
    /// Those of the host itself.
    #[arg(long)]
    pub(crate) host: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  guesthouse drain -n guesthouse-system report-jobs --dry-run    which objects are held?
  guesthouse drain -n guesthouse-system report-jobs              let them go
  guesthouse drain -n guesthouse-system --all                    before the host is uninstalled

Stop the host or remove the mapping first: a mapping that serves puts its finalizer on again.
Children and journals stay. What the plugin would have cleaned up is yours to clean up.")]
pub(crate) struct DrainArgs {
    /// The mappings.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) mappings: Vec<String>,
    /// Every mapping that has a finalizer on some object.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only say which objects are held.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Namespace of the host, where the journals lie [default: the kubeconfig's].
    #[arg(short, long, env = "GUESTHOUSE_NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

/// Languages with an SDK.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Lang {
    /// A core module, by cargo alone.
    Rust,
    /// A command, by the official Go.
    Go,
    /// A component, by npm: JavaScript or TypeScript.
    Js,
    /// A component, by componentize-py.
    Python,
    /// A command, by clang.
    C,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  guesthouse new greeter --lang rust
  guesthouse new nightly-backup --lang python --group acme.io
  guesthouse new greeter --lang go --kind Greeting --dir plugins/greeter

The plugin's kind is GROUP/v1 KIND. Nothing is written over: the folder must be new or empty.")]
pub(crate) struct NewArgs {
    /// The plugin's name, as in report-job.
    pub(crate) name: String,
    /// The language it is written in.
    #[arg(short, long, value_enum)]
    pub(crate) lang: Lang,
    /// The kind it serves [default: the name in CamelCase].
    #[arg(short, long)]
    pub(crate) kind: Option<String>,
    /// The kind's group.
    #[arg(short, long, default_value = "example.com")]
    pub(crate) group: String,
    /// The folder [default: the name].
    #[arg(short, long)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  guesthouse diff old.wasm new.wasm -f jobs.yaml --mapping report-jobs.yaml
  guesthouse diff old.wasm new.wasm --from-cluster report-jobs -n guesthouse-system
  guesthouse diff old.wasm new.wasm --from-cluster report-jobs -o json | jq .objects

Both are asked with everything they want withheld, up to their checked plan: nothing is written or sent. From a cluster
the objects of the mapping are read, what the host has on record of them, and what they need beside them, as whoever
runs this. What hangs on answers to requests is not comparable.

Exit codes: 0 they decide the same, 1 they do not, 2 usage, 3 the tool could not work, 4 a plugin was refused.")]
pub(crate) struct DiffArgs {
    /// The WebAssembly file of the version that serves.
    pub(crate) old: PathBuf,
    /// That of the other one.
    pub(crate) new: PathBuf,
    /// Objects as YAML or JSON, several documents to a file; may be given more than once.
    #[arg(
        short = 'f',
        long = "filename",
        required_unless_present = "from_cluster"
    )]
    pub(crate) objects: Vec<PathBuf>,
    /// The live objects of this mapping instead; the cluster is found as kubectl finds it.
    #[arg(long, value_name = "MAPPING", conflicts_with_all = ["objects", "mapping", "related", "crd"])]
    pub(crate) from_cluster: Option<String>,
    /// Most objects of a cluster that are asked about.
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    /// The mapping's file [default: no config, and the grants that NEW itself asks for].
    #[arg(short, long)]
    pub(crate) mapping: Option<PathBuf>,
    /// Namespace of the host [default: the kubeconfig's].
    #[arg(short, long, env = "GUESTHOUSE_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Objects that needs and children are answered from; may be given more than once.
    #[arg(long)]
    pub(crate) related: Vec<PathBuf>,
    /// CustomResourceDefinition of the kind [default: the one NEW brings].
    #[arg(long)]
    pub(crate) crd: Option<PathBuf>,
    /// When the passes begin, RFC 3339 [default: now].
    #[arg(long)]
    pub(crate) now: Option<String>,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: DiffForm,
}

/// Form of the differences.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum DiffForm {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl get mappings -n guesthouse-system                               what serves?
  kubectl get mapping report-jobs -n guesthouse-system -o yaml            what did? (status.history)
  guesthouse rollback -n guesthouse-system report-jobs                    the version before
  guesthouse rollback -n guesthouse-system report-jobs --to sha256:0123456789ab
  guesthouse rollback -n guesthouse-system report-jobs --undo             what the source brings

It is an annotation on the mapping's ConfigMap (pin.guesthouse.dev/report-jobs), so it lasts until --undo.
The version's bytes come from the host's memory or from the store in its cache folder.")]
pub(crate) struct RollbackArgs {
    /// The mapping.
    pub(crate) mapping: String,
    /// The version, by its digest or by as much of it as tables show [default: the one that served before].
    #[arg(long, conflicts_with = "undo")]
    pub(crate) to: Option<String>,
    /// Let the newest version of the source serve again.
    #[arg(long)]
    pub(crate) undo: bool,
    /// Namespace of the host, where the mappings lie [default: the kubeconfig's].
    #[arg(short, long, env = "GUESTHOUSE_NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

/// Reads the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => exit::code(run::run(&args)),
        Command::New(args) => exit::code(new::run(&args)),
        Command::Push(args) => exit::code(artifact::push(&args)),
        Command::Pull(args) => exit::code(artifact::pull(&args)),
        Command::Drain(args) => exit::code(drain::run(&args)),
        Command::Render(args) => exit::code(render::run(&args)),
        Command::Diff(args) => exit::compared(diff::run(&args)),
        Command::Rollback(args) => exit::code(rollback::run(&args)),
        Command::Crd(args) => exit::code(crd::run(&args)),
        Command::Schema { of } => exit::code(schema::run(of)),
        #[cfg(feature = "crash-points")]
        Command::CrashPoints => {
            for point in guesthouse_operator::crash::POINTS {
                println!("{point}");
            }
            ExitCode::SUCCESS
        }
        Command::Compile { args } => guesthouse_sandbox::compile_child_main(args),
    }
}
