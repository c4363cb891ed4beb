//! What a mapping allows its plugin to ask for. Nothing is allowed that is not named.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    contract::{Http, Kind, MAX_RECEIPT_BODY},
    needs::Namespaces,
    units::{Bytes, Span},
};

mod objects;

pub use objects::BadGrant;

/// The grants of one mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Grants {
    /// Where http effects may go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpGrant>,
    /// Kinds of children it may make, change and delete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apply: Vec<ObjectGrant>,
    /// Kinds it may read beside its object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ObjectGrant>,
    /// Whether it may delete the object itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete_self: bool,
    /// Whether it may write the status of a built-in kind.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub status: bool,
}

/// Objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectGrant {
    /// `apps/v1`; `v1` for the core group. Any version of the group counts.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    /// Namespaces beside the object's own; `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Only these names; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// One allowed destination. A request is granted by the first entry that fits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpGrant {
    /// `reports.example` (the scheme's own port), `reports.example:8443`, `reports.example:*`, or `*.example` for every
    /// name below it.
    pub host: String,
    /// Upper case; at least one.
    pub methods: Vec<String>,
    /// What the path must start with, as in `/reports/`.
    #[serde(default = "root")]
    pub path: String,
    /// A request that has no timeout of its own, and the most one may ask for.
    #[serde(default = "thirty_seconds")]
    pub timeout: Span,
    /// Headers of an answer that the plugin gets to see, lower case.
    #[serde(default = "answer_headers")]
    pub answer_headers: Vec<String>,
    /// Most of an answer's body that the plugin gets to see.
    #[serde(default = "receipt_body")]
    pub answer_body: Bytes,
    /// Whether the plugin may choose the idempotency key's text itself (`literalKey`).
    #[serde(default)]
    pub literal_key: bool,
    /// Credentials of the mapping that may be sent there, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
}

fn root() -> String {
    "/".into()
}

fn thirty_seconds() -> Span {
    Span::from_secs(30)
}

fn answer_headers() -> Vec<String> {
    ["content-type", "etag", "location"]
        .map(String::from)
        .into()
}

fn receipt_body() -> Bytes {
    Bytes(MAX_RECEIPT_BODY as u64)
}

/// Headers that are the host's to set, or that would change how the request is framed.
pub(crate) const HOST_HEADERS: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "idempotency-key",
    "te",
    "trailer",
    "upgrade",
    "proxy-authorization",
    "proxy-connection",
];

const METHODS: [&str; 6] = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"];

impl Grants {
    /// Whether the grants themselves make sense; else the first that does not, and why.
    pub fn check(&self) -> Result<(), BadGrant> {
        self.check_objects()?;
        for (index, grant) in self.http.iter().enumerate() {
            let wrong = |why: &str| {
                Err(BadGrant {
                    list: "http",
                    index,
                    why: why.to_owned(),
                })
            };
            let (host, port) = split_host(&grant.host);
            if host.is_empty()
                || host.contains('/')
                || (host.contains('*') && !host.starts_with("*."))
            {
                return wrong(
                    "host is a name without scheme and path, as in `reports.example`, `reports.example:8443`, `reports.example:*`, `*.example`",
                );
            }
            if port.is_some_and(|port| port != "*" && port.parse::<u16>().is_err()) {
                return wrong("the port of `host` is a number or `*`");
            }
            if grant.methods.is_empty()
                || grant.methods.iter().any(|m| !METHODS.contains(&m.as_str()))
            {
                return wrong("methods holds at least one of GET, HEAD, PUT, POST, PATCH, DELETE");
            }
            if !grant.path.starts_with('/') {
                return wrong("path starts with `/`");
            }
            if grant.answer_body.0 > MAX_RECEIPT_BODY as u64 {
                return wrong("answerBody is at most 4Ki: receipts are kept in the cluster");
            }
        }
        Ok(())
    }

    /// The grant that covers this effect, or why there is none.
    pub fn http(&self, http: &Http) -> Result<&HttpGrant, String> {
        let request = &http.request;
        let url = request_url(&request.url)?;
        for (name, value) in &request.headers {
            let lower = name.to_ascii_lowercase();
            if HOST_HEADERS.contains(&lower.as_str()) {
                return Err(format!("the header `{name}` is the host's to set"));
            }
            if !is_token(name) || value.bytes().any(|b| b == b'\r' || b == b'\n' || b == 0) {
                return Err(format!("`{name}: {value:?}` is no valid header"));
            }
        }
        let fits = |grant: &&HttpGrant| {
            host_fits(&grant.host, &url)
                && grant.methods.contains(&request.method)
                && path_fits(&grant.path, url.path())
        };
        let Some(grant) = self.http.iter().find(fits) else {
            let port = url
                .port()
                .map(|port| format!(":{port}"))
                .unwrap_or_default();
            let host = url.host_str().unwrap_or_default();
            return Err(format!(
                "{} {} is not granted; to allow it add {{host: '{host}{port}', methods: [{}]}} to `grants.http` of the mapping",
                request.method, request.url, request.method
            ));
        };
        if http.literal_key.is_some() && !grant.literal_key {
            return Err("a `literalKey` is not granted; set `literalKey: true` on this host's entry in `grants.http`".into());
        }
        if http
            .literal_key
            .as_deref()
            .is_some_and(|key| key.is_empty() || !key.bytes().all(|b| (0x21..0x7f).contains(&b)))
        {
            return Err("`literalKey` must be printable ASCII without spaces".into());
        }
        Ok(grant)
    }
}

