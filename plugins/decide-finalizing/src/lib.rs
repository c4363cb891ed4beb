//! The plugin `decide` as one that finalizes: deletion passes through the member `finalize` of the spec.
//!
//! One descriptor says one thing, so it takes a module of its own; all else is shared.

#[path = "../../decide/src/wish.rs"]
mod wish;

use guesthouse_sdk::prelude::*;

/// The plugin.
pub struct DecideFinalizing;

impl Reconciler for DecideFinalizing {
    type Spec = Raw;
    type Status = Raw;
    type Config = NoConfig;

    fn describe() -> Plugin {
        Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).finalizes()
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Decision<Raw>, Failure> {
        wish::decided(seen, "reconcile")
    }

    fn finalize(seen: &Observation<Self>) -> Result<Decision<Raw>, Failure> {
        wish::decided(seen, "finalize")
    }
}

guesthouse_sdk::export!(DecideFinalizing);
