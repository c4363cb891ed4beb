//! Related objects: what passes read beside their own, from stores that watches keep in step, and the wakes that follow.
//!
//! What is read is watched: by the reading itself, absent objects included, so that no key ever polls. Guarantees:
//! - one watch serves all keys that read the same, of whatever mapping with the same account ([`targets`]);
//! - a key is woken by every change of what it read, before or after it matches, but not by what it wrote itself
//!   ([`table`], [`echoes`]);
//! - a kind that is not served, rights that are missing and a server that does not answer are an answer (`unavailable`),
//!   and the key is woken when that changes ([`missing`]);
//! - a settled key costs no request; a watch without readers ends after a grace time;
//! - memory is what the stores keep: objects as text, or their metadata alone where nobody reads more.
//!
//! Assumption: one pass of a key at a time. Caveat: an answer may lag behind the server, never behind the host's own writes.

mod ask;
mod drive;
mod echoes;
mod fetches;
mod groups;
mod held;
mod kinds;
mod missing;
mod peek;
#[cfg(test)]
mod scenarios;
mod table;
mod targets;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use guesthouse_core::{
    contract::{Cause, Json, Kind, ObjectRef},
    identity::Identity,
    needs,
    object::Head,
    pass::{Gather, Looked, WriteError},
    queue::{Key, MappingId},
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    cluster::{
        Api, Discovery, Notice, RequestError, Resource, Transport, Watch, WatchId, WatchOptions,
    },
    credentials::Credentials,
    errors::write_error,
    outgoing::Outgoing,
};
use fetches::Fetches;
use kinds::Kinds;
use table::Table;
use targets::{Target, Want, Way};

/// Keys to which something they read has changed, to be queued as events without a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wake(pub(crate) Vec<Key>);

/// Who reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// The object and mapping.
    pub(crate) key: &'a Key,
    /// As whom.
    pub(crate) identity: &'a Identity,
    /// The mapping is about single namespaces: nothing is asked of the cluster as a whole, where a namespace will do.
    pub(crate) confined: bool,
}

/// Delays.
#[derive(Debug, Clone)]
pub(crate) struct RelatedOptions {
    /// How long a pass waits for a first list.
    pub(crate) wait: Duration,
    /// How long a watch without readers goes on.
    pub(crate) grace: Duration,
    /// Between two questions for a missing kind.
    pub(crate) poll: Duration,
    /// How often it is looked whether anything is due.
    pub(crate) tick: Duration,
    /// Of each watch; its seed and view are set here.
    pub(crate) watch: WatchOptions,
}

impl Default for RelatedOptions {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(5),
            grace: Duration::from_secs(60),
            poll: Duration::from_secs(2),
            tick: Duration::from_millis(500),
            watch: WatchOptions::default(),
        }
    }
}

/// All that passes read beside their objects. Ends its watches when it is dropped.
pub(crate) struct Related {
    shared: Arc<Shared>,
}

struct Shared {
    transport: Transport,
    api: Api,
    kinds: Kinds,
    fetches: Fetches,
    options: RelatedOptions,
    table: Mutex<Table>,
    notices: UnboundedSender<Notice>,
    wakes: UnboundedSender<Wake>,
}

impl Related {
    /// Reads over `transport`; wakes come out of the receiver. Needs a tokio runtime.
    pub(crate) fn start(
        transport: Transport,
        outgoing: Arc<Outgoing>,
        credentials: Arc<Credentials>,
        options: RelatedOptions,
    ) -> (Self, UnboundedReceiver<Wake>) {
        let api = Api::new(transport.clone());
        let (notices, heard) = unbounded_channel();
        let (wakes, woken) = unbounded_channel();
        let shared = Arc::new(Shared {
            kinds: Kinds::new(Discovery::new(api.clone())),
            table: Mutex::new(Table::new(options.poll)),
            fetches: Fetches::new(outgoing, credentials),
            transport,
            api,
            options,
            notices,
            wakes,
        });
        tokio::spawn(drive::run(Arc::downgrade(&shared), heard));
        (Self { shared }, woken)
    }

    /// Makes what wakes the key exactly this; called with what a pass leaves behind. Where something of it changed in a way
    /// that the pass cannot know of, the key is woken at once.
    pub(crate) fn subscribe(&self, reader: &Reader<'_>, reads: &Gather) {
        let shared = &*self.shared;
        let (wants, missing) = shared.wants_at_hand(reader, reads);
        let mut table = shared.table();
        let news = table.replace(reader.key, &wants, &|id, target, resource| {
            shared.watch(id, target, resource)
        });
        for kind in &missing {
            let why = Cause::new("Failed", format!("{kind} was not asked for yet"));
            table.missing.add(kind, reader.key, why, Duration::ZERO);
        }
        table.missing.keep(reader.key, &missing);
        drop(table);
        if news {
            shared.wake(vec![reader.key.clone()]);
        }
    }

