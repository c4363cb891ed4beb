//! What is loaded: one plugin for each digest, however many mappings use it, and its native code only while it is called.
//!
//! Whoever loads bytes that are loaded already gets the same plugin; of several who load the same bytes at once, one works and
//! the others wait. A plugin that was not called for a while gives up its native code and keeps its descriptor; the next call
//! brings the code back from the cache, in milliseconds and on the caller's own thread. The plugin itself goes with the last
//! who holds it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::plugin::{Code, Inner};

/// A module's hash.
pub(crate) type Digest = [u8; 32];

/// Where a plugin of one digest is, if it is loaded; locked by who loads it.
pub(crate) type Place = Arc<Mutex<Weak<Inner>>>;

/// All plugins of a sandbox.
#[derive(Default)]
pub(crate) struct Registry {
    places: Mutex<HashMap<Digest, Place>>,
    pub(crate) counts: Counts,
}

/// What happened since the start.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) compiled: AtomicU64,
    pub(crate) cached: AtomicU64,
    pub(crate) shared: AtomicU64,
    pub(crate) rested: AtomicU64,
    pub(crate) woken: AtomicU64,
}

/// What a sandbox holds, and what it did since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Plugins that somebody holds.
    pub plugins: u64,
    /// Those whose native code is in memory.
    pub resident: u64,
    /// Compilations.
    pub compiled: u64,
    /// Loads that took the code from the cache.
    pub cached: u64,
    /// Loads of what was loaded already.
    pub shared: u64,
    /// How often native code was given up for want of calls.
    pub rested: u64,
    /// How often it was brought back.
    pub woken: u64,
}

impl Registry {
    /// The place of one digest. Places that nobody uses any more go by the way.
    pub(crate) fn place(&self, digest: &Digest) -> Place {
        let mut places = lock(&self.places);
        let is_used = |place: &Place| {
            // Held by who loads just now, or holding what somebody uses.
            Arc::strong_count(place) > 1 || lock(place).strong_count() > 0
        };
        places.retain(|of, place| of == digest || is_used(place));
        places.entry(*digest).or_default().clone()
    }

    /// All plugins that somebody holds.
    fn plugins(&self) -> Vec<Arc<Inner>> {
        let places: Vec<Place> = lock(&self.places).values().cloned().collect();
        // One that is being loaded is not waited for.
        let held = |place: Place| place.try_lock().ok().and_then(|held| held.upgrade());
        places.into_iter().filter_map(held).collect()
    }

    /// Takes the native code of plugins that were not called for so long. How many.
    pub(crate) fn rest(&self, idle: Duration, can_come_back: impl Fn(&Digest) -> bool) -> usize {
        let plugins = self.plugins();
        let rested = plugins
            .iter()
            .filter(|plugin| can_come_back(&plugin.hash) && plugin.resident.rest(idle));
        let count = rested.count();
        self.counts.rested.fetch_add(count as u64, Relaxed);
        count
    }

    pub(crate) fn stats(&self) -> Stats {
        let plugins = self.plugins();
        let resident = plugins.iter().filter(|plugin| plugin.resident.is_there());
        let counts = &self.counts;
        Stats {
            resident: resident.count() as u64,
            plugins: plugins.len() as u64,
            compiled: counts.compiled.load(Relaxed),
            cached: counts.cached.load(Relaxed),
            shared: counts.shared.load(Relaxed),
            rested: counts.rested.load(Relaxed),
            woken: counts.woken.load(Relaxed),
        }
    }
}

/// A plugin's native code, which may be away.
pub(crate) struct Resident(Mutex<State>);

struct State {
    code: Option<Code>,
    used: Instant,
}

impl Resident {
    pub(crate) fn new(code: Code) -> Self {
        Self(Mutex::new(State {
            code: Some(code),
            used: Instant::now(),
        }))
    }

    /// The code; `bring` brings it back, and others wait for it meanwhile.
    pub(crate) fn code<E>(&self, bring: impl FnOnce() -> Result<Code, E>) -> Result<Code, E> {
        let mut state = lock(&self.0);
        state.used = Instant::now();
        match &state.code {
            Some(code) => Ok(code.clone()),
            None => {
                let code = bring()?;
                state.code = Some(code.clone());
                Ok(code)
            }
        }
    }

    /// Gives the code up if it was not used for so long. Calls that run keep theirs.
    fn rest(&self, idle: Duration) -> bool {
        // Who is bringing it back is using it.
        let Ok(mut state) = self.0.try_lock() else {
            return false;
        };
        state.used.elapsed() >= idle && state.code.take().is_some()
    }

    fn is_there(&self) -> bool {
        self.0.try_lock().is_ok_and(|state| state.code.is_some())
    }
}

/// What these locks guard is whole at any time: a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
