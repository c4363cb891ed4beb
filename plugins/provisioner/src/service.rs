//! The provisioner's routes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use report_exporter::server::cut;
use serde::Deserialize;

use crate::book::{Answer, Book, Entry, Resource, Stats, error};
use crate::fault::{Fail, Mode};

/// The memory that all connections share.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Book>>);

impl Shared {
    /// The book; a panic elsewhere does not take it away.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Counts a request as in flight until it is over, also when its connection goes away first.
struct InFlight {
    shared: Shared,
    place: usize,
    answer: Option<u16>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shared.book().leave(self.place, self.answer);
    }
}

/// All routes, over that memory.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/resources", get(list))
        .route(
            "/resources/{id}",
            get(resource).put(resource).delete(resource),
        )
        .route("/admin/fail", post(fail))
        .route("/admin/delay", post(delay))
        .route("/admin/finish", post(finish))
        .route("/admin/ledger", get(ledger))
        .route("/admin/stats", get(stats))
        .with_state(shared)
}

/// Any request about one resource: filed, made to fail where told, and answered.
async fn resource(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let key = headers.get("idempotency-key");
    let key = key.and_then(|key| key.to_str().ok());
    let request = Entry {
        at: now(),
        method: method.to_string(),
        resource: id,
        key: key.filter(|key| !key.is_empty()).map(String::from),
        body: String::from_utf8_lossy(&body).into_owned(),
        answer: None,
    };
    let (told, place) = {
        let mut book = shared.book();
        let told = book.faults.next(&request.method, &request.resource);
        book.stats.failed += u64::from(told.is_some());
        (told, book.arrive(request.clone()))
    };
    let mut in_flight = InFlight {
        shared: shared.clone(),
        place,
        answer: None,
    };
    let answer = match told.as_ref().map(|fail| fail.mode) {
        Some(Mode::Close) => return cut(),
        Some(Mode::Hang) => std::future::pending().await,
        Some(Mode::Lost) => {
            handle(&shared, &request);
            return cut();
        }
        Some(Mode::Answer(code)) => error(code, "told to fail"),
        Some(Mode::None) | None => handle(&shared, &request),
    };
    in_flight.answer = Some(answer.0);
    respond(answer, told.and_then(|fail| fail.retry_after))
}

fn handle(shared: &Shared, request: &Entry) -> Answer {
    let mut book = shared.book();
    if request.method != "GET" {
        return book.act(request);
    }
    match book.get(&request.resource, request.at) {
        Some(found) => (200, serde_json::json!(found)),
        None => error(404, "no such resource"),
    }
}

fn respond((code, body): Answer, retry_after: Option<u32>) -> Response {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = if body.is_null() {
        code.into_response()
    } else {
        (code, Json(body)).into_response()
    };
    if let Some(seconds) = retry_after {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

async fn list(State(shared): State<Shared>) -> Json<Vec<Resource>> {
    Json(shared.book().list(now()))
}

async fn ledger(State(shared): State<Shared>) -> Json<Vec<Entry>> {
    Json(shared.book().ledger().to_vec())
}

async fn stats(State(shared): State<Shared>) -> Json<Stats> {
    Json(shared.book().stats.clone())
}

async fn fail(State(shared): State<Shared>, Json(fail): Json<Fail>) -> StatusCode {
    shared.book().faults.tell(fail);
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delay {
    ms: Option<u64>,
}

async fn delay(State(shared): State<Shared>, Json(delay): Json<Delay>) -> StatusCode {
    shared.book().delay = delay.ms;
    StatusCode::NO_CONTENT
}

async fn finish(State(shared): State<Shared>) -> StatusCode {
    shared.book().finish();
    StatusCode::NO_CONTENT
}
