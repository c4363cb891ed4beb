//! The registry as its users have it.

use anyhow::{Result, ensure};
use guesthouse_local::{Registry, RegistryOptions};
use std::net::TcpStream;

#[test]
fn a_registry_listens_on_loopback_keeps_its_address_and_leaves_nothing_running() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut registry = Registry::start(RegistryOptions {
        dir: dir.path().join("registry"),
        tls: true,
        login: true,
    })?;
    let address = registry.address();
    ensure!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"));
    ensure!(
        registry
            .ca()
            .is_some_and(|ca| ca.contains("BEGIN CERTIFICATE"))
    );
    TcpStream::connect(&address)?;
    registry.stop();
    ensure!(TcpStream::connect(&address).is_err());
    registry.go_on()?;
    ensure!(registry.address() == address);
    TcpStream::connect(&address)?;
    drop(registry);
    ensure!(TcpStream::connect(&address).is_err());
    Ok(())
}
