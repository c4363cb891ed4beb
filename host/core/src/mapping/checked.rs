//! A mapping that was read and checked: everything that can be known of it before a cluster is asked.

use super::Mapping;
use crate::{
    contract::{Json, Kind},
    grants::{BadGrant, HOST_HEADERS},
    identity::{Account, IncompleteAccount},
    keys::Hash,
    object::{BadPath, FieldPath},
    selector::Selector,
    units::{Bytes, Span},
};

/// Why a mapping cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// The name of its key.
    #[error(
        "`{0}` is no mapping's name: a mapping is called as its key without `.yaml`, a DNS label of at most 63 characters, as in `report-jobs.yaml`"
    )]
    Name(String),
    /// Its text.
    #[error("{0}")]
    Text(String),
    /// A path into the object.
    #[error("{field}: {error}")]
    Path {
        /// Its path in the mapping.
        field: &'static str,
        /// What is wrong with it.
        error: BadPath,
    },
    /// Its account.
    #[error(transparent)]
    Account(#[from] IncompleteAccount),
    /// A value that cannot be.
    #[error("{field}: {why}")]
    Value {
        /// Its path in the mapping.
        field: &'static str,
        /// Why not, and what to write.
        why: String,
    },
    /// A grant.
    #[error("grants.{}[{}]: {}", .0.list, .0.index, .0.why)]
    Grant(BadGrant),
}

/// A mapping that was read and checked: its text once more as the values the host works with.
#[derive(Clone, Debug)]
pub struct CheckedMapping {
    /// Its name.
    pub name: String,
    /// As written.
    pub mapping: Mapping,
    /// The kind.
    pub kind: Kind,
    /// The account of its effects.
    pub account: Account,
    /// `config` as the plugin gets it.
    pub config: Json,
    /// `queue.priority`.
    pub priority: Option<FieldPath>,
    /// `queue.notBefore`.
    pub not_before: Option<FieldPath>,
    /// Name of the finalizer.
    pub finalizer: String,
    /// `for.labelSelector`; none: all objects.
    pub selector: Option<Selector>,
    /// Paths of `foreignStatus`, below `.status`.
    pub foreign_status: Vec<FieldPath>,
    /// Hash of what a plugin's decision depends on beside its bytes and the object: config, grants, account, limits.
    pub basis: String,
}

/// The name a key of a ConfigMap gives its mapping, or None if the key holds no mapping (it does not end in `.yaml`).
pub fn name_of_key(key: &str) -> Option<Result<&str, MappingError>> {
    let name = key.strip_suffix(".yaml")?;
    Some(if is_dns_label(name) {
        Ok(name)
    } else {
        Err(MappingError::Name(key.to_owned()))
    })
}

