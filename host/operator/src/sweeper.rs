//! Takes finalizers off objects by what journals say: for mappings that are gone, and for `guesthouse drain`.
//!
//! It needs neither the mapping nor its plugin nor the version its kind was mapped at. What it does not touch: children, other
//! finalizers, and objects of another uid. A journal whose object is gone goes with it, on the server's own word.

use std::{collections::BTreeMap, sync::Arc};

use guesthouse_core::{
    identity::Identity,
    journal::{FinalizerRecord, Subject},
    object::Head,
    pass::{JournalWrite, StoredJournal, WriteError, removal_patch},
};

use crate::{
    cluster::{Api, Discovery, PatchKind, RequestError, Resource, Transport, request::Want},
    errors::write_error,
    journals::Journals,
};

/// Conflicts over one object before it is left for the next round.
const TRIES: usize = 4;

/// Takes finalizers off.
pub(crate) struct Sweeper {
    api: Api,
    discovery: Arc<Discovery>,
    journals: Arc<Journals>,
}

/// Kinds by group and name as one round found them; none is not served.
pub(crate) type Kinds = BTreeMap<(String, String), Option<Resource>>;

/// What is read of an object.
struct Standing {
    deleting: bool,
    finalizers: Vec<String>,
}

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// The finalizer was on it and is off.
    Off,
    /// It was not on it.
    NotOn,
    /// The object is gone, and its journal with it.
    Gone,
    /// It stays: only a rehearsal.
    Kept,
}

impl Sweeper {
    /// On these parts.
    pub(crate) fn new(api: Api, discovery: Arc<Discovery>, journals: Arc<Journals>) -> Self {
        Self {
            api,
            discovery,
            journals,
        }
    }

    /// Releases objects that no mapping is about any more; what fails is tried again in the next round.
    pub(crate) async fn drain(&self, left: Vec<StoredJournal>) {
        let mut kinds = Kinds::default();
        for stored in left {
            let object = whose(&stored.journal.object);
            let mapping = stored.journal.mapping.clone();
            match self.release(stored, &mut kinds).await {
                Ok(released) => tracing::info!(mapping, object, ?released, "finalizer"),
                Err(why) => {
                    tracing::warn!(mapping, object, why, "the finalizer stays for now");
                }
            }
        }
    }

    /// Takes the finalizer of one journal off its object and forgets it.
    pub(crate) async fn release(
        &self,
        stored: StoredJournal,
        kinds: &mut Kinds,
    ) -> Result<Released, String> {
        let Some(finalizer) = stored.journal.finalizer.clone() else {
            return Ok(Released::NotOn);
        };
        let subject = stored.journal.object.clone();
        let Some(resource) = self.resource(&subject, kinds).await? else {
            // Its kind is gone, and with it every object: nothing is held. The journal waits for the kind's return.
            return Ok(Released::Gone);
        };
        match self.take_off(&resource, &subject, &finalizer).await? {
            Released::Gone => {
                self.journals
                    .remove(&Identity::Host, &stored.name, &stored.version)
                    .await
                    .map_err(|error| format!("deleting its journal: {error}"))?;
                Ok(Released::Gone)
            }
            released => {
                let mut journal = stored.journal;
                journal.finalizer = None;
                let write = JournalWrite {
                    name: stored.name,
                    version: Some(stored.version),
                    journal,
                };
                self.journals
                    .write(&Identity::Host, &write)
                    .await
                    .map_err(|error| format!("writing its journal: {error}"))?;
                Ok(released)
            }
        }
    }

    /// Deletes journals of mappings that are gone once their objects are, on the server's own word; nobody passes those any
    /// more who would.
    pub(crate) async fn collect(&self, left: Vec<StoredJournal>) {
        let mut kinds = Kinds::default();
        for stored in left {
            let object = whose(&stored.journal.object);
            match self.collect_one(&stored, &mut kinds).await {
                Ok(true) => tracing::info!(
                    object,
                    journal = stored.name,
                    "the journal of an object that is gone"
                ),
                Ok(false) => {}
                Err(why) => tracing::debug!(object, why, "its journal stays for now"),
            }
        }
    }

    async fn collect_one(&self, stored: &StoredJournal, kinds: &mut Kinds) -> Result<bool, String> {
        let subject = &stored.journal.object;
        let Some(resource) = self.resource(subject, kinds).await? else {
            return Ok(false);
        };
        if self.find(&resource, subject).await?.is_some() {
            return Ok(false);
        }
        let removed = self
            .journals
            .remove(&Identity::Host, &stored.name, &stored.version);
        removed.await.map_err(|error| error.to_string())?;
        Ok(true)
    }

