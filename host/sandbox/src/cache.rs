//! Compiled code on disk. Loading native code is trusting it, so an entry counts only if a keyed hash over the engine, the
//! module and the code says that this host made it; anything else is a miss, never an error.
//!
//! The folder is of our user alone. An entry is read once, and the bytes that were verified are the bytes that are loaded.
//! Names hold the module's and the engine's hash, so hosts of several versions share a folder without seeing each other.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use crate::{SandboxError, settings::CacheAt};

const MAGIC: &[u8; 8] = b"GHCODE01";
const HEADER: usize = MAGIC.len() + blake3::OUT_LEN;

/// Proves that an entry was made by who holds it.
#[derive(Clone)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// A key kept elsewhere, as in a Secret.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key in this file (32 bytes, mode 0600, of our user), made with random bytes if there is none.
    pub fn load_or_create(path: &Path) -> Result<Self, SandboxError> {
        let problem = |problem: String| SandboxError::Cache {
            path: path.to_owned(),
            problem,
        };
        match open_private(path) {
            Ok(file) => Self::read(file).map_err(problem),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::create(path)
                    .map_err(|error| problem(format!("cannot make a key: {error}")))?;
                // Whoever came first, the file's content is the key.
                let file = open_private(path).map_err(|error| problem(error.to_string()))?;
                Self::read(file).map_err(problem)
            }
            Err(error) => Err(problem(error.to_string())),
        }
    }

    fn read(mut file: File) -> Result<Self, String> {
        let mut bytes = Vec::with_capacity(33);
        Read::take(&mut file, 33)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        let bytes = bytes
            .try_into()
            .map_err(|_| "not a key of 32 bytes; remove it, and a new one is made".to_owned())?;
        Ok(Self(bytes))
    }

    /// Written aside and linked into place, so that nobody sees half a key and of two makers one wins.
    fn create(path: &Path) -> io::Result<()> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let aside = aside(path);
        let written =
            write_private(&aside, &[&bytes]).and_then(|()| match fs::hard_link(&aside, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                done => done,
            });
        let removed = fs::remove_file(&aside);
        written.and(removed)
    }
}

impl std::fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CacheKey(…)")
    }
}

/// The folder of entries for one engine.
pub(crate) struct Cache {
    dir: PathBuf,
    key: CacheKey,
    engine: [u8; 32],
}

impl Cache {
    /// Opens or makes the folder.
    pub(crate) fn open(at: &CacheAt, engine: [u8; 32]) -> Result<Self, SandboxError> {
        let problem = |problem: String| SandboxError::Cache {
            path: at.dir.clone(),
            problem,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&at.dir)
            .map_err(|error| problem(error.to_string()))?;
        let meta = fs::symlink_metadata(&at.dir).map_err(|error| problem(error.to_string()))?;
        if !meta.is_dir() {
            return Err(problem("is not a folder".into()));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
            return Err(problem("is open to other users: name a folder that does not exist, or chmod 700 one of our own".into()));
        }
        Ok(Self {
            dir: at.dir.clone(),
            key: at.key.clone(),
            engine,
        })
    }

    /// The code for this module, if there is an entry that this host made for this engine.
    pub(crate) fn get(&self, module: &[u8; 32]) -> Option<Vec<u8>> {
        let path = self.path(module);
        let mut bytes = Vec::new();
        match open_private(&path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return miss(&path, &error.to_string()),
        }
        let Some((header, code)) = bytes.split_at_checked(HEADER) else {
            return miss(&path, "torn");
        };
        let Some(seal) = header
            .strip_prefix(MAGIC)
            .and_then(|seal| <[u8; 32]>::try_from(seal).ok())
        else {
            return miss(&path, "of another form");
        };
        // Compared in constant time.
        if self.seal(module, code) != blake3::Hash::from(seal) {
            return miss(&path, "not made by this host");
        }
        bytes.drain(..HEADER);
        Some(bytes)
    }

    /// Whether there is an entry, whatever it is worth.
    pub(crate) fn holds(&self, module: &[u8; 32]) -> bool {
        self.path(module).is_file()
    }

    /// Keeps the code. A failure costs the next load a compilation and nothing else.
    pub(crate) fn put(&self, module: &[u8; 32], code: &[u8]) {
        let path = self.path(module);
        let aside = aside(&path);
        let seal = self.seal(module, code);
        let kept = write_private(&aside, &[MAGIC, seal.as_bytes(), code]).and_then(|()| {
            passed("before-cache-rename");
            fs::rename(&aside, &path)
        });
        if let Err(error) = kept {
            tracing::warn!(path = %path.display(), %error, "compiled code is not kept");
            let _ = fs::remove_file(&aside);
        }
    }

