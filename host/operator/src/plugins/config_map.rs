//! A plugin under a key of a ConfigMap, watched.

use std::sync::Arc;

use guesthouse_artifact::{Evidence, unpack};
use guesthouse_core::{identity::Identity, mapping::ConfigMapKey, object::ObjectKey};
use tokio::sync::mpsc;

use super::{
    MAX_PLUGIN, config_maps,
    loader::{Found, Loader, Pauses},
    texts::Data,
};
use crate::cluster::{Event, Scope, Watch, WatchId, WatchOptions};

/// Follows a key, and `KEY.sig` beside it.
pub(super) async fn watch(at: ConfigMapKey, mut loader: Loader) {
    let (notices, mut heard) = mpsc::unbounded_channel();
    let namespace = loader.sources().namespace.clone();
    let watch = Watch::spawn(
        WatchId(0),
        loader.sources().transport.clone(),
        Identity::Host,
        Arc::new(config_maps()),
        Scope::named(namespace.clone(), at.name.clone()),
        WatchOptions::default(),
        notices,
    );
    let key = ObjectKey::new(&namespace, &at.name);
    let mut taken: Option<Result<blake3::Hash, String>> = None;
    let mut pauses = Pauses::default();
    let mut again = false;
    loop {
        tokio::select! {
            notice = heard.recv() => {
                let Some(notice) = notice else { return };
                if !matches!(notice.event, Event::Changed { .. } | Event::Deleted { .. } | Event::Synced) {
                    continue;
                }
                pauses.reset();
            }
            () = pauses.pause(), if again => {}
        }
        if !watch.is_synced() {
            continue;
        }
        let found = watch
            .store()
            .get(&key)
            .ok_or_else(|| "there is no such ConfigMap".to_owned())
            .and_then(|entry| Packed::of(entry.raw(), &at.key));
        let version = found.as_ref().map(Packed::version).map_err(Clone::clone);
        if taken.as_ref() == Some(&version) {
            continue;
        }
        let found = found.and_then(|packed| packed.found(&at, &loader));
        let offered = match found {
            Ok(found) => loader.offer(found).await.map(drop),
            Err(why) => {
                loader.fail(&why);
                Ok(())
            }
        };
        again = offered.is_err();
        match offered {
            Ok(()) => taken = Some(version),
            Err(why) => loader.fail(&why),
        }
    }
}

/// What lies in the ConfigMap.
struct Packed {
    bytes: Vec<u8>,
    signature: Option<String>,
}

impl Packed {
    fn of(raw: &str, key: &str) -> Result<Self, String> {
        let data = Data::parse(raw)?;
        let Some(bytes) = data.binary(key) else {
            return Err("there is no such key under `binaryData` (kubectl create configmap NAME --from-file=KEY=FILE puts it there)".into());
        };
        Ok(Self {
            bytes: bytes?,
            signature: data.text(&format!("{key}.sig")).ok(),
        })
    }

    fn version(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let signature = self.signature.as_deref().unwrap_or_default();
        hasher.update(&(self.bytes.len() as u64).to_le_bytes());
        hasher.update(&self.bytes).update(signature.as_bytes());
        hasher.finalize()
    }

    fn found(self, at: &ConfigMapKey, loader: &Loader) -> Result<Found, String> {
        let beside = self.signature.map(Evidence::Detached);
        Ok(Found {
            origin: format!("the ConfigMap {}, key {}", at.name, at.key),
            bytes: unpack(self.bytes, MAX_PLUGIN).map_err(|error| error.to_string())?,
            evidence: loader.detached().into_iter().chain(beside).collect(),
            ..Found::default()
        })
    }
}
