//! Spec, status and config of a `ProvisionRequest`; the CRD and the config's schema are made of them.

use guesthouse_sdk::prelude::*;

/// A resource that shall be there as long as this object is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionRequestSpec {
    /// How large; it can be changed at any time.
    pub size: Size,
    /// Where. It counts until the resource is there; changed afterwards, the object is stalled until it is changed back.
    #[schemars(length(min = 1, max = 63))]
    pub region: String,
}

/// How large a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// For trying out.
    Small,
    /// For most.
    Medium,
    /// For a few.
    Large,
}

impl Size {
    /// As the spec and the provisioner write it.
    pub fn name(self) -> &'static str {
        match self {
            Size::Small => "small",
            Size::Medium => "medium",
            Size::Large => "large",
        }
    }
}

/// How the resource stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionRequestStatus {
    /// Where the resource is on its way.
    #[serde(default)]
    pub phase: Phase,
    /// Its id at the provisioner, made of namespace, name and uid of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Where it can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// How large it is, as the provisioner says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
}

/// Where a resource is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    #[default]
    /// Not there yet.
    Pending,
    /// Being made, or made larger or smaller.
    Provisioning,
    /// As asked for.
    Ready,
    /// Refused, lost, or not as asked for; the condition `Ready` says why.
    Failed,
    /// Being taken away.
    Deleting,
}

/// The mapping's config.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// The provisioner's address, without a path: `http://provisioner.infra`.
    pub provisioner: String,
    /// Seconds between two looks at a resource that is on its way.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 3600))]
    pub poll_seconds: u32,
}

fn five() -> u32 {
    5
}
