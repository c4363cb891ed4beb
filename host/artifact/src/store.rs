//! What was once fetched, on disk: bytes by their digest, and what a reference stood for when it was last asked.
//!
//! The store saves a network and never decides: everything is verified when it is read, and an entry that is torn, foreign or
//! gone is a miss. Whoever may write here could at most make the host fetch again. The folder is of our user alone; entries are
//! written aside and renamed; several processes may share it. The bytes are held to a size: what was read longest ago goes
//! first, and what this process holds by a [`Pin`] stays.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, FileTimes, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use crate::Digest;

/// Largest note that is read at all, bytes.
const MAX_NOTE: u64 = 4 << 20;
/// What marks an entry that is being written.
const ASIDE: &str = ".writing-";
/// When such an entry was left behind by a process that ended.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
#[error("the folder of plugins, {}, cannot be used: {problem}", path.display())]
pub struct StoreError {
    path: PathBuf,
    problem: String,
}

/// Bytes on disk by their digest. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    blobs: PathBuf,
    notes: PathBuf,
    max_bytes: u64,
    pins: Mutex<HashMap<Digest, usize>>,
}

/// Keeps an entry from being removed by this process for as long as it lives.
#[derive(Debug)]
pub struct Pin {
    store: Store,
    digest: Digest,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.store.pins();
        if let Some(count) = pins.get_mut(&self.digest) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.digest);
            }
        }
    }
}

impl Store {
    /// Opens the store in `dir`, made if it is absent, and holds its bytes to `max_bytes`.
    pub fn open(dir: &Path, max_bytes: u64) -> Result<Self, StoreError> {
        let (blobs, notes) = (dir.join("sha256"), dir.join("references"));
        for folder in [dir, &blobs, &notes] {
            private_folder(folder).map_err(|problem| StoreError {
                path: folder.to_owned(),
                problem,
            })?;
        }
        let store = Self(Arc::new(Inner {
            blobs,
            notes,
            max_bytes,
            pins: Mutex::default(),
        }));
        store.sweep();
        Ok(store)
    }

    /// Keeps these bytes, and returns their digest. A failure costs a further fetch and nothing else.
    pub fn put(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        let path = self.path(&digest);
        if self.get(&digest).is_some() {
            return digest;
        }
        if bytes.len() as u64 > self.0.max_bytes {
            tracing::warn!(%digest, size = bytes.len(), most = self.0.max_bytes, "a plugin is larger than the store and is not kept");
            return digest;
        }
        match write(&path, &[bytes]) {
            Ok(()) => self.evict(&digest),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a plugin is not kept on disk");
            }
        }
        digest
    }

    /// The bytes of this digest, if they are here whole.
    pub fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        let path = self.path(digest);
        let (file, bytes) = read(&path, self.0.max_bytes)?;
        if Digest::of(&bytes) != *digest {
            tracing::warn!(path = %path.display(), "an entry of the store is torn or foreign and is ignored");
            // It would be in the way of nobody, but it counts towards the size.
            let _ = fs::remove_file(&path);
            return None;
        }
        touch(&file);
        Some(bytes)
    }

    /// Keeps the bytes of this digest from being removed by this process.
    pub fn pin(&self, digest: &Digest) -> Pin {
        *self.pins().entry(*digest).or_default() += 1;
        Pin {
            store: self.clone(),
            digest: *digest,
        }
    }

    /// Writes down what is known under this name, in place of what was.
    pub fn note(&self, name: &str, note: &[u8]) {
        let path = self.note_path(name);
        let check = Digest::of(note).hex();
        if let Err(error) = write(&path, &[check.as_bytes(), note]) {
            tracing::warn!(path = %path.display(), %error, "what a reference stands for is not kept on disk");
        }
    }

    /// What was last written down under this name.
    pub fn noted(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.note_path(name);
        let (_, mut bytes) = read(&path, MAX_NOTE)?;
        let (check, note) = bytes.split_at_checked(64)?;
        if check != Digest::of(note).hex().as_bytes() {
            tracing::warn!(path = %path.display(), "a note of the store is torn and is ignored");
            return None;
        }
        bytes.drain(..64);
        Some(bytes)
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<Digest, usize>> {
        self.0.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.0.blobs.join(digest.hex())
    }

    /// Names are of any length and any characters.
    fn note_path(&self, name: &str) -> PathBuf {
        self.0.notes.join(Digest::of(name.as_bytes()).hex())
    }

    /// Removes what was read longest ago until the rest fits; never what was just put or is pinned.
    fn evict(&self, just_put: &Digest) {
        let pins = self.pins();
        let mut total = 0;
        let mut old = Vec::new();
        for (path, meta) in entries(&self.0.blobs) {
            let digest = path.file_name().and_then(|name| name.to_str());
            let Some(digest) = digest.and_then(|name| Digest::from_hex(name).ok()) else {
                continue;
            };
            total += meta.len();
            if pins.contains_key(&digest) {
                // Young for those that share the folder, and for the next process.
                if let Ok(file) = open(&path) {
                    touch(&file);
                }
            } else if digest != *just_put {
                old.push((meta.modified().ok(), meta.len(), path));
            }
        }
        old.sort();
        for (_, len, path) in old {
            if total <= self.0.max_bytes {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                total -= len;
            }
        }
    }

    /// Removes what processes that ended left half written.
    fn sweep(&self) {
        for (path, meta) in entries(&self.0.blobs).chain(entries(&self.0.notes)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
            if name.contains(ASIDE) && age.is_some_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// The files in a folder that can be looked at.
fn entries(dir: &Path) -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
    let listed = fs::read_dir(dir).into_iter().flatten().flatten();
    listed.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
}

/// Makes a folder of our user alone, or finds one.
fn private_folder(dir: &Path) -> Result<(), String> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| error.to_string())?;
    let meta = fs::symlink_metadata(dir).map_err(|error| error.to_string())?;
    if !meta.is_dir() {
        return Err("it is not a folder".into());
    }
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err("it is open to other users: name a folder that does not exist, or chmod 700 one of our own".into());
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

fn touch(file: &File) {
    // Where the file system does not let us, the order is that of the writing.
    let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
}

fn read(path: &Path, most: u64) -> Option<(File, Vec<u8>)> {
    let mut file = match open(path) {
        Ok(file) => file,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "an entry of the store is ignored");
            }
            return None;
        }
    };
    let mut bytes = Vec::new();
    let read = Read::by_ref(&mut file)
        .take(most + 1)
        .read_to_end(&mut bytes);
    match read {
        Ok(_) if bytes.len() as u64 <= most => Some((file, bytes)),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "an entry of the store is ignored");
            None
        }
    }
}

/// Writes a whole file or none.
fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let aside = aside(path);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&aside)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        fs::rename(&aside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

/// A name beside `path` that no other thread or process uses. In a container every process has the same id, so the time is
/// in it too.
fn aside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(
        "{ASIDE}{}.{time}.{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    name.into()
}

#[cfg(test)]
mod tests;
