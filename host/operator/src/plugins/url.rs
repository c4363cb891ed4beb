//! A plugin behind a URL. Its digest is known before it is fetched, so it is fetched once.

use guesthouse_artifact::{Digest, Evidence, FetchError, download, download_unpinned};

use super::{
    INTERVAL, MAX_PLUGIN, MAX_SIGNATURE,
    loader::{Found, Loader, Offered, Pauses},
    texts,
};

/// Fetches until it is there and let in.
pub(super) async fn watch(url: String, mut loader: Loader) {
    let mut pauses = Pauses::default();
    let mut judged: Option<Vec<Evidence>> = None;
    loop {
        let offered = match fetch(&url, &loader).await {
            Ok(found) if judged.as_ref() == Some(&found.evidence) => Ok(loader.confirm()),
            Ok(found) => {
                let evidence = found.evidence.clone();
                let offered = loader.offer(found).await;
                judged = offered.is_ok().then_some(evidence);
                offered
            }
            Err(why) => Err(why),
        };
        match offered {
            Ok(Offered::Loaded) => break,
            // It may be signed later.
            Ok(Offered::Refused) if loader.wants_signature() => {
                tokio::time::sleep(INTERVAL.duration()).await;
            }
            Ok(Offered::Refused) => break,
            Err(why) => {
                loader.fail(&why);
                pauses.pause().await;
            }
        }
    }
    // There is no other version; what serves stays in the store for as long as it is mapped.
    std::future::pending::<()>().await;
}

async fn fetch(url: &str, loader: &Loader) -> Result<Found, String> {
    let (source, sources) = (loader.source(), loader.sources());
    let hex = source.sha256.as_deref().unwrap_or_default();
    let digest = Digest::from_hex(hex).map_err(|error| error.to_string())?;
    let ca = match &source.ca {
        Some(from) => {
            let text = texts::read(sources, from).await;
            Some(text.map_err(|why| format!("ca: {from}: {why}"))?)
        }
        None => None,
    };
    let ca = ca.as_deref();
    let clear = sources.policy.insecure();
    // A digest says what, and not that this place has it.
    let bytes = match loader.kept(&digest) {
        Some(bytes) => bytes,
        None => download(url, &digest, ca, clear, MAX_PLUGIN)
            .await
            .map_err(|error| error.to_string())?,
    };
    let mut evidence: Vec<_> = loader.detached().into_iter().collect();
    if loader.wants_signature() {
        evidence.extend(signature(&format!("{url}.sig"), ca, loader).await?);
    }
    Ok(Found {
        origin: url.to_owned(),
        bytes,
        evidence,
        ..Found::default()
    })
}

/// The signature beside it, or the one that was there last time if nobody answers now.
async fn signature(
    url: &str,
    ca: Option<&str>,
    loader: &Loader,
) -> Result<Option<Evidence>, String> {
    let sources = loader.sources();
    let (store, clear) = (sources.store.as_ref(), sources.policy.insecure());
    let text = match download_unpinned(url, ca, clear, MAX_SIGNATURE).await {
        Ok(bytes) => {
            if let Some(store) = store {
                store.note(url, &bytes);
            }
            bytes
        }
        Err(error) if error.is_absent() => return Ok(None),
        Err(error @ FetchError::NoAnswer { .. }) => {
            let noted = store.and_then(|store| store.noted(url));
            noted.ok_or_else(|| error.to_string())?
        }
        Err(error) => return Err(error.to_string()),
    };
    Ok(String::from_utf8(text).ok().map(Evidence::Detached))
}
