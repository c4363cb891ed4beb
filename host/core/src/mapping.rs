//! A mapping: one entry of the configuration that says which plugin answers for which kind, and what it may do.
//!
//! One key of a labelled ConfigMap holds one mapping as YAML. Reading is strict: an unknown field is an error that lists the
//! valid ones, and a mapping that does not read as a whole is not read at all, so the last good one stays.

mod checked;
mod rollout;
mod source;

use std::collections::BTreeMap;

pub use checked::{
    CheckedMapping, MappingError, is_dns_label, is_dns_subdomain, is_own_kind, name_of_key,
};
pub use rollout::{OnDifference, ReturnAfter, Rollout};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use source::{PluginSource, SignatureDemand, SourcePlace, TextFrom};

use crate::{grants::Grants, limits::Limits, units::Span};

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
    /// How another version of the plugin takes over.
    #[serde(default)]
    pub rollout: Rollout,
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

/// One key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMapKey {
    /// The ConfigMap's name.
    pub name: String,
    /// The key under `binaryData`, or for a text under `data`.
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

/// All mappings of a set of ConfigMaps, by name, each read or refused by itself.
pub type MappingSet = BTreeMap<String, Result<CheckedMapping, MappingError>>;

#[cfg(test)]
mod tests;
