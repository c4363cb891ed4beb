//! A plugin for tests of the host: what it decides stands in the spec of its object, and what it saw it writes into the status.
//!
//! So a scenario can have any shape of children and effects without a plugin of its own. This one does not finalize; the crate
//! `decide-finalizing` is the same plugin and does.

mod wish;

use guesthouse_sdk::prelude::*;

/// The plugin.
pub struct Decide;

impl Reconciler for Decide {
    type Spec = Raw;
    type Status = Raw;
    type Config = NoConfig;

    fn describe() -> Plugin {
        // No kinds, so that it may be mapped to every kind. Its own is printed by `crd()`.
        Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Decision<Raw>, Failure> {
        wish::decided(seen, "reconcile")
    }
}

guesthouse_sdk::export!(Decide);

/// The definition of `test.guesthouse.dev/v1 Wish`.
pub fn crd() -> Crd {
    Crd::of::<Decide>("test.guesthouse.dev/v1", "Wish")
        .plural("wishes")
        .with_conditions()
        .ready_column()
        .age_column()
}
