//! The one task that owns the host's state: configuration, kinds, plugins and the queue.
//!
//! Everything that happens arrives here as a message and is answered by a change of this state, then by handing out jobs.
//! Passes run as tasks of their own and report back. Since only this task writes the state, there are no locks to order and
//! no half-applied changes to see.

mod dispatch;
mod kinds;
mod life;
mod mappings;
mod ownership;
mod records;
mod rehearse;
mod serve;
mod sweep;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use guesthouse_core::{
    contract::{EventType, Kind},
    identity::Identity,
    life::Wishes,
    mapping::PluginSource,
    pass::Note,
    queue::{MappingId, Queue},
    time::Time,
    units::Span,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::{
    clock,
    cluster::{
        Discovery, Event, KindState, Notice, RequestError, Resource, Scope, Transport, Watch,
        WatchId, WatchOptions,
    },
    config::Place,
    leases::{Client, Said},
    mapping_objects::MappingObjects,
    plugins::{self, Good, Loaded, SourceWatch, Sources},
    related::Wake,
    worker::{Report, Shop},
};
use kinds::KindScope;
pub(crate) use kinds::facts;
use mappings::Runtime;
use ownership::Ownership;

/// Watch over the ConfigMaps with mappings.
pub(crate) const CONFIG: WatchId = WatchId(0);
/// Watch over the journals.
pub(crate) const JOURNALS: WatchId = WatchId(1);
/// The first of those over mapped kinds.
const FIRST_KIND: u64 = 2;

/// How long running passes may take to end after the host was told to.
const DRAIN: Duration = Duration::from_secs(20);

/// A source and what it last brought.
struct Source {
    _watch: SourceWatch,
    /// The last good version.
    good: Option<Good>,
    /// Why the newest version is not the one that serves.
    problem: Option<String>,
    /// Whether it has been heard of at all.
    heard: bool,
}

/// What is known of a kind by discovery.
struct Resolved {
    scope: KindScope,
    result: Result<Option<Resource>, RequestError>,
}

/// All of the host's state.
pub(crate) struct Supervisor {
    namespace: String,
    transport: Transport,
    discovery: Arc<Discovery>,
    plugins: Arc<Sources>,
    shop: Arc<Shop>,
    config_watch: Watch,
    journals_synced: bool,
    queue: Queue,
    mappings: BTreeMap<String, Runtime>,
    names: HashMap<MappingId, String>,
    next_mapping: u32,
    kinds: BTreeMap<KindScope, kinds::KindRuntime>,
    next_watch: u64,
    sources: BTreeMap<PluginSource, Source>,
    sweep: sweep::Sweep,
    mapping_objects: MappingObjects,
    /// What was last said about Mapping objects that cannot be read or written.
    mapping_objects_told: Option<String>,
    looked_for_leftovers: bool,
    removal_grace: Span,
    /// The versions of the plugins of mappings that this replica has.
    lives: BTreeMap<String, life::Life>,
    /// Mappings that are gone, and when their Mapping objects go.
    leaving: BTreeMap<String, Time>,
    /// When it is looked for Mapping objects that somebody deleted.
    next_look: Time,
    /// Rehearsals that were begun.
    rehearsals: u64,
    /// Mapping objects that are to be written, and when.
    due: BTreeSet<(Time, String)>,
    /// Mappings whose text cannot be used, and why; where they are written, and what people wrote beside them.
    invalid: BTreeMap<String, String>,
    invalid_places: BTreeMap<String, (Place, Wishes)>,
    /// The last thing told about each place, so that nothing is told twice.
    told: HashMap<(String, String), String>,
    channels: Channels,
    ownership: Ownership,
    stopping: bool,
}

/// Where messages come from; the senders are cloned into whatever will send.
struct Channels {
    notices: UnboundedSender<Notice>,
    reports: UnboundedSender<Report>,
    loaded: UnboundedSender<Loaded>,
    resolved: UnboundedSender<Resolved>,
    lives: UnboundedSender<life::Heard>,
}

/// The other ends.
pub(crate) struct Inbox {
    notices: UnboundedReceiver<Notice>,
    reports: UnboundedReceiver<Report>,
    loaded: UnboundedReceiver<Loaded>,
    resolved: UnboundedReceiver<Resolved>,
    lives: UnboundedReceiver<life::Heard>,
    wakes: UnboundedReceiver<Wake>,
    leases: UnboundedReceiver<Said>,
}

/// What the supervisor is made of.
pub(crate) struct Parts {
    pub(crate) namespace: String,
    pub(crate) transport: Transport,
    pub(crate) discovery: Arc<Discovery>,
    pub(crate) plugins: Arc<Sources>,
    pub(crate) concurrency: usize,
    /// How long a mapping must be gone before its finalizers are taken off.
    pub(crate) removal_grace: Span,
    pub(crate) mapping_objects: MappingObjects,
    /// Keys whose related objects or children changed.
    pub(crate) wakes: UnboundedReceiver<Wake>,
    /// None: this replica is alone and has every mapping.
    pub(crate) leases: Option<(Client, UnboundedSender<Said>, UnboundedReceiver<Said>)>,
}

impl Supervisor {
    /// Sets up the state and starts the watches over configuration and journals. `shop` is made from the journals' store.
    pub(crate) fn new(parts: Parts, shop: impl FnOnce(Watch) -> Shop) -> (Self, Inbox) {
        let (notices, heard) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::unbounded_channel();
        let (loaded, arrived) = mpsc::unbounded_channel();
        let (resolved, found) = mpsc::unbounded_channel();
        let (lives, heard_of_lives) = mpsc::unbounded_channel();
        let watch = |id, resource: Resource, scope: Scope| {
            let options = WatchOptions::default();
            Watch::spawn(
                id,
                parts.transport.clone(),
                Identity::Host,
                Arc::new(resource),
                scope,
                options,
                notices.clone(),
            )
        };
        let label = format!("{}=true", guesthouse_core::mapping::MAPPINGS_LABEL);
        let config_watch = watch(
            CONFIG,
            plugins::config_maps(),
            Scope::namespace(parts.namespace.clone()).labels(label),
        );
        let journals = watch(
            JOURNALS,
            crate::journals::resource(),
            Scope::namespace(parts.namespace.clone()),
        );
        let (ownership, leases) = Ownership::new(parts.leases);
        let supervisor = Self {
            namespace: parts.namespace,
            transport: parts.transport,
            discovery: parts.discovery,
            plugins: parts.plugins,
            shop: Arc::new(shop(journals)),
            config_watch,
            journals_synced: false,
            queue: Queue::new(parts.concurrency),
            mappings: BTreeMap::new(),
            names: HashMap::new(),
            next_mapping: 0,
            kinds: BTreeMap::new(),
            next_watch: FIRST_KIND,
            sources: BTreeMap::new(),
            sweep: sweep::Sweep::new(parts.removal_grace),
            mapping_objects: parts.mapping_objects,
            mapping_objects_told: None,
            looked_for_leftovers: false,
            removal_grace: parts.removal_grace,
            lives: BTreeMap::new(),
            leaving: BTreeMap::new(),
            next_look: Time(0),
            rehearsals: 0,
            due: BTreeSet::new(),
            invalid: BTreeMap::new(),
            invalid_places: BTreeMap::new(),
            told: HashMap::new(),
            channels: Channels {
                notices: notices.clone(),
                reports,
                loaded,
                resolved,
                lives,
            },
            ownership,
            stopping: false,
        };
        (
            supervisor,
            Inbox {
                notices: heard,
                reports: reported,
                loaded: arrived,
                resolved: found,
                lives: heard_of_lives,
                wakes: parts.wakes,
                leases,
            },
        )
    }