    fn seal(&self, module: &[u8; 32], code: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key.0);
        // The first two parts have a fixed length, so no two triples are the same bytes.
        hasher.update(&self.engine).update(module).update(code);
        hasher.finalize()
    }

    fn path(&self, module: &[u8; 32]) -> PathBuf {
        self.dir
            .join(format!("{}-{}", hex(module), hex(&self.engine[..8])))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn miss(path: &Path, why: &str) -> Option<Vec<u8>> {
    tracing::warn!(path = %path.display(), why, "entry of compiled code is ignored");
    None
}

/// Opens a file that only we can have written: no link, our user's, closed to others.
fn open_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(path)?;
    let meta = file.metadata()?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0;
    if meta.is_file() && ours {
        Ok(file)
    } else {
        Err(io::Error::other("is open to other users: chmod 600 it"))
    }
}

fn write_private(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let (last, first) = match parts.split_last() {
        Some((last, first)) => (*last, first),
        None => return Ok(()),
    };
    first.iter().try_for_each(|part| file.write_all(part))?;
    passed("during-cache-write");
    file.write_all(last)
}

/// Who is told of the points in the writing of an entry.
#[cfg(feature = "crash-points")]
static WATCHER: std::sync::OnceLock<fn(&'static str)> = std::sync::OnceLock::new();

/// For hosts under test: is called in the middle of an entry and before it is put in its place.
#[cfg(feature = "crash-points")]
pub fn on_cache_write(watcher: fn(&'static str)) {
    let _ = WATCHER.set(watcher);
}

#[cfg(feature = "crash-points")]
fn passed(point: &'static str) {
    if let Some(watcher) = WATCHER.get() {
        watcher(point);
    }
}

#[cfg(not(feature = "crash-points"))]
#[inline(always)]
fn passed(_: &'static str) {}

/// A name beside `path` that no other thread or process uses. The time is in it because in a container every process has
/// the same id, and one may have ended before it could clean up.
fn aside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(
        ".{}.{time}.{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const MODULE: [u8; 32] = [1; 32];

    fn cache(dir: &Path, key: u8, engine: u8) -> Cache {
        Cache::open(
            &CacheAt {
                dir: dir.join("code"),
                key: CacheKey::new([key; 32]),
            },
            [engine; 32],
        )
        .unwrap()
    }

    #[test]
    fn what_was_put_is_got_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), 1, 1);
        assert_eq!(cache.get(&MODULE), None);
        cache.put(&MODULE, b"code");
        assert_eq!(cache.get(&MODULE).unwrap(), b"code");
        assert_eq!(cache.get(&[2; 32]), None);
    }

    #[test]
    fn torn_flipped_foreign_and_misplaced_entries_are_misses() {
        let dir = tempfile::tempdir().unwrap();
        let ours = cache(dir.path(), 1, 1);
        ours.put(&MODULE, b"code");
        let path = ours.path(&MODULE);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            fs::write(&path, &good[..at]).unwrap();
            assert_eq!(ours.get(&MODULE), None, "torn at {at}");
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert_eq!(ours.get(&MODULE), None, "flipped at {at}");
        }
        fs::write(&path, &good).unwrap();
        assert!(ours.get(&MODULE).is_some());
        assert_eq!(cache(dir.path(), 2, 1).get(&MODULE), None, "another key");
        let other = cache(dir.path(), 1, 2);
        fs::copy(&path, other.path(&MODULE)).unwrap();
        assert_eq!(other.get(&MODULE), None, "another engine");
        fs::copy(&path, ours.path(&[2; 32])).unwrap();
        assert_eq!(ours.get(&[2; 32]), None, "another module");
    }

    #[test]
    fn a_folder_or_an_entry_that_others_can_write_to_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let ours = cache(dir.path(), 1, 1);
        ours.put(&MODULE, b"code");
        fs::set_permissions(ours.path(&MODULE), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(ours.get(&MODULE), None);
        fs::set_permissions(&ours.dir, fs::Permissions::from_mode(0o755)).unwrap();
        let Err(error) = Cache::open(
            &CacheAt {
                dir: ours.dir.clone(),
                key: ours.key.clone(),
            },
            [1; 32],
        ) else {
            panic!("a folder open to others was taken")
        };
        assert!(error.to_string().contains("chmod 700"), "{error}");
    }

    #[test]
    fn a_key_is_made_once_and_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let first = CacheKey::load_or_create(&path).unwrap();
        assert_eq!(CacheKey::load_or_create(&path).unwrap().0, first.0);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing is left aside"
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            CacheKey::load_or_create(&path)
                .unwrap_err()
                .to_string()
                .contains("chmod 600")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"short").unwrap();
        assert!(
            CacheKey::load_or_create(&path)
                .unwrap_err()
                .to_string()
                .contains("32 bytes")
        );
    }
}
