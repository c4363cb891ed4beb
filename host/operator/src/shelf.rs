//! Versions of plugins by their digest, beyond what is in memory: what a rollback and a restart begin from.

use std::{path::Path, sync::Arc};

use guesthouse_artifact::{Digest, Store};
use guesthouse_sandbox::{Plugin, Sandbox};

/// Most bytes of plugins that are kept on disk.
const MOST: u64 = 512 << 20;

/// Where the bytes of versions are kept; none: in memory alone.
#[derive(Clone, Default)]
pub(crate) struct Shelf(Option<Store>);

impl Shelf {
    /// In a folder below the cache. One that cannot be used costs rollbacks to what is not in memory, and nothing else.
    pub(crate) fn open(cache: Option<&Path>) -> Self {
        let open = |dir: &Path| Store::open(&dir.join("plugins"), MOST);
        match cache.map(open).transpose() {
            Ok(store) => Self(store),
            Err(error) => {
                tracing::warn!("versions of plugins are not kept on disk: {error}");
                Self(None)
            }
        }
    }

    /// Keeps the bytes of a version that was loaded.
    pub(crate) fn keep(&self, bytes: &[u8]) {
        if let Some(store) = &self.0 {
            store.put(bytes);
        }
    }

    /// Loads a version by its digest; none if its bytes are not to be had, or are refused.
    pub(crate) async fn load(&self, sandbox: Arc<Sandbox>, digest: &str) -> Option<Plugin> {
        let (store, digest) = (self.0.clone()?, digest.parse::<Digest>().ok()?);
        // Reading and compiling take time: never on a thread that others wait for.
        let loaded = tokio::task::spawn_blocking(move || {
            let bytes = store.get(&digest)?;
            let refused =
                |refusal| tracing::warn!(%digest, %refusal, "a version on record cannot be loaded");
            sandbox.load(&bytes).map_err(refused).ok()
        });
        loaded.await.ok().flatten()
    }
}
