//! The wall clock, read in one place.

use guesthouse_core::time::Time;

/// Now.
pub(crate) fn now() -> Time {
    Time(jiff::Timestamp::now().as_millisecond())
}

/// How long from now until `at`; nothing if it has passed.
pub(crate) fn until(at: Time) -> std::time::Duration {
    now().until(at).duration()
}
