//! What a plugin wants.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Body, Cause, Extension, Json, Kind, ObjectRef};

/// The reply of `reconcile` and `finalize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// What the plugin wants.
    Decision(Decision),
    /// Why it wants nothing.
    Failure(Failure),
}

/// All that a plugin wants; checked as a whole before anything is done. The default is a valid decision: nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Decision {
    /// None: status stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Merged by type into `status.conditions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Labels to set (some) or take off (none).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set (some) or take off (none).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Option<String>>,
    /// All that must be known beside the descriptor's needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// The whole wish, in every round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// The applies among `effects` are all the children there shall be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub complete: bool,
    /// Told only by a pass that changes something else too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Call again at the latest then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<Wake>,
    /// Only in `finalize`: nothing is left to clean up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub finalized: bool,
    /// Parts of later versions that the descriptor named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
}

/// The status a plugin wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// The whole status.
    Replace(Json),
    /// RFC 7386 on the version read.
    Merge(Json),
}

/// One condition; generation and transition time are the host's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// `Ready`, `DatabaseUp` …
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// CamelCase.
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
}

/// `True`, `False`, `Unknown`, as Kubernetes writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Not known yet.
    Unknown,
}

impl ConditionStatus {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

/// When to call again at the latest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Wake {
    /// RFC 3339.
    At(String),
    /// Seconds from `observation.now`.
    After(u32),
}

/// An Event to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    /// Normal or warning.
    #[serde(rename = "type")]
    pub type_: EventType,
    /// CamelCase.
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub note: String,
}

/// `normal` or `warning`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EventType {
    /// As expected.
    Normal,
    /// Somebody must act.
    Warning,
}

/// One thing to read beside the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Need {
    /// Unique among the needs of one decision.
    pub name: String,
    /// What to read.
    pub source: Source,
    /// How much of it.
    #[serde(default)]
    pub view: View,
    /// At most this many objects; none: the mapping's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// One object by name.
    Object(ObjectRef),
    /// Objects by label.
    Selected(Selection),
    /// Objects of a kind with this object's owner mark.
    Owned(Kind),
    /// Something outside the cluster.
    Fetch(Fetch),
}

/// How much of each object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum View {
    /// All of it.
    #[default]
    Full,
    /// apiVersion, kind and metadata.
    Metadata,
}

/// Objects of a kind by label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selection {
    /// Their kind.
    pub kind: Kind,
    /// None: the object's own; `*`: all that are granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// As after `kubectl get -l`.
    #[serde(default)]
    pub labels: String,
}

/// A GET or HEAD without receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fetch {
    /// The request.
    pub request: Request,
    /// How old an answer may be, seconds.
    #[serde(default)]
    pub fresh: u32,
}

/// One thing a plugin wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Effect {
    /// Unique and stable within the object; at most [`super::MAX_EFFECT_ID`] bytes.
    pub id: String,
    /// Ids of effects that must have succeeded first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// What to do.
    pub action: Action,
}

/// What an effect does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// A child by server-side apply.
    Apply(Apply),
    /// A deletion.
    Delete(Delete),
    /// A request with a receipt.
    Http(Http),
    /// Something of a later version.
    Other(Extension),
}

/// A child, by server-side apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Apply {
    /// The fields meant, with apiVersion, kind and metadata.name.
    pub object: Json,
    /// Whose it is.
    #[serde(default)]
    pub ownership: Ownership,
    /// Kept or made once.
    #[serde(default)]
    pub mode: Mode,
    /// When a field cannot be changed.
    #[serde(default)]
    pub on_immutable: OnImmutable,
    /// When the reconciled object is deleted.
    #[serde(default)]
    pub on_delete: OnDelete,
    /// Random values the host makes; only for a Secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generate: Vec<Generated>,
}

/// Whose a child is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Ownership {
    /// Made by this object.
    #[default]
    Owned,
    /// The same, and one without owner is taken over.
    Adopt,
    /// A part of somebody else's object.
    Fields,
}

/// Kept as stated or made once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Drift is corrected.
    #[default]
    Keep,
    /// Made once and left alone.
    Once,
}

/// When the server refuses a change because a field is immutable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnImmutable {
    /// An error of the effect.
    #[default]
    Fail,
    /// Deleted and made again.
    Recreate,
}

/// What happens to a child when the reconciled object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnDelete {
    /// It goes too.
    #[default]
    Delete,
    /// It stays.
    Orphan,
}

/// A random value the host makes once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Generated {
    /// Key under `data`.
    pub key: String,
    /// Number of characters.
    pub length: u32,
    /// None: `A-Za-z0-9`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
}

/// A deletion; gone already counts as done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delete {
    /// Which object.
    pub object: ObjectRef,
    /// This one only; none: the one on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A request that is carried out once per id and key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Http {
    /// The request.
    pub request: Request,
    /// Repeated until answered, or sent at most once.
    #[serde(default)]
    pub delivery: Delivery,
    /// What makes this wish another than the last under this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Sent instead of the host's hash, where granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub literal_key: Option<String>,
}

/// An http request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// Upper case.
    pub method: String,
    /// Absolute, http or https.
    pub url: String,
    /// In order; a name may come more than once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(default)]
    pub body: Body,
    /// Name of a credential of the mapping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Seconds; none: the grant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
}

/// How often a request may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    /// Again until there is a definite answer, under the same key.
    #[default]
    AtLeastOnce,
    /// Never twice under one key.
    AtMostOnce,
}

/// No decision: nothing is carried out, nothing is pruned; status and conditions may say why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// Worth another try or not.
    pub kind: FailureKind,
    /// Why.
    pub cause: Cause,
    /// Only with `retry`: not before, seconds; none: the mapping's backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// As in a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// As in a decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Worth another try or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// Again with backoff.
    Retry,
    /// Stalled until something changes.
    Terminal,
}