/// Reading beside the object. `own` is the object's namespace, empty if it has none; what is in its own namespace, or of a
/// cluster-scoped kind, needs no entry in `namespaces`.
impl Grants {
    /// Whether the object of that name may be read; else what to add.
    pub fn read(&self, kind: &Kind, own: &str, namespace: &str, name: &str) -> Result<(), String> {
        if (self.read.iter()).any(|grant| grant.fits(kind, own, namespace, name)) {
            return Ok(());
        }
        let at = if namespace.is_empty() {
            name.to_owned()
        } else {
            format!("{namespace}/{name}")
        };
        let what = format!("the {} {at}", kind.kind);
        let elsewhere = (namespace != own).then_some(namespace);
        Err(not_granted(&what, kind, elsewhere))
    }

    /// Whether all objects of a kind in one namespace may be read; else what to add.
    pub fn read_all_of(&self, kind: &Kind, own: &str, namespace: &str) -> Result<(), String> {
        let fits = |grant: &ObjectGrant| {
            grant.is_for(kind) && grant.reaches(own, namespace) && grant.names.is_empty()
        };
        if self.read.iter().any(fits) {
            return Ok(());
        }
        let elsewhere = (namespace != own).then_some(namespace);
        let what = match elsewhere {
            Some(namespace) => format!("every {} in {namespace}", kind.kind),
            None => format!("every {} in the object's namespace", kind.kind),
        };
        Err(not_granted(&what, kind, elsewhere))
    }

    /// Everywhere that all objects of a kind may be read, the object's own namespace first; else what to add.
    pub fn read_everywhere(&self, kind: &Kind, own: &str) -> Result<Namespaces, String> {
        let fits = |grant: &&ObjectGrant| grant.is_for(kind) && grant.names.is_empty();
        let mut granted = self.read.iter().filter(fits).peekable();
        if granted.peek().is_none() {
            return Err(not_granted(&format!("every {}", kind.kind), kind, None));
        }
        let mut listed: Vec<_> = granted.flat_map(|grant| &grant.namespaces).collect();
        if listed.iter().any(|namespace| *namespace == "*") {
            return Ok(Namespaces::All);
        }
        listed.sort();
        listed.dedup();
        let others = listed.into_iter().filter(|namespace| *namespace != own);
        let own = Some(own.to_owned()).filter(|own| !own.is_empty());
        Ok(Namespaces::These(
            own.into_iter().chain(others.cloned()).collect(),
        ))
    }
}

fn not_granted(what: &str, kind: &Kind, namespace: Option<&str>) -> String {
    let namespaces = namespace
        .map(|namespace| format!(", namespaces: ['{namespace}']"))
        .unwrap_or_default();
    format!(
        "reading {what} is not granted; to allow it add {{apiVersion: {}, kind: {}{namespaces}}} to `grants.read` of the mapping",
        kind.api_version, kind.kind
    )
}

/// An absolute http or https address without user and password.
fn request_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("`{text}` is not an absolute http or https address"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address must not hold a user or a password".into());
    }
    Ok(url)
}

/// `host:port`; a bracketed IPv6 address keeps its colons.
fn split_host(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    }
}

fn host_fits(pattern: &str, url: &Url) -> bool {
    let (host, port) = split_host(pattern);
    let found = url.host_str().unwrap_or_default();
    let name_fits = match host.strip_prefix('*') {
        // `*.example`: what is left starts with the dot, so `badexample` does not fit.
        Some(tail) => found.len() > tail.len() && found.ends_with(&tail.to_ascii_lowercase()),
        None => found.eq_ignore_ascii_case(host),
    };
    let port_fits = match port {
        None => url.port().is_none(),
        Some("*") => true,
        Some(port) => url
            .port_or_known_default()
            .is_some_and(|found| found.to_string() == port),
    };
    name_fits && port_fits
}

