//! A mapping: one entry of the configuration that says which plugin answers for which kind, and what it may do.
//!
//! One key of a labelled ConfigMap holds one mapping as YAML. Reading is strict: an unknown field is an error that lists the
//! valid ones, and a mapping that does not read as a whole is not read at all, so the last good one stays.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    contract::{Json, Kind},
    grants::{BadGrant, Grants},
    identity::{Account, IncompleteAccount},
    keys::Hash,
    limits::Limits,
    object::{BadPath, FieldPath},
    selector::Selector,
    units::{Bytes, Span},
};

/// Label of the ConfigMaps that hold mappings; its value is `true`.
pub const MAPPINGS_LABEL: &str = "guesthouse.dev/mappings";

/// One mapping, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mapping {
    /// The kind it is about.
    #[serde(rename = "for")]
    pub for_: For,
    /// Where the plugin comes from.
    pub plugin: PluginSource,
    /// Handed to the plugin as it is.
    #[serde(default = "empty_config", skip_serializing_if = "is_empty_object")]
    pub config: serde_json::Value,
    /// What the plugin may ask for; nothing that is not named here.
    #[serde(default)]
    pub grants: Grants,
    /// Service account, in the host's namespace, that effects are made as.
    pub service_account: String,
    /// What decides order and time in the queue.
    #[serde(default)]
    pub queue: QueueFields,
    /// Backoff of failed passes and failed sends.
    #[serde(default)]
    pub retry: Retry,
    /// Every object is passed again at least this often.
    #[serde(default = "ten_hours")]
    pub resync: Span,
    /// Passes of this mapping at the same time.
    #[serde(default = "sixteen")]
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: u32,
    /// What one call may use.
    #[serde(default)]
    pub limits: Limits,
    /// Secrets that the host puts into http requests; the plugin names them and never sees them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, Credential>,
    /// Whether this mapping writes the status of its objects. At most one mapping of an object may.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub status: bool,
    /// Paths below `.status` that others write, as in `.status.replicas`: never touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_status: Vec<String>,
    /// Name of the finalizer; none: `guesthouse.dev/<mapping>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<String>,
    /// What becomes of objects being deleted whose plugin is gone, broken or has given up.
    #[serde(default)]
    pub on_broken: OnBroken,
    /// What becomes of the finalizers when this mapping is removed.
    #[serde(default)]
    pub on_remove: OnRemove,
    /// What becomes of an object that leaves the selector.
    #[serde(default)]
    pub on_exit: OnExit,
    /// When a plugin that never settles is stopped.
    #[serde(default)]
    pub breaker: Breaker,
    /// Whether decisions are carried out.
    #[serde(default)]
    pub mode: MappingMode,
}

/// Whether decisions are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MappingMode {
    /// They are.
    #[default]
    Serve,
    /// They are told as Events and nothing is written or sent: for a first mapping onto live objects.
    Observe,
}

fn yes() -> bool {
    true
}

/// A value of a Secret in the host's namespace, sent as a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credential {
    /// The Secret and the key under its `data`.
    pub secret: SecretKey,
    /// The header it is sent in.
    #[serde(default = "authorization")]
    pub header: String,
    /// What stands before the value, as in `Bearer `.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
}

fn authorization() -> String {
    "authorization".into()
}

/// One key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKey {
    /// The Secret's name.
    pub name: String,
    /// The key under `data`.
    pub key: String,
}

/// What becomes of objects being deleted whose plugin is gone, broken or has given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnBroken {
    /// They wait, and a condition says for what.
    #[default]
    Block,
    /// The finalizer is taken off without the plugin's clean-up.
    Release,
}

/// What becomes of the finalizers when a mapping is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnRemove {
    /// They are taken off everywhere; children and journals stay.
    #[default]
    Release,
    /// They stay: for a mapping that comes back under the same name.
    Keep,
}

/// What becomes of an object that leaves the selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnExit {
    /// The finalizer is taken off; children stay.
    #[default]
    Release,
    /// It is finalized as if it were deleted.
    Finalize,
}

