//! Turns for calls: the pool has room for so many instances, one more call waits.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The free slots.
pub(crate) struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// One taken slot; dropped after the instance that sat in it.
pub(crate) struct Slot(Arc<Slots>);

impl Slots {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count), freed: Condvar::new() })
    }

    /// Waits for a free slot.
    pub(crate) fn take(self: &Arc<Self>) -> Slot {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Slot(self.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
