//! Registries and servers as plugins come from them: a real registry, and servers that do what a real one cannot be made to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Also in the tests' helpers.

#[path = "artifact/hostile.rs"]
mod hostile;
#[path = "artifact/registry.rs"]
mod registry;

use std::future::Future;

/// Runs a test to its end, or to a deadline that only a hang reaches.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let deadline = std::time::Duration::from_secs(60);
    runtime.block_on(async {
        tokio::time::timeout(deadline, test)
            .await
            .expect("it hangs")
    })
}
