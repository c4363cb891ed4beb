//! What a plugin says of itself, once, when it is loaded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Json, Kind, Need};

/// What a command prints when it is asked to `describe` itself. A component's contract stands in its export's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The contract it was written for, as in `guesthouse:reconciler@0.1.0`.
    #[serde(default)]
    pub contract: String,
    /// What it says of itself.
    pub descriptor: Descriptor,
}

/// Answer of `describe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Descriptor {
    /// Lower-case name, as in `report-job`.
    pub name: String,
    /// The plugin's own version (semver), for people.
    pub version: String,
    /// SDK and version, `rust/0.1.0`; empty without one.
    #[serde(default)]
    pub sdk: String,
    /// The kinds it can be mapped to; empty: any.
    #[serde(default)]
    pub kinds: Vec<ServedKind>,
    /// What every pass of every object needs.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Whether deletion must pass through `finalize`.
    #[serde(default)]
    pub finalizes: bool,
    /// JSON Schema (2020-12) of the mapping's `config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_schema: Option<Json>,
    /// What it will ask for, in the form of a mapping's `grants`; it grants nothing.
    #[serde(default = "Json::empty_object")]
    pub grants: Json,
    /// Extensions it cannot do without.
    #[serde(default)]
    pub extensions: Vec<String>,
}

/// A kind a plugin serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServedKind {
    /// The kind.
    pub kind: Kind,
    /// The whole CustomResourceDefinition, if the plugin brings it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crd: Option<Json>,
}
