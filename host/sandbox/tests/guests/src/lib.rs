//! A plugin that does what the object it is shown says (`{"do": "panic"}`), so that each limit of the sandbox is met by a
//! real guest. Built against the WIT alone, without the SDK.

#[cfg(target_arch = "wasm32")]
mod guest;
