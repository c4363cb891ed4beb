//! What can go wrong between the host and the API server, as values a pass can decide on.

use std::time::Duration;

use http::{HeaderMap, header};
use serde::Deserialize;

/// The transport could not be built: configuration, not the network.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// No kubeconfig and no in-cluster environment, or unreadable ones.
    #[error("cluster configuration not found: {0}")]
    Config(String),
    /// Certificates, keys or the TLS server name.
    #[error("TLS for {url} not set up: {message}")]
    Tls {
        /// The API server's address.
        url: String,
        /// What was wrong.
        message: String,
    },
    /// Credentials (token, exec plugin, client certificate, impersonation headers).
    #[error("credentials for {url} not set up: {message}")]
    Credentials {
        /// The API server's address.
        url: String,
        /// What was wrong.
        message: String,
    },
    /// The way through a proxy the host does not know.
    #[error("proxy {0} not supported: only http:// proxies without a password are")]
    Proxy(String),
}

/// A request the API server refused, or that got no answer. Messages are the server's own words where it gave some.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// 409: stale version, other uid, or a field another manager owns.
    #[error("conflict: {0}")]
    Conflict(String),
    /// 409 on create: the name is taken.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 404 that names an object (or the namespace it would be in): it does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// 404 for the path itself: the kind, its version or the subresource is not served. Says nothing about any object.
    #[error("not served: {0}")]
    NotServed(String),
    /// 410: the version or continue token is too old.
    #[error("expired: {0}")]
    Gone(String),
    /// 422, and 400: the object or the request is wrong.
    #[error("refused as invalid: {0}")]
    Invalid(String),
    /// 401 and 403: credentials, RBAC, quota, or an admission webhook.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// 429.
    #[error("throttled: {message}")]
    Throttled {
        /// The server's wish.
        retry_after: Option<Duration>,
        /// The server's words.
        message: String,
    },
    /// 5xx.
    #[error("server error {code}: {message}")]
    Server {
        /// The status code.
        code: u16,
        /// The server's wish.
        retry_after: Option<Duration>,
        /// The server's words.
        message: String,
    },
    /// No answer: connection refused, cut, or timed out. A write may have happened.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// A success whose body is not what was asked for.
    #[error("answer not understood: {0}")]
    Unreadable(String),
    /// The request was never sent: a name that cannot stand in a path, or a body that cannot be written.
    #[error("request not sent: {0}")]
    NotSent(String),
    /// Any other status.
    #[error("answer {code}: {message}")]
    Other {
        /// The status code.
        code: u16,
        /// The server's words.
        message: String,
    },
}

impl RequestError {
    /// The error for an answer whose code is not 2xx.
    pub(crate) fn from_answer(code: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let status = Status::parse(body);
        let message = status.message(code, body);
        match code {
            400 | 422 => RequestError::Invalid(message),
            401 | 403 => RequestError::Forbidden(message),
            404 if status.details.name.is_empty() => RequestError::NotServed(message),
            404 => RequestError::NotFound(message),
            409 if status.reason == "AlreadyExists" => RequestError::AlreadyExists(message),
            409 => RequestError::Conflict(message),
            410 => RequestError::Gone(message),
            429 => RequestError::Throttled {
                retry_after: status.retry_after(headers),
                message,
            },
            500..=599 => RequestError::Server {
                code,
                retry_after: status.retry_after(headers),
                message,
            },
            code => RequestError::Other { code, message },
        }
    }

    /// How long the server asked to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            RequestError::Throttled { retry_after, .. }
            | RequestError::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the cluster failed rather than refused: 429, 5xx or no answer. Such an error says nothing about the object.
    pub fn is_cluster_failure(&self) -> bool {
        matches!(
            self,
            RequestError::Throttled { .. }
                | RequestError::Server { .. }
                | RequestError::Unreachable(_)
        )
    }
}

/// The parts of a `metav1.Status` that decide.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) message: String,
    pub(crate) reason: String,
    details: Details,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    name: String,
    retry_after_seconds: u64,
}

impl Status {
    /// Reads a body; what is no `Status` is the empty one.
    pub(crate) fn parse(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// The server's words: the message, else the start of the body, else the code alone.
    fn message(&self, code: u16, body: &[u8]) -> String {
        if !self.message.is_empty() {
            return self.message.clone();
        }
        let text: String = String::from_utf8_lossy(body)
            .trim()
            .chars()
            .take(512)
            .collect();
        if text.is_empty() {
            format!("status {code} without a message")
        } else {
            text
        }
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let header = headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok());
        header
            .or(Some(self.details.retry_after_seconds).filter(|seconds| *seconds > 0))
            .map(Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, body: &str) -> RequestError {
        RequestError::from_answer(code, &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn an_answer_becomes_the_error_a_pass_can_decide_on() {
        let status = r#"{"kind":"Status","message":"m","reason":"R","details":{"name":"a","kind":"things"}}"#;
        let m = || "m".to_owned();
        for (code, body, want) in [
            (
                409,
                status.replace("\"R\"", "\"AlreadyExists\""),
                RequestError::AlreadyExists(m()),
            ),
            (409, status.into(), RequestError::Conflict(m())),
            (404, status.into(), RequestError::NotFound(m())),
            (
                404,
                "404 page not found\n".into(),
                RequestError::NotServed("404 page not found".into()),
            ),
            (
                404,
                r#"{"kind":"Status","message":"m","reason":"NotFound","details":{}}"#.into(),
                RequestError::NotServed(m()),
            ),
            (410, status.into(), RequestError::Gone(m())),
            (422, status.into(), RequestError::Invalid(m())),
            (400, status.into(), RequestError::Invalid(m())),
            (401, status.into(), RequestError::Forbidden(m())),
            (403, status.into(), RequestError::Forbidden(m())),
            (
                415,
                String::new(),
                RequestError::Other {
                    code: 415,
                    message: "status 415 without a message".into(),
                },
            ),
            (
                429,
                status.into(),
                RequestError::Throttled {
                    retry_after: None,
                    message: m(),
                },
            ),
            (
                500,
                "oops".into(),
                RequestError::Server {
                    code: 500,
                    retry_after: None,
                    message: "oops".into(),
                },
            ),
        ] {
            assert_eq!(answer(code, &body), want, "{code} {body}");
        }
    }

    #[test]
    fn the_wish_to_be_left_alone_is_read_from_the_header_before_the_body() {
        let body = r#"{"message":"later","details":{"retryAfterSeconds":3}}"#;
        assert_eq!(
            answer(503, body).retry_after(),
            Some(Duration::from_secs(3))
        );
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, "7".parse().unwrap())]);
        assert_eq!(
            RequestError::from_answer(429, &headers, body.as_bytes()).retry_after(),
            Some(Duration::from_secs(7))
        );
        assert!(answer(503, body).is_cluster_failure() && !answer(403, body).is_cluster_failure());
    }
}
