//! Plugins from elsewhere: bytes with proof of who made them, and a place on disk to have them again without a network.
//!
//! This crate knows nothing of Kubernetes and nothing of WebAssembly. What it hands out was checked here: bytes of the digest
//! that was asked for, no more of them than allowed.

mod digest;
mod store;

pub use digest::{BadDigest, Digest};
pub use store::{Pin, Store, StoreError};
