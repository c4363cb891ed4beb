//! Placeholder.

pub mod cluster;
