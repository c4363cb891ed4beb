//! How a sandbox is set up. All of it is fixed for the sandbox' life; what may differ from call to call is in `Limits`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use sha2::{Digest, Sha256};

use crate::CacheKey;

/// How a sandbox is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Calls that can run at once; one more waits. Each may use up to the memory limit of its mapping, so slots times limit
    /// must fit the container. Default: the CPUs this process may use, at least 2.
    pub slots: usize,
    /// Where compiled code is kept; none: compiled anew at each load.
    pub cache: Option<CacheAt>,
    /// Where compilation happens.
    pub compiler: Compiler,
    /// Largest module or component taken, bytes.
    pub max_module: u64,
    /// What one compilation may use.
    pub budget: Budget,
    /// Stack of a guest, bytes; at most 2 MiB. With another than the default, threads need more than [`crate::CALL_STACK`].
    pub stack: usize,
    /// How a call's time is measured.
    pub metering: Metering,
    /// Where bytes are kept; none: nowhere.
    pub recall: Option<Recall>,
    /// What the caller carries out beyond the bare minimum; a plugin that asks for more is refused by name.
    pub supported: Supported,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            slots: std::thread::available_parallelism().map_or(2, |n| n.get().max(2)),
            cache: None,
            compiler: Compiler::InProcess,
            max_module: 64 << 20,
            budget: Budget::default(),
            stack: 1 << 20,
            metering: Metering::Epoch,
            recall: None,
            supported: Supported::default(),
        }
    }
}

/// A folder for compiled code and the key its entries are authenticated with.
#[derive(Clone, Debug)]
pub struct CacheAt {
    /// Made with mode 0700; one that others may write to or that belongs to another user is an error.
    pub dir: PathBuf,
    /// Who has it can make entries; see [`CacheKey::load_or_create`].
    pub key: CacheKey,
}

/// Where compilation happens.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// In this process: nothing bounds the compiler's memory, and a compilation over its time is left to finish unheard.
    InProcess,
    /// In a child process with limits of its own, killed when its time is over.
    Child {
        /// The program, usually this one.
        exe: PathBuf,
        /// What leads it to [`crate::compile_child_main`]; the sandbox adds arguments of its own.
        args: Vec<String>,
    },
}

/// What one compilation may use.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// By the clock, and of CPU time.
    pub time: Duration,
    /// Address space of the child process, bytes.
    pub memory: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(120),
            memory: 2 << 30,
        }
    }
}

/// Where a module's bytes are kept by their SHA-256, should its compiled code be gone from the cache when it is wanted back.
#[derive(Clone)]
pub struct Recall(Arc<Bytes>);

type Bytes = dyn Fn(&[u8; 32]) -> Option<Vec<u8>> + Send + Sync;

impl Recall {
    /// By this function, which gives the bytes of that hash or none.
    pub fn new(bytes: impl Fn(&[u8; 32]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(bytes))
    }

    pub(crate) fn bytes(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
        (self.0)(digest).filter(|bytes| <[u8; 32]>::from(Sha256::digest(bytes)) == *digest)
    }
}

impl std::fmt::Debug for Recall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recall(…)")
    }
}

/// How a call's time is measured. The two compile to different code and have cache entries of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metering {
    /// By the clock and the thread's CPU time: fast, and what a host uses.
    Epoch,
    /// By instructions, a million for each millisecond of the limit: the same on every machine. A clock ten times as long
    /// stands behind it.
    Fuel,
}

/// What the caller carries out beyond the contract.
#[derive(Clone, Copy, Debug, Default)]
pub struct Supported {
    /// Extensions by name.
    pub extensions: &'static [&'static str],
}
