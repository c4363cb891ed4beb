//! What one call of a plugin may use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Span};

/// Limits of one call, from a mapping's `limits`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// All linear memories and tables of the instance together.
    pub memory: Bytes,
    /// Time of one call. A thread that was not given the CPU is extended, up to four times this by the wall clock.
    pub time: Span,
    /// What a reply may hold, as JSON text or as the component's records.
    pub output: Bytes,
    /// Log lines and standard output kept of one call; what is more is counted and dropped.
    pub logs: Bytes,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Bytes(64 << 20),
            time: Span::from_secs(1),
            output: Bytes(1 << 20),
            logs: Bytes(16 << 10),
        }
    }
}
