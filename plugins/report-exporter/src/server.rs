//! An HTTP server that can also fail as the network does: an answer that is [`cut`] closes the connection unsaid.
//!
//! The services that plugins call in the demo and in the tests stand on it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt;

/// A running server; it stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Server {
    /// Listens on that address, as in `127.0.0.1:0`, and serves until stopped what `routes` makes of its own address,
    /// `http://127.0.0.1:PORT`. Fails if the address cannot be had.
    pub async fn start(
        listen: impl ToSocketAddrs,
        routes: impl FnOnce(&str) -> Router,
    ) -> std::io::Result<Server> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let router = routes(&format!("http://{address}"));
        Ok(Server {
            address,
            serving: tokio::spawn(serve(listener, router)),
        })
    }

    /// Its address, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until something else ends it.
    pub async fn wait(mut self) {
        // An aborted task is the only error, and it is over then, too.
        let _ = (&mut self.serving).await;
    }

    /// Stops: the port is free and all connections are closed when this returns.
    pub async fn stop(mut self) {
        self.serving.abort();
        let _ = (&mut self.serving).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Marks an answer that is not to be sent.
#[derive(Clone, Copy)]
struct Cut;

/// An answer that is never sent: the connection is closed instead.
pub fn cut() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(Cut);
    response
}

/// Accepts connections for ever; they end with it.
async fn serve(listener: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone()));
                }
                // Out of file descriptors, most likely: let others end first.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The answer was [`Cut`]: hyper closes a connection whose service fails without sending anything.
#[derive(Debug, thiserror::Error)]
#[error("told to close the connection")]
struct Closed;

async fn connection(stream: TcpStream, router: Router) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: Request<Incoming>| {
        let router = router.clone();
        async move {
            let response: Result<Response<Body>, Infallible> =
                router.oneshot(request.map(Body::new)).await;
            match response {
                Ok(response) if response.extensions().get::<Cut>().is_some() => Err(Closed),
                Ok(response) => Ok(response),
                Err(never) => match never {},
            }
        }
    });
    // Connections end in errors all the time; the counts say what matters.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
