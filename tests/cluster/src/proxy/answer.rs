//! Answers that the server never gave.

use super::serve::{Closed, Out};
use bytes::Bytes;
use http::{Response, header};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::json;

/// A refusal as API servers word them. A code about an object names it, so that it says nothing about its kind.
pub(super) fn status(code: u16, name: &str, retry_after: Option<u32>) -> Response<Out> {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{code} by the proxy"), "reason": reason, "code": code,
        "details": {"name": name},
    });
    let mut response = whole(code, Bytes::from(body.to_string()));
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// An ERROR event as a watch ends with when its version is too old.
pub(super) fn gone_event() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version, says the proxy", "reason": "Expired", "code": 410,
    });
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})))
}

/// A whole answer of JSON.
pub(super) fn whole(code: u16, body: Bytes) -> Response<Out> {
    let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed());
    *response.status_mut() = code.try_into().unwrap_or_default();
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The first half of a body, and then an error: the server closes the connection over it.
pub(super) fn half(bytes: &Bytes) -> Out {
    let half = bytes.slice(..bytes.len() / 2);
    let frames = [Ok(Frame::data(half)), Err(Closed)];
    BodyExt::boxed(StreamBody::new(futures::stream::iter(frames)))
}
