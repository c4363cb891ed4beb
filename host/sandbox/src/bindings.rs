//! The contract's types as the runtime passes them, generated from `wit/`. Observations go in borrowed: an object's text is
//! copied once, into the guest's memory.

#![allow(missing_docs, unreachable_pub, clippy::all)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "reconciler",
    ownership: Borrowing { duplicate_if_necessary: true },
});

pub(crate) use guesthouse::reconciler::{log::Level, types};

impl From<Level> for crate::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}
