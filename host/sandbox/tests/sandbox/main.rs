//! The sandbox against real guests: every limit obeyed and violated, every refusal with its text.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Also in the tests' helpers.

mod command;
mod contract;
mod isolation;
mod limits;
mod load;
mod refusals;
mod registry;
mod slow;
mod support;
mod world;
