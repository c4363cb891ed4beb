//! The exporter's routes.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;

use crate::book::{Book, Fail, Mode, Put, Report, Stats};
use crate::server::cut;

/// The memory that all connections share.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Book>>);

impl Shared {
    /// The book; a panic elsewhere does not take it away.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a request as in flight until it is over, also when its connection goes away first.
struct InFlight(Shared);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.book().leave();
    }
}

/// All routes, over that memory; `base` is the address that urls begin with.
pub(crate) fn router(shared: Shared, base: Arc<str>) -> Router {
    Router::new()
        .route("/reports", get(list))
        .route(
            "/reports/{id}",
            put(move |state, id, uri, headers, body| {
                put_report(state, id, uri, headers, body, base)
            }),
        )
        .route("/admin/fail", post(fail))
        .route("/admin/delay", post(delay))
        .route("/admin/stats", get(stats))
        .with_state(shared)
}

async fn put_report(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    base: Arc<str>,
) -> Response {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64;
    let (told, delay) = {
        let mut book = shared.book();
        (book.arrive(&id, now), book.delay)
    };
    let _in_flight = InFlight(shared.clone());
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    let mode = told.as_ref().map(|fail| fail.mode);
    match mode {
        Some(Mode::Http500) => {
            return refused(StatusCode::INTERNAL_SERVER_ERROR, "told to fail", told);
        }
        Some(Mode::Http429) => return refused(StatusCode::TOO_MANY_REQUESTS, "told to fail", told),
        Some(Mode::Http422) => {
            return refused(StatusCode::UNPROCESSABLE_ENTITY, "told to fail", told);
        }
        Some(Mode::Close | Mode::Down) => return cut(),
        Some(Mode::Hang) => pin!(std::future::pending::<()>()).await,
        Some(Mode::Lost | Mode::None) | None => {}
    }
    let Some(key) = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok())
        .filter(|key| !key.is_empty())
    else {
        return refused(
            StatusCode::BAD_REQUEST,
            "the header Idempotency-Key is missing",
            None,
        );
    };
    match shared.book().put(&id, key, &body) {
        Put::KeyReused => refused(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this Idempotency-Key was used for another request",
            None,
        ),
        Put::Made if mode == Some(Mode::Lost) => cut(),
        Put::Made => {
            let url = format!("{base}{}", uri.path());
            (
                StatusCode::CREATED,
                [(header::LOCATION, url.clone())],
                Json(json!({"url": url})),
            )
                .into_response()
        }
    }
}

fn refused(code: StatusCode, why: &str, told: Option<Fail>) -> Response {
    let mut response = (code, Json(json!({"error": why}))).into_response();
    if let Some(seconds) = told.and_then(|fail| fail.retry_after) {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

async fn list(State(shared): State<Shared>) -> Json<Vec<Report>> {
    Json(shared.book().reports().cloned().collect())
}

async fn stats(State(shared): State<Shared>) -> Json<Stats> {
    Json(shared.book().stats().clone())
}

async fn fail(State(shared): State<Shared>, Json(fail): Json<Fail>) -> StatusCode {
    shared.book().fail(fail);
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delay {
    ms: u64,
}

async fn delay(State(shared): State<Shared>, Json(delay): Json<Delay>) -> StatusCode {
    shared.book().delay = delay.ms;
    StatusCode::NO_CONTENT
}
