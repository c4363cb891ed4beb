//! Between the contract's values and the runtime's: observations go in borrowed, what comes back is checked as it is taken.

mod observation;
mod reply;

pub(crate) use observation::with_observation;
pub(crate) use reply::{descriptor, reply};
