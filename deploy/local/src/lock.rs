//! Locks between processes, and the folder that outlives a checkout.
//!
//! Building the control plane takes minutes, and test processes run in parallel: whoever comes second must wait for
//! the first build instead of starting its own. The kernel drops these locks when their holder dies, so a killed
//! process never blocks the next.

use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// An exclusive lock on a file; released when dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Takes the lock at `path`, waiting while another process holds it. `waiting` runs once before a wait.
    ///
    /// # Errors
    /// When the file cannot be made or the system has no locks.
    pub fn wait(path: &Path, waiting: impl FnOnce()) -> Result<Self> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock()
                    .with_context(|| format!("lock {}", path.display()))?;
            }
            Err(TryLockError::Error(e)) => {
                return Err(e).with_context(|| format!("lock {}", path.display()));
            }
        }
        Ok(Self { _file: file })
    }

    /// Takes the lock at `path`, or `None` when another process (or another part of this one) holds it.
    ///
    /// # Errors
    /// When the file cannot be made or the system has no locks.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => {
                Err(e).with_context(|| format!("lock {}", path.display()))
            }
        }
    }
}

fn open(path: &Path) -> Result<File> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    }
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("open {}", path.display()))
}

/// Where things built once are kept: `$GUESTHOUSE_CACHE`, else `$XDG_CACHE_HOME/guesthouse`, else `~/.cache/guesthouse`.
///
/// # Errors
/// When none of the three variables (`HOME` being the last) is set.
pub fn cache_dir() -> Result<PathBuf> {
    let var = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    if let Some(dir) = var("GUESTHOUSE_CACHE") {
        return std::path::absolute(&dir)
            .with_context(|| format!("GUESTHOUSE_CACHE={}", dir.display()));
    }
    // The XDG rules say that a relative path there is to be ignored.
    if let Some(dir) = var("XDG_CACHE_HOME").filter(|d| d.is_absolute()) {
        return Ok(dir.join("guesthouse"));
    }
    match var("HOME") {
        Some(home) => Ok(home.join(".cache/guesthouse")),
        None => bail!("no cache folder: set GUESTHOUSE_CACHE (or HOME)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_not_given_twice_and_is_free_after_drop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/lock");
        let first = FileLock::try_take(&path).unwrap();
        assert!(first.is_some());
        assert!(FileLock::try_take(&path).unwrap().is_none());
        drop(first);
        assert!(FileLock::try_take(&path).unwrap().is_some());
    }
}
