//! Where a plugin comes from, and what is demanded of it.
//!
//! The whole of it is what a source is known by: two mappings that name one place with different demands are judged apart, and
//! what one of them was let have says nothing about the other.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{ConfigMapKey, MappingError, SecretKey, is_dns_subdomain};
use crate::units::Span;

/// Where a plugin comes from: exactly one of `file`, `configMap`, `url` and `oci`; and what is demanded of it.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["file"]},
    {"required": ["configMap"]},
    {"required": ["url", "sha256"]},
    {"required": ["oci"]},
]))]
pub struct PluginSource {
    /// A file the host can read; watched, and swapped in when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A key under `binaryData` of a ConfigMap in the host's namespace, zstd or not; watched likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapKey>,
    /// An https URL; `sha256` says what is behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// An artifact in a registry: REGISTRY/REPOSITORY:TAG, REGISTRY/REPOSITORY@sha256:…, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<String>,
    /// With `url`: SHA-256 of the plugin, 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Digest of the plugin's bytes, `sha256:…`: another plugin is refused, wherever it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Who must have signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<SignatureDemand>,
    /// With `oci`: a Secret in the host's namespace of type kubernetes.io/dockerconfigjson.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<String>,
    /// With `oci` and `url`: a certificate authority beside those the host trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<TextFrom>,
    /// With `oci` and `url`: ask in clear text. Only for hosts that the host's policy lists under `insecure`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// With `oci`: how often it is asked what a tag stands for; default 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
}

/// Who must have signed a plugin, as cosign does with a key pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignatureDemand {
    /// Public keys (ECDSA P-256, PEM); a signature by one of them is enough.
    #[schemars(length(min = 1))]
    pub keys: Vec<TextFrom>,
    /// For all but `oci`: the signature, as `cosign sign-blob` prints it. Left out: it is looked for beside the plugin, under
    /// its name with `.sig` behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<String>,
}

/// A text that stands here, or in a Secret or a ConfigMap of the host's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum TextFrom {
    /// Here, in PEM.
    Pem(String),
    /// Under a key of a Secret.
    Secret(SecretKey),
    /// Under a key of a ConfigMap.
    ConfigMap(ConfigMapKey),
}

impl fmt::Display for TextFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pem(_) => write!(f, "in the mapping"),
            Self::Secret(at) => write!(f, "in the Secret {}, key {}", at.name, at.key),
            Self::ConfigMap(at) => write!(f, "in the ConfigMap {}, key {}", at.name, at.key),
        }
    }
}

