//! Write a Guesthouse plugin in Rust.
//!
//! A plugin is a struct with one trait, [`Reconciler`]: it sees an [`Observation`] (spec, status and config in its own types)
//! and answers with a [`Decision`] or a [`Failure`]. It is a pure function: no clock, no randomness, no files, no network;
//! what it wants done it asks for, and the host does it.
//!
//! ```
//! use guesthouse_sdk::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! pub struct Spec { who: String }
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! pub struct Status { text: String }
//!
//! pub struct Greeter;
//! impl Reconciler for Greeter {
//!     type Spec = Spec;
//!     type Status = Status;
//!     type Config = NoConfig;
//!     fn describe() -> Plugin {
//!         Plugin::new("greeter", "1.0.0").serves(Crd::of::<Self>("example.com/v1", "Greeting").with_conditions())
//!     }
//!     fn reconcile(seen: &Observation<Self>) -> Result<Decision<Status>, Failure> {
//!         Ok(Decision::new().status(Status { text: format!("hello, {}", seen.spec().who) }))
//!     }
//! }
//! guesthouse_sdk::export!(Greeter);
//!
//! // A test, without host and without WebAssembly:
//! use guesthouse_sdk::testing::{decide, observe};
//! let decision = decide::<Greeter>(&observe(r#"{"metadata": {"name": "g"}, "spec": {"who": "world"}}"#)).unwrap();
//! assert_eq!(decision.status_text(), Some(r#"{"text":"hello, world"}"#));
//! ```
//!
//! Built with `cargo build --target wasm32-wasip1` (crate type `cdylib`), that is the whole plugin. Everything is built by
//! hand on a fast path: the object's text is parsed once, straight into the plugin's types ([`Raw`] keeps a part as text,
//! [`Unread`] skips one), and schemas are made in `describe` alone.

pub mod contract;
mod crd;
mod decision;
pub mod door;
mod effect;
mod fingerprint;
pub mod log;
mod observation;
mod plugin;
mod raw;
mod schema;
pub mod testing;

pub use contract::{Cause, Kind, Need, ObjectRef};
pub use crd::Crd;
pub use decision::{Decision, Failure};
pub use effect::{Apply, Delete, Http};
pub use fingerprint::fingerprint;
pub use observation::{Observation, Receipt, Related};
pub use plugin::Plugin;
pub use raw::{Raw, Unread};
pub use serde_json::{Value, json};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// All that a plugin usually names, derives included.
pub mod prelude {
    pub use crate::{
        Apply, Crd, Decision, Delete, Failure, Http, Kind, Need, NoConfig, Observation, Plugin,
        Raw, Receipt, Reconciler, Related, Unread, fingerprint, json,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}

/// A plugin: a pure function from what is seen to what is wanted. Equal observations must give equal decisions.
pub trait Reconciler: Sized {
    /// The object's spec. An object without one is read as `{}`.
    type Spec: DeserializeOwned;
    /// The object's status, as it is read and as it is written.
    type Status: DeserializeOwned + Serialize;
    /// The mapping's config; [`NoConfig`] for none.
    type Config: DeserializeOwned + JsonSchema;

    /// What the plugin says of itself; asked once, when it is loaded.
    fn describe() -> Plugin;

    /// The object is there and wanted. An error is a value; a panic is a refusal whose text reaches the user.
    fn reconcile(seen: &Observation<Self>) -> Result<Decision<Self::Status>, Failure>;

    /// The object is being deleted. Only called for a plugin that [`Plugin::finalizes`]; maybe without any `reconcile` before.
    fn finalize(seen: &Observation<Self>) -> Result<Decision<Self::Status>, Failure> {
        let _ = seen;
        Ok(Decision::new().finalized())
    }
}

/// The config of a plugin that takes none; a mapping that gives one is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// The README's code, tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
