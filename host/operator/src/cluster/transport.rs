//! The connections to the API server.
//!
//! kube's configuration, credentials and TLS, over our own connector: TCP_NODELAY (kube's stack leaves Nagle on: p99 of a
//! write falls from 52 to 33 ms), HTTP/2 where the server offers it, with pings that end a silent connection, and HTTP/1.1
//! where a proxy or a plain `http://` address does not. Requests share one connection and a cap on those in flight; watches
//! have connections of their own, so that a storm of events delays no write. There is no buffering task between caller and
//! connection, as kube's `Client` has: a request costs one hop less.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use guesthouse_core::identity::Identity;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ConfigExt};
use tokio::sync::Semaphore;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::error::{RequestError, TransportError};

/// How the host talks to its API server; the defaults are the measured ones.
#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// Requests in flight at most, watches apart. 16: the rate of 32 with a quarter of the latency.
    pub in_flight: usize,
    /// From the first packet to the end of the TLS handshake.
    pub connect_timeout: Duration,
    /// From the start of a request to the end of its answer, waiting for a free slot apart.
    pub request_timeout: Duration,
    /// How often an HTTP/2 connection is pinged, and how long an answer may take before the connection counts as lost.
    pub keep_alive: Duration,
    /// Watches that share one connection. API servers allow 100 to 250 streams on one; more would wait without a word.
    pub watches_per_connection: usize,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            in_flight: 16,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            watches_per_connection: 90,
        }
    }
}

type Pipe = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;
/// Opens a pipe whose connection is pinged that often.
type Opener = Arc<dyn Fn(Duration) -> Pipe + Send + Sync>;

/// The way to one API server. Cheap to clone.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

struct Inner {
    options: TransportOptions,
    url: Uri,
    default_namespace: String,
    requests: Pipe,
    slots: Semaphore,
    open_pipe: Opener,
    lanes: Mutex<Vec<Lane>>,
}

/// A watch's share of a connection; the share is given back when it is dropped.
#[derive(Clone)]
pub(crate) struct Lane {
    pipe: Pipe,
    shares: Arc<()>,
}

