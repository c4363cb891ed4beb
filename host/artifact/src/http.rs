//! Requests to servers that may be slow, broken or hostile: every answer has a bound in bytes and in time.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use reqwest::{Certificate, Client, redirect::Policy};
use url::Url;

use crate::Digest;

/// Whole time of one request, its body included.
const TIME: Duration = Duration::from_secs(300);
/// Longest silence in an answer.
const SILENCE: Duration = Duration::from_secs(20);
/// Hops that are followed.
const REDIRECTS: usize = 5;

/// Why something could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A reference or URL that is none.
    #[error("{0}")]
    Reference(String),
    /// The certificate authority.
    #[error("ca: no certificate in PEM (-----BEGIN CERTIFICATE-----) can be read from it: {0}")]
    Authority(String),
    /// No answer.
    #[error("{url}: {why}")]
    NoAnswer {
        /// What was asked.
        url: String,
        /// What came of it.
        why: String,
    },
    /// An answer that says no.
    #[error("{url} answers {status}{said}")]
    Status {
        /// What was asked.
        url: String,
        /// The answer's code.
        status: StatusCode,
        /// The answer's words, after a colon.
        said: String,
    },
    /// Not allowed, and as whom it was tried.
    #[error("{url} answers {status}; tried {tried}")]
    Login {
        /// What was asked.
        url: String,
        /// 401 or 403.
        status: StatusCode,
        /// The credential's source.
        tried: String,
    },
    /// More than there may be.
    #[error("{url} answers with more than {most} bytes")]
    TooLarge {
        /// What was asked.
        url: String,
        /// The bound.
        most: u64,
    },
    /// Bytes of another digest.
    #[error(
        "{url} answers with bytes of another digest, {found}, than {wanted}, which was asked for"
    )]
    OtherDigest {
        /// What was asked.
        url: String,
        /// Of what came.
        found: Digest,
        /// Of what was to come.
        wanted: Digest,
    },
    /// An answer that cannot be read.
    #[error("{url} answers with what is no {what}: {why}")]
    Form {
        /// What was asked.
        url: String,
        /// What it should be.
        what: &'static str,
        /// Why it is not.
        why: String,
    },
}

impl FetchError {
    /// Whether the server says that there is no such thing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Status { status, .. } if *status == StatusCode::NOT_FOUND)
    }
}

/// A client with limits.
#[derive(Clone, Debug)]
pub(crate) struct Http(Client);

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Http {
    /// `ca`: further authorities, in PEM.
    pub(crate) fn new(ca: Option<&str>) -> Result<Self, FetchError> {
        // Whoever runs us may have chosen one; then it counts.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bad = |why: &dyn std::fmt::Display| FetchError::Authority(why.to_string());
        let mut certificates = Vec::new();
        if let Some(ca) = ca {
            certificates =
                Certificate::from_pem_bundle(ca.as_bytes()).map_err(|error| bad(&error))?;
            if certificates.is_empty() {
                return Err(bad(&"there is none in it"));
            }
        }
        let redirects = Policy::custom(|attempt| {
            let clear = |scheme: &str| scheme != "https";
            let from_tls = !attempt.previous().iter().any(|url| clear(url.scheme()));
            if attempt.previous().len() > REDIRECTS {
                attempt.error("more redirects than are followed")
            } else if from_tls && clear(attempt.url().scheme()) {
                attempt.error("a redirect from TLS to clear text")
            } else {
                attempt.follow()
            }
        });
        let client = Client::builder()
            .redirect(redirects)
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(SILENCE)
            .timeout(TIME)
            .tls_certs_merge(certificates)
            .user_agent(concat!("guesthouse/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self(client.map_err(|error| bad(&cause(&error)))?))
    }

    /// Asks, and reads at most `most` bytes of the answer.
    pub(crate) async fn get(
        &self,
        url: &Url,
        headers: HeaderMap,
        most: u64,
    ) -> Result<Answer, FetchError> {
        let lost = |error: reqwest::Error| FetchError::NoAnswer {
            url: url.to_string(),
            why: cause(&error),
        };
        let request = self.0.get(url.clone()).headers(headers);
        let mut answer = request.send().await.map_err(lost)?;
        let too_large = || FetchError::TooLarge {
            url: url.to_string(),
            most,
        };
        if answer.content_length().is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(lost)? {
            if (body.len() + part.len()) as u64 > most {
                return Err(too_large());
            }
            body.extend_from_slice(&part);
        }
        Ok(Answer {
            status,
            headers,
            body,
        })
    }
}

impl Answer {
    /// The body, or the error that the answer is.
    pub(crate) fn good(self, url: &Url) -> Result<Vec<u8>, FetchError> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        // Of a server's words the first line is enough, and none that could break ours.
        let text = String::from_utf8_lossy(&self.body);
        let line: String = text
            .trim()
            .chars()
            .take_while(|c| !c.is_control())
            .take(200)
            .collect();
        let said = if line.is_empty() {
            line
        } else {
            format!(": {line}")
        };
        Err(FetchError::Status {
            url: url.to_string(),
            status: self.status,
            said,
        })
    }
}

/// The innermost reason: reqwest's own words are only "error sending request".
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match error.is_timeout() {
        true => format!("no answer in time ({innermost})"),
        false => innermost.to_string(),
    }
}

/// Fetches what a URL names and a digest pins.
pub async fn download(
    url: &str,
    digest: &Digest,
    ca: Option<&str>,
    most: u64,
) -> Result<Vec<u8>, FetchError> {
    let bytes = download_unpinned(url, ca, most).await?;
    let found = Digest::of(&bytes);
    if found != *digest {
        return Err(FetchError::OtherDigest {
            url: url.to_owned(),
            found,
            wanted: *digest,
        });
    }
    Ok(bytes)
}

/// Fetches what stands beside a plugin and proves itself, as a signature does.
pub async fn download_unpinned(
    url: &str,
    ca: Option<&str>,
    most: u64,
) -> Result<Vec<u8>, FetchError> {
    let url = Url::parse(url).map_err(|error| FetchError::Reference(format!("{url}: {error}")))?;
    Http::new(ca)?
        .get(&url, HeaderMap::new(), most)
        .await?
        .good(&url)
}
