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
pub mod server;
mod service;

use std::sync::Arc;

use tokio::net::ToSocketAddrs;

pub use book::{Fail, Mode, Report, Stats};
use server::Server;
use service::Shared;

/// A running exporter; it stops when it is dropped.
pub struct Exporter {
    server: Server,
    shared: Shared,
}

impl Exporter {
    /// Listens on that address, as in `127.0.0.1:0`, and serves until stopped. Fails if the address cannot be had.
    pub async fn start(listen: impl ToSocketAddrs) -> std::io::Result<Exporter> {
        let shared = Shared::default();
        let server = Server::start(listen, |url| {
            service::router(shared.clone(), Arc::from(url))
        })
        .await?;
        Ok(Exporter { server, shared })
    }

    /// Its address, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.server.url()
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
    pub async fn wait(self) {
        self.server.wait().await;
    }

    /// Stops: the port is free and all connections are closed when this returns.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}
