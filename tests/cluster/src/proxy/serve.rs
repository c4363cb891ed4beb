//! Connections, and what is done with each request.

use super::answer;
use super::gate::Gated;
use super::request::{Asked, Verb};
use super::rule::Fault;
use super::stream::{self, Stream};
use super::{Shared, Wire};
use crate::run::now_ms;
use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A body on its way to the host.
pub(super) type Out = BoxBody<Bytes, Closed>;

/// A body or an answer that ends with its connection.
#[derive(Debug)]
pub(super) struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut by a rule")
    }
}

impl std::error::Error for Closed {}

/// The way to the server.
pub(super) struct Upstream {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
}

impl Upstream {
    pub(super) fn new(url: Uri, tls: rustls::ClientConfig) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(https),
            url,
        })
    }

    /// Asks the server as the host asked.
    async fn ask(
        &self,
        parts: &http::request::Parts,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let mut to = self.url.clone().into_parts();
        to.path_and_query = Some(path.parse().context("a path")?);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = Uri::from_parts(to)?;
        for (name, value) in &parts.headers {
            let hop = [
                header::HOST,
                header::CONNECTION,
                header::CONTENT_LENGTH,
                header::ACCEPT_ENCODING,
            ];
            if !hop.contains(name) {
                request.headers_mut().append(name, value.clone());
            }
        }
        // So that a rule can cut text, and not a compressed one.
        let identity = header::HeaderValue::from_static("identity");
        request
            .headers_mut()
            .insert(header::ACCEPT_ENCODING, identity);
        Ok(self.client.request(request).await?)
    }
}

/// Where the host comes in.
#[derive(Clone)]
pub(super) struct Door(Option<(TlsAcceptor, PathBuf)>);

impl Door {
    pub(super) fn open(wire: Wire, dir: &Path) -> Result<Self> {
        if wire == Wire::Plain {
            return Ok(Self(None));
        }
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let file = dir.join("proxy.pem");
        std::fs::write(&file, made.cert.pem())
            .with_context(|| format!("write {}", file.display()))?;
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let mut config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Some((TlsAcceptor::from(Arc::new(config)), file))))
    }

    /// For a host; JSON is YAML.
    pub(super) fn kubeconfig(&self, address: SocketAddr) -> Value {
        let cluster = match &self.0 {
            None => json!({"server": format!("http://{address}")}),
            Some((_, file)) => {
                json!({"server": format!("https://{address}"), "certificate-authority": file})
            }
        };
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        })
    }
}

/// Takes connections for ever; they end with it.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener, door: Door) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let _ = stream.set_nodelay(true);
                let gated = Gated { stream, gate: shared.gate.clone() };
                connections.spawn(connection(shared.clone(), door.clone(), gated));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(shared: Arc<Shared>, door: Door, gated: Gated) {
    match door.0 {
        None => carry(shared, gated).await,
        Some((acceptor, _)) => {
            if let Ok(stream) = acceptor.accept(gated).await {
                carry(shared, stream).await;
            }
        }
    }
}

async fn carry(shared: Arc<Shared>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let cut = Arc::new(Notify::new());
    let mut cuts = shared.cuts.subscribe();
    let service = service_fn(|request| {
        let (shared, cut) = (shared.clone(), cut.clone());
        async move { handle(shared, cut, request).await }
    });
    let builder = Builder::new(TokioExecutor::new());
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    // What is dropped is closed, whatever was under way on it.
    tokio::select! {
        _ = serving => {}
        () = cut.notified() => {}
        _ = cuts.changed() => {}
    }
}

/// Notes a request when it is over, however it ends: also when its client goes away first.
struct Noting {
    shared: Arc<Shared>,
    asked: Asked,
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.asked.took = now_ms().saturating_sub(self.asked.at);
        self.shared.note(self.asked.clone());
    }
}

async fn handle(
    shared: Arc<Shared>,
    cut: Arc<Notify>,
    request: Request<Incoming>,
) -> Result<Response<Out>, Closed> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
    let asked = Asked::read(&parts.method, &parts.uri, &body, now_ms());
    let struck = shared.rules().request(&asked);
    let mut noting = Noting {
        shared: shared.clone(),
        asked,
    };
    let fault = struck.map(|(name, fault)| {
        noting.asked.rule = Some(name);
        fault
    });
    let passing = Passing {
        shared,
        cut,
        parts,
        body,
        noting,
    };
    passing.meet(fault).await
}

