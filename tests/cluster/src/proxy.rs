//! A proxy between a host and its API server that does what networks and servers do to their clients.
//!
//! It understands the requests of the Kubernetes API, so a [`Rule`] says which of them a [`Fault`] befalls. Rules are set and
//! taken back while the host runs. Every request is noted with what the server made of it and what the client saw of that: from
//! these notes tests read that a fault took hold, that a healthy run had none, and that nobody asked in a tight loop.

mod answer;
mod gate;
mod request;
mod rule;
mod serve;
mod stream;

use anyhow::{Context, Result};
use gate::Gate;
use kube::client::ConfigExt;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rule::Rules;
use serve::{Door, Upstream};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use gate::Way;
pub use request::{Asked, Target, Verb, Wrote};
pub(crate) use rule::mix;
pub use rule::{Fault, Rule};

/// How the host reaches the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// HTTP/1.1 without TLS: a request has its connection to itself.
    Plain,
    /// HTTP/2 over TLS, as with a real API server: all requests share one connection, and are cut together.
    Tls,
}

/// A running proxy; it stops, and cuts all its connections, when it is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    serving: JoinHandle<()>,
}

/// What all connections share.
pub(crate) struct Shared {
    upstream: Upstream,
    rules: Mutex<Rules>,
    /// Moves with each change of the rules: streams look again.
    changes: watch::Sender<u64>,
    notes: Mutex<Vec<Asked>>,
    gate: Arc<Gate>,
    /// Moves when all connections are to be cut.
    cuts: watch::Sender<u64>,
    /// Objects a page of a list at most; 0: as the client asks.
    page: AtomicUsize,
}

impl Proxy {
    /// Starts one in front of the API server of `kubeconfig`, with that file's credentials, on a free port of the loopback
    /// interface. The host's kubeconfig, without credentials, and a certificate are written into `dir`.
    pub async fn start(kubeconfig: &Path, dir: &Path, wire: Wire) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let tls = config.rustls_client_config().context("TLS to the server")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let door = Door::open(wire, dir)?;
        let own = dir.join(format!("proxy-{}.kubeconfig", address.port()));
        std::fs::write(&own, door.kubeconfig(address).to_string())
            .with_context(|| format!("write {}", own.display()))?;
        let shared = Arc::new(Shared {
            upstream: Upstream::new(config.cluster_url, tls)?,
            rules: Mutex::default(),
            changes: watch::Sender::new(0),
            notes: Mutex::default(),
            gate: Arc::default(),
            cuts: watch::Sender::new(0),
            page: AtomicUsize::new(0),
        });
        let serving = tokio::spawn(serve::accept(shared.clone(), listener, door));
        Ok(Self {
            shared,
            kubeconfig: own,
            serving,
        })
    }

    /// The kubeconfig by which a host comes here.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// Puts a rule in force. Of several that fit a request, the one that was set first counts.
    pub fn set(&self, rule: Rule) {
        self.shared.rules().add(rule);
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// Takes all rules back and lets everything pass. A watch that was made silent stays so: nobody tells its client.
    pub fn heal(&self) {
        self.shared.rules().clear();
        self.shared.gate.open();
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// Lets nothing pass that way until [`Proxy::heal`]. Nothing is lost: it comes late, as with a network that is back.
    pub fn block(&self, way: Way) {
        self.shared.gate.close(way);
    }

    /// Cuts every connection there is.
    pub fn cut_all(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// Makes pages of lists no larger than this, so that a few objects are several pages.
    pub fn page_size(&self, objects: usize) {
        self.shared.page.store(objects, Ordering::Relaxed);
    }

    /// How often each rule that is or was in force struck, by its name; `blocked` is how often [`Proxy::block`] held something up.
    pub fn hits(&self) -> BTreeMap<String, u64> {
        let mut hits = self.shared.rules().hits();
        let held = self.shared.gate.held();
        if held > 0 {
            hits.insert("blocked".to_owned(), held);
        }
        hits
    }

    /// All requests so far that are over, and all streams that began.
    pub fn requests(&self) -> Vec<Asked> {
        self.shared.notes().clone()
    }

    /// How many those are: a position for [`Proxy::since`].
    pub fn mark(&self) -> usize {
        self.shared.notes().len()
    }

    /// Those after a position.
    pub fn since(&self, mark: usize) -> Vec<Asked> {
        let notes = self.shared.notes();
        notes.get(mark..).unwrap_or_default().to_vec()
    }
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notes(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, asked: Asked) {
        self.notes().push(asked);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
        self.cut_all();
    }
}