/// RFC 1123 label.
pub fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl CheckedMapping {
    /// Reads and checks the mapping `name`; its account lies in `namespace`, the host's own.
    pub fn parse(name: &str, text: &str, namespace: &str) -> Result<Self, MappingError> {
        if !is_dns_label(name) {
            return Err(MappingError::Name(name.to_owned()));
        }
        // One line: it goes into an Event.
        let plain = serde_saphyr::options! { with_snippet: false };
        let mapping: Mapping = serde_saphyr::from_str_with_options(text, plain)
            .map_err(|error| MappingError::Text(error.to_string().replace('\n', "; ")))?;
        Self::check(name, mapping, namespace)
    }

    fn check(name: &str, mapping: Mapping, namespace: &str) -> Result<Self, MappingError> {
        let value = |field, why: &str| {
            Err(MappingError::Value {
                field,
                why: why.to_owned(),
            })
        };
        let kind = Kind {
            api_version: mapping.for_.api_version.clone(),
            kind: mapping.for_.kind.clone(),
        };
        if kind.api_version.is_empty() || kind.kind.is_empty() {
            return value("for", "apiVersion and kind must not be empty");
        }
        if mapping.concurrency == 0 || mapping.concurrency > 1024 {
            return value("concurrency", "must be from 1 to 1024");
        }
        if mapping.retry.limit == 0 {
            return value("retry.limit", "must be at least 1");
        }
        if mapping.retry.base.0 == 0 || mapping.retry.max < mapping.retry.base {
            return value("retry", "base must be more than 0 and not more than max");
        }
        if mapping.resync.0 < 1000 {
            return value("resync", "must be at least 1s");
        }
        if !(1..=MAX_CALL.0).contains(&mapping.limits.time.0) {
            return value(
                "limits.time",
                "must be more than 0 and at most 30s: a call holds a thread",
            );
        }
        if !(MIN_MEMORY.0..=MAX_MEMORY.0).contains(&mapping.limits.memory.0) {
            return value("limits.memory", "must be from 1Mi to 256Mi");
        }
        check_names(&mapping)?;
        if !mapping.config.is_object() {
            return value("config", "must be an object");
        }
        mapping.grants.check().map_err(MappingError::Grant)?;
        let path = |field, text: &Option<String>| {
            text.as_deref()
                .map(FieldPath::parse)
                .transpose()
                .map_err(|error| MappingError::Path { field, error })
        };
        let selector = match mapping.for_.label_selector.as_str() {
            "" => None,
            text => Some(Selector::parse(text).map_err(|error| MappingError::Value {
                field: "for.labelSelector",
                why: error.to_string(),
            })?),
        };
        let finalizer = check_finalizer(name, mapping.finalizer.as_deref())?;
        let foreign_status = check_foreign_status(&mapping.foreign_status)?;
        check_credentials(&mapping)?;
        mapping.rollout.check()?;
        if mapping.breaker.writes == 0 || mapping.breaker.per.0 < 1000 {
            return value("breaker", "writes must be at least 1, and per at least 1s");
        }
        let config =
            Json::of(&mapping.config).map_err(|error| MappingError::Text(error.to_string()))?;
        let grants =
            Json::of(&mapping.grants).map_err(|error| MappingError::Text(error.to_string()))?;
        let limits =
            Json::of(&mapping.limits).map_err(|error| MappingError::Text(error.to_string()))?;
        Ok(Self {
            priority: path("queue.priority", &mapping.queue.priority)?,
            not_before: path("queue.notBefore", &mapping.queue.not_before)?,
            account: Account::new(namespace, mapping.service_account.clone())?,
            basis: Hash::of("basis")
                .part(config.as_str())
                .part(grants.as_str())
                .part(&mapping.service_account)
                .part(limits.as_str())
                .part([u8::from(mapping.status)])
                .part(mapping.foreign_status.join("\n"))
                .hex(),
            finalizer,
            selector,
            foreign_status,
            name: name.to_owned(),
            kind,
            config,
            mapping,
        })
    }
}

/// The finalizer's name: qualified, as the API server asks, and nobody else's.
fn check_finalizer(mapping: &str, given: Option<&str>) -> Result<String, MappingError> {
    let Some(name) = given else {
        return Ok(format!("guesthouse.dev/{mapping}"));
    };
    let parts = name.split_once('/');
    let part = |text: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        !text.is_empty() && text.len() <= 63 && text.bytes().all(inner)
    };
    let of_the_server = name.starts_with("kubernetes.io/") || name.contains(".kubernetes.io/");
    if !parts.is_some_and(|(prefix, name)| is_dns_subdomain(prefix) && part(name)) || of_the_server
    {
        return Err(MappingError::Value {
            field: "finalizer",
            why: format!(
                "`{name}` is none; write a name of your own with a prefix, as in `acme.io/cleanup`"
            ),
        });
    }
    Ok(name.to_owned())
}

fn check_foreign_status(paths: &[String]) -> Result<Vec<FieldPath>, MappingError> {
    let read = |path: &String| {
        let below = path
            .strip_prefix(".status.")
            .filter(|rest| !rest.is_empty());
        if below.is_none() {
            return Err(MappingError::Value {
                field: "foreignStatus",
                why: format!("`{path}` is not below .status; write it as in `.status.replicas`"),
            });
        }
        FieldPath::parse(path).map_err(|error| MappingError::Path {
            field: "foreignStatus",
            error,
        })
    };
    paths.iter().map(read).collect()
}

