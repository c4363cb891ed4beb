//! Events (events.k8s.io/v1) about objects and ConfigMaps.
//!
//! Telling is best effort: nothing depends on it, so it neither delays a pass nor fails one. What is told is decided in core,
//! only at transitions.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use guesthouse_core::{
    contract::{EventType, MAX_MESSAGE, cut},
    identity::Identity,
    pass::Note,
};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::{
    clock,
    cluster::{Api, Resource},
};

/// What an Event is about.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Its apiVersion.
    pub(crate) api_version: String,
    /// Its kind.
    pub(crate) kind: String,
    /// Its namespace; empty for cluster-scoped kinds.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Its uid.
    pub(crate) uid: String,
}

/// Tells Events; cheap to clone.
#[derive(Clone)]
pub(crate) struct Events {
    api: Api,
    resource: Arc<Resource>,
    instance: Arc<str>,
    slots: Arc<Semaphore>,
}

/// Events on their way at once; beyond that they are dropped and counted in the log, so that a flood cannot grow.
const IN_FLIGHT: usize = 512;

impl Events {
    /// Told under the name `instance` of this host.
    pub(crate) fn new(api: Api, instance: &str) -> Self {
        let resource = Resource {
            group: "events.k8s.io".into(),
            version: "v1".into(),
            kind: "Event".into(),
            plural: "events".into(),
            namespaced: true,
            has_status: false,
            crd: None,
        };
        Self {
            api,
            resource: Arc::new(resource),
            instance: cut(instance, 128).into(),
            slots: Arc::new(Semaphore::new(IN_FLIGHT)),
        }
    }

    /// Sends the notes in the background.
    pub(crate) fn tell(&self, about: &About, notes: Vec<Note>) {
        for note in notes {
            let Ok(slot) = self.slots.clone().try_acquire_owned() else {
                tracing::warn!(object = %about.name, reason = note.reason, "too many Events at once; this one is dropped");
                continue;
            };
            let (events, about) = (self.clone(), about.clone());
            tokio::spawn(async move {
                events.send(&about, &note).await;
                drop(slot);
            });
        }
    }

    async fn send(&self, about: &About, note: &Note) {
        // Events about cluster-scoped objects live in `default` (client-go, tools/events).
        let namespace = if about.namespace.is_empty() {
            "default"
        } else {
            &about.namespace
        };
        let body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name(about), "namespace": namespace},
            "eventTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            "reportingController": "guesthouse.dev/host",
            "reportingInstance": &*self.instance,
            "action": "Reconcile",
            "type": match note.type_ { EventType::Normal => "Normal", EventType::Warning => "Warning" },
            "reason": note.reason,
            "note": cut(&note.note, MAX_MESSAGE),
            "regarding": {
                "apiVersion": about.api_version, "kind": about.kind,
                "namespace": about.namespace, "name": about.name, "uid": about.uid,
            },
        });
        if let Err(error) = self
            .api
            .create(&Identity::Host, &self.resource, namespace, body.to_string())
            .await
        {
            tracing::warn!(object = %about.name, reason = note.reason, %error, "an Event could not be told");
        }
    }
}

/// `object.1795996533585a2`: as client-go names Events, by the object and a number that no other one has.
fn name(about: &About) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (now, count) = (clock::now().0, COUNT.fetch_add(1, Ordering::Relaxed));
    format!("{}.{now:x}{count:x}", cut(&about.name, 200))
}
