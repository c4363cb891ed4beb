//! What belongs to one call: one small value in the store, gone with it.

use guesthouse_core::limits::Limits;

use crate::{meter::Meter, output::Output, wasi::World};

/// A call's own data.
pub(crate) struct State {
    pub(crate) meter: Meter,
    pub(crate) output: Output,
    pub(crate) world: World,
}

impl State {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            meter: Meter::start(limits),
            output: Output::new(limits.logs.0),
            world: World::default(),
        }
    }
}
