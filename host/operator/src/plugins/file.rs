//! A plugin in a file, looked at from time to time.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use guesthouse_artifact::Evidence;

use super::{
    MAX_PLUGIN, MAX_SIGNATURE,
    loader::{Found, Loader, Pauses},
};

/// How often a file is looked at.
const POLL: Duration = Duration::from_millis(500);

/// What tells one version of a file from another without reading it.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    changed: Option<SystemTime>,
    len: u64,
    inode: u64,
}

async fn stamp(path: &Path, most: u64) -> Result<Stamp, std::io::Error> {
    let meta = tokio::fs::metadata(path).await?;
    // A pipe or a device would be read for ever.
    if !meta.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if meta.len() > most {
        return Err(std::io::Error::other(format!(
            "it has {} bytes, more than the {most} that it may have",
            meta.len()
        )));
    }
    Ok(Stamp {
        changed: meta.modified().ok(),
        len: meta.len(),
        inode: meta.ino(),
    })
}

/// A plugin's file, and the signature beside it where one is wanted and there is one.
type Stamps = (Stamp, Option<Stamp>);

struct Files {
    plugin: PathBuf,
    signature: Option<PathBuf>,
}

impl Files {
    async fn stamps(&self) -> Result<Stamps, std::io::Error> {
        let plugin = stamp(&self.plugin, MAX_PLUGIN).await?;
        let signature = match &self.signature {
            Some(path) => stamp(path, MAX_SIGNATURE).await.ok(),
            None => None,
        };
        Ok((plugin, signature))
    }

    async fn read(&self, signed: bool, loader: &Loader) -> Result<Found, std::io::Error> {
        let bytes = tokio::fs::read(&self.plugin).await?;
        let mut evidence: Vec<_> = loader.detached().into_iter().collect();
        if let (true, Some(path)) = (signed, &self.signature) {
            // Gone meanwhile: as if it had not been there.
            let text = tokio::fs::read_to_string(path).await;
            evidence.extend(text.map(Evidence::Detached).ok());
        }
        Ok(Found {
            origin: format!("the file {}", self.plugin.display()),
            bytes,
            evidence,
            ..Found::default()
        })
    }
}

/// A file counts once it has looked the same twice: a copy that is still being written is not taken for a broken plugin.
pub(super) async fn watch(path: PathBuf, mut loader: Loader) {
    let beside = || {
        let mut name = path.clone().into_os_string();
        name.push(".sig");
        PathBuf::from(name)
    };
    let files = Files {
        signature: loader.wants_signature().then(beside),
        plugin: path.clone(),
    };
    let (mut taken, mut last) = (None, None);
    let mut first = true;
    let mut pauses = Pauses::default();
    loop {
        match files.stamps().await {
            Ok(found) if taken.as_ref() == Some(&found) => {}
            Ok(found) if first || last.as_ref() == Some(&found) => {
                match files.read(found.1.is_some(), &loader).await {
                    Ok(plugin) => match loader.offer(plugin).await {
                        Ok(_) => {
                            taken = Some(found);
                            pauses.reset();
                        }
                        Err(why) => {
                            loader.fail(&why);
                            pauses.pause().await;
                        }
                    },
                    Err(error) => loader.fail(&format!("cannot be read: {error}")),
                }
            }
            Ok(found) => last = Some(found),
            Err(error) => {
                (taken, last) = (None, None);
                loader.fail(&format!("cannot be read: {error}"));
            }
        }
        first = false;
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_regular_file_or_too_large_is_refused_before_it_is_read() {
        let device = stamp(Path::new("/dev/zero"), MAX_PLUGIN).await;
        assert!(matches!(device, Err(error) if error.to_string().contains("not a regular file")));
        let path = std::env::temp_dir().join(format!("guesthouse-large-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(MAX_PLUGIN).unwrap();
        let fits = stamp(&path, MAX_PLUGIN).await.is_ok();
        file.set_len(MAX_PLUGIN + 1).unwrap();
        let large = stamp(&path, MAX_PLUGIN).await;
        std::fs::remove_file(&path).unwrap();
        assert!(fits);
        assert!(matches!(large, Err(error) if error.to_string().contains("more than")));
    }
}