/// When a plugin that never settles is stopped: more own writes for one object than that, in that time, without a new
/// generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Breaker {
    /// Writes that are still fine.
    #[schemars(range(min = 1))]
    pub writes: u32,
    /// In which time; also the pause between two probes of a stopped object.
    pub per: Span,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            writes: 30,
            per: Span::from_secs(300),
        }
    }
}

/// The kind a mapping is about, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct For {
    /// `batch.acme.io/v1`.
    pub api_version: String,
    /// `ReportJob`.
    pub kind: String,
    /// Only these namespaces, each watched by itself; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Only objects with these labels, as after `kubectl get -l`; empty: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
}

/// Where a plugin comes from: exactly one of the members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum PluginSource {
    /// A file the host can read; watched, and swapped in when it changes.
    File(String),
    /// A key under `binaryData` of a ConfigMap in the host's namespace; watched likewise.
    ConfigMap(ConfigMapKey),
}

impl fmt::Display for PluginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "in the file {path}"),
            Self::ConfigMap(at) => write!(f, "in the ConfigMap {}, key {}", at.name, at.key),
        }
    }
}

/// One key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMapKey {
    /// The ConfigMap's name.
    pub name: String,
    /// The key under `binaryData`.
    pub key: String,
}

/// Paths into the object that decide its order and time in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueFields {
    /// Path to an integer, as in `.spec.priority`; higher goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Path to an RFC 3339 time, as in `.spec.notBefore`; no pass before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
}

/// Backoff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retry {
    /// First delay; doubled by each further failure.
    pub base: Span,
    /// Longest delay.
    pub max: Span,
    /// Failed passes in a row before the object is stalled; sends are the plugin's to limit.
    #[schemars(range(min = 1))]
    pub limit: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            base: Span::from_secs(1),
            max: Span::from_secs(300),
            limit: 5,
        }
    }
}

fn empty_config() -> serde_json::Value {
    serde_json::Value::Object(serde_json::Map::new())
}

fn is_empty_object(value: &serde_json::Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn ten_hours() -> Span {
    Span::from_secs(36_000)
}

fn sixteen() -> u32 {
    16
}

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
    match &mapping.plugin {
        PluginSource::File(path) if path.is_empty() => {
            value("plugin.file", "must name a file".to_owned())
        }
        PluginSource::ConfigMap(at) if !is_dns_subdomain(&at.name) || at.key.is_empty() => value(
            "plugin.configMap",
            format!(
                "name `{}` and key `{}` must name a key of a ConfigMap",
                at.name, at.key
            ),
        ),
        _ => Ok(()),
    }
}

