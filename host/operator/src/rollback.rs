//! `guesthouse rollback`: pins an older version of a mapping's plugin, by an annotation on the ConfigMap that holds the mapping.
//!
//! So it lasts over restarts, every replica sees it, and whoever looks at the configuration does too.

use std::collections::BTreeMap;

use guesthouse_core::{
    identity::Identity,
    life::{MappingStatus, PIN, is_meant},
    mapping::MAPPINGS_LABEL,
    object::Head,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    cluster::{Api, PatchKind, RequestError, Scope, Transport, View, Want},
    mapping_objects::MappingObjects,
    plugins,
};

/// Why nothing was rolled back.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// The cluster.
    #[error("{what}: {error}")]
    Request {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        error: RequestError,
    },
    /// What was asked for is not there.
    #[error("{0}")]
    NotThere(String),
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The ConfigMap that says so now.
    pub config_map: String,
    /// The version that shall serve; none: what the source brings.
    pub digest: Option<String>,
}

/// Where a rollback leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To<'a> {
    /// To the version that served before the one that serves.
    Before,
    /// To this version, by its digest or its beginning as tables show it.
    Digest(&'a str),
    /// Back to what the source brings.
    Newest,
}

/// Pins a version of the plugin of `mapping`, or takes the pin off.
pub async fn rollback(
    transport: Transport,
    namespace: &str,
    mapping: &str,
    to: To<'_>,
) -> Result<RolledBack, RollbackError> {
    let api = Api::new(transport);
    let failed = |what| move |error| RollbackError::Request { what, error };
    let config_map = holder(&api, namespace, mapping).await?;
    let digest = match to {
        To::Newest => None,
        _ => {
            let objects = MappingObjects::new(api.clone(), namespace);
            let stands = objects.read(mapping).await;
            let stands = stands.map_err(failed("reading the Mapping object"))?;
            let status = stands.map(|stands| stands.status).unwrap_or_default();
            Some(wanted(&status, mapping, to)?)
        }
    };
    let patch = json!({"metadata": {"annotations": {format!("{PIN}{mapping}"): digest}}});
    let resource = plugins::config_maps();
    let patched = api.patch(
        &Identity::Host,
        &resource,
        namespace,
        &config_map,
        PatchKind::Merge,
        patch.to_string(),
        Want::Metadata,
    );
    patched
        .await
        .map_err(failed("annotating the mapping's ConfigMap"))?;
    Ok(RolledBack { config_map, digest })
}

/// The ConfigMap that holds a mapping: of several the oldest, as the host reads them.
async fn holder(api: &Api, namespace: &str, mapping: &str) -> Result<String, RollbackError> {
    #[derive(Deserialize)]
    struct ConfigMap {
        #[serde(default)]
        data: Option<BTreeMap<String, Value>>,
    }
    let scope = Scope::namespace(namespace).labels(format!("{MAPPINGS_LABEL}=true"));
    let resource = plugins::config_maps();
    let listed = api.list(&Identity::Host, &resource, &scope, View::Object, usize::MAX);
    let listed = listed.await.map_err(|error| RollbackError::Request {
        what: "reading the mappings",
        error,
    })?;
    let key = format!("{mapping}.yaml");
    let holds = |raw: &str| {
        let map: ConfigMap = serde_json::from_str(raw).ok()?;
        let head = Head::parse(raw).ok()?;
        let created = head.creation_timestamp.as_deref().unwrap_or_default();
        let holds = map.data.is_some_and(|data| data.contains_key(&key));
        holds.then(|| (created.to_owned(), head.name.to_string()))
    };
    let oldest = listed.items.iter().filter_map(|raw| holds(raw)).min();
    oldest.map(|(_, name)| name).ok_or_else(|| {
        RollbackError::NotThere(format!(
            "no ConfigMap in {namespace} with the label {MAPPINGS_LABEL}=true has the key {key}"
        ))
    })
}

/// The digest that is meant.
fn wanted(status: &MappingStatus, mapping: &str, to: To<'_>) -> Result<String, RollbackError> {
    let serving = status.plugin.as_ref().map_or("", |it| it.digest.as_str());
    let before = status.history.entries();
    let all = || {
        let digests = before.iter().map(|past| past.digest.as_str());
        digests.chain(std::iter::once(serving))
    };
    let found = match to {
        To::Before => {
            let before = status.history.before(serving);
            before.map(|past| past.digest.clone())
        }
        To::Digest(written) => {
            let known = all().find(|digest| is_meant(digest, written));
            // A whole digest may be in the store although it is in no history.
            let whole = (written.len() == 71).then_some(written);
            known.or(whole).map(str::to_owned)
        }
        To::Newest => None,
    };
    found.ok_or_else(|| {
        RollbackError::NotThere(match to {
            To::Digest(written) => format!(
                "`{written}` is no version in the history of {mapping}; kubectl get mapping {mapping} -o yaml shows it"
            ),
            _ => format!("no version served before the one of {mapping} that serves"),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_core::{
        life::{Past, Serves},
        time::Time,
    };

    #[test]
    fn a_rollback_leads_to_what_served_before_or_to_what_is_named_by_its_beginning() {
        let mut status = MappingStatus::default();
        let nothing = wanted(&status, "m", To::Before).unwrap_err().to_string();
        assert!(nothing.contains("no version served before"), "{nothing}");
        let digest = |c: char| format!("sha256:{}", c.to_string().repeat(64));
        for served in ['a', 'b'] {
            status.history.push(Past {
                digest: digest(served),
                since: Some(Time(0)),
                ..Past::default()
            });
        }
        let origin = String::new();
        status.plugin = Some(Serves::new("p", "1", &digest('c'), origin, Time(0)));
        let is = |to: To<'_>| wanted(&status, "m", to).ok();
        assert_eq!(is(To::Before), Some(digest('b')));
        assert_eq!(is(To::Digest(&digest('a')[..19])), Some(digest('a')));
        assert_eq!(is(To::Digest(&digest('d'))), Some(digest('d')));
        assert_eq!(is(To::Digest("sha256:dddddddddddd")), None);
    }
}