fn check_credentials(mapping: &Mapping) -> Result<(), MappingError> {
    let value = |why: String| {
        Err(MappingError::Value {
            field: "credentials",
            why,
        })
    };
    for (name, credential) in &mapping.credentials {
        let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if credential.header.is_empty() || !credential.header.bytes().all(token) {
            return value(format!(
                "{name}.header: `{}` is no header's name",
                credential.header
            ));
        }
        if HOST_HEADERS.contains(&credential.header.to_ascii_lowercase().as_str()) {
            return value(format!(
                "{name}.header: `{}` is the host's to set; use another one, as in `authorization`",
                credential.header
            ));
        }
        if !credential.prefix.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return value(format!(
                "{name}.prefix: must be printable ASCII, as in `Bearer `"
            ));
        }
        if !is_dns_subdomain(&credential.secret.name) || credential.secret.key.is_empty() {
            return value(format!(
                "{name}.secret: name and key must name a key of a Secret in the host's namespace"
            ));
        }
    }
    for grant in &mapping.grants.http {
        if let Some(unknown) = grant
            .credentials
            .iter()
            .find(|name| !mapping.credentials.contains_key(*name))
        {
            return value(format!(
                "`{unknown}`, which grants.http names for {}, is not there; add it under `credentials`",
                grant.host
            ));
        }
    }
    Ok(())
}

/// Longest call that a mapping may allow.
const MAX_CALL: Span = Span::from_secs(30);
/// Least memory that a plugin can start in.
const MIN_MEMORY: Bytes = Bytes(1 << 20);
/// Most memory that a call may have: what the sandbox reserves for one.
const MAX_MEMORY: Bytes = Bytes(256 << 20);

/// Kinds that the host itself writes with every pass: mapped, each pass would make the next one; written by a plugin, the
/// host could be made to forget what it did.
const OWN_KINDS: [(&str, &str); 4] = [
    ("", "Event"),
    ("events.k8s.io", "Event"),
    ("coordination.k8s.io", "Lease"),
    ("guesthouse.dev", "Journal"),
];

/// Whether a kind is the host's own to write: no mapping is about it, and none can grant it to a plugin.
pub fn is_own_kind(group: &str, kind: &str) -> bool {
    OWN_KINDS.contains(&(group, kind)) || group == "guesthouse.dev"
}

/// Names that become parts of addresses and selectors: one that is none would only ever be answered with an error.
fn check_names(mapping: &Mapping) -> Result<(), MappingError> {
    let value = |field, why: String| Err(MappingError::Value { field, why });
    let (api_version, kind) = (&mapping.for_.api_version, &mapping.for_.kind);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let group_fits = !api_version.contains('/') || is_dns_subdomain(group);
    if !group_fits || !is_dns_label(version) {
        return value(
            "for.apiVersion",
            format!("`{api_version}` is none; write group/version, as in batch.acme.io/v1"),
        );
    }
    if !kind.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return value(
            "for.kind",
            format!("`{kind}` is none; write it as in a manifest, `ReportJob`"),
        );
    }
    if is_own_kind(group, kind) {
        return value(
            "for",
            format!(
                "{api_version} {kind} is written by the host itself in every pass and cannot be mapped"
            ),
        );
    }
    if let Some(wrong) = mapping
        .for_
        .namespaces
        .iter()
        .find(|name| !is_dns_label(name))
    {
        return value(
            "for.namespaces",
            format!("`{wrong}` is no namespace's name; leave the list out for all namespaces"),
        );
    }
    if !mapping.service_account.is_empty() && !is_dns_subdomain(&mapping.service_account) {
        return value(
            "serviceAccount",
            format!("`{}` is no service account's name", mapping.service_account),
        );
    }
    mapping.plugin.check()
}

/// RFC 1123 subdomain.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}
