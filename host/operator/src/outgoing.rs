//! Http effects on the wire: one request, one result, nothing repeated and nothing followed.
//!
//! Whether and when to send again is the pass' business. This part only tells a definite story: answered to the end, lost
//! (it may have arrived), or never sent.

use std::{sync::Arc, time::Duration};

use guesthouse_core::{
    contract::{Body, Cause, Response},
    pass::Sent,
    plan::Send,
    time::Time,
    units::Span,
};
use reqwest::{Client, Method, header::RETRY_AFTER, redirect::Policy};
use tokio::sync::Semaphore;

use crate::{clock, crash};

/// Sends http effects; cheap to clone.
#[derive(Clone)]
pub(crate) struct Outgoing {
    client: Client,
    slots: Arc<Semaphore>,
}

impl Outgoing {
    /// At most `in_flight` requests at once; more wait, and their time does not run meanwhile.
    pub(crate) fn new(in_flight: usize) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            // A redirect is an answer: following it would send the effect somewhere that was not granted.
            .redirect(Policy::none())
            // The environment of the host is no grant.
            .no_proxy()
            .connect_timeout(Duration::from_secs(10))
            .pool_max_idle_per_host(in_flight)
            .user_agent(concat!("guesthouse/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self {
            client,
            slots: Arc::new(Semaphore::new(in_flight.max(1))),
        })
    }

    /// Sends independent requests side by side; one result each, in order.
    pub(crate) async fn send_all(&self, sends: &[Send]) -> Vec<Sent> {
        futures::future::join_all(sends.iter().map(|send| self.send(send))).await
    }

    async fn send(&self, send: &Send) -> Sent {
        let Ok(_slot) = self.slots.acquire().await else {
            return Sent::NotSent(Cause::new("Unreachable", "the host is ending"));
        };
        let request = match self.request(send) {
            Ok(request) => request,
            Err(error) => return Sent::NotSent(lost(send, &error)),
        };
        match self.client.execute(request).await {
            // Nothing of the request left the host.
            Err(error) if error.is_connect() => Sent::NotSent(lost(send, &error)),
            Err(error) => Sent::Lost(lost(send, &error)),
            Ok(answer) => {
                crash::pass("after-send");
                let read = read(send, answer).await;
                read.unwrap_or_else(|error| Sent::Lost(lost(send, &error)))
            }
        }
    }

    fn request(&self, send: &Send) -> Result<reqwest::Request, reqwest::Error> {
        let method = Method::from_bytes(send.request.method.as_bytes()).unwrap_or(Method::GET);
        let mut request = self
            .client
            .request(method, &send.request.url)
            .timeout(send.timeout.duration());
        for (name, value) in &send.request.headers {
            request = request.header(name, value);
        }
        request = match crash::is_mutant("key-per-process") {
            true => {
                let key = format!("{}-{}", send.idempotency_key, std::process::id());
                request.header("Idempotency-Key", key)
            }
            false => request.header("Idempotency-Key", &send.idempotency_key),
        };
        match &send.request.body {
            Body::Empty => {}
            Body::Text(text) => request = request.body(text.clone()),
            Body::Bytes(bytes) => request = request.body(bytes.clone()),
        }
        request.build()
    }
}

/// Reads an answer to its end, keeping no more of it than the grant lets through.
async fn read(send: &Send, mut answer: reqwest::Response) -> Result<Sent, reqwest::Error> {
    let limit = usize::try_from(send.answer_body.0).unwrap_or(usize::MAX);
    let code = answer.status().as_u16();
    let headers = answer.headers();
    let retry_after = headers
        .get(RETRY_AFTER)
        .and_then(|value| retry_after(value.to_str().ok()?));
    let kept = headers
        .iter()
        .filter(|(name, _)| send.answer_headers.iter().any(|kept| kept == name.as_str()))
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    let mut body = Vec::new();
    let mut truncated = false;
    while let Some(chunk) = answer.chunk().await? {
        let room = limit.saturating_sub(body.len());
        truncated |= chunk.len() > room;
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    // A text that was cut inside a character is still text.
    if truncated
        && let Err(error) = std::str::from_utf8(&body)
        && error.error_len().is_none()
    {
        body.truncate(error.valid_up_to());
    }
    let response = Response {
        code,
        headers: kept,
        body: Body::from_bytes(body),
        truncated,
        at: clock::now().seconds(),
    };
    Ok(Sent::Answered {
        response,
        retry_after,
    })
}

/// Seconds or an HTTP date (RFC 9110, section 10.2.3).
fn retry_after(text: &str) -> Option<Span> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Some(Span(seconds.saturating_mul(1000)));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(clock::now().until(Time(at.timestamp().as_millisecond())))
}

/// Stable from try to try: it ends up in conditions.
fn lost(send: &Send, error: &reqwest::Error) -> Cause {
    let (method, url) = (&send.request.method, &send.request.url);
    if error.is_timeout() && !error.is_connect() {
        return Cause::new(
            "Timeout",
            format!("{method} {url} was not answered within {}", send.timeout),
        );
    }
    // The innermost cause says what happened: `Connection refused`; those around it only repeat the address.
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    Cause::new("Unreachable", format!("{method} {url}: {inner}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        assert_eq!(retry_after("3"), Some(Span(3000)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Span(0)));
        assert_eq!(retry_after("soon"), None);
    }
}
