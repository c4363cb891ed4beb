//! The one way to a cluster: requests, discovery, stores and watches.
//!
//! Everything the host reads from or writes to an API server goes through here, as text. Guarantees:
//! - every request names the [`Identity`](guesthouse_core::identity::Identity) it is made as;
//! - nothing is retried inside: an answer is a typed value, and the pass decides ([`request`]);
//! - a kind's objects are kept as the text received, without `managedFields` ([`store`]), in step with the server by a watch
//!   which survives what API servers and networks do to it ([`watch`]);
//! - lists are streamed or paged from the most recent state, never whole and never from "any" version.

pub mod discovery;
pub mod error;
pub mod request;
pub mod resource;
pub mod store;
pub mod transport;
pub mod watch;

#[cfg(test)]
pub(crate) mod scripted;

pub use discovery::Discovery;
pub use error::{RequestError, TransportError};
pub use request::{Answer, Api, Listed, PatchKind, Preconditions, Propagation, View, Want};
pub use resource::{CrdInfo, Resource};
pub use store::{Absorbed, Entry, Store};
pub use transport::{Transport, TransportOptions};
pub use watch::{Event, KindState, Notice, Scope, Watch, WatchId, WatchOptions};
