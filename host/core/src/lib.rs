//! The rules of Guesthouse as pure values.
//!
//! Nothing here does I/O, knows a runtime, reads a clock or talks to Kubernetes: `now` is an argument, objects are JSON text,
//! and a pass is a state machine that names its next step. So every decision of the host can be tested as data, printed by
//! `guesthouse render`, and driven through crashes in memory.

pub mod children;
pub mod config_schema;
pub mod contract;
pub mod dry;
pub mod grants;
pub mod identity;
pub mod journal;
pub mod keys;
pub mod lease;
pub mod life;
pub mod limits;
pub mod mapping;
pub mod needs;
pub mod object;
pub mod outcome;
pub mod pass;
pub mod plan;
pub mod queue;
pub mod refusal;
pub mod retry;
pub mod schema;
pub mod selector;
pub mod status;
pub mod telling;
pub mod time;
pub mod units;
