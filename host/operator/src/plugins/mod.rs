//! Where plugins come from, and their way into the sandbox.
//!
//! Each source is watched by a task of its own, which tells the supervisor of every new version: loaded, or refused with the
//! reason. A source that cannot be read, or a plugin that is refused, concerns nobody but the mappings that name it. Whatever
//! the place, bytes go one way: [`loader`] has them judged by the host's policy and by the mapping's demands, keeps them on
//! disk, and loads them.

mod config_map;
mod file;
mod loader;
mod oci;
mod texts;
mod url;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use guesthouse_artifact::{Digest, Pin, Store, policy::Policy};
use guesthouse_core::{
    mapping::{PluginSource, SourcePlace},
    units::Span,
};
use guesthouse_sandbox::{Plugin, Sandbox};
use tokio::{
    sync::{Semaphore, mpsc::UnboundedSender},
    task::JoinHandle,
};

use crate::cluster::{Api, Resource, Transport};
use loader::Loader;
pub(crate) use loader::kept;

/// Largest plugin, bytes, before it is unpacked and after.
const MAX_PLUGIN: u64 = 64 << 20;
/// How often a place is asked again that cannot be watched, unless the mapping says.
const INTERVAL: Span = Span::from_secs(300);
/// Largest signature beside a plugin, bytes.
const MAX_SIGNATURE: u64 = 256 << 10;

/// What all sources are read with.
pub(crate) struct Sources {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) transport: Transport,
    pub(crate) api: Api,
    /// The host's own.
    pub(crate) namespace: String,
    pub(crate) policy: Arc<Policy>,
    /// None: nothing is kept on disk.
    pub(crate) store: Option<Store>,
    /// Held while a plugin is loaded, which happens on a thread that others need too.
    pub(crate) turns: Arc<Semaphore>,
    /// What serves although its source has another version by now.
    pub(crate) pins: Pins,
}

impl Sources {
    /// Plugins that are loaded at once; they are compiled one at a time anyway.
    pub(crate) const TURNS: usize = 4;
}

/// Versions that came out of the store, held there for as long as their source is watched: of each the last few, which are all that
/// a mapping keeps at hand.
#[derive(Default)]
pub(crate) struct Pins(Mutex<BTreeMap<PluginSource, VecDeque<(Digest, Pin)>>>);

impl Pins {
    const EACH: usize = 3;

    fn hold(&self, source: &PluginSource, digest: Digest, pin: Pin) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pins = all.entry(source.clone()).or_default();
        pins.retain(|(held, _)| *held != digest);
        pins.push_back((digest, pin));
        if pins.len() > Self::EACH {
            pins.pop_front();
        }
    }

    fn let_go(&self, source: &PluginSource) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(source);
    }
}

/// A plugin and where it came from.
#[derive(Clone)]
pub(crate) struct Good {
    pub(crate) plugin: Plugin,
    /// The place with all that is known of it: the manifest's digest, who signed.
    pub(crate) origin: String,
}

/// A new version of a source, or why there is none.
pub(crate) struct Loaded {
    pub(crate) source: PluginSource,
    pub(crate) result: Result<Good, String>,
}

/// A source that is being watched; dropping it ends the watch.
pub(crate) struct SourceWatch {
    task: JoinHandle<()>,
    source: PluginSource,
    sources: Arc<Sources>,
}

impl Drop for SourceWatch {
    fn drop(&mut self) {
        self.task.abort();
        self.sources.pins.let_go(&self.source);
    }
}

/// Starts watching a source.
pub(crate) fn watch(
    source: &PluginSource,
    sources: &Arc<Sources>,
    loaded: UnboundedSender<Loaded>,
) -> SourceWatch {
    let loader = Loader::new(source.clone(), sources.clone(), loaded);
    let at = source.clone();
    let task = tokio::spawn(async move {
        // The policy holds for as long as the process: what it does not allow is not even asked for.
        if let Err(denied) = loader.allowed() {
            return loader.refuse(denied);
        }
        match at.place() {
            Some(SourcePlace::File(path)) => file::watch(path.into(), loader).await,
            Some(SourcePlace::ConfigMap(at)) => config_map::watch(at.clone(), loader).await,
            Some(SourcePlace::Url(at)) => url::watch(at.to_owned(), loader).await,
            Some(SourcePlace::Oci(at)) => oci::watch(at.to_owned(), loader).await,
            // Refused when the mapping was read.
            None => {}
        }
    });
    SourceWatch {
        task,
        source: source.clone(),
        sources: sources.clone(),
    }
}

/// ConfigMaps as they are served.
pub(crate) fn config_maps() -> Resource {
    core("ConfigMap", "configmaps")
}

/// A kind of the core group.
fn core(kind: &str, plural: &str) -> Resource {
    Resource {
        group: "".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        namespaced: true,
        has_status: false,
        crd: None,
    }
}