    /// Works until `stop` is done, then lets running passes end.
    pub(crate) async fn run(mut self, mut inbox: Inbox, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            self.dispatch();
            let wait = clock::until(self.next_time());
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(report) = inbox.reports.recv() => self.reported(report),
                Some(notice) = inbox.notices.recv() => self.noticed(notice),
                Some(loaded) = inbox.loaded.recv() => self.loaded(loaded),
                Some(resolved) = inbox.resolved.recv() => self.resolved(resolved),
                Some(heard) = inbox.lives.recv() => self.heard(heard),
                Some(Wake(keys)) = inbox.wakes.recv() => self.woken(keys),
                // After the notices: what a store is told to hold has been noticed by then.
                Some(said) = inbox.leases.recv() => self.leases_said(said),
                () = tokio::time::sleep(wait) => {}
            }
            self.tick(clock::now());
        }
        self.drain(inbox).await;
        self.ownership.close().await;
        tracing::info!("stopped");
    }

    /// No new passes; those that run get their time to end, so that nothing is half done.
    async fn drain(&mut self, mut inbox: Inbox) {
        self.stopping = true;
        tracing::info!(
            running = self.queue.running(),
            "stopping: passes that run come to their end"
        );
        self.say_what_is_left(&mut inbox.lives).await;
        self.leave_mappings();
        let deadline = tokio::time::sleep(DRAIN);
        tokio::pin!(deadline);
        while self.queue.running() > 0 {
            tokio::select! {
                () = &mut deadline => {
                    tracing::warn!(running = self.queue.running(), "stopping before these passes ended; they are begun again at the next start");
                    return;
                }
                Some(report) = inbox.reports.recv() => self.reported(report),
                Some(said) = inbox.leases.recv() => self.leases_said(said),
            }
        }
    }

    fn noticed(&mut self, notice: Notice) {
        match notice.watch {
            CONFIG => self.config_noticed(notice.event),
            JOURNALS => self.journal_noticed(notice.event),
            id => self.kind_noticed(id, notice.event),
        }
    }

    fn config_noticed(&mut self, event: Event) {
        match event {
            Event::State(KindState::Forbidden(message)) => tracing::error!(
                "the mappings cannot be watched; allow the host get, list and watch on configmaps in {}: {message}",
                self.namespace
            ),
            Event::State(state) => {
                tracing::info!(state = state.name(), "watch over the mappings: {state:?}")
            }
            _ if self.config_watch.is_synced() => {
                self.configure();
                self.tell_mappings();
                self.look_for_leftovers();
            }
            _ => {}
        }
    }

    fn journal_noticed(&mut self, event: Event) {
        match event {
            Event::Changed { key, .. } => {
                self.shop.journals.changed(&key);
            }
            Event::Deleted { key } => self.shop.journals.deleted(&key),
            Event::Synced => {
                self.journals_synced = true;
                self.refresh_all();
            }
            Event::State(KindState::Absent | KindState::Gone) => {
                // Without journals an answer would be forgotten and asked for again.
                self.journals_synced = false;
                let names: Vec<String> = self.mappings.keys().cloned().collect();
                names.iter().for_each(|name| self.stop_serving(name));
                tracing::error!(
                    "the kind journals.guesthouse.dev is missing, nothing is passed until it is there: guesthouse crd --host | kubectl apply -f -"
                );
            }
            Event::State(KindState::Forbidden(message)) => tracing::error!(
                "the journals cannot be watched; allow the host get, list, watch, create, update and delete on journals.guesthouse.dev in {}: {message}",
                self.namespace
            ),
            Event::State(state) => {
                tracing::info!(state = state.name(), "watch over the journals: {state:?}")
            }
        }
    }

    /// When there is something to do without a message.
    fn next_time(&self) -> Time {
        let resync = self
            .mappings
            .values()
            .map(|runtime| runtime.next_resync)
            .min();
        let kinds = self.kinds.values().map(|kind| kind.next_look).min();
        let sweep = self.sweep.next();
        let record = self.next_record();
        [self.queue.next_time(), resync, kinds, sweep, record]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Time::NEVER)
            .min(clock::now().after(HOUR))
    }

    /// What is due by the clock; the queue's own timers are its own.
    fn tick(&mut self, now: Time) {
        self.resync(now);
        self.look_at_kinds(now);
        self.sweep(now);
        self.write_records(now);
        self.remove_records(now);
        self.look_for_deleted(now);
    }

    /// Tells about a place, unless that is what was told last.
    fn tell(&mut self, place: &Place, type_: EventType, reason: &str, note: String) {
        let last = self
            .told
            .insert((place.config_map.clone(), place.key.clone()), note.clone());
        if last.as_ref() == Some(&note) {
            return;
        }
        match type_ {
            EventType::Warning => tracing::warn!(
                config_map = place.config_map,
                key = place.key,
                reason,
                "{note}"
            ),
            EventType::Normal => tracing::info!(
                config_map = place.config_map,
                key = place.key,
                reason,
                "{note}"
            ),
        }
        self.shop.events.tell(
            &place.about(&self.namespace),
            vec![Note {
                type_,
                reason: reason.to_owned(),
                note,
            }],
        );
    }
}

/// The longest sleep: a clock that was set back is noticed at the latest then.
const HOUR: guesthouse_core::units::Span = guesthouse_core::units::Span::from_secs(3600);

/// A kind in words.
fn kind_name(kind: &Kind) -> String {
    format!("{} {}", kind.api_version, kind.kind)
}