    /// Nothing wakes the key any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.shared.table().forget(key);
    }

    /// Nothing wakes any key of the mapping any more.
    pub(crate) fn forget_mapping(&self, mapping: MappingId) {
        let mut table = self.shared.table();
        let keys: Vec<Key> = table
            .readers()
            .filter(|key| key.mapping == mapping)
            .cloned()
            .collect();
        for key in keys {
            table.forget(&key);
        }
    }

    /// Takes over what a write of the key's pass answered with: the stores show it from now on, and its echo does not wake
    /// the key. Text that is no object is ignored.
    pub(crate) fn absorb(&self, key: &Key, kind: &Kind, raw: &str) {
        let Ok(head) = Head::parse(raw) else {
            return;
        };
        let object = head.key();
        let label = |name: &str| head.labels.get(name).map(|value| &**value);
        let mut table = self.shared.table();
        table
            .echoes
            .knows(key, kind, &object, head.version().unwrap_or(0));
        for held in table.of_kind(kind) {
            if !held.target.fits(&object, label) && held.store().get(&object).is_none() {
                continue;
            }
            // The text was parsed above: it cannot fail.
            let _ = if held.target.metadata_only {
                let cut = needs::metadata(kind, raw);
                held.store().absorb(cut.as_str().as_bytes())
            } else {
                held.store().absorb(raw.as_bytes())
            };
            held.regroup(&object);
        }
    }

    /// An object as the server has it now. The key knows that version from then on.
    ///
    /// # Errors
    /// [`WriteError::NoSuchKind`] where the kind is not served.
    pub(crate) async fn look(
        &self,
        reader: &Reader<'_>,
        object: &ObjectRef,
    ) -> Result<Looked, WriteError> {
        let resource = self.resource(&object.kind).await?;
        let own = reader.key.object.namespace();
        let namespace = match object.namespace.as_deref().filter(|ns| !ns.is_empty()) {
            _ if !resource.namespaced => "",
            Some(namespace) => namespace,
            None => own,
        };
        if resource.namespaced && namespace.is_empty() {
            // The pass says what is missing.
            return Ok(Looked {
                namespaced: true,
                object: None,
            });
        }
        let found = self
            .shared
            .api
            .get(reader.identity, &resource, namespace, &object.name)
            .await;
        let object = match found {
            Ok(raw) => {
                self.absorb(reader.key, &object.kind, &raw);
                Some(Json::trusted(raw))
            }
            Err(RequestError::NotFound(_)) => None,
            Err(RequestError::NotServed(message)) => {
                self.not_served(&object.kind);
                return Err(WriteError::NoSuchKind(message));
            }
            Err(error) => return Err(write_error(error)),
        };
        Ok(Looked {
            namespaced: resource.namespaced,
            object,
        })
    }

    /// A kind's plural and scope. Remembered while a watch on it runs, else for 30 s.
    ///
    /// # Errors
    /// [`WriteError::NoSuchKind`] where the kind is not served.
    pub(crate) async fn resource(&self, kind: &Kind) -> Result<Arc<Resource>, WriteError> {
        let watched = self.shared.table().watches(kind);
        match self.shared.kinds.served(kind, watched).await {
            Ok(Some(resource)) => Ok(resource),
            Ok(None) => Err(WriteError::NoSuchKind(format!("{kind} is not served"))),
            Err(error) => Err(write_error(error)),
        }
    }

    /// A request for the kind was answered with [`RequestError::NotServed`]: it is asked for anew.
    pub(crate) fn not_served(&self, kind: &Kind) {
        self.shared.kinds.not_served(kind);
    }
}

impl Shared {
    /// What reads want to watch by what is known of their kinds without asking; and the kinds nothing is known of.
    fn wants_at_hand<'a>(
        &self,
        reader: &Reader<'_>,
        reads: &'a Gather,
    ) -> (Vec<(Want, Arc<Resource>)>, BTreeSet<&'a Kind>) {
        let way = reader.way();
        let (mut wants, mut missing) = (Vec::new(), BTreeSet::new());
        let waits = |kind: &Kind| self.table().missing.why(kind).is_some();
        let mut take = |kind: &'a Kind, of: &dyn Fn(&Resource) -> Vec<Want>| {
            // What is waited for was served once, maybe.
            match self.kinds.last(kind).filter(|_| !waits(kind)) {
                Some(resource) => {
                    let all = of(&resource).into_iter();
                    wants.extend(all.map(|want| (want, resource.clone())));
                }
                None => {
                    missing.insert(kind);
                }
            }
        };
        // What cannot be watched was answered as unavailable by the gather that read it.
        for reading in &reads.readings {
            if let Some(kind) = reading.source.kind() {
                take(kind, &|resource| {
                    targets::of_reading(reading, resource, way).unwrap_or_default()
                });
            }
        }
        for child in &reads.children {
            take(&child.kind, &|resource| {
                targets::of_child(child, resource, way)
                    .into_iter()
                    .collect()
            });
        }
        (wants, missing)
    }

    fn watch(&self, id: WatchId, target: &Target, resource: &Arc<Resource>) -> Watch {
        let options = WatchOptions {
            seed: id.0,
            view: target.view(),
            ..self.options.watch.clone()
        };
        tracing::debug!(kind = %target.kind, namespace = target.namespace, pick = ?target.pick, "watch of related objects");
        Watch::spawn(
            id,
            self.transport.clone(),
            target.identity.clone(),
            resource.clone(),
            target.scope(),
            options,
            self.notices.clone(),
        )
    }

    fn wake(&self, keys: Vec<Key>) {
        if !keys.is_empty() {
            // Nobody takes them any more only when the host ends.
            let _ = self.wakes.send(Wake(keys));
        }
    }

    // A panic while the lock is held leaves users at worst unsettled: a poisoned lock is as good as another.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Reader<'a> {
    fn way(&self) -> Way<'a> {
        Way {
            identity: self.identity,
            confined: self.confined,
        }
    }
}
