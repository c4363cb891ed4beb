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
use reqwest::{
    Client, Method,
    header::{HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use tokio::sync::Semaphore;

use crate::{clock, crash, credentials::Secrets, leases::Fence};

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

    /// Sends independent requests side by side; one result each, in order. None is begun that the fence does not allow; what
    /// only reads needs none.
    pub(crate) async fn send_all(
        &self,
        sends: &[Send],
        secrets: &Secrets,
        fence: Option<&Fence>,
    ) -> Vec<Sent> {
        let each = sends.iter().map(|send| self.send(send, secrets, fence));
        futures::future::join_all(each).await
    }

    async fn send(&self, send: &Send, secrets: &Secrets, fence: Option<&Fence>) -> Sent {
        let secret = match secret_of(send, secrets) {
            Ok(secret) => secret,
            Err(cause) => return Sent::NotSent(cause),
        };
        let Ok(_slot) = self.slots.acquire().await else {
            return Sent::NotSent(Cause::new("Unreachable", "the host is ending"));
        };
        // Asked when its turn has come: the wait for it may be long.
        if fence.is_some_and(|fence| !fence.allows()) {
            return not_ours();
        }
        let request = match self.request(send, secret) {
            Ok(request) => request,
            Err(error) => return Sent::NotSent(lost(send, &error)),
        };
        match self.client.execute(request).await {
            // Nothing of the request left the host.
            Err(error) if error.is_connect() => Sent::NotSent(lost(send, &error)),
            Err(error) => Sent::Lost(lost(send, &error)),
            Ok(answer) => {
                crash::pass("after-send");
                match read(send, answer).await {
                    Ok(sent) => veiled(sent, secret),
                    Err(error) => Sent::Lost(lost(send, &error)),
                }
            }
        }
    }

    fn request(
        &self,
        send: &Send,
        secret: Option<&str>,
    ) -> Result<reqwest::Request, reqwest::Error> {
        let method = Method::from_bytes(send.request.method.as_bytes()).unwrap_or(Method::GET);
        let mut request = self
            .client
            .request(method, &send.request.url)
            .timeout(send.timeout.duration());
        for (name, value) in &send.request.headers {
            request = request.header(name, value);
        }
        // A fetch has none.
        if crash::is_mutant("key-per-process") {
            let key = format!("{}-{}", send.idempotency_key, std::process::id());
            request = request.header("Idempotency-Key", key);
        } else if !send.idempotency_key.is_empty() {
            request = request.header("Idempotency-Key", &send.idempotency_key);
        }
        if let (Some(credential), Some(secret)) = (&send.credential, secret) {
            let mut value = HeaderValue::try_from([&credential.prefix, secret].concat())
                .unwrap_or_else(|_| HeaderValue::from_static(""));
            value.set_sensitive(true);
            request = request.header(&credential.header, value);
        }
        match &send.request.body {
            Body::Empty => {}
            Body::Text(text) => request = request.body(text.clone()),
            Body::Bytes(bytes) => request = request.body(bytes.clone()),
        }
        request.build()
    }
}

/// The secret a request is sent with; none where it names none.
fn secret_of<'a>(send: &Send, secrets: &'a Secrets) -> Result<Option<&'a str>, Cause> {
    let Some(credential) = &send.credential else {
        return Ok(None);
    };
    match secrets.get(&credential.secret) {
        Some(Ok(value)) => Ok(Some(value.as_str())),
        Some(Err(cause)) => Err(cause.clone()),
        None => Err(Cause::new("CredentialMissing", "it was not read")),
    }
}

/// A receiver that repeats what it was sent must not show the secret to the plugin.
fn veiled(sent: Sent, secret: Option<&str>) -> Sent {
    let (
        Sent::Answered {
            mut response,
            retry_after,
        },
        Some(secret),
    ) = (sent.clone(), secret)
    else {
        return sent;
    };
    if secret.is_empty() {
        return sent;
    }
    for (_, value) in &mut response.headers {
        *value = value.replace(secret, "***");
    }
    response.body = match response.body {
        Body::Text(text) => Body::Text(text.replace(secret, "***")),
        Body::Bytes(bytes) => {
            let shown = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            if shown {
                Body::Empty
            } else {
                Body::Bytes(bytes)
            }
        }
        Body::Empty => Body::Empty,
    };
    Sent::Answered {
        response,
        retry_after,
    }
}

/// Not begun, since another replica may have the mapping.
pub(crate) fn not_ours() -> Sent {
    Sent::NotSent(Cause::new(
        "LeaseLost",
        "this replica has lost its Lease, or the claim to this mapping",
    ))
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
