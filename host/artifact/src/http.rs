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
/// Most that an error repeats of one text, bytes: servers write it, and it goes into logs and Events.
const MAX_TEXT: usize = 300;

/// A text as errors repeat it.
fn cut(text: &str) -> String {
    let mut kept = String::new();
    for c in text.chars() {
        if kept.len() + c.len_utf8() > MAX_TEXT {
            kept.push('…');
            break;
        }
        kept.push(if c.is_control() { ' ' } else { c });
    }
    kept
}

/// Why something could not be fetched. Whatever a server had a say in is cut where it is shown, and nowhere else.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A reference or URL that is none.
    #[error("{}", cut(.0))]
    Reference(String),
    /// The certificate authority.
    #[error("ca: no certificate in PEM (-----BEGIN CERTIFICATE-----) can be read from it: {0}")]
    Authority(String),
    /// No answer.
    #[error("{}: {}", cut(url), cut(why))]
    NoAnswer {
        /// What was asked.
        url: String,
        /// What came of it.
        why: String,
    },
    /// An answer that says no.
    #[error("{} answers {status}{}", cut(url), cut(said))]
    Status {
        /// What was asked.
        url: String,
        /// The answer's code.
        status: StatusCode,
        /// The answer's words, after a colon.
        said: String,
    },
    /// Not allowed, and as whom it was tried.
    #[error("{} answers {status}; tried {tried}", cut(url))]
    Login {
        /// What was asked.
        url: String,
        /// 401 or 403.
        status: StatusCode,
        /// The credential's source.
        tried: String,
    },
    /// Not pushed, and as whom it was tried.
    #[error("{}: {}; tried {tried}", cut(url), cut(why))]
    Push {
        /// What was to be pushed.
        url: String,
        /// What came of it.
        why: String,
        /// The credential's source.
        tried: String,
    },
    /// More than there may be.
    #[error("{} answers with more than {most} bytes", cut(url))]
    TooLarge {
        /// What was asked.
        url: String,
        /// The bound.
        most: u64,
    },
    /// Bytes of another digest.
    #[error(
        "{} answers with bytes of another digest, {found}, than {wanted}, which was asked for",
        cut(url)
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
    #[error("{} answers with what is no {what}: {}", cut(url), cut(why))]
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

/// Who may be asked in clear text: the host that was asked so to begin with, and these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clear(Vec<String>);

impl Clear {
    /// Hosts, each with its port if it has one, as a policy names them.
    pub(crate) fn new(named: &[String]) -> Self {
        Self(named.to_vec())
    }

    /// Whether this may be asked by somebody who asked `first` to begin with.
    pub(crate) fn allows(&self, first: &Url, url: &Url) -> bool {
        let is_named = |name: &String| {
            let named = Url::parse(&format!("http://{name}"));
            named.is_ok_and(|named| same_host(&named, url))
        };
        url.scheme() == "https"
            || (first.scheme() != "https" && same_host(first, url))
            || self.0.iter().any(is_named)
    }
}

/// Whether two URLs are of one host and port.
pub(crate) fn same_host(one: &Url, other: &Url) -> bool {
    let parts = |url: &Url| {
        let host = url.host_str().map(str::to_owned);
        (host, url.port_or_known_default())
    };
    parts(one) == parts(other)
}

/// A client with limits.
#[derive(Clone, Debug)]
pub(crate) struct Http(Client);

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether the host that was asked gave it, and not one that it sent us to.
    pub(crate) is_own: bool,
}

impl Http {
    /// `ca`: further authorities, in PEM. `clear`: where redirects may lead in clear text.
    pub(crate) fn new(ca: Option<&str>, clear: Clear) -> Result<Self, FetchError> {
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
        let redirects = Policy::custom(move |attempt| {
            let is_clear = |url: &Url| url.scheme() != "https";
            let from_tls = !attempt.previous().iter().any(is_clear);
            let first = attempt.previous().first();
            let allowed = first.is_some_and(|first| clear.allows(first, attempt.url()));
            if attempt.previous().len() > REDIRECTS {
                attempt.error("more redirects than are followed")
            } else if from_tls && is_clear(attempt.url()) {
                attempt.error("a redirect from TLS to clear text")
            } else if !allowed {
                attempt.error("a redirect in clear text to a host that the policy does not name")
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
        let is_own = same_host(url, answer.url());
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
            is_own,
        })
    }
}

impl Answer {
    /// The body, or the error that the answer is.
    pub(crate) fn good(self, url: &Url) -> Result<Vec<u8>, FetchError> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        // Of a server's words the first line is enough, and none that could break ours. One that we were sent to may be anybody:
        // what it says to us is for nobody else's eyes.
        let text = match self.is_own {
            true => String::from_utf8_lossy(&self.body),
            false => "".into(),
        };
        let line: String = text
            .trim()
            .chars()
            .take_while(|c| !c.is_control())
            .take(100)
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

/// Fetches what a URL names and a digest pins. `clear`: hosts that redirects may lead to in clear text.
pub async fn download(
    url: &str,
    digest: &Digest,
    ca: Option<&str>,
    clear: &[String],
    most: u64,
) -> Result<Vec<u8>, FetchError> {
    let bytes = download_unpinned(url, ca, clear, most).await?;
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
    clear: &[String],
    most: u64,
) -> Result<Vec<u8>, FetchError> {
    let url = Url::parse(url).map_err(|error| FetchError::Reference(format!("{url}: {error}")))?;
    Http::new(ca, Clear::new(clear))?
        .get(&url, HeaderMap::new(), most)
        .await?
        .good(&url)
}
