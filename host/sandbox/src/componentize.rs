//! A core module as `cargo build --target wasm32-wasip1` leaves it, made a component: the author runs cargo and nothing else.

use guesthouse_core::refusal::{Refusal, RefusalKind::BadModule};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::ComponentEncoder;

use crate::refuse::refuse;

/// The component around a core module that carries its types in a section.
pub(crate) fn componentize(core: &[u8]) -> Result<Vec<u8>, Refusal> {
    ComponentEncoder::default()
        .module(core)
        .and_then(|encoder| {
            encoder.adapter(
                WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
            )
        })
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| refuse(BadModule, format!("cannot be made a component: {error:#}")))
}
