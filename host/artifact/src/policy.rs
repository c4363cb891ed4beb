//! The one check of who vouches for a plugin: allow-list, digest and signature, of the mapping and of the whole host.
//!
//! [`admit`] is the only maker of [`Admitted`], and only what is admitted is loaded. So there is no way around it: not by a
//! field of a mapping, not by code that is compiled already, not because another mapping loaded the same bytes. What a mapping
//! demands comes on top of what the host demands, and never instead of it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Digest,
    signature::{BadKey, Evidence, PublicKey, Subject},
};

/// The policy file of a host, as written: what holds for all mappings. What is left out demands nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyFile {
    /// The sources plugins may come from: `oci:registry.example/team/*`, `oci:registry.example/team/app`,
    /// `https://plugins.example/*`, `configMap:plugins/*`, `file:/plugins/*`. `*` stands at the end alone, after a `/` or the
    /// first `:`. Left out: any source; an empty list: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Whether every mapping must say the digest of its plugin, or name a manifest by digest.
    #[serde(default)]
    pub require_digest: bool,
    /// Every plugin must carry a signature by one of these keys. Left out: none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_signature: Option<Vec<PolicyKey>>,
    /// Hosts that may be asked in clear text where a mapping says `insecure: true`, as in `localhost:5000`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insecure: Vec<String>,
}

/// A public key: ECDSA P-256 in PEM, as `cosign.pub`. Exactly one of `pem` and `file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyKey {
    /// What refusals call it.
    pub name: String,
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pem: Option<String>,
    /// A file with its text, read at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadPolicy {
    /// Its text.
    #[error("{0}")]
    Text(String),
    /// A pattern of `allow`.
    #[error(
        "allow: `{0}` is no pattern; write oci:HOST/REPOSITORY, https://HOST/PATH, configMap:NAME/KEY or file:/PATH, with `*` at the end alone, after a `/` or the first `:`"
    )]
    Pattern(String),
    /// A key.
    #[error("requireSignature: {0}")]
    Key(#[from] BadKey),
    /// A key that is nowhere, or in two places.
    #[error("requireSignature: the key {0} needs either `pem` or `file`")]
    KeyPlace(String),
    /// A file that cannot be read.
    #[error("requireSignature: the key {name}: {file} cannot be read: {error}")]
    KeyFile {
        /// Of the key.
        name: String,
        /// Its path.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// Nobody could sign.
    #[error("requireSignature: an empty list refuses every plugin; name a key, or leave it out")]
    NoKeys,
}

/// What holds for all mappings of a host. The default demands nothing.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    allow: Option<Vec<Pattern>>,
    require_digest: bool,
    keys: Option<Vec<PublicKey>>,
    insecure: Vec<String>,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// What a source begins with, up to the `*`; a source without one is this very text.
    prefix: Option<String>,
}

impl Policy {
    /// Reads a policy file. `read` reads the files it names.
    pub fn parse(
        text: &str,
        read: impl Fn(&str) -> std::io::Result<String>,
    ) -> Result<Self, BadPolicy> {
        let plain = serde_saphyr::options! { with_snippet: false };
        let file: PolicyFile = serde_saphyr::from_str_with_options(text, plain)
            .map_err(|error| BadPolicy::Text(error.to_string().replace('\n', "; ")))?;
        let allow = file
            .allow
            .map(|all| all.iter().map(|text| Pattern::parse(text)).collect());
        let key = |key: &PolicyKey| {
            let text = match (&key.pem, &key.file) {
                (Some(pem), None) => pem.clone(),
                (None, Some(file)) => read(file).map_err(|error| BadPolicy::KeyFile {
                    name: key.name.clone(),
                    file: file.clone(),
                    error,
                })?,
                _ => return Err(BadPolicy::KeyPlace(key.name.clone())),
            };
            Ok(PublicKey::from_pem(&key.name, &text)?)
        };
        let keys = file.require_signature;
        if keys.as_ref().is_some_and(Vec::is_empty) {
            return Err(BadPolicy::NoKeys);
        }
        let keys = keys.map(|all| all.iter().map(key).collect());
        Ok(Self {
            allow: allow.transpose()?,
            require_digest: file.require_digest,
            keys: keys.transpose()?,
            insecure: file.insecure,
        })
    }