/// The one place that a source names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcePlace<'a> {
    /// A path.
    File(&'a str),
    /// A key.
    ConfigMap(&'a ConfigMapKey),
    /// A URL.
    Url(&'a str),
    /// A reference.
    Oci(&'a str),
}

impl PluginSource {
    /// A file.
    pub fn file(path: &str) -> Self {
        Self {
            file: Some(path.to_owned()),
            ..Self::default()
        }
    }

    /// The one place it names; none if it names none, or several.
    pub fn place(&self) -> Option<SourcePlace<'_>> {
        let places = [
            self.file.as_deref().map(SourcePlace::File),
            self.config_map.as_ref().map(SourcePlace::ConfigMap),
            self.url.as_deref().map(SourcePlace::Url),
            self.oci.as_deref().map(SourcePlace::Oci),
        ];
        let mut named = places.into_iter().flatten();
        match (named.next(), named.next()) {
            (Some(place), None) => Some(place),
            _ => None,
        }
    }

    /// Whether it can be used at all.
    pub(super) fn check(&self) -> Result<(), MappingError> {
        let value = |field, why: &str| {
            Err(MappingError::Value {
                field,
                why: why.to_owned(),
            })
        };
        let Some(place) = self.place() else {
            return value(
                "plugin",
                "must name exactly one of `file`, `configMap`, `url` with `sha256`, and `oci`",
            );
        };
        match place {
            SourcePlace::File("") => return value("plugin.file", "must name a file"),
            SourcePlace::File(_) => {}
            SourcePlace::ConfigMap(at) => check_key("plugin.configMap", &at.name, &at.key)?,
            SourcePlace::Url(url) => self.check_url(url)?,
            SourcePlace::Oci(reference) => check_reference(reference)?,
        }
        let is_hex = |text: &str| {
            text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let sha256 = self.sha256.as_deref();
        match (place, sha256) {
            (SourcePlace::Url(_), Some(sha256)) if is_hex(sha256) => {}
            (SourcePlace::Url(_), _) => {
                return value(
                    "plugin.sha256",
                    "must be the SHA-256 of what is behind `url`, 64 hexadecimal digits in lower case (sha256sum FILE)",
                );
            }
            (_, Some(_)) => return value("plugin.sha256", "goes with `url`; use `digest`"),
            (_, None) => {}
        }
        let digest = self.digest.as_deref();
        if digest.is_some_and(|text| !text.strip_prefix("sha256:").is_some_and(is_hex)) {
            return value(
                "plugin.digest",
                "must be `sha256:` and the 64 hexadecimal digits of the plugin's SHA-256, in lower case",
            );
        }
        if digest.is_some() && sha256.is_some() {
            return value(
                "plugin.digest",
                "is said by `sha256` already; leave one out",
            );
        }
        self.check_signature(place)?;
        self.check_access(place)
    }

    fn check_url(&self, text: &str) -> Result<(), MappingError> {
        let bad = |why: String| {
            Err(MappingError::Value {
                field: "plugin.url",
                why,
            })
        };
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => return bad(format!("`{text}` is none: {error}")),
        };
        match url.scheme() {
            "https" => {}
            "http" if self.insecure => {}
            "http" => {
                return bad("is in clear text; use https, or say `insecure: true` where the host's policy allows it".to_owned());
            }
            scheme => return bad(format!("`{scheme}:` cannot be fetched; use https")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return bad("must not hold a name or a password: a mapping is no secret".to_owned());
        }
        Ok(())
    }

    fn check_signature(&self, place: SourcePlace<'_>) -> Result<(), MappingError> {
        let Some(signature) = &self.signature else {
            return Ok(());
        };
        if signature.keys.is_empty() {
            return Err(MappingError::Value {
                field: "plugin.signature.keys",
                why: "must name a key: {pem: …}, {secret: {name, key}} or {configMap: {name, key}}"
                    .to_owned(),
            });
        }
        if signature.detached.is_some() && matches!(place, SourcePlace::Oci(_)) {
            return Err(MappingError::Value {
                field: "plugin.signature.detached",
                why: "does not go with `oci`: its signatures lie in the registry (cosign sign)"
                    .to_owned(),
            });
        }
        let mut keys = signature.keys.iter();
        keys.try_for_each(|key| key.check("plugin.signature.keys"))
    }

    fn check_access(&self, place: SourcePlace<'_>) -> Result<(), MappingError> {
        let value = |field, why: &str| {
            Err(MappingError::Value {
                field,
                why: why.to_owned(),
            })
        };
        let oci = matches!(place, SourcePlace::Oci(_));
        let remote = oci || matches!(place, SourcePlace::Url(_));
        if let Some(name) = &self.pull_secret
            && (!oci || !is_dns_subdomain(name))
        {
            return value(
                "plugin.pullSecret",
                "goes with `oci` and names a Secret in the host's namespace (kubectl create secret docker-registry)",
            );
        }
        if self.insecure && !remote {
            return value("plugin.insecure", "goes with `oci` and `url`");
        }
        if let Some(ca) = &self.ca {
            if !remote {
                return value("plugin.ca", "goes with `oci` and `url`");
            }
            ca.check("plugin.ca")?;
        }
        match self.interval {
            Some(_) if !oci => value("plugin.interval", "goes with `oci`"),
            Some(interval) if interval.0 < 1000 => value("plugin.interval", "must be at least 1s"),
            _ => Ok(()),
        }
    }
}

impl TextFrom {
    fn check(&self, field: &'static str) -> Result<(), MappingError> {
        match self {
            Self::Pem(text) if text.contains("-----BEGIN ") => Ok(()),
            Self::Pem(_) => Err(MappingError::Value {
                field,
                why: "pem: must begin with -----BEGIN".to_owned(),
            }),
            Self::Secret(at) => check_key(field, &at.name, &at.key),
            Self::ConfigMap(at) => check_key(field, &at.name, &at.key),
        }
    }
}

fn check_key(field: &'static str, name: &str, key: &str) -> Result<(), MappingError> {
    if is_dns_subdomain(name) && !key.is_empty() {
        return Ok(());
    }
    Err(MappingError::Value {
        field,
        why: format!(
            "name `{name}` and key `{key}` must name a key of an object in the host's namespace"
        ),
    })
}

/// What can be said without the grammar of registries: the registry is named, and there is nothing that is in no reference.
fn check_reference(text: &str) -> Result<(), MappingError> {
    let (registry, rest) = text.split_once('/').unwrap_or_default();
    let is_host = registry.contains(['.', ':']) || registry == "localhost";
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b);
    if is_host && !rest.is_empty() && text.bytes().all(plain) && !text.contains("//") {
        return Ok(());
    }
    Err(MappingError::Value {
        field: "plugin.oci",
        why: format!(
            "`{text}` is no reference; write REGISTRY/REPOSITORY:TAG, as in registry.example/report-job:1.2.0"
        ),
    })
}

impl fmt::Display for PluginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            Some(SourcePlace::File(path)) => write!(f, "the file {path}"),
            Some(SourcePlace::ConfigMap(at)) => {
                write!(f, "the ConfigMap {}, key {}", at.name, at.key)
            }
            Some(SourcePlace::Url(url)) => write!(f, "{url}"),
            Some(SourcePlace::Oci(reference)) => write!(f, "{reference}"),
            None => write!(f, "nowhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), String> {
        let source: PluginSource = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
        source.check().map_err(|error| error.to_string())
    }

    #[test]
    fn each_place_reads_with_what_goes_with_it() {
        let hex = "0".repeat(64);
        for text in [
            "{file: /a.wasm, signature: {keys: [{secret: {name: a, key: k}}], detached: AA==}}"
                .to_owned(),
            format!("{{configMap: {{name: a, key: k}}, digest: 'sha256:{hex}'}}"),
            format!(
                "{{url: 'https://a.example/a.wasm', sha256: '{hex}', ca: {{configMap: {{name: a, key: k}}}}}}"
            ),
            format!("{{url: 'http://127.0.0.1:80/a.wasm', sha256: '{hex}', insecure: true}}"),
            "{oci: 'a.example/b:1', pullSecret: a, interval: 10s, insecure: true}".to_owned(),
            format!("{{oci: 'localhost:5000/b/c@sha256:{hex}'}}"),
        ] {
            assert_eq!(check(&text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_what_to_write() {
        let hex = "0".repeat(64);
        let url = |more: &str| format!("{{url: 'https://a.example/a.wasm', {more}}}");
        for (text, expected) in [
            ("{}".to_owned(), "exactly one of `file`, `configMap`, `url`"),
            ("{file: a, oci: 'a.example/b'}".to_owned(), "exactly one of"),
            ("{file: ''}".to_owned(), "plugin.file"),
            (
                "{flie: a}".to_owned(),
                "expected one of file, configMap, url, oci",
            ),
            (url(""), "sha256sum FILE"),
            (url("sha256: abc"), "sha256sum FILE"),
            (
                url(&format!("sha256: '{hex}', digest: 'sha256:{hex}'")),
                "leave one out",
            ),
            (format!("{{file: a, sha256: '{hex}'}}"), "use `digest`"),
            (format!("{{file: a, digest: '{hex}'}}"), "plugin.digest"),
            (
                format!("{{url: 'http://a.example/a', sha256: '{hex}'}}"),
                "clear text",
            ),
            (
                format!("{{url: 'ftp://a.example/a', sha256: '{hex}'}}"),
                "use https",
            ),
            (
                format!("{{url: 'https://u:p@a.example/a', sha256: '{hex}'}}"),
                "no secret",
            ),
            ("{oci: a}".to_owned(), "registry.example/report-job:1.2.0"),
            (
                "{oci: 'team/a'}".to_owned(),
                "registry.example/report-job:1.2.0",
            ),
            (
                "{oci: 'https://a.example/b'}".to_owned(),
                "registry.example/report-job:1.2.0",
            ),
            (
                "{oci: 'a.example/b', signature: {keys: []}}".to_owned(),
                "must name a key",
            ),
            (
                "{oci: 'a.example/b', signature: {keys: [{pem: x}]}}".to_owned(),
                "-----BEGIN",
            ),
            (
                "{oci: 'a.example/b', signature: {keys: [{pem: '-----BEGIN '}], detached: AA==}}"
                    .to_owned(),
                "cosign sign",
            ),
            ("{file: a, pullSecret: b}".to_owned(), "plugin.pullSecret"),
            ("{file: a, insecure: true}".to_owned(), "plugin.insecure"),
            (
                "{file: a, ca: {pem: '-----BEGIN '}}".to_owned(),
                "plugin.ca",
            ),
            ("{file: a, interval: 10s}".to_owned(), "plugin.interval"),
            (
                "{oci: 'a.example/b', interval: 10ms}".to_owned(),
                "at least 1s",
            ),
        ] {
            let error = check(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