/// A request on its way.
struct Passing {
    shared: Arc<Shared>,
    cut: Arc<Notify>,
    parts: http::request::Parts,
    body: Bytes,
    noting: Noting,
}

impl Passing {
    async fn meet(mut self, fault: Option<Fault>) -> Result<Response<Out>, Closed> {
        match fault {
            Some(Fault::Status(code, retry_after)) => {
                self.noting.asked.code = code;
                Ok(answer::status(
                    code,
                    &self.noting.asked.target.name,
                    retry_after,
                ))
            }
            Some(Fault::Silent) => std::future::pending().await,
            Some(Fault::CutBefore) => self.cut().await,
            Some(Fault::CutAfter) => {
                let cut = self.cut.clone();
                // On its own: it must not end with the connection.
                tokio::spawn(async move {
                    let _ = self.whole().await;
                });
                cut.notify_one();
                std::future::pending().await
            }
            Some(Fault::Lost) => {
                let _ = self.whole().await;
                self.cut().await
            }
            Some(Fault::CutInBody) => {
                let (head, body) = self.whole().await?;
                self.noting.asked.code = head.status.as_u16();
                let mut response = Response::from_parts(head, answer::half(&body));
                response
                    .headers_mut()
                    .insert(header::CONTENT_LENGTH, body.len().into());
                Ok(response)
            }
            Some(Fault::Truncated) if self.noting.asked.verb != Verb::Watch => {
                let (head, body) = self.whole().await?;
                self.noting.asked.code = head.status.as_u16();
                Ok(answer::whole(
                    head.status.as_u16(),
                    body.slice(..body.len() / 2),
                ))
            }
            Some(Fault::Delay(least, more)) => {
                let delay = self.shared.rules().draw(least, more);
                tokio::time::sleep(delay).await;
                self.pass().await
            }
            _ => self.pass().await,
        }
    }

    async fn cut(self) -> Result<Response<Out>, Closed> {
        self.cut.notify_one();
        // Dropped with the connection.
        std::future::pending().await
    }

    async fn ask(&mut self) -> Result<Response<Incoming>, Closed> {
        let path = paged(&self.noting.asked, self.shared.page.load(Ordering::Relaxed));
        let upstream = &self.shared.upstream;
        self.noting.asked.sent = true;
        let asked = upstream.ask(&self.parts, &path, self.body.clone()).await;
        let response = asked.map_err(|_| Closed);
        if let Ok(response) = &response {
            self.noting.asked.server = response.status().as_u16();
        }
        response
    }

    /// The server's answer, to its end.
    async fn whole(&mut self) -> Result<(http::response::Parts, Bytes), Closed> {
        let (mut head, body) = self.ask().await?.into_parts();
        let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
        strip(&mut head);
        Ok((head, body))
    }

    async fn pass(mut self) -> Result<Response<Out>, Closed> {
        if self.noting.asked.verb != Verb::Watch {
            let Ok((head, body)) = self.whole().await else {
                // The server itself is away: so is the connection to it.
                return self.cut().await;
            };
            self.noting.asked.code = head.status.as_u16();
            let body = Full::new(body).map_err(|never| match never {}).boxed();
            return Ok(Response::from_parts(head, body));
        }
        let Ok(response) = self.ask().await else {
            return self.cut().await;
        };
        let (mut head, body) = response.into_parts();
        strip(&mut head);
        self.noting.asked.code = head.status.as_u16();
        if !head.status.is_success() {
            let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
            let body = Full::new(body).map_err(|never| match never {}).boxed();
            return Ok(Response::from_parts(head, body));
        }
        let stream = Stream {
            shared: self.shared.clone(),
            asked: self.noting.asked.clone(),
            cut: self.cut.clone(),
            body,
        };
        Ok(Response::from_parts(head, stream::pump(stream)))
    }
}

/// What belongs to the server's connection and not to ours.
fn strip(head: &mut http::response::Parts) {
    for name in [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
    ] {
        head.headers.remove(name);
    }
    head.version = http::Version::default();
}

/// The path to ask for: with smaller pages, if that is wanted.
fn paged(asked: &Asked, page: usize) -> String {
    if page == 0 || asked.verb != Verb::List {
        return asked.path.clone();
    }
    let parts = asked
        .path
        .split('&')
        .map(|part| match part.split_once("limit=") {
            Some((before, _)) => format!("{before}limit={page}"),
            None => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("&")
}