    /// Whether a plugin may come from there at all; asked before anything is fetched, and again by [`admit`].
    pub fn allows(&self, source: &Source) -> Result<(), Denied> {
        let Some(allow) = &self.allow else {
            return Ok(());
        };
        let text = source.to_string();
        if !source.is_plain() || !allow.iter().any(|pattern| pattern.fits(&text)) {
            let allowed: Vec<_> = allow.iter().map(|pattern| pattern.text.as_str()).collect();
            return Err(Denied::NotAllowed {
                from: text,
                allowed: allowed.join(", "),
            });
        }
        Ok(())
    }

    /// Whether this host, with its port if it has one, may be asked in clear text.
    pub fn allows_insecure(&self, host: &str) -> Result<(), Denied> {
        match self.insecure.iter().any(|allowed| allowed == host) {
            true => Ok(()),
            false => Err(Denied::Insecure(host.to_owned())),
        }
    }

    /// All hosts that may be asked in clear text.
    pub fn insecure(&self) -> &[String] {
        &self.insecure
    }

    /// Whether signatures have to be looked for although the mapping asks for none.
    pub fn wants_signature(&self) -> bool {
        self.keys.is_some()
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, BadPolicy> {
        let bad = || BadPolicy::Pattern(text.to_owned());
        let known = ["oci:", "https://", "http://", "configMap:", "file:"];
        let scheme = known.iter().find(|scheme| text.starts_with(**scheme));
        let rest = &text[scheme.ok_or_else(bad)?.len()..];
        let (body, any) = match rest.strip_suffix('*') {
            Some(body) => (body, true),
            None => (rest, false),
        };
        // `https://plugins.example*` would let in plugins.example.evil.
        let ends_a_part = body.is_empty() || body.ends_with('/');
        if body.contains('*') || (any && !ends_a_part) || (!any && body.is_empty()) {
            return Err(bad());
        }
        Ok(Self {
            prefix: any.then(|| text[..text.len() - 1].to_owned()),
            text: text.to_owned(),
        })
    }

    fn fits(&self, source: &str) -> bool {
        match &self.prefix {
            Some(prefix) => source.starts_with(prefix),
            None => source == self.text,
        }
    }
}

/// Where a plugin is to come from, as patterns are matched against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A path.
    File(String),
    /// Name and key.
    ConfigMap(String, String),
    /// A URL.
    Url(String),
    /// Registry and repository, without tag and digest.
    Oci(String),
}

impl Source {
    /// Whether the text means what it looks like: no part of it leads back up.
    fn is_plain(&self) -> bool {
        let (Self::File(text) | Self::Url(text) | Self::Oci(text)) = self else {
            return true;
        };
        let parts = text.split(['/', '\\']);
        let mut parts = parts.map(|part| part.to_ascii_lowercase().replace("%2e", "."));
        !parts.any(|part| part == ".." || part == ".")
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{path}"),
            Self::ConfigMap(name, key) => write!(f, "configMap:{name}/{key}"),
            Self::Url(url) => write!(f, "{url}"),
            Self::Oci(repository) => write!(f, "oci:{repository}"),
        }
    }
}

/// What one mapping demands; the default demands nothing.
#[derive(Clone, Debug)]
pub struct Demands {
    /// What refusals call whoever demands it.
    pub by: &'static str,
    /// The digest of the plugin's bytes.
    pub digest: Option<Digest>,
    /// The digest of the manifest it comes by.
    pub manifest: Option<Digest>,
    /// A signature by one of these; none: no signature.
    pub keys: Option<Vec<PublicKey>>,
}

impl Default for Demands {
    fn default() -> Self {
        Self {
            by: "the mapping",
            digest: None,
            manifest: None,
            keys: None,
        }
    }
}

/// Bytes that somebody sent, with what was found beside them.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where from.
    pub source: Source,
    /// The same for people, with all that is known: tag and digest of a manifest.
    pub origin: String,
    /// The manifest that names them, if they came from a registry.
    pub manifest: Option<Digest>,
    /// Themselves.
    pub bytes: Vec<u8>,
    /// Signatures.
    pub evidence: Vec<Evidence>,
}

