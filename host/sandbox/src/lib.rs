//! Runs plugins: WebAssembly with limits, a closed WASI and typed refusals.
//!
//! Bytes become a [`Plugin`] by [`Sandbox::load`]; a call is open, call and drop of a fresh instance, never a second one.
//! What this crate guarantees:
//!
//! - **Pure.** A plugin's reply depends on its bytes and the observation alone: the clock is `now`, randomness is one
//!   constant stream, there are no files, environment or sockets, and NaNs are canonical. Only stack depth and time vary
//!   with the machine, and they end in a refusal, never in another decision.
//! - **Bounded.** Memory is the sum over all memories and tables; time is CPU time, and at most four times that by the
//!   clock; output, logs, handles and compilation have limits of their own. The host survives any number of violations.
//! - **Typed.** All that goes wrong is a [`Refusal`](guesthouse_core::refusal::Refusal) with a text that is the same from
//!   call to call and holds the guest's own last words.
//! - **Native code is made here.** Precompiled code is never taken from users; cache entries carry a keyed hash, and the
//!   bytes that were verified are the bytes that are loaded.
//!
//! Calls run on the caller's thread, which needs a stack of [`CALL_STACK`].

mod bindings;
mod cache;
mod child;
mod command;
mod compile;
mod componentize;
mod convert;
mod engine;
mod guest;
mod inspect;
mod load;
mod meter;
mod output;
mod plugin;
mod refuse;
mod registry;
mod settings;
mod slots;
mod state;
mod wasi;

pub use cache::CacheKey;
#[cfg(feature = "crash-points")]
pub use cache::on_cache_write;
pub use child::compile_child_main;
pub use guest::{Called, Guest, Used};
pub use guesthouse_core::contract::Verb;
pub use load::Sandbox;
pub use output::{Level, LogLine};
pub use plugin::{Door, Plugin};
pub use registry::Stats;
pub use settings::{Budget, CacheAt, Compiler, Metering, Recall, Settings, Supported};

/// Stack that a thread needs which calls plugins, bytes: [`Settings::stack`]'s default for the guest and as much again for
/// the host's functions below it. On a smaller one, deep recursion in a guest could end the process (`wasmtime#9304`).
pub const CALL_STACK: usize = 2 << 20;

/// What is wrong with the host itself when a sandbox is set up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The runtime refused its configuration.
    #[error("runtime: {0}")]
    Engine(String),
    /// The thread that measures time could not be started.
    #[error("clock thread: {0}")]
    Ticker(std::io::Error),
    /// The folder for compiled code cannot be used.
    #[error("cache {path}: {problem}")]
    Cache {
        /// The folder or file.
        path: std::path::PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
}
