//! What a worker asks before each effect.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use guesthouse_core::lease::Boot;

use crate::clock;

/// The right to make effects for one mapping under one term. Once closed it stays closed; cheap to clone.
///
/// It is asked by time and not by message: a process that was frozen finds it shut before anything tells it.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    until: Arc<AtomicU64>,
    closed: Arc<AtomicBool>,
    term: u64,
    replica: Arc<str>,
}

impl Fence {
    /// Good until the time that `until` holds, in milliseconds of [`clock::boot`].
    pub(crate) fn new(until: &Arc<AtomicU64>, term: u64, replica: &Arc<str>) -> Self {
        Self {
            until: until.clone(),
            closed: Arc::default(),
            term,
            replica: replica.clone(),
        }
    }

    /// Without Leases everything is allowed.
    pub(crate) fn open() -> Self {
        Self::new(&Arc::new(AtomicU64::new(Boot::NEVER.0)), 0, &"".into())
    }

    /// Whether an effect may be begun now.
    pub(crate) fn allows(&self) -> bool {
        !self.closed.load(Ordering::SeqCst) && clock::boot().0 < self.until.load(Ordering::SeqCst)
    }

    /// No effect any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The claim's term; 0 without Leases.
    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// Who has it.
    pub(crate) fn replica(&self) -> &str {
        &self.replica
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_shuts_by_time_and_for_good_when_it_is_closed() {
        let until = Arc::new(AtomicU64::new(Boot::NEVER.0));
        let (fence, other) = (
            Fence::new(&until, 1, &"a".into()),
            Fence::new(&until, 1, &"a".into()),
        );
        assert!(fence.allows());
        until.store(clock::boot().0, Ordering::SeqCst);
        assert!(!fence.allows(), "its time is over");
        until.store(Boot::NEVER.0, Ordering::SeqCst);
        assert!(fence.allows());
        fence.clone().close();
        assert!(!fence.allows() && other.allows());
    }
}