/// A plugin that may be loaded. Made by [`admit`] alone.
#[derive(Clone, Debug)]
pub struct Admitted {
    bytes: Vec<u8>,
    digest: Digest,
    origin: String,
}

impl Admitted {
    /// The plugin.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its digest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Where it came from and who vouches for it, for people.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// Why a plugin is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Its source.
    #[error("the host's policy does not allow plugins from {from}; it allows: {allowed}")]
    NotAllowed {
        /// It.
        from: String,
        /// All that are.
        allowed: String,
    },
    /// Clear text.
    #[error(
        "insecure: the host's policy does not allow asking {0} in clear text; add it under `insecure` of the policy file (guesthouse run --policy), or use TLS (`ca` names an authority of your own)"
    )]
    Insecure(String),
    /// No digest where there must be one.
    #[error(
        "the host's policy demands a digest (requireDigest); add `digest: {0}` if that is the plugin you mean"
    )]
    NoDigest(Digest),
    /// Another digest.
    #[error(
        "its digest is {found}, the mapping demands {wanted}; update `digest` if the new one is meant"
    )]
    OtherDigest {
        /// Of what came.
        found: Digest,
        /// Of what was to come.
        wanted: Digest,
    },
    /// Another manifest.
    #[error("its manifest is {found}, the mapping demands {wanted}")]
    OtherManifest {
        /// Of what came.
        found: String,
        /// Of what was to come.
        wanted: Digest,
    },
    /// No good signature.
    #[error("{by} demands a signature by {keys}, and {found}")]
    Unsigned {
        /// Who demands it.
        by: &'static str,
        /// By whom.
        keys: String,
        /// What there is instead.
        found: String,
    },
}

/// Judges a plugin by the host's policy and by what its mapping demands. Everything that is loaded passes here, each time it
/// is to be loaded.
pub fn admit(policy: &Policy, demands: &Demands, candidate: Candidate) -> Result<Admitted, Denied> {
    policy.allows(&candidate.source)?;
    let digest = Digest::of(&candidate.bytes);
    if let Some(wanted) = demands.digest.filter(|wanted| *wanted != digest) {
        return Err(Denied::OtherDigest {
            found: digest,
            wanted,
        });
    }
    if let Some(wanted) = demands.manifest
        && candidate.manifest != Some(wanted)
    {
        let found = candidate.manifest.map(|digest| digest.to_string());
        return Err(Denied::OtherManifest {
            found: found.unwrap_or_else(|| "none".to_owned()),
            wanted,
        });
    }
    if policy.require_digest && demands.digest.is_none() && demands.manifest.is_none() {
        return Err(Denied::NoDigest(digest));
    }
    let mut signers: Vec<&str> = Vec::new();
    for (by, keys) in [
        ("the host's policy", &policy.keys),
        (demands.by, &demands.keys),
    ] {
        if let Some(keys) = keys {
            let signer = signer(by, keys, &candidate)?;
            if !signers.contains(&signer) {
                signers.push(signer);
            }
        }
    }
    let origin = match signers.is_empty() {
        true => candidate.origin,
        false => format!("{}, signed by {}", candidate.origin, signers.join(" and ")),
    };
    Ok(Admitted {
        bytes: candidate.bytes,
        digest,
        origin,
    })
}

/// The key of these whose signature there is.
fn signer<'a>(
    by: &'static str,
    keys: &'a [PublicKey],
    candidate: &Candidate,
) -> Result<&'a str, Denied> {
    let subject = Subject {
        bytes: &candidate.bytes,
        manifest: candidate.manifest.as_ref(),
    };
    let mut whys = Vec::new();
    for evidence in &candidate.evidence {
        for key in keys {
            match evidence.refuted(key, subject) {
                None => return Ok(key.name()),
                Some(why) if !whys.contains(&why) => whys.push(why),
                Some(_) => {}
            }
        }
    }
    let names: Vec<_> = keys.iter().map(PublicKey::name).collect();
    Err(Denied::Unsigned {
        by,
        keys: names.join(" or "),
        found: match candidate.evidence.len() {
            0 => "no signature was found".to_owned(),
            1 => format!("the one there is is {}", whys.join(", ")),
            n => format!("of the {n} there are none counts: {}", whys.join(", ")),
        },
    })
}

#[cfg(test)]
mod tests;
