//! A mapping and its objects as they stand in the cluster, read once: for commands that do not stay.

use std::sync::Arc;

use guesthouse_core::{
    contract::{Json, Kind},
    identity::Identity,
    mapping::{CheckedMapping, MAPPINGS_LABEL},
    object::{Head, ObjectKey},
    pass::{KindFacts, StoredJournal},
};
use serde_json::Value;

use crate::{
    cluster::{Api, Discovery, RequestError, Scope, Store, Transport, View},
    config,
    journals::Journals,
    plugins,
    supervisor::facts,
};

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The cluster.
    #[error("{what}: {error}")]
    Request {
        /// What was tried.
        what: String,
        /// What came of it.
        error: RequestError,
    },
    /// What was asked for is not there, or cannot be used.
    #[error("{0}")]
    NotThere(String),
}

/// One object, and what the host remembers of it.
pub struct LiveObject {
    /// Its name.
    pub key: ObjectKey,
    /// The object, in its own text.
    pub object: Json,
    /// Its journals under the mapping.
    pub journals: Vec<StoredJournal>,
}

/// A mapping and its objects.
pub struct Live {
    /// The mapping.
    pub mapping: CheckedMapping,
    /// What is known of its kind.
    pub kind: KindFacts,
    /// Its objects, at most as many as were asked for.
    pub objects: Vec<LiveObject>,
    api: Api,
    discovery: Discovery,
}

fn failed(what: impl Into<String>) -> impl FnOnce(RequestError) -> LiveError {
    let what = what.into();
    move |error| LiveError::Request { what, error }
}

impl Live {
    /// Reads the mapping of that name in the host's namespace, and at most so many of its objects.
    pub async fn read(
        transport: Transport,
        namespace: &str,
        name: &str,
        most: usize,
    ) -> Result<Self, LiveError> {
        let api = Api::new(transport);
        let mapping = mapping(&api, namespace, name).await?;
        let discovery = Discovery::new(api.clone());
        let (host, kind) = (&Identity::Host, mapping.kind.clone());
        let resource = discovery
            .resolve(host, &kind.api_version, &kind.kind)
            .await
            .map_err(failed(format!("looking for the kind {kind}")))?
            .ok_or_else(|| LiveError::NotThere(format!("the kind {kind} is not served")))?;
        let journals = Journals::read_once(api.clone(), namespace)
            .await
            .map_err(failed("reading the journals"))?;
        let mut objects = Vec::new();
        for scope in scopes(&mapping) {
            let room = most.saturating_sub(objects.len());
            let listed = api.list(host, &resource, &scope, View::Object, room).await;
            for raw in listed.map_err(failed(format!("listing {kind}")))?.items {
                let unreadable = |error| LiveError::NotThere(format!("an object: {error}"));
                let key = Head::parse(&raw)
                    .map(|head| head.key())
                    .map_err(|error| unreadable(error.to_string()))?;
                let journals = journals.of(name, &kind, &key).map_err(unreadable)?;
                objects.push(LiveObject {
                    key,
                    object: Json::trusted(raw),
                    journals,
                });
            }
        }
        Ok(Self {
            kind: facts(&resource, &mapping.mapping),
            mapping,
            objects,
            api,
            discovery,
        })
    }

    /// All objects of a kind in a namespace; of a kind without namespaces, or where none is named, all there are. None where
    /// the kind is not served.
    pub async fn others(&self, kind: &Kind, namespace: &str) -> Result<Vec<Value>, LiveError> {
        let host = &Identity::Host;
        let served = self.discovery.served(host, &kind.api_version, &kind.kind);
        let what = || format!("reading {kind}");
        let Some(resource) = served.await.map_err(failed(what()))? else {
            return Ok(Vec::new());
        };
        let scope = match namespace {
            namespace if resource.namespaced && !namespace.is_empty() => {
                Scope::namespace(namespace)
            }
            _ => Scope::all(),
        };
        let listed = self
            .api
            .list(host, &resource, &scope, View::Object, usize::MAX)
            .await;
        let items = listed.map_err(failed(what()))?.items;
        let read = items.iter().map(|raw| serde_json::from_str(raw));
        read.collect::<Result<_, _>>()
            .map_err(|error| LiveError::NotThere(format!("{kind}: {error}")))
    }
}

fn scopes(mapping: &CheckedMapping) -> Vec<Scope> {
    let about = &mapping.mapping.for_;
    let selected = |scope: Scope| match about.label_selector.as_str() {
        "" => scope,
        selector => scope.labels(selector),
    };
    match about.namespaces.as_slice() {
        [] => vec![selected(Scope::all())],
        these => these
            .iter()
            .map(|namespace| selected(Scope::namespace(namespace.clone())))
            .collect(),
    }
}

/// A mapping as the host reads it.
async fn mapping(api: &Api, namespace: &str, name: &str) -> Result<CheckedMapping, LiveError> {
    let scope = Scope::namespace(namespace).labels(format!("{MAPPINGS_LABEL}=true"));
    let (host, resource) = (&Identity::Host, plugins::config_maps());
    let listed = api.list(host, &resource, &scope, View::Object, usize::MAX);
    let listed = listed.await.map_err(failed("reading the mappings"))?;
    let store = Store::default();
    for raw in &listed.items {
        // One that cannot be read holds no mapping.
        let _ = store.absorb(raw.as_bytes());
    }
    let entries: Vec<Arc<_>> = store
        .entries()
        .into_iter()
        .map(|(_, entry)| entry)
        .collect();
    let mut all = config::read(entries.iter().map(|entry| &**entry), namespace);
    let found = all.mappings.remove(name).ok_or_else(|| {
        let names: Vec<_> = all.mappings.keys().cloned().collect();
        LiveError::NotThere(format!(
            "there is no mapping {name} in {namespace}; there are: {}",
            names.join(", ")
        ))
    })?;
    let wrong = |why| LiveError::NotThere(format!("the mapping {name} cannot be used: {why}"));
    found.mapping.map_err(wrong)
}
