//! Plugins from elsewhere: bytes with proof of who made them, and a place on disk to have them again without a network.
//!
//! This crate knows nothing of Kubernetes and runs no WebAssembly. What it hands out was checked here: bytes of the digest that
//! was asked for, no more of them than allowed; and what may be loaded at all goes through [`policy::admit`].

pub mod policy;

mod compress;
mod credentials;
mod digest;
mod http;
mod push;
mod reference;
mod registry;
mod signature;
mod store;

pub use compress::{UnpackError, unpack};
pub use credentials::{BadDockerConfig, DockerConfig, Login};
pub use digest::{BadDigest, Digest};
pub use http::{FetchError, download, download_unpinned};
pub use push::{Pushed, push};
pub use reference::{BadReference, Reference};
pub use registry::{Access, Registry, Resolved};
pub use signature::{BadKey, Evidence, PublicKey};
pub use store::{Pin, Store, StoreError};
