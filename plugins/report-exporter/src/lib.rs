//! The HTTP service that `ReportJob`s are exported to, for the demo and the tests.
//!
//! `PUT /reports/{id}` makes a report once for each `Idempotency-Key`, and a repeated key is answered from its record. What
//! the host must guarantee can be read off the counts: `made` is the number of reports, `duplicates` is 0. It can be told to
//! fail in the ways a real service does. Its memory ends with the process.
//!
//! | request | answer |
//! |---|---|
//! | `PUT /reports/{id}` with `Idempotency-Key` | 201 `{"url"}`; without the key 400; a key used for something else 422 |
//! | `GET /reports` | the reports made: id, key, body |
//! | `POST /admin/fail` [`Fail`] | fails that way, after what was told before |
//! | `POST /admin/delay` `{"ms"}` | answers each report that much later |
//! | `GET /admin/stats` | [`Stats`] |

mod book;
mod service;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
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

pub use book::{Fail, Mode, Report, Stats};
use service::{Cut, Shared};

/// A running exporter; it stops when it is dropped.
pub struct Exporter {
    address: SocketAddr,
    shared: Shared,
    serving: JoinHandle<()>,
}

impl Exporter {
    /// Listens on that address, as in `127.0.0.1:0`, and serves until stopped. Fails if the address cannot be had.
    pub async fn start(listen: impl ToSocketAddrs) -> std::io::Result<Exporter> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let shared = Shared::default();
        let router = service::router(shared.clone(), Arc::from(format!("http://{address}")));
        Ok(Exporter {
            address,
            shared,
            serving: tokio::spawn(serve(listener, router)),
        })
    }

    /// Its address, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it counted so far.
    pub fn stats(&self) -> Stats {
        self.shared.book().stats().clone()
    }

    /// The reports made so far, by id.
    pub fn reports(&self) -> Vec<Report> {
        self.shared.book().reports().cloned().collect()
    }

    /// Fails that way, after what was told before; [`Mode::None`] forgets all.
    pub fn fail(&self, fail: Fail) {
        self.shared.book().fail(fail);
    }

    /// Answers each report so many milliseconds later.
    pub fn delay(&self, ms: u64) {
        self.shared.book().delay = ms;
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

impl Drop for Exporter {
    fn drop(&mut self) {
        self.serving.abort();
    }
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