/// RFC 1123 subdomain.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// All mappings of a set of ConfigMaps, by name, each read or refused by itself.
pub type MappingSet = BTreeMap<String, Result<CheckedMapping, MappingError>>;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
for: {apiVersion: batch.acme.io/v1, kind: ReportJob}
plugin: {file: /plugins/report-job.wasm}
config: {exporter: 'http://127.0.0.1:9', big: 9007199254740993}
grants: {http: [{host: '127.0.0.1:*', methods: [PUT]}]}
serviceAccount: report-jobs
queue: {priority: .spec.priority, notBefore: .spec.notBefore}
retry: {base: 1s, max: 5m, limit: 5}
resync: 10h
concurrency: 16
limits: {memory: 64Mi, time: 1s}
";

    fn refused(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "the good mapping has {from}");
        CheckedMapping::parse("m", &GOOD.replace(from, to), "ns")
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_mapping_reads_and_its_integers_stay_exact() {
        let mapping = CheckedMapping::parse("report-jobs", GOOD, "guesthouse-system").unwrap();
        assert!(
            mapping.config.as_str().contains("9007199254740993"),
            "{:?}",
            mapping.config
        );
        assert_eq!(mapping.account.namespace(), "guesthouse-system");
        assert_eq!(
            mapping.mapping.plugin,
            PluginSource::File("/plugins/report-job.wasm".into())
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_what_to_write() {
        for (from, to, expected) in [
            ("resync: 10h", "resinc: 10h", "unknown field `resinc`"),
            ("resync: 10h", "resync: 10", "10"),
            ("resync: 10h", "resync: 10ms", "at least 1s"),
            ("concurrency: 16", "concurrency: 0", "from 1 to 1024"),
            (
                "{file: /plugins/report-job.wasm}",
                "{oci: x}",
                "unknown variant `oci`",
            ),
            (
                "serviceAccount: report-jobs",
                "serviceAccount: ''",
                "serviceAccount",
            ),
            ("serviceAccount: report-jobs\n", "", "serviceAccount"),
            (".spec.priority", "spec.priority", "queue.priority"),
            ("time: 1s", "time: 1 s", "length of time"),
            ("methods: [PUT]", "methods: []", "grants.http[0]"),
            ("limit: 5", "limit: 0", "retry.limit"),
            ("time: 1s", "time: 99999h", "limits.time"),
            ("memory: 64Mi", "memory: 0", "limits.memory"),
            ("memory: 64Mi", "memory: 999Gi", "limits.memory"),
            (
                "serviceAccount: report-jobs",
                "serviceAccount: 'A B/..'",
                "serviceAccount",
            ),
            (
                "kind: ReportJob}",
                "kind: ReportJob, namespaces: ['']}",
                "for.namespaces",
            ),
            (
                "kind: ReportJob}",
                "kind: ReportJob, namespaces: ['A/B']}",
                "for.namespaces",
            ),
            (
                "apiVersion: batch.acme.io/v1",
                "apiVersion: ../../etc",
                "for.apiVersion",
            ),
            (
                "apiVersion: batch.acme.io/v1",
                "apiVersion: a.b/v1/x",
                "for.apiVersion",
            ),
            (
                "batch.acme.io/v1, kind: ReportJob",
                "events.k8s.io/v1, kind: Event",
                "written by the host itself",
            ),
            (
                "batch.acme.io/v1, kind: ReportJob",
                "guesthouse.dev/v1alpha1, kind: Journal",
                "written by the host itself",
            ),
            (
                "{file: /plugins/report-job.wasm}",
                "{file: ''}",
                "plugin.file",
            ),
            (
                "{file: /plugins/report-job.wasm}",
                "{configMap: {name: 'a,b', key: k}}",
                "plugin.configMap",
            ),
            ("base: 1s", "base: 10m", "base must be"),
        ] {
            let error = refused(from, to);
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn an_error_in_the_text_names_line_and_valid_fields() {
        let error = refused("resync: 10h", "resinc: 10h");
        assert!(
            error.contains("line") && error.contains("serviceAccount") && !error.contains('\n'),
            "{error}"
        );
    }

    #[test]
    fn a_mapping_is_named_as_its_key_without_yaml() {
        assert_eq!(
            name_of_key("report-jobs.yaml").unwrap().unwrap(),
            "report-jobs"
        );
        assert!(name_of_key("README.md").is_none());
        for key in ["Report.yaml", "-a.yaml", ".yaml", "a.b.yaml"] {
            assert!(name_of_key(key).unwrap().is_err(), "{key}");
        }
    }

    #[test]
    fn the_basis_changes_with_what_a_decision_depends_on_and_with_nothing_else() {
        let basis = |text: &str| CheckedMapping::parse("m", text, "ns").unwrap().basis;
        assert_eq!(
            basis(GOOD),
            basis(
                &GOOD
                    .replace("resync: 10h", "resync: 1h")
                    .replace("concurrency: 16", "concurrency: 1")
            )
        );
        assert_ne!(basis(GOOD), basis(&GOOD.replace("[PUT]", "[POST]")));
        assert_ne!(
            basis(GOOD),
            basis(&GOOD.replace("127.0.0.1:9'", "127.0.0.1:8'"))
        );
    }
}
