//! The clocks, read in one place.

use guesthouse_core::{lease::Boot, time::Time};
use rustix::time::{ClockId, clock_gettime};

/// Now.
pub(crate) fn now() -> Time {
    Time(jiff::Timestamp::now().as_millisecond())
}

/// How long from now until `at`; nothing if it has passed.
pub(crate) fn until(at: Time) -> std::time::Duration {
    now().until(at).duration()
}

/// Now, on the clock that runs on while the machine sleeps: what Leases are counted by.
pub(crate) fn boot() -> Boot {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    Boot(seconds * 1000 + nanos / 1_000_000)
}
