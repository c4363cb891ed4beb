//! Where a call comes in: the contract's records on one side, the plugin's types on the other.
//!
//! The same functions serve the exports of a component and [`crate::testing`], so a native test runs what the host runs.

use crate::contract::{self, Descriptor};
use crate::{Decision, Failure, Observation, Reconciler, schema};

/// What is answered: a decision or why there is none.
pub type Reply = Result<contract::Decision, contract::Failure>;

/// The plugin's descriptor, with the schema of its config.
pub fn describe<P: Reconciler>() -> Descriptor {
    let mut descriptor = P::describe().0;
    descriptor
        .config_schema
        .get_or_insert_with(schema::plain::<P::Config>);
    descriptor
}

/// One call of `reconcile`.
pub fn reconcile<P: Reconciler>(seen: &contract::Observation) -> Reply {
    let seen = Observation::<P>::read(seen).map_err(Failure::into_raw)?;
    P::reconcile(&seen)
        .and_then(Decision::finish)
        .map_err(Failure::into_raw)
}

/// One call of `finalize`.
pub fn finalize<P: Reconciler>(seen: &contract::Observation) -> Reply {
    let seen = Observation::<P>::read(seen).map_err(Failure::into_raw)?;
    P::finalize(&seen)
        .and_then(Decision::finish)
        .map_err(Failure::into_raw)
}

/// Generated from the contract; compiled for guests only.
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, missing_docs, unreachable_pub, clippy::all)] // generated code that speaks the canonical ABI
pub mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        world: "reconciler",
        with: {"guesthouse:reconciler/types@0.1.0": crate::contract},
        pub_export_macro: true,
        export_macro_name: "export_reconciler",
        default_bindings_module: "guesthouse_sdk::door::bindings",
    });
}

/// Makes a [`Reconciler`] the plugin of this crate: the exports of `guesthouse:reconciler/plugin` when built for `wasm32`, a
/// check of the trait elsewhere.
#[cfg(target_arch = "wasm32")]
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        #[allow(unsafe_code)] // exported names of the canonical ABI
        const _: () = {
            struct Door;
            impl $crate::door::bindings::exports::guesthouse::reconciler::plugin::Guest for Door {
                fn describe() -> $crate::contract::Descriptor {
                    $crate::door::describe::<$plugin>()
                }
                fn reconcile(
                    seen: $crate::contract::Observation,
                ) -> ::core::result::Result<$crate::contract::Decision, $crate::contract::Failure>
                {
                    // An instance serves one call: what it read goes with it, not piece by piece.
                    $crate::door::reconcile::<$plugin>(&::core::mem::ManuallyDrop::new(seen))
                }
                fn finalize(
                    seen: $crate::contract::Observation,
                ) -> ::core::result::Result<$crate::contract::Decision, $crate::contract::Failure>
                {
                    $crate::door::finalize::<$plugin>(&::core::mem::ManuallyDrop::new(seen))
                }
            }
    $crate::door::bindings::export_reconciler!(Door with_types_in $crate::door::bindings);
        };
    };
}

/// Makes a [`Reconciler`] the plugin of this crate: the exports of `guesthouse:reconciler/plugin` when built for `wasm32`, a
/// check of the trait elsewhere.
#[cfg(not(target_arch = "wasm32"))]
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        const _: fn() -> $crate::contract::Descriptor = $crate::door::describe::<$plugin>;
    };
}
