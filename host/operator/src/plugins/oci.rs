//! A plugin in a registry.
//!
//! What was served last is served again at once after a start, from the disk, and judged again; then the registry is asked what
//! the reference stands for, and again after each interval where it is a tag. A registry that does not answer changes nothing
//! of what serves.

use guesthouse_artifact::{
    Access, Digest, DockerConfig, Evidence, Reference, Registry, Resolved, Store,
};
use serde::{Deserialize, Serialize};

use super::{
    INTERVAL, MAX_PLUGIN,
    loader::{Found, Loader, Offered, Pauses, reference},
    texts,
};

/// What a reference stood for.
#[derive(Serialize, Deserialize)]
struct Note {
    manifest: String,
    layer: String,
    evidence: Vec<Evidence>,
}

/// What was last taken: another one of it is another version.
#[derive(Clone, PartialEq, Eq)]
struct Taken {
    manifest: Digest,
    evidence: Vec<Evidence>,
}

/// Follows a reference.
pub(super) async fn watch(text: String, mut loader: Loader) {
    let reference = match reference(&text) {
        Ok(reference) => reference,
        Err(why) => return loader.fail(&why),
    };
    let mut taken = recall(&reference, &mut loader).await;
    let interval = loader.source().interval.unwrap_or(INTERVAL).duration();
    // Not all at once, however many there are.
    let spread = blake3::hash(text.as_bytes()).as_bytes()[0];
    let interval = interval + interval.mul_f64(f64::from(spread) / 2560.0);
    let mut pauses = Pauses::default();
    loop {
        match follow(&reference, &mut loader, &mut taken).await {
            // It stands for this manifest for ever.
            Ok(Offered::Loaded) if reference.digest().is_some() => {
                return std::future::pending().await;
            }
            // One that was refused may be signed later.
            Ok(_) => {
                pauses.reset();
                tokio::time::sleep(interval).await;
            }
            Err(why) => {
                loader.fail(&why);
                pauses.pause().await;
            }
        }
    }
}

/// Loads what the disk remembers.
async fn recall(reference: &Reference, loader: &mut Loader) -> Option<Taken> {
    let store = loader.sources().store.clone()?;
    let noted = store.noted(&note_name(reference, loader))?;
    let note: Note = serde_json::from_slice(&noted).ok()?;
    let manifest: Digest = note.manifest.parse().ok()?;
    let bytes = store.get(&note.layer.parse().ok()?)?;
    let taken = Taken {
        manifest,
        evidence: note.evidence.clone(),
    };
    let found = Found {
        origin: reference.resolved(manifest).to_string(),
        manifest: Some(manifest),
        bytes,
        evidence: note.evidence,
    };
    // What cannot be read now is said when the registry is asked.
    loader.offer(found).await.ok().map(|_| taken)
}

/// Asks the registry, and loads what it has if that is new.
async fn follow(
    reference: &Reference,
    loader: &mut Loader,
    taken: &mut Option<Taken>,
) -> Result<Offered, String> {
    let said = |error: guesthouse_artifact::FetchError| error.to_string();
    let registry = Registry::new(reference, access(reference, loader).await?).map_err(said)?;
    let resolved = registry.resolve().await.map_err(said)?;
    let evidence = match loader.wants_signature() {
        true => registry
            .signatures(&resolved.manifest)
            .await
            .map_err(said)?,
        false => Vec::new(),
    };
    let now = Taken {
        manifest: resolved.manifest,
        evidence,
    };
    if taken.as_ref() == Some(&now) {
        return Ok(loader.confirm());
    }
    let store = loader.sources().store.clone();
    let bytes = bytes(&registry, &resolved, store.as_ref()).await?;
    let found = Found {
        origin: reference.resolved(resolved.manifest).to_string(),
        manifest: Some(resolved.manifest),
        bytes,
        evidence: now.evidence.clone(),
    };
    let offered = loader.offer(found).await?;
    if let (Offered::Loaded, Some(store)) = (offered, store) {
        let note = Note {
            manifest: resolved.manifest.to_string(),
            layer: resolved.layer.to_string(),
            evidence: now.evidence.clone(),
        };
        if let Ok(note) = serde_json::to_vec(&note) {
            store.note(&note_name(reference, loader), &note);
        }
    }
    *taken = Some(now);
    Ok(offered)
}

/// The plugin that a manifest names. Whoever brought it to the store, the digest is what this very registry says now, in a
/// manifest that was read from it: it vouches for these bytes as much as if it had sent them.
async fn bytes(
    registry: &Registry,
    resolved: &Resolved,
    store: Option<&Store>,
) -> Result<Vec<u8>, String> {
    if let Some(bytes) = store.and_then(|store| store.get(&resolved.layer)) {
        return Ok(bytes);
    }
    let pulled = registry.pull(resolved, MAX_PLUGIN).await;
    pulled.map_err(|error| error.to_string())
}

/// Who asks is part of the name: what one mapping's credentials brought is not another's.
fn note_name(reference: &Reference, loader: &Loader) -> String {
    let secret = loader.source().pull_secret.as_deref().unwrap_or_default();
    format!("{reference} {secret}")
}

/// How the registry is asked, with what the mapping names read anew.
async fn access(reference: &Reference, loader: &Loader) -> Result<Access, String> {
    let (source, sources) = (loader.source(), loader.sources());
    let ca = match &source.ca {
        Some(from) => {
            let text = texts::read(sources, from).await;
            Some(text.map_err(|why| format!("ca: {from}: {why}"))?)
        }
        None => None,
    };
    let (login, tried) = match &source.pull_secret {
        None => (
            None,
            "no credentials: the mapping names no pullSecret".to_owned(),
        ),
        Some(name) => {
            let text = texts::docker_config(sources, name).await;
            let config = text.and_then(|text| {
                DockerConfig::parse(&text)
                    .map_err(|bad| format!("the Secret {name}, key .dockerconfigjson: {bad}"))
            });
            let config = config.map_err(|why| format!("pullSecret: {why}"))?;
            let login = config.login(reference.registry(), reference.repository());
            match login.map_err(|bad| format!("pullSecret: the Secret {name}: {bad}"))? {
                Some(login) => (Some(login), format!("the credentials in the Secret {name}")),
                None => {
                    let all = config.registries();
                    let place = reference.place();
                    let tried = format!(
                        "no credentials: the Secret {name} has no entry for {place}, it has: {all}"
                    );
                    (None, tried)
                }
            }
        }
    };
    Ok(Access {
        login,
        tried,
        ca,
        insecure: source.insecure,
        clear: sources.policy.insecure().to_vec(),
    })
}
