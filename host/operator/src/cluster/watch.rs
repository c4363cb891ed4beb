//! Watches: one store, kept in step with the API server for one kind and scope, whatever happens to server and network.
//!
//! Flow: list (streamed by WatchList where the server offers it, else in pages) → follow events from the list's version →
//! after a normal end, a silence or a cut go on from the last version → after "too old" list again and tell what went.
//! Guarantees: a notice is sent after the store was updated; every change reaches the store or the state says why not; a
//! list is never whole and never from an older state than the most recent; a missing kind, missing rights or a dead
//! connection end nothing, they are retried and visible in [`KindState`].
//! Assumption: the receiver of the notices keeps taking them. The channel is unbounded, since holding back a watch would end
//! it at the server, and a notice is one pointer and two numbers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use guesthouse_core::identity::Identity;
use guesthouse_core::object::ObjectKey;
use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use super::request::View;
use super::resource::{Resource, encode};
use super::store::Store;
use super::transport::Transport;

mod course;
mod decode;
mod run;
#[cfg(test)]
mod scenarios;

/// Names a watch in its notices; chosen by whoever starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u64);

/// Which objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Scope {
    /// One namespace; empty for all of them, and for cluster-scoped kinds.
    pub namespace: String,
    /// One name.
    pub name: Option<String>,
    /// A label selector in the API's own syntax.
    pub labels: Option<String>,
}

impl Scope {
    /// Every object the kind has.
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects of one namespace.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            ..Self::default()
        }
    }

    /// One object; `namespace` is empty for cluster-scoped kinds.
    pub fn named(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: Some(name.into()),
            labels: None,
        }
    }

    /// The same, with a label selector.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..self
        }
    }

    /// Appends the selectors as `&parameter=value`.
    pub(crate) fn push_query(&self, path: &mut String) {
        if let Some(name) = &self.name {
            path.push_str("&fieldSelector=metadata.name%3D");
            encode(path, name);
        }
        if let Some(labels) = &self.labels {
            path.push_str("&labelSelector=");
            encode(path, labels);
        }
    }
}

/// What the watch of a kind is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindState {
    /// The first list is not complete yet.
    Waiting,
    /// The store is in step.
    Active,
    /// The kind has not been served since the watch began; asked for again and again.
    Absent,
    /// The kind was served and is not any more; asked for again and again.
    Gone,
    /// 401 or 403, with the server's words. The store keeps what it had.
    Forbidden(Arc<str>),
    /// No answer or a server error, with its words. The store keeps what it had.
    Unreachable(Arc<str>),
}

impl KindState {
    /// The state's name, fit for a metric label.
    pub fn name(&self) -> &'static str {
        match self {
            KindState::Waiting => "waiting",
            KindState::Active => "active",
            KindState::Absent => "absent",
            KindState::Gone => "gone",
            KindState::Forbidden(_) => "forbidden",
            KindState::Unreachable(_) => "unreachable",
        }
    }
}

/// What happened; the store already shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An object was added or changed.
    Changed {
        /// The object.
        key: ObjectKey,
        /// The version the server told of, 0 if it is no number; an own write's echo has the version its answer had.
        version: u64,
        /// Whether it came with the first list (or the first after the kind appeared) and not live.
        initial: bool,
    },
    /// An object is gone.
    Deleted {
        /// The object.
        key: ObjectKey,
    },
    /// A list is complete: the store holds everything there is.
    Synced,
    /// The state changed.
    State(KindState),
}

/// An event and the watch it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The watch.
    pub watch: WatchId,
    /// What happened.
    pub event: Event,
}

/// Delays and sizes of a watch.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// A connection without one byte for this long is given up. Servers send a bookmark about every minute.
    pub idle: Duration,
    /// The longest the server shall keep one watch open; each asks for up to a fifth less.
    pub lifetime: Duration,
    /// How often a missing kind is asked for.
    pub poll: Duration,
    /// The first delay after a failure; doubles up to `backoff_max`.
    pub backoff: Duration,
    /// The longest delay after a failure.
    pub backoff_max: Duration,
    /// Objects a page, where the list is not streamed.
    pub page: usize,
    /// The longest event line taken, in bytes.
    pub line: usize,
    /// Where jitter is derived from: the same seed gives the same delays.
    pub seed: u64,
    /// How much of each object is asked for and kept.
    pub view: View,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(90),
            lifetime: Duration::from_secs(320),
            poll: Duration::from_secs(3),
            backoff: Duration::from_millis(200),
            backoff_max: Duration::from_secs(10),
            page: 500,
            line: 8 << 20,
            seed: 0,
            view: View::Object,
        }
    }
}

/// A running watch. Dropping it ends the watch; the store stays readable.
#[derive(Debug)]
pub struct Watch {
    store: Arc<Store>,
    status: Arc<Status>,
    task: JoinHandle<()>,
}

/// What a watch shows of itself.
#[derive(Debug)]
pub(crate) struct Status {
    state: RwLock<KindState>,
    synced: AtomicBool,
    /// Milliseconds since 1970, 0 before the first line.
    last_event: AtomicI64,
    lists: AtomicU64,
}

impl Watch {
    /// Starts watching. Needs a tokio runtime.
    pub fn spawn(
        id: WatchId,
        transport: Transport,
        identity: Identity,
        resource: Arc<Resource>,
        scope: Scope,
        options: WatchOptions,
        notices: UnboundedSender<Notice>,
    ) -> Self {
        let store = Arc::new(Store::default());
        let status = Arc::new(Status {
            state: RwLock::new(KindState::Waiting),
            synced: AtomicBool::new(false),
            last_event: AtomicI64::new(0),
            lists: AtomicU64::new(0),
        });
        let lane = transport.lane();
        let runner = run::Runner::new(
            run::Target {
                id,
                transport,
                lane,
                identity,
                resource,
                scope,
                options,
            },
            store.clone(),
            status.clone(),
            notices,
        );
        Self {
            store,
            status,
            task: tokio::spawn(runner.run()),
        }
    }

    /// The objects.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The state now.
    pub fn state(&self) -> KindState {
        self.status
            .state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether a list has been completed since the kind was last absent: only then does absence from the store mean anything.
    pub fn is_synced(&self) -> bool {
        self.status.synced.load(Ordering::Acquire)
    }

    /// When the server last sent anything, bookmarks included; `None` before the first time. Its age is a metric: an old one
    /// means a watch that is dead without knowing.
    pub fn last_event(&self) -> Option<Timestamp> {
        let at = self.status.last_event.load(Ordering::Relaxed);
        if at == 0 {
            None
        } else {
            Timestamp::from_millisecond(at).ok()
        }
    }

    /// Complete lists so far; every one after the first followed a loss of the watch's place.
    pub fn lists(&self) -> u64 {
        self.status.lists.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
