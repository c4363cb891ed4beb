//! The shell: everything of the host that touches a cluster, a network, a file or a clock.
//!
//! It decides nothing. The supervisor owns the state and hands out jobs, a worker drives each job's pass step by step, and what
//! a step means on a cluster is in [`cluster`]. This crate is the only writer to a cluster.

pub mod cluster;
pub mod crash;
pub mod journals;
pub mod mapping_objects;

mod clock;
mod config;
mod credentials;
mod errors;
mod events;
mod executor;
mod generate;
mod host;
mod leases;
mod live;
mod metrics;
mod outgoing;
mod plugins;
mod related;
mod rollback;
mod supervisor;
mod sweeper;
mod trace;
mod worker;

pub use host::{HostError, HostOptions, run};
pub use leases::LeaseOptions;
pub use live::{Live, LiveError, LiveObject};
pub use rollback::{RollbackError, RolledBack, To, rollback};
pub use sweeper::{Drained, Released, drain};