    /// The object as the server has it now; none if it is gone, or if another one has its name.
    async fn find(
        &self,
        resource: &Resource,
        subject: &Subject,
    ) -> Result<Option<Standing>, String> {
        let (namespace, name) = (&subject.namespace, &subject.name);
        let found = self.api.get(&Identity::Host, resource, namespace, name);
        let raw = match found.await {
            Err(RequestError::NotFound(_)) => return Ok(None),
            found => found.map_err(|error| format!("reading the object: {error}"))?,
        };
        let head = Head::parse(&raw).map_err(|error| error.to_string())?;
        Ok((head.uid == subject.uid).then(|| Standing {
            deleting: head.is_deleting(),
            finalizers: head.finalizers.iter().map(ToString::to_string).collect(),
        }))
    }

    /// The kind at any version the server has of it; asked once in a round.
    async fn resource(
        &self,
        subject: &Subject,
        kinds: &mut Kinds,
    ) -> Result<Option<Resource>, String> {
        let kind = (subject.group.clone(), subject.kind.clone());
        if let Some(known) = kinds.get(&kind) {
            return Ok(known.clone());
        }
        let found = self
            .discovery
            .resolve_any(&Identity::Host, &subject.group, &subject.kind)
            .await
            .map_err(|error| format!("looking for its kind: {error}"))?;
        kinds.insert(kind, found.clone());
        Ok(found)
    }

    /// Takes every name of ours off; the last one decides what came of it.
    async fn take_off(
        &self,
        resource: &Resource,
        subject: &Subject,
        finalizer: &FinalizerRecord,
    ) -> Result<Released, String> {
        let mut off = false;
        for name in finalizer.names() {
            match self.take_off_one(resource, subject, name).await? {
                Released::Off => off = true,
                Released::Gone => return Ok(Released::Gone),
                Released::NotOn | Released::Kept => {}
            }
        }
        Ok(if off { Released::Off } else { Released::NotOn })
    }

    async fn take_off_one(
        &self,
        resource: &Resource,
        subject: &Subject,
        finalizer: &str,
    ) -> Result<Released, String> {
        let (identity, namespace, name) = (&Identity::Host, &*subject.namespace, &*subject.name);
        for _ in 0..TRIES {
            let Some(standing) = self.find(resource, subject).await? else {
                return Ok(Released::Gone);
            };
            let Some(patch) = removal_patch(&subject.uid, &standing.finalizers, finalizer) else {
                return Ok(Released::NotOn);
            };
            let kind = PatchKind::Json;
            let body = patch.to_string();
            let answer = self
                .api
                .patch(
                    identity,
                    resource,
                    namespace,
                    name,
                    kind,
                    body,
                    Want::Metadata,
                )
                .await;
            match answer.map_err(write_error) {
                // What was being deleted may have gone with it, and then so does its journal.
                Ok(_) if standing.deleting => {
                    return match self.api.get(identity, resource, namespace, name).await {
                        Err(RequestError::NotFound(_)) => Ok(Released::Gone),
                        _ => Ok(Released::Off),
                    };
                }
                Ok(_) => return Ok(Released::Off),
                Err(WriteError::NotFound) => return Ok(Released::Gone),
                // The list changed between the two: read again.
                Err(WriteError::Conflict | WriteError::Invalid(_) | WriteError::Refused(_)) => {}
                Err(error) => return Err(format!("taking the finalizer off: {error}")),
            }
        }
        Err("others keep writing its finalizers".to_owned())
    }
}

/// What `guesthouse drain` did about one object.
pub struct Drained {
    /// Kind, namespace and name.
    pub object: String,
    /// The mapping whose finalizer it is.
    pub mapping: String,
    /// What became of it, or why it stays.
    pub result: Result<Released, String>,
}

/// Takes the finalizers of these mappings off everywhere, or of all without any; `tell` hears of each object, before (no
/// result is final yet in a rehearsal) or after it was released.
pub async fn drain(
    transport: Transport,
    namespace: &str,
    mappings: &[String],
    dry_run: bool,
    mut tell: impl FnMut(Drained),
) -> Result<(), RequestError> {
    let api = Api::new(transport);
    let journals = Arc::new(Journals::read_once(api.clone(), namespace).await?);
    let discovery = Arc::new(Discovery::new(api.clone()));
    let sweeper = Sweeper::new(api, discovery, journals.clone());
    let mut kinds = Kinds::default();
    let mut held = journals.finalizing();
    held.retain(|stored| mappings.is_empty() || mappings.contains(&stored.journal.mapping));
    held.sort_by_key(|stored| {
        (
            stored.journal.mapping.clone(),
            whose(&stored.journal.object),
        )
    });
    for stored in held {
        let (object, mapping) = (
            whose(&stored.journal.object),
            stored.journal.mapping.clone(),
        );
        let result = if dry_run {
            Ok(Released::Kept)
        } else {
            sweeper.release(stored, &mut kinds).await
        };
        tell(Drained {
            object,
            mapping,
            result,
        });
    }
    Ok(())
}

/// An object in words.
pub(crate) fn whose(subject: &Subject) -> String {
    format!("{} {}/{}", subject.kind, subject.namespace, subject.name)
}
