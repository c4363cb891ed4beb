//! Events (events.k8s.io/v1) about objects and ConfigMaps.
//!
//! Telling is best effort: nothing depends on it, so it neither delays a pass nor fails one. What is told is decided in core,
//! only at transitions; repetitions are withheld there too, and what was withheld is said by the object's next Event.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use guesthouse_core::{
    contract::{EventType, Kind, MAX_MESSAGE, cut},
    identity::Identity,
    object::ObjectKey,
    pass::Note,
    telling::Telling,
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

impl About {
    /// An object of a kind; its uid where it is known.
    pub(crate) fn object(kind: Kind, key: &ObjectKey, uid: String) -> Self {
        Self {
            api_version: kind.api_version,
            kind: kind.kind,
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
            uid,
        }
    }

    /// What an object is known by: the uid is enough where there is one.
    fn key(&self) -> String {
        if self.uid.is_empty() {
            [&*self.kind, &self.namespace, &self.name].join("/")
        } else {
            self.uid.clone()
        }
    }
}

/// Tells Events; cheap to clone.
#[derive(Clone)]
pub(crate) struct Events {
    api: Api,
    resource: Arc<Resource>,
    instance: Arc<str>,
    slots: Arc<Semaphore>,
    telling: Arc<Mutex<Telling>>,
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
            telling: Arc::default(),
        }
    }

    /// Sends in the background what of the notes is new and within what an object may tell.
    pub(crate) fn tell(&self, about: &About, notes: Vec<Note>) {
        let (offered, key) = (notes.len(), about.key());
        let notes = self.telling().admit(&key, notes, clock::now());
        if notes.len() < offered {
            let withheld = offered - notes.len();
            tracing::debug!(object = %about.name, withheld, "Events withheld; the next one says how many");
        }
        for note in notes {
            let Ok(slot) = self.slots.clone().try_acquire_owned() else {
                tracing::warn!(object = %about.name, reason = note.reason, "too many Events at once; this one is dropped");
                self.telling().lost(&key);
                continue;
            };
            let (events, about) = (self.clone(), about.clone());
            tokio::spawn(async move {
                events.send(&about, &note).await;
                drop(slot);
            });
        }
    }

    fn telling(&self) -> MutexGuard<'_, Telling> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{
        TransportOptions,
        scripted::{Reply, Scripted},
    };
    use std::collections::BTreeSet;

    /// A start tells of every mapping at once.
    #[tokio::test]
    async fn three_hundred_mappings_that_have_something_to_say_at_once_are_all_heard() {
        let mut server = Scripted::answer(|_| Some(Reply::json(201, "{}"))).await;
        let events = Events::new(
            Api::new(server.transport(TransportOptions::default())),
            "host",
        );
        let mut wanted = BTreeSet::new();
        for number in 0..300 {
            let about = About {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: "home".to_owned(),
                name: format!("m{number}"),
                uid: format!("u{number}"),
            };
            let note = Note {
                type_: EventType::Warning,
                reason: "MappingInvalid".to_owned(),
                note: "no".to_owned(),
            };
            // Nothing is sent in between: this task does not wait.
            events.tell(&about, vec![note]);
            wanted.insert(about.uid);
        }
        while !wanted.is_empty() {
            let seen = server.seen().await;
            let body: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
            let uid = body["regarding"]["uid"].as_str().unwrap();
            assert!(wanted.remove(uid), "{uid} was told twice");
        }
    }
}
