//! How another version of a mapping's plugin takes over.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MappingError;
use crate::units::Span;

/// How another version of the plugin takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rollout {
    /// Live objects that a new version is asked about first, with all effects withheld; 0: it takes over at once.
    #[schemars(range(max = 1000))]
    pub rehearse: u32,
    /// What becomes of a new version that decides otherwise than the one that serves.
    pub on_difference: OnDifference,
    /// When the version before comes back by itself.
    pub return_after: ReturnAfter,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            rehearse: 20,
            on_difference: OnDifference::default(),
            return_after: ReturnAfter::default(),
        }
    }
}

/// What becomes of a new version that decides otherwise than the one that serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnDifference {
    /// It takes over, and an Event says on which objects it decides otherwise.
    #[default]
    Report,
    /// It waits to be approved by the annotation `approve.guesthouse.dev/<mapping>` of the mapping's ConfigMap.
    Hold,
}

/// More failed passes than that, in that time after a swap, and the version before serves again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReturnAfter {
    /// So many at least; 0: it never comes back by itself.
    pub failures: u32,
    /// And more of all passes than this share, in percent.
    #[schemars(range(max = 100))]
    pub percent: u32,
    /// In this time after the swap.
    pub within: Span,
}

impl Default for ReturnAfter {
    fn default() -> Self {
        Self {
            failures: 5,
            percent: 50,
            within: Span::from_secs(600),
        }
    }
}

/// Objects that a version is tried on at most.
const MOST_REHEARSED: u32 = 1000;

impl Rollout {
    pub(super) fn check(&self) -> Result<(), MappingError> {
        let value = |field, why: &str| {
            Err(MappingError::Value {
                field,
                why: why.to_owned(),
            })
        };
        if self.rehearse > MOST_REHEARSED {
            return value("rollout.rehearse", "must be at most 1000");
        }
        if self.return_after.percent > 100 {
            return value("rollout.returnAfter.percent", "must be at most 100");
        }
        if self.return_after.within.0 < 1000 {
            return value("rollout.returnAfter.within", "must be at least 1s");
        }
        Ok(())
    }
}
