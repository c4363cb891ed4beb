//! Texts of Secrets and ConfigMaps that mappings name: keys, authorities, pull secrets. Read anew each time, so that a rotated
//! one counts, and never kept.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use guesthouse_core::{identity::Identity, mapping::TextFrom};
use serde::Deserialize;

use super::{Sources, config_maps, core};
use crate::cluster::{RequestError, Resource};

/// The text that a mapping names. The reason why there is none never quotes it.
pub(super) async fn read(sources: &Sources, from: &TextFrom) -> Result<String, String> {
    let (resource, name, key) = match from {
        TextFrom::Pem(text) => return Ok(text.clone()),
        TextFrom::Secret(at) => (core("Secret", "secrets"), &at.name, &at.key),
        TextFrom::ConfigMap(at) => (config_maps(), &at.name, &at.key),
    };
    object(sources, &resource, name).await?.text(key)
}

/// The docker config of a pull secret.
pub(super) async fn docker_config(sources: &Sources, name: &str) -> Result<String, String> {
    let secret = object(sources, &core("Secret", "secrets"), name).await?;
    secret.text(".dockerconfigjson").map_err(|why| {
        format!("{why}; kubectl create secret docker-registry makes one that can be used")
    })
}

/// The data of a Secret or a ConfigMap.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Data {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, String>>,
}

impl Data {
    /// Reads an object of either kind.
    pub(super) fn parse(raw: &str) -> Result<Self, String> {
        serde_json::from_str(raw).map_err(|_| "it is neither Secret nor ConfigMap".to_owned())
    }

    /// The bytes under a key of `binaryData`.
    pub(super) fn binary(&self, key: &str) -> Option<Result<Vec<u8>, String>> {
        let text = self.binary_data.as_ref()?.get(key)?;
        Some(
            BASE64_STANDARD
                .decode(text)
                .map_err(|error| error.to_string()),
        )
    }

    /// The text under a key, wherever it is.
    pub(super) fn text(&self, key: &str) -> Result<String, String> {
        let missing = || format!("there is no key {key} in it");
        let found = self.data.as_ref().and_then(|data| data.get(key));
        let bytes = match (found, self.kind.as_str()) {
            (Some(text), "Secret") => BASE64_STANDARD
                .decode(text)
                .map_err(|_| format!("its key {key} is not base64"))?,
            (Some(text), _) => return Ok(text.clone()),
            (None, _) => self.binary(key).ok_or_else(missing)??,
        };
        String::from_utf8(bytes).map_err(|_| format!("its key {key} is no text"))
    }
}

async fn object(sources: &Sources, resource: &Resource, name: &str) -> Result<Data, String> {
    let read = sources
        .api
        .get(&Identity::Host, resource, &sources.namespace, name);
    let raw = read.await.map_err(|error| match error {
        RequestError::NotFound(_) => format!(
            "there is no {} {name} in the namespace {}",
            resource.kind, sources.namespace
        ),
        error => format!("the {} {name} cannot be read: {error}", resource.kind),
    })?;
    Data::parse(&raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_each_kinds_own_form_and_what_is_wrong_is_not_quoted() {
        let text = |raw: &str| Data::parse(raw).and_then(|data| data.text("k"));
        for (raw, expected) in [
            (
                r#"{"kind": "Secret", "data": {"k": "aHVudGVyMg=="}}"#,
                Ok("hunter2"),
            ),
            (
                r#"{"kind": "ConfigMap", "data": {"k": "hunter2"}}"#,
                Ok("hunter2"),
            ),
            (
                r#"{"kind": "ConfigMap", "binaryData": {"k": "aHVudGVyMg=="}}"#,
                Ok("hunter2"),
            ),
            (
                r#"{"kind": "Secret", "data": {"k": "hunter2%"}}"#,
                Err("not base64"),
            ),
            (
                r#"{"kind": "Secret", "data": {"k": "/w=="}}"#,
                Err("no text"),
            ),
            (
                r#"{"kind": "Secret", "data": {"j": "aHVudGVyMg=="}}"#,
                Err("no key k"),
            ),
            (r#"{"kind": "Secret", "data": ["hunter2"]}"#, Err("neither")),
        ] {
            match (text(raw), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(why), Err(expected)) => {
                    assert!(why.contains(expected) && !why.contains("hunter2"), "{why}");
                }
                (found, _) => panic!("{raw}: {found:?}"),
            }
        }
    }
}
