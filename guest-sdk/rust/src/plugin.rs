//! What a plugin says of itself.

use crate::Crd;
use crate::contract::{Descriptor, Kind, Need, ServedKind};

/// The answer of `describe`, built step by step. The schema of the config is added from its type.
#[derive(Clone, Debug)]
pub struct Plugin(pub(crate) Descriptor);

impl Plugin {
    /// A plugin that may be mapped to any kind: `Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))`.
    pub fn new(name: &str, version: &str) -> Plugin {
        Plugin(Descriptor {
            name: name.into(),
            version: version.into(),
            sdk: concat!("rust/", env!("CARGO_PKG_VERSION")).into(),
            kinds: Vec::new(),
            needs: Vec::new(),
            finalizes: false,
            config_schema: None,
            grants: "{}".into(),
            extensions: Vec::new(),
        })
    }

    /// A kind that the plugin brings itself; without any, it may be mapped to every kind.
    pub fn serves(mut self, crd: Crd) -> Plugin {
        self.0.kinds.push(ServedKind {
            kind: crd.kind(),
            crd: Some(crd.json()),
        });
        self
    }

    /// A kind that is there already.
    pub fn serves_kind(mut self, api_version: &str, kind: &str) -> Plugin {
        self.0.kinds.push(ServedKind {
            kind: Kind::new(api_version, kind),
            crd: None,
        });
        self
    }

    /// What every pass of every object needs to read.
    pub fn need(mut self, need: Need) -> Plugin {
        self.0.needs.push(need);
        self
    }

    /// Deletion passes through [`crate::Reconciler::finalize`].
    pub fn finalizes(mut self) -> Plugin {
        self.0.finalizes = true;
        self
    }

    /// What the plugin will ask for, in the form of a mapping's `grants`; it grants nothing.
    pub fn grants(mut self, grants: &serde_json::Value) -> Plugin {
        self.0.grants = grants.to_string();
        self
    }

    /// A part of a later contract that the plugin cannot do without.
    pub fn extension(mut self, name: &str) -> Plugin {
        self.0.extensions.push(name.into());
        self
    }
}
