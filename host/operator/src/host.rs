//! Puts the host together and runs it.

use std::{
    fs::DirBuilder,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use guesthouse_artifact::{Store, StoreError, policy::Policy};
use guesthouse_core::{
    identity::Identity,
    units::{Bytes, Span},
};
use guesthouse_sandbox::{CacheAt, CacheKey, Compiler, Sandbox, SandboxError, Settings};

use tokio::sync::Semaphore;

use crate::{
    cluster::{Api, Discovery, RequestError, Transport, TransportError, TransportOptions},
    crash,
    credentials::Credentials,
    events::Events,
    executor::Executor,
    journals::Journals,
    leases::{self, LeaseOptions},
    mapping_objects::MappingObjects,
    metrics,
    outgoing::Outgoing,
    plugins::{Pins, Sources},
    related::{Related, RelatedOptions},
    supervisor::{Parts, Supervisor},
    worker::Shop,
};

/// How a host is run.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Namespace of mappings, plugins in ConfigMaps and journals; none: the kubeconfig's.
    pub namespace: Option<String>,
    /// Passes at once, over all mappings.
    pub concurrency: usize,
    /// Http effects in flight at once.
    pub http_in_flight: usize,
    /// Requests to the API server in flight at once.
    pub api_in_flight: usize,
    /// How long a mapping must be gone before its finalizers are taken off its objects.
    pub removal_grace: Span,
    /// Where compiled plugins are kept; none: compiled anew at each start.
    pub cache: Option<PathBuf>,
    /// Where plugins are kept as they came; none: beside the compiled ones, if those are kept.
    pub plugin_cache: Option<PathBuf>,
    /// Most that is kept there.
    pub plugin_cache_size: Bytes,
    /// What the host demands of all plugins.
    pub policy: Policy,
    /// The program that compiles plugins as a child (`PROGRAM compile`); none: in this process.
    pub compiler: Option<PathBuf>,
    /// How long a plugin is not called before its native code is given up; the next call brings it back from the cache.
    pub plugin_idle: Duration,
    /// Where metrics are served; none: nowhere.
    pub metrics: Option<SocketAddr>,
    /// How this replica shares the mappings with others; none: it is alone and has them all.
    pub leases: Option<LeaseOptions>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            namespace: None,
            concurrency: 32,
            http_in_flight: 64,
            api_in_flight: 16,
            removal_grace: Span::from_secs(60),
            cache: None,
            plugin_cache: None,
            plugin_cache_size: Bytes(1 << 30),
            policy: Policy::default(),
            compiler: None,
            plugin_idle: Duration::from_secs(600),
            metrics: None,
            leases: Some(LeaseOptions::default()),
        }
    }
}

/// Why a host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The way to the cluster.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The plugins on disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client of http effects.
    #[error("http client: {0}")]
    Http(#[from] reqwest::Error),
    /// A point or a wrong of a host under test.
    #[error("{0}")]
    Crash(String),
    /// The threads that plugins run on.
    #[error("threads for plugins: {0}")]
    Threads(std::io::Error),
    /// The address of the metrics.
    #[error("metrics: cannot listen on {0}: {1}; name a free one by --metrics")]
    Metrics(SocketAddr, std::io::Error),
}

/// The shortest pause between two looks for plugins that nobody calls.
const LOOK: Duration = Duration::from_secs(1);

/// How long the start waits for the Leases.
const FIRST: Duration = Duration::from_secs(2);

