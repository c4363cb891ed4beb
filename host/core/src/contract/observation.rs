//! What a plugin sees in one call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cause, Extension, Json, ObjectRef};

/// All that a plugin sees in one call. Equal observations give equal decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// The object, never older than the host's own last write to it; without `metadata.managedFields`.
    pub object: Json,
    /// Answers to needs, in the order of their names.
    #[serde(default)]
    pub related: Vec<Related>,
    /// Children on record and those asked for last, by effect id.
    #[serde(default)]
    pub children: Vec<Child>,
    /// What became of http effects, by id and key.
    #[serde(default)]
    pub receipts: Vec<Receipt>,
    /// The mapping's `config`; `{}` without one.
    pub config: Json,
    /// The mapping's name.
    pub mapping: String,
    /// When the pass began: RFC 3339, UTC, whole seconds.
    pub now: String,
    /// Passes in a row that failed or were refused before this one.
    pub attempt: u32,
    /// 0 for the first call of a pass, then one more for each further call.
    pub round: u32,
    /// Parts of later versions that the descriptor named.
    #[serde(default)]
    pub extensions: Vec<Extension>,
}

/// The answer to one need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Related {
    /// The need's name.
    pub name: String,
    /// What was found.
    pub answer: Answer,
}

/// What a need found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// Objects; none found is an empty list.
    Objects(Objects),
    /// The answer to a fetch, whatever its code.
    Response(Response),
    /// Asked for, and there is no answer.
    Unavailable(Cause),
}

/// Objects in the order of namespace and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Objects {
    /// Their JSON.
    pub items: Vec<Json>,
    /// More matched than the limit let through.
    pub truncated: bool,
}

/// An object that this one asked for by an `apply` effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    /// Id of the effect.
    pub effect: String,
    /// Which object.
    pub object: ObjectRef,
    /// None until the server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// How far it is.
    pub state: ChildState,
    /// Why it is not current, in its own words; else empty.
    #[serde(default)]
    pub message: String,
    /// Why the last write of it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Cause>,
}

/// What kstatus would call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChildState {
    /// Not there.
    Absent,
    /// On its way.
    InProgress,
    /// As asked for, and ready.
    Current,
    /// Says that it failed.
    Failed,
    /// Has a deletionTimestamp.
    Terminating,
}

/// What became of one http effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Id of the effect.
    pub effect: String,
    /// The `key` it was sent under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How it stands.
    pub state: ReceiptState,
}

/// How an http effect stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReceiptState {
    /// A definite answer; never sent again under this id and key.
    Answered(Response),
    /// No definite answer; sent again at `nextAt` if still asked for.
    Failed(FailedSend),
    /// At-most-once only: sent, and the answer is lost.
    Unknown,
}

/// A send without a definite answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedSend {
    /// Sends so far.
    pub attempts: u32,
    /// `Unreachable`, `Timeout`, `ServerError`, `Throttled`.
    pub error: Cause,
    /// RFC 3339, UTC, whole seconds, rounded up.
    pub next_at: String,
}

/// An http answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// Status code.
    pub code: u16,
    /// Names in lower case; only those the grant lets through.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body, cut by the grant.
    pub body: Body,
    /// The body was longer.
    #[serde(default)]
    pub truncated: bool,
    /// When it was received: RFC 3339, UTC, whole seconds.
    pub at: String,
}

/// A request's or an answer's body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    /// No body.
    #[default]
    Empty,
    /// UTF-8 text.
    Text(String),
    /// Any other bytes; base64 in JSON.
    Bytes(
        #[serde(with = "base64_bytes")]
        #[schemars(with = "String")]
        Vec<u8>,
    ),
}

impl Body {
    /// The bytes on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Body::Empty => &[],
            Body::Text(text) => text.as_bytes(),
            Body::Bytes(bytes) => bytes,
        }
    }

    /// Text if the bytes are UTF-8, else bytes; empty if there are none.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() {
            return Body::Empty;
        }
        match String::from_utf8(bytes) {
            Ok(text) => Body::Text(text),
            Err(error) => Body::Bytes(error.into_bytes()),
        }
    }
}

mod base64_bytes {
    //! Bytes as standard base64 with padding.
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        STANDARD
            .decode(String::deserialize(deserializer)?)
            .map_err(D::Error::custom)
    }
}
