//! Where plugins come from, and their way into the sandbox.
//!
//! Each source is watched by a task of its own, which tells the supervisor of every new version: loaded, or refused with the
//! reason. A source that cannot be read, or a plugin that is refused, concerns nobody but the mappings that name it.

use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::Engine as _;
use guesthouse_core::{
    identity::Identity,
    mapping::{ConfigMapKey, PluginSource},
    object::ObjectKey,
};
use guesthouse_sandbox::{Plugin, Sandbox};
use serde::Deserialize;
use tokio::{
    sync::mpsc::{self, UnboundedSender},
    task::JoinHandle,
};

use crate::{
    cluster::{Event, Resource, Scope, Transport, Watch, WatchId, WatchOptions},
    shelf::Shelf,
};

/// Largest file that is read at all, bytes.
const MAX_FILE: u64 = 64 << 20;
/// How often a file is looked at.
const POLL: Duration = Duration::from_millis(500);

/// A new version of a source, or why there is none.
pub(crate) struct Loaded {
    pub(crate) source: PluginSource,
    pub(crate) result: Result<Plugin, String>,
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
    sandbox: Arc<Sandbox>,
    shelf: Shelf,
    transport: &Transport,
    namespace: &str,
    loaded: UnboundedSender<Loaded>,
) -> SourceWatch {
    let loader = Loader {
        source: source.clone(),
        sandbox,
        shelf,
        loaded,
    };
    SourceWatch(match source {
        PluginSource::File(path) => tokio::spawn(watch_file(path.into(), loader)),
        PluginSource::ConfigMap(at) => tokio::spawn(watch_config_map(
            at.clone(),
            transport.clone(),
            namespace.to_owned(),
            loader,
        )),
    })
}

struct Loader {
    source: PluginSource,
    sandbox: Arc<Sandbox>,
    shelf: Shelf,
    loaded: UnboundedSender<Loaded>,
}

impl Loader {
    async fn load(&self, bytes: Vec<u8>) {
        let (sandbox, shelf) = (self.sandbox.clone(), self.shelf.clone());
        // Compiling takes seconds of CPU: never on a thread that others wait for.
        let load = move || sandbox.load(&bytes).inspect(|_| shelf.keep(&bytes));
        let result = tokio::task::spawn_blocking(load).await;
        self.tell(match result {
            Ok(result) => result.map_err(|refusal| refusal.to_string()),
            Err(error) => Err(format!("loading ended early: {error}")),
        });
    }

    fn tell(&self, result: Result<Plugin, String>) {
        let _ = self.loaded.send(Loaded {
            source: self.source.clone(),
            result,
        });
    }
}

/// What tells one version of a file from another without reading it.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    changed: Option<SystemTime>,
    len: u64,
    inode: u64,
}

async fn stamp(path: &Path) -> Result<Stamp, std::io::Error> {
    let meta = tokio::fs::metadata(path).await?;
    // A pipe or a device would be read for ever.
    if !meta.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if meta.len() > MAX_FILE {
        return Err(std::io::Error::other(format!(
            "it has {} bytes, more than the {MAX_FILE} that a plugin may have",
            meta.len()
        )));
    }
    Ok(Stamp {
        changed: meta.modified().ok(),
        len: meta.len(),
        inode: meta.ino(),
    })
}

/// A file counts once it has looked the same twice: a copy that is still being written is not taken for a broken plugin.
async fn watch_file(path: std::path::PathBuf, loader: Loader) {
    let (mut taken, mut last, mut missing) = (None, None, None);
    let mut first = true;
    loop {
        match stamp(&path).await {
            Ok(found) if taken.as_ref() == Some(&found) => {}
            Ok(found) if first || last.as_ref() == Some(&found) => {
                match tokio::fs::read(&path).await {
                    Ok(bytes) => {
                        (taken, missing) = (Some(found), None);
                        loader.load(bytes).await;
                    }
                    Err(error) => say_missing(&loader, &path, &error, &mut missing),
                }
            }
            Ok(found) => last = Some(found),
            Err(error) => {
                (taken, last) = (None, None);
                say_missing(&loader, &path, &error, &mut missing);
            }
        }
        first = false;
        tokio::time::sleep(POLL).await;
    }
}

fn say_missing(loader: &Loader, path: &Path, error: &std::io::Error, said: &mut Option<String>) {
    let why = format!("plugin.file: {} cannot be read: {error}", path.display());
    if said.as_ref() != Some(&why) {
        loader.tell(Err(why.clone()));
        *said = Some(why);
    }
}

async fn watch_config_map(
    at: ConfigMapKey,
    transport: Transport,
    namespace: String,
    loader: Loader,
) {
    let (notices, mut heard) = mpsc::unbounded_channel();
    let scope = Scope::named(namespace.clone(), at.name.clone());
    let resource = Arc::new(config_maps());
    let watch = Watch::spawn(
        WatchId(0),
        transport,
        Identity::Host,
        resource,
        scope,
        WatchOptions::default(),
        notices,
    );
    let key = ObjectKey::new(&namespace, &at.name);
    let mut taken: Option<Result<blake3::Hash, String>> = None;
    while let Some(notice) = heard.recv().await {
        if !matches!(
            notice.event,
            Event::Changed { .. } | Event::Deleted { .. } | Event::Synced
        ) || !watch.is_synced()
        {
            continue;
        }
        let found = watch
            .store()
            .get(&key)
            .ok_or_else(|| "there is no such ConfigMap".to_owned());
        let bytes = found.and_then(|entry| binary(entry.raw(), &at.key));
        let bytes =
            bytes.map_err(|why| format!("plugin.configMap: {}, key {}: {why}", at.name, at.key));
        let version = bytes
            .as_ref()
            .map(|bytes| blake3::hash(bytes))
            .map_err(Clone::clone);
        if taken.as_ref() == Some(&version) {
            continue;
        }
        taken = Some(version);
        match bytes {
            Ok(bytes) => loader.load(bytes).await,
            Err(why) => loader.tell(Err(why)),
        }
    }
}

/// The bytes under a key of `binaryData`.
fn binary(raw: &str, key: &str) -> Result<Vec<u8>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        #[serde(default)]
        binary_data: Option<std::collections::BTreeMap<String, String>>,
    }
    let data: Data = serde_json::from_str(raw).map_err(|error| error.to_string())?;
    let Some(text) = data.binary_data.as_ref().and_then(|data| data.get(key)) else {
        return Err("there is no such key under `binaryData` (kubectl create configmap NAME --from-file=KEY=FILE puts it there)".into());
    };
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|error| error.to_string())
}

/// ConfigMaps as they are served.
pub(crate) fn config_maps() -> Resource {
    Resource {
        group: "".into(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
        has_status: false,
        crd: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_regular_file_or_too_large_is_refused_before_it_is_read() {
        let device = stamp(Path::new("/dev/zero")).await;
        assert!(matches!(device, Err(error) if error.to_string().contains("not a regular file")));
        let path = std::env::temp_dir().join(format!("guesthouse-large-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(MAX_FILE).unwrap();
        let fits = stamp(&path).await.is_ok();
        file.set_len(MAX_FILE + 1).unwrap();
        let large = stamp(&path).await;
        std::fs::remove_file(&path).unwrap();
        assert!(fits);
        assert!(matches!(large, Err(error) if error.to_string().contains("more than")));
    }
}