/// Runs a host until `stop` is done; passes that run then come to their end.
pub async fn run(options: HostOptions, stop: impl Future<Output = ()>) -> Result<(), HostError> {
    crash::check().map_err(HostError::Crash)?;
    let transport_options = TransportOptions {
        in_flight: options.api_in_flight,
        ..TransportOptions::default()
    };
    let transport = Transport::infer(transport_options).await?;
    let namespace = options
        .namespace
        .clone()
        .unwrap_or_else(|| transport.default_namespace().to_owned());
    let sandbox = Arc::new(Sandbox::new(settings(&options)?)?);
    if let Some(why) = sandbox.degraded() {
        tracing::warn!("calls are slower than they could be: {why}");
    }
    if let Some(address) = options.metrics {
        let bound = metrics::serve(address, sandbox.clone())
            .await
            .map_err(|error| HostError::Metrics(address, error))?;
        tracing::info!(address = %bound, "metrics are served");
    }
    tokio::spawn(rest(sandbox.clone(), options.plugin_idle));
    let api = Api::new(transport.clone());
    let plugins = Arc::new(Sources {
        sandbox,
        transport: transport.clone(),
        api: api.clone(),
        namespace: namespace.clone(),
        policy: Arc::new(options.policy.clone()),
        store: store(&options)?,
        turns: Arc::new(Semaphore::new(Sources::TURNS)),
        pins: Pins::default(),
    });
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
    let executor = Executor::start(threads).map_err(HostError::Threads)?;
    let outgoing = Outgoing::new(options.http_in_flight)?;
    let instance = std::env::var("HOSTNAME")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "guesthouse".to_owned());
    let events = Events::new(api.clone(), &instance);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), server = %transport.url(), namespace, "guesthouse runs");
    tracing::warn!(
        "effects are made with the host's own credentials: impersonation of each mapping's serviceAccount is not built yet"
    );
    say_if_missing(&api, &namespace).await;
    let discovery = Arc::new(Discovery::new(api.clone()));
    let outgoing = Arc::new(outgoing);
    let credentials = Arc::new(Credentials::new(api.clone(), &namespace));
    let (related, wakes) = Related::start(
        transport.clone(),
        outgoing.clone(),
        credentials.clone(),
        RelatedOptions::default(),
    );
    let mut leases = options
        .leases
        .as_ref()
        .map(|options| leases::start(&transport, &namespace, options));
    if let Some((client, ..)) = &mut leases {
        // What the watches list from here on is as new as what any earlier owner wrote.
        client.first(FIRST).await;
    }
    let parts = Parts {
        leases,
        namespace: namespace.clone(),
        discovery,
        concurrency: options.concurrency.max(1),
        removal_grace: options.removal_grace,
        transport,
        plugins,
        mapping_objects: MappingObjects::new(api.clone(), &namespace),
        wakes,
    };
    let (supervisor, inbox) = Supervisor::new(parts, |watch| Shop {
        journals: Arc::new(Journals::new(api.clone(), &namespace, watch)),
        api,
        related: Arc::new(related),
        executor,
        outgoing,
        credentials,
        events,
    });
    supervisor.run(inbox, stop).await;
    Ok(())
}

/// In a namespace that does not exist everything is empty and nothing can be written: whoever misspelt it should hear so. Whoever
/// may not read namespaces is not told.
async fn say_if_missing(api: &Api, namespace: &str) {
    let read = api
        .read(&Identity::Host, &format!("/api/v1/namespaces/{namespace}"))
        .await;
    if let Err(RequestError::NotFound(_)) = read {
        tracing::error!(
            "the namespace {namespace} does not exist, nothing is passed until it does: kubectl create namespace {namespace}"
        );
    }
}

/// Lets plugins rest that nobody calls; ends with the runtime.
async fn rest(sandbox: Arc<Sandbox>, idle: Duration) {
    let mut looks = tokio::time::interval((idle / 10).max(LOOK));
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let sandbox = sandbox.clone();
        // It looks at files and gives memory back: not for a thread that others wait for.
        let rested = tokio::task::spawn_blocking(move || sandbox.rest(idle)).await;
        if let Ok(plugins @ 1..) = rested {
            tracing::debug!(
                plugins,
                "plugins that nobody calls gave up their native code"
            );
        }
    }
}

fn settings(options: &HostOptions) -> Result<Settings, SandboxError> {
    let cache = match &options.cache {
        Some(dir) => Some(cache(dir)?),
        None => None,
    };
    let compiler = match &options.compiler {
        Some(exe) => Compiler::Child {
            exe: exe.clone(),
            args: vec!["compile".to_owned()],
        },
        None => Compiler::InProcess,
    };
    Ok(Settings {
        cache,
        compiler,
        ..Settings::default()
    })
}

/// Plugins are as large as their code: where that is kept, they are too.
fn store(options: &HostOptions) -> Result<Option<Store>, HostError> {
    let beside = || Some(options.cache.as_ref()?.join("plugins"));
    let dir = options.plugin_cache.clone().or_else(beside);
    let open = |dir: PathBuf| Store::open(&dir, options.plugin_cache_size.0);
    Ok(dir.map(open).transpose()?)
}

/// The key lies beside what it vouches for, in a folder that is made if it is absent.
fn cache(dir: &Path) -> Result<CacheAt, SandboxError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| SandboxError::Cache {
            path: dir.to_owned(),
            problem: error.to_string(),
        })?;
    Ok(CacheAt {
        key: CacheKey::load_or_create(&dir.join("key"))?,
        dir: dir.join("compiled"),
    })
}
