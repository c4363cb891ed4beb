//! Values of Secrets that http effects are sent with. A plugin names them; only the host reads them, right before it sends.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use guesthouse_core::{contract::Cause, identity::Identity, mapping::SecretKey, plan::Send};
use serde::Deserialize;

use crate::cluster::{Api, Resource};

/// Reads credentials from the host's namespace. Nothing is kept: a rotated Secret counts from the next send on.
pub(crate) struct Credentials {
    api: Api,
    namespace: String,
}

/// What was read for one batch of sends: values, or why there is none.
pub(crate) type Secrets = BTreeMap<SecretKey, Result<Value, Cause>>;

/// A secret value. It has no `Debug` and no `Serialize`, so it ends up in no log and no trace.
pub(crate) struct Value(String);

impl Value {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Credentials {
    pub(crate) fn new(api: Api, namespace: &str) -> Self {
        Self {
            api,
            namespace: namespace.to_owned(),
        }
    }

    /// Every Secret that these sends need, read once.
    pub(crate) async fn read(&self, identity: &Identity, sends: &[Send]) -> Secrets {
        let mut secrets = Secrets::new();
        for credential in sends.iter().filter_map(|send| send.credential.as_ref()) {
            if !secrets.contains_key(&credential.secret) {
                let value = self.value(identity, &credential.secret).await;
                secrets.insert(credential.secret.clone(), value);
            }
        }
        secrets
    }

    async fn value(&self, identity: &Identity, at: &SecretKey) -> Result<Value, Cause> {
        #[derive(Deserialize)]
        struct Secret {
            #[serde(default)]
            data: BTreeMap<String, String>,
        }
        let missing = |why: &str| {
            let message = format!(
                "the credential in the Secret {}, key {}, cannot be used: {why}",
                at.name, at.key
            );
            Cause::new("CredentialMissing", message)
        };
        let raw = self
            .api
            .get(identity, &resource(), &self.namespace, &at.name)
            .await
            .map_err(|error| missing(&error.to_string()))?;
        let secret: Secret = serde_json::from_str(&raw).map_err(|_| missing("it is no Secret"))?;
        let encoded = secret
            .data
            .get(&at.key)
            .ok_or_else(|| missing("it has no such key"))?;
        let bytes = BASE64_STANDARD
            .decode(encoded)
            .map_err(|_| missing("it is not base64"))?;
        let text = String::from_utf8(bytes).map_err(|_| missing("it is no text"))?;
        // Files end in a line break that nobody means.
        Ok(Value(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

fn resource() -> Resource {
    Resource {
        group: "".into(),
        version: "v1".into(),
        kind: "Secret".into(),
        plural: "secrets".into(),
        namespaced: true,
        has_status: false,
        crd: None,
    }
}
