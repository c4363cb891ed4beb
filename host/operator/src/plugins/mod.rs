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

use std::sync::Arc;

use guesthouse_artifact::{Store, policy::Policy};
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
}

impl Sources {
    /// Plugins that are loaded at once; they are compiled one at a time anyway.
    pub(crate) const TURNS: usize = 4;
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
pub(crate) struct SourceWatch(JoinHandle<()>);

impl Drop for SourceWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts watching a source.
pub(crate) fn watch(
    source: &PluginSource,
    sources: &Arc<Sources>,
    loaded: UnboundedSender<Loaded>,
) -> SourceWatch {
    let loader = Loader::new(source.clone(), sources.clone(), loaded);
    let source = source.clone();
    SourceWatch(tokio::spawn(async move {
        // The policy holds for as long as the process: what it does not allow is not even asked for.
        if let Err(denied) = loader.allowed() {
            return loader.refuse(denied);
        }
        match source.place() {
            Some(SourcePlace::File(path)) => file::watch(path.into(), loader).await,
            Some(SourcePlace::ConfigMap(at)) => config_map::watch(at.clone(), loader).await,
            Some(SourcePlace::Url(at)) => url::watch(at.to_owned(), loader).await,
            Some(SourcePlace::Oci(at)) => oci::watch(at.to_owned(), loader).await,
            // Refused when the mapping was read.
            None => {}
        }
    }))
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
