//! One small blocking GET, to learn whether a component is ready.
//!
//! The crate is used by synchronous code (tests, xtask), and asks a handful of questions in a cluster's life: that is
//! no reason for an HTTP client and a runtime. rustls is in the build anyway.

use crate::pki::{Authority, Identity};
use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks the API server and the controller manager as one identity.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    tls: Arc<ClientConfig>,
}

impl Probe {
    pub(crate) fn new(authority: &Authority, identity: &Identity) -> Result<Self> {
        let ca = CertificateDer::from_pem_slice(authority.certificate.as_bytes())
            .context("parse the authority")?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())
            .context("parse the client")?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
            .context("parse the client's key")?;
        let mut roots = RootCertStore::empty();
        roots.add(ca).context("trust the cluster's authority")?;
        // Named, not installed as the process's default: that choice belongs to the program that uses this crate.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("configure TLS")?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .context("configure the client's certificate")?;
        Ok(Self { tls: Arc::new(tls) })
    }

    /// `GET path` over TLS on a port of this machine; the status must be 200.
    pub(crate) fn https(&self, port: u16, path: &str) -> Result<()> {
        let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        let connection = ClientConnection::new(self.tls.clone(), name).context("start TLS")?;
        get(StreamOwned::new(connection, connect(port)?), path)
    }
}

/// `GET path` without TLS on a port of this machine; the status must be 200.
pub(crate) fn http(port: u16, path: &str) -> Result<()> {
    get(connect(port)?, path)
}

fn connect(port: u16) -> Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)
        .with_context(|| format!("connect to {address}"))?;
    stream
        .set_read_timeout(Some(TIMEOUT))
        .context("set a timeout")?;
    stream
        .set_write_timeout(Some(TIMEOUT))
        .context("set a timeout")?;
    Ok(stream)
}

fn get(mut stream: impl Read + Write, path: &str) -> Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .with_context(|| format!("ask {path}"))?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    // A server may end the connection without TLS's farewell: what arrived counts.
    while let Ok(n) = stream.read(&mut chunk) {
        if n == 0 {
            break;
        }
        answer.extend_from_slice(&chunk[..n]);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.split_whitespace().nth(1) {
        Some("200") => Ok(()),
        Some(status) => {
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let failed: Vec<&str> = body
                .lines()
                .filter(|l| !l.starts_with("[+]"))
                .take(8)
                .collect();
            bail!("{path} answered {status}: {}", failed.join("; "))
        }
        None => bail!("{path} got no answer"),
    }
}