/// A prefix of whole segments: `/reports` fits `/reports` and `/reports/a`, not `/reports-of-others`. The address was parsed,
/// so `..` is resolved already; an escaped one or an escaped slash never fits, since servers disagree on its meaning.
fn path_fits(prefix: &str, path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    if prefix != "/" && (lower.contains("%2e%2e") || lower.contains("%2f") || lower.contains("%5c"))
    {
        return false;
    }
    match path.strip_prefix(prefix) {
        Some(rest) => prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Body, Delivery, Request};

    fn grant(host: &str, path: &str) -> Grants {
        let text = format!(
            "{{\"http\":[{{\"host\":\"{host}\",\"methods\":[\"PUT\"],\"path\":\"{path}\"}}]}}"
        );
        serde_json::from_str(&text).unwrap()
    }

    fn put(url: &str) -> Http {
        Http {
            request: Request {
                method: "PUT".into(),
                url: url.into(),
                headers: vec![],
                body: Body::Empty,
                credential: None,
                timeout: None,
            },
            delivery: Delivery::AtLeastOnce,
            key: None,
            literal_key: None,
        }
    }

    #[test]
    fn only_what_is_named_is_granted() {
        for (host, path, url, granted) in [
            ("reports.example", "/", "https://reports.example/a", true),
            ("reports.example", "/", "http://REPORTS.example/a", true),
            (
                "reports.example",
                "/",
                "https://reports.example:8443/a",
                false,
            ),
            (
                "reports.example:8443",
                "/",
                "https://reports.example:8443/a",
                true,
            ),
            (
                "reports.example:443",
                "/",
                "https://reports.example/a",
                true,
            ),
            ("127.0.0.1:*", "/", "http://127.0.0.1:5000/a", true),
            ("[::1]:80", "/", "http://[::1]/a", true),
            ("*.example", "/", "https://a.b.example/", true),
            ("*.example", "/", "https://example/", false),
            ("*.example", "/", "https://badexample/", false),
            (
                "reports.example",
                "/",
                "https://reports.example.evil/",
                false,
            ),
            (
                "reports.example",
                "/",
                "https://evil/?reports.example",
                false,
            ),
            (
                "reports.example",
                "/",
                "https://user@reports.example/",
                false,
            ),
            ("reports.example", "/", "ftp://reports.example/", false),
            ("reports.example", "/", "/reports", false),
            ("reports.example", "/r", "https://reports.example/r/1", true),
            (
                "reports.example",
                "/r",
                "https://reports.example/rest",
                false,
            ),
            (
                "reports.example",
                "/r/",
                "https://reports.example/r/../x",
                false,
            ),
            (
                "reports.example",
                "/r/",
                "https://reports.example/r/%2e%2E/x",
                false,
            ),
            (
                "reports.example",
                "/r/",
                "https://reports.example/r/..%2Fx",
                false,
            ),
        ] {
            let grants = grant(host, path);
            let http = put(url);
            let found = grants.http(&http);
            assert_eq!(
                found.is_ok(),
                granted,
                "{host}{path} against {url}: {found:?}"
            );
        }
    }

    #[test]
    fn a_denial_says_what_to_add() {
        let error = Grants::default()
            .http(&put("https://h.example:8443/x"))
            .unwrap_err();
        assert!(
            error.contains("{host: 'h.example:8443', methods: [PUT]}"),
            "{error}"
        );
    }

    #[test]
    fn headers_that_are_the_hosts_or_break_the_framing_are_denied() {
        for (name, value) in [
            ("Idempotency-Key", "k"),
            ("host", "h"),
            ("x", "a\r\nb: c"),
            ("a b", "c"),
            ("", "c"),
        ] {
            let mut http = put("https://reports.example/");
            http.request.headers.push((name.into(), value.into()));
            assert!(grant("reports.example", "/").http(&http).is_err(), "{name}");
        }
    }

    #[test]
    fn a_literal_key_needs_its_own_grant() {
        let mut http = put("https://reports.example/");
        http.literal_key = Some("job-1".into());
        let mut grants = grant("reports.example", "/");
        assert!(grants.http(&http).is_err());
        grants.http[0].literal_key = true;
        assert!(grants.http(&http).is_ok());
        http.literal_key = Some("a b".into());
        assert!(grants.http(&http).is_err());
    }

    #[test]
    fn read_grants_that_cannot_fit_anything_are_refused() {
        for (entry, why) in [
            (r#"{"apiVersion": "", "kind": "A"}"#, "apiVersion"),
            (r#"{"apiVersion": "/v1", "kind": "A"}"#, "apiVersion"),
            (r#"{"apiVersion": "a/b/c", "kind": "A"}"#, "apiVersion"),
            (r#"{"apiVersion": "v1", "kind": "*"}"#, "kind `*`"),
            (
                r#"{"apiVersion": "v1", "kind": "A", "namespaces": ["a*"]}"#,
                "namespaces: `a*`",
            ),
            (
                r#"{"apiVersion": "v1", "kind": "A", "names": ["*"]}"#,
                "names",
            ),
        ] {
            let good = r#"{"apiVersion": "apps/v1", "kind": "A", "namespaces": ["*", "a-1"], "names": ["x.y"]}"#;
            let grants: Grants =
                serde_json::from_str(&format!(r#"{{"read": [{good}, {entry}]}}"#)).unwrap();
            let bad = grants.check().unwrap_err();
            assert_eq!((bad.list, bad.index), ("read", 1));
            assert!(bad.why.contains(why), "{}", bad.why);
        }
    }
}
