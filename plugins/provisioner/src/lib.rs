//! The HTTP service that `ProvisionRequest`s are made at, for the demo and the tests.
//!
//! A resource has an id that its owner chooses and that is never used for another one. A request acts once for each
//! `Idempotency-Key`, and a repeated key gets the same answer again. What the host must guarantee can be read off the counts
//! (`acts` by resource id: `created` is at most 1) and off the ledger, which holds every request that arrived. It can be told
//! to fail in the ways a real service does. Its memory ends with the process.
//!
//! | request | answer |
//! |---|---|
//! | `PUT /resources/{id}` `{"size", "region"}` | 201 made, 200 there already or resized: [`Resource`]; another region 409; a deleted id 410 |
//! | `DELETE /resources/{id}` | 204, or 404 if there is none; nothing is made under this id any more |
//! | `GET /resources/{id}` | [`Resource`], or 404 |
//! | `GET /resources` | all of them, by id |
//! | `POST /admin/fail` [`Fail`] | fails that way, after what was told before |
//! | `POST /admin/delay` `{"ms"}` | resources are ready that much later; null: when told by `POST /admin/finish` |
//! | `GET /admin/ledger`, `GET /admin/stats` | every [`Entry`]; [`Stats`] |
//!
//! `PUT` and `DELETE` without an `Idempotency-Key` are answered 400, a key that was used for another request 422.

mod book;
mod fault;
mod service;

use report_exporter::server::Server;
use tokio::net::ToSocketAddrs;

pub use book::{Acts, Entry, Resource, State, Stats};
pub use fault::{Fail, Mode};
use service::{Shared, now};

/// A running provisioner; it stops when it is dropped.
pub struct Provisioner {
    server: Server,
    shared: Shared,
}

impl Provisioner {
    /// Listens on that address, as in `127.0.0.1:0`, and serves until stopped; resources are ready at once. Fails if the
    /// address cannot be had.
    pub async fn start(listen: impl ToSocketAddrs) -> std::io::Result<Provisioner> {
        let shared = Shared::default();
        shared.book().delay = Some(0);
        let server = Server::start(listen, |_| service::router(shared.clone())).await?;
        Ok(Provisioner { server, shared })
    }

    /// Its address, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Every request so far, in the order they arrived.
    pub fn ledger(&self) -> Vec<Entry> {
        self.shared.book().ledger().to_vec()
    }

    /// What it counted so far.
    pub fn stats(&self) -> Stats {
        self.shared.book().stats.clone()
    }

    /// The resources there are, by id.
    pub fn resources(&self) -> Vec<Resource> {
        self.shared.book().list(now())
    }

    /// Fails that way, after what was told before; [`Mode::None`] forgets all.
    pub fn fail(&self, fail: Fail) {
        self.shared.book().faults.tell(fail);
    }

    /// What is made or resized from now on is ready so many milliseconds later; `None`: when [`Provisioner::finish`] says so.
    pub fn delay(&self, ms: Option<u64>) {
        self.shared.book().delay = ms;
    }

    /// Everything that is under way is ready.
    pub fn finish(&self) {
        self.shared.book().finish();
    }

    /// Takes a resource away behind everybody's back. Whether it was there.
    pub fn lose(&self, id: &str) -> bool {
        self.shared.book().lose(id)
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
