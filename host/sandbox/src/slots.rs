//! Turns for calls: the pool has room for so many instances, one more call waits.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The free slots.
pub(crate) struct Slots {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    free: usize,
    /// Waking nobody is a system call too.
    waiting: usize,
}

/// One taken slot; dropped after the instance that sat in it.
pub(crate) struct Slot(Arc<Slots>);

impl Slots {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                free: count,
                waiting: 0,
            }),
            freed: Condvar::new(),
        })
    }

    /// Waits for a free slot.
    pub(crate) fn take(self: &Arc<Self>) -> Slot {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.free == 0 {
            state.waiting += 1;
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.free -= 1;
        Slot(self.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.free += 1;
        if state.waiting > 0 {
            self.0.freed.notify_one();
        }
    }
}