/// An answer, whatever its code, read to its end.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Transport {
    /// Connections as `config` says; nothing is sent before the first request.
    pub fn new(config: Config, options: TransportOptions) -> Result<Self, TransportError> {
        // rustls takes the process's provider; a second installation by another part of the process is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = config.cluster_url.clone();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        let default_namespace = config.default_namespace.clone();
        let open_pipe = match &config.proxy_url {
            None => pipes(config, tcp, &options)?,
            Some(proxy)
                if proxy.scheme_str() == Some("http")
                    && !proxy.authority().is_some_and(|a| a.as_str().contains('@')) =>
            {
                let tunnel = Tunnel::new(proxy.clone(), tcp);
                pipes(config, tunnel, &options)?
            }
            Some(proxy) => {
                return Err(TransportError::Proxy(
                    proxy.host().unwrap_or_default().to_owned(),
                ));
            }
        };
        Ok(Self(Arc::new(Inner {
            requests: open_pipe(options.keep_alive),
            slots: Semaphore::new(options.in_flight.max(1)),
            lanes: Mutex::new(Vec::new()),
            options,
            url,
            default_namespace,
            open_pipe,
        })))
    }

    /// Connections as kubeconfig (`KUBECONFIG`, `~/.kube/config`) or the in-cluster environment say.
    pub async fn infer(options: TransportOptions) -> Result<Self, TransportError> {
        // Reading an in-cluster CA or a kubeconfig with an exec plugin may already need TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Config::infer()
            .await
            .map_err(|error| TransportError::Config(error.to_string()))?;
        Self::new(config, options)
    }

    /// The same way with the same credentials over connections of its own, which no other traffic can hold up.
    #[must_use]
    pub fn apart(&self, in_flight: usize, request_timeout: Duration) -> Self {
        let inner = &self.0;
        // A dead connection is given up about when the request over it is, so that the next one has another.
        let keep_alive = inner.options.keep_alive.min(request_timeout / 2);
        Self(Arc::new(Inner {
            requests: (inner.open_pipe)(keep_alive),
            slots: Semaphore::new(in_flight.max(1)),
            lanes: Mutex::new(Vec::new()),
            options: TransportOptions {
                in_flight,
                request_timeout,
                keep_alive,
                ..inner.options.clone()
            },
            url: inner.url.clone(),
            default_namespace: inner.default_namespace.clone(),
            open_pipe: inner.open_pipe.clone(),
        }))
    }

    /// The API server's address.
    pub fn url(&self) -> &Uri {
        &self.0.url
    }

    /// The namespace of the kubeconfig's context, or the one the host runs in.
    pub fn default_namespace(&self) -> &str {
        &self.0.default_namespace
    }

    /// The options it was built with.
    pub fn options(&self) -> &TransportOptions {
        &self.0.options
    }

    /// One request and its whole answer, once a slot is free. `identity` decides the credentials (today: always the host's).
    pub(crate) async fn call(
        &self,
        identity: &Identity,
        mut request: Request<Body>,
    ) -> Result<Reply, RequestError> {
        stamp(&mut request);
        let _slot = self
            .0
            .slots
            .acquire()
            .await
            .map_err(|_| RequestError::Unreachable("transport closed".into()))?;
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let pipe = self.0.requests.clone();
        let work = async {
            let response = pipe
                .oneshot(request)
                .await
                .map_err(|error| unreachable(&*error))?;
            let (parts, body) = response.into_parts();
            let body = body
                .collect()
                .await
                .map_err(|error| unreachable(&error))?
                .to_bytes();
            Ok(Reply {
                code: parts.status.as_u16(),
                headers: parts.headers,
                body,
            })
        };
        let limit = self.0.options.request_timeout;
        let result = match tokio::time::timeout(limit, work).await {
            Ok(result) => result,
            Err(_) => Err(late(limit)),
        };
        let code = result.as_ref().map_or(0, |reply| reply.code);
        tracing::debug!(target: "guesthouse::request", %identity, %method, %uri, code, "asked");
        result
    }

    /// A share of a watch connection.
    pub(crate) fn lane(&self) -> Lane {
        let mut lanes = self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // One reference is the list's own.
        if let Some(lane) = lanes
            .iter()
            .find(|lane| Arc::strong_count(&lane.shares) <= self.0.options.watches_per_connection)
        {
            return lane.clone();
        }
        let lane = Lane {
            pipe: (self.0.open_pipe)(self.0.options.keep_alive),
            shares: Arc::new(()),
        };
        lanes.push(lane.clone());
        lane
    }

    /// Opens a stream: the answer's head within the request timeout, its body at the caller's pace.
    pub(crate) async fn open(
        &self,
        identity: &Identity,
        lane: &Lane,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, RequestError> {
        stamp(&mut request);
        tracing::debug!(target: "guesthouse::request", %identity, uri = %request.uri(), "opening");
        let limit = self.0.options.request_timeout;
        match tokio::time::timeout(limit, lane.pipe.clone().oneshot(request)).await {
            Ok(result) => result.map_err(|error| unreachable(&*error)),
            Err(_) => Err(late(limit)),
        }
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport")
            .field("url", &self.0.url)
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

/// A maker of pipes: each has a connection of its own, all share credentials (an exec plugin runs once).
fn pipes<C>(config: Config, tcp: C, options: &TransportOptions) -> Result<Opener, TransportError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let url = config.cluster_url.to_string();
    let tls_error = |message: String| TransportError::Tls {
        url: url.clone(),
        message,
    };
    let credentials_error = |error: kube::Error| TransportError::Credentials {
        url: url.clone(),
        message: error.to_string(),
    };
    let tls = config
        .rustls_client_config()
        .map_err(|error| tls_error(error.to_string()))?;
    let mut https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = rustls::pki_types::ServerName::try_from(name.clone())
            .map_err(|error| tls_error(error.to_string()))?;
        https = https.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let connector = Deadline {
        inner: https.enable_all_versions().wrap_connector(tcp),
        limit: options.connect_timeout,
    };
    let auth = config.auth_layer().map_err(credentials_error)?;
    let extra = config.extra_headers_layer().map_err(credentials_error)?;
    let base = config.base_uri_layer();
    let idle = options.in_flight;
    Ok(Arc::new(move |keep_alive| {
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(idle)
            .http2_initial_stream_window_size(1 << 20)
            .http2_initial_connection_window_size(8 << 20)
            .http2_keep_alive_interval(keep_alive)
            .http2_keep_alive_timeout(keep_alive)
            .http2_keep_alive_while_idle(true)
            .build(connector.clone());
        let stack = ServiceBuilder::new()
            .layer(base.clone())
            .option_layer(auth.as_ref().map(Borrowed))
            .layer(extra.clone());
        BoxCloneSyncService::new(stack.map_err(BoxError::from).service(client))
    }))
}

/// A connector whose connections stand, TLS included, within a limit. (hyper-util's own limit ends with the TCP handshake.)
#[derive(Clone)]
struct Deadline<C> {
    inner: C,
    limit: Duration,
}

impl<C> Service<Uri> for Deadline<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, limit) = (self.inner.call(uri), self.limit);
        Box::pin(async move {
            match tokio::time::timeout(limit, connecting).await {
                Ok(result) => result.map_err(Into::into),
                Err(_) => Err(format!("no connection within {} s", limit.as_secs_f32()).into()),
            }
        })
    }
}

/// Lends kube's `AuthLayer`, which cannot be cloned, to several stacks.
struct Borrowed<'a>(&'a kube::client::middleware::AuthLayer);

impl<S> tower::Layer<S> for Borrowed<'_> {
    type Service = <kube::client::middleware::AuthLayer as tower::Layer<S>>::Service;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}

/// The headers every request carries. The user agent's first word is also the field manager the server notes.
fn stamp(request: &mut Request<Body>) {
    const AGENT: &str = concat!("guesthouse/", env!("CARGO_PKG_VERSION"));
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    headers
        .entry(header::ACCEPT)
        .or_insert(HeaderValue::from_static("application/json"));
}

fn late(limit: Duration) -> RequestError {
    RequestError::Unreachable(format!("no answer within {} s", limit.as_secs_f32()))
}

/// The whole chain of causes: hyper's outermost words alone ("client error (Connect)") help nobody.
pub(crate) fn unreachable(error: &(dyn std::error::Error + 'static)) -> RequestError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    RequestError::Unreachable(text)
}

#[cfg(test)]
mod tests;
