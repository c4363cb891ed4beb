//! The contract with plugins as Rust values.
//!
//! These are the records of `wit/reconciler.wit`, one to one and in its order. Two doors carry them: the component door by
//! the bindings in `guesthouse-sandbox`, the command door as JSON by the serde derives here, from which the committed JSON
//! Schemas are generated too. What a record means is said once, in the WIT; the docs here say what Rust adds.
//!
//! In JSON, names are camelCase, variants are externally tagged, and an option that is none is left out. Readers of
//! observations ignore members they do not know; an unknown member in what a plugin returns is an error.

mod decision;
mod descriptor;
mod json;
mod observation;

pub use decision::*;
pub use descriptor::*;
pub use json::{Json, JsonError};
pub use observation::*;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The package and version a plugin is built against; part of every export's name.
pub const CONTRACT: &str = "guesthouse:reconciler@0.1.0";

/// Longest effect id, bytes.
pub const MAX_EFFECT_ID: usize = 128;
/// Longest `key` of an http effect, bytes: it stands in the object's journal.
pub const MAX_KEY: usize = 256;
/// Longest `cause.message` and event note that is kept, bytes; what is longer is cut at a character boundary.
pub const MAX_MESSAGE: usize = 1024;
/// Longest `cause.reason`, bytes.
pub const MAX_REASON: usize = 64;
/// Most receipts an object may hold.
pub const MAX_RECEIPTS: usize = 64;
/// Most of an http answer's body that a receipt keeps, bytes.
pub const MAX_RECEIPT_BODY: usize = 4096;
/// Most rounds (calls) in one pass.
pub const MAX_ROUNDS: u32 = 5;
/// Largest status, bytes of JSON text.
pub const MAX_STATUS: usize = 256 * 1024;

/// What a plugin is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The object is there and wanted.
    Reconcile,
    /// It is being deleted and still has our finalizer, or it left the selector.
    Finalize,
}

/// Why something is as it is: `reason` for machines (CamelCase), `message` for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cause {
    /// CamelCase, at most [`MAX_REASON`] bytes.
    pub reason: String,
    /// One line where possible; cut at [`MAX_MESSAGE`] bytes. No counters, no times.
    #[serde(default)]
    pub message: String,
}

impl Cause {
    /// A cause of the two texts.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// A kind as a manifest names it.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kind {
    /// `apps/v1`, or `v1` for the core group.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
}

impl Kind {
    /// The group: what stands before the slash of `apiVersion`, empty for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Whether both name one kind; the version does not count.
    pub fn same(&self, other: &Kind) -> bool {
        self.group() == other.group() && self.kind == other.kind
    }
}

/// What stands before the slash of an `apiVersion`, empty for the core group.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.api_version, self.kind)
    }
}

/// One object by name; no namespace means the reconciled object's, or none where the kind is cluster-scoped.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// A part of a later version, or of an experiment, under a name of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extension {
    /// `example.com/thing`; `guesthouse.dev/…` is the host's.
    pub name: String,
    /// Whatever the extension says.
    pub value: Json,
}

/// Cuts `text` at the last character boundary at or below `limit` bytes.
pub fn cut(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests;
