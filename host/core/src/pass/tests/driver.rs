//! The driver: carries out steps on the world in memory, crashes where it is told to, and runs the real queue on a clock.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    things::{self, Place},
    world::{Cluster, Exporter, key},
};
use crate::{
    contract::{Json, Kind, ObjectRef, Observation, Reply},
    identity::Identity,
    mapping::CheckedMapping,
    needs::{ReadSource, Reading},
    object::{ObjectKey, version_number},
    pass::{
        Begin, Carry, ChildRef, End, Gather, Gathered, KindFacts, Pass, PluginFacts, Step,
        StepAction, StoredJournal, Terms, Told, Verb, WriteError,
    },
    queue::{Finish, Key, MappingId, Push, Queue, Why},
    refusal::Refusal,
    schema::StatusSchema,
    time::Time,
    units::Span,
};

pub(super) type Plugin = fn(&Observation) -> Result<Reply, Refusal>;

const MAPPING: MappingId = MappingId(1);
pub(super) const START: Time = Time(1_700_000_000_000);

/// Stops the host after a step; of a batch of requests only those in the mask were sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    /// Steps since the start or the last crash.
    pub(super) after: usize,
    pub(super) mask: u32,
}

/// Something that happens at the next step of this name.
pub(super) enum Fault {
    /// The server says no and does nothing.
    Refuse(WriteError),
    /// The server does it, and the answer is lost.
    Lose,
    /// Somebody else is quicker.
    Meanwhile(fn(&mut Cluster)),
}

/// What happens to one request, counted over the whole run.
#[derive(Clone, Debug)]
pub(super) enum Ill {
    /// The server says no and does nothing.
    Refused(WriteError),
    /// The server does it, and the answer is lost.
    Lost,
}

pub(super) struct Sim {
    pub(super) now: Time,
    /// What each step takes.
    pub(super) latency: Span,
    pub(super) cluster: Cluster,
    pub(super) exporter: Exporter,
    pub(super) terms: Arc<Terms>,
    pub(super) plugin: Plugin,
    /// What it says when the object goes.
    pub(super) finalize: Plugin,
    /// Requests to the API server so far.
    pub(super) requests: usize,
    /// Which of them goes wrong, and how.
    pub(super) ill: Option<(usize, Ill)>,
    /// What is being asked now reads, or takes something away.
    is_read: bool,
    is_removal: bool,
    /// Where the reconciled object is.
    pub(super) at: ObjectKey,
    pub(super) crashes: VecDeque<Crash>,
    pub(super) faults: Vec<(&'static str, Fault)>,
    /// What the store shows in place of the truth.
    pub(super) store: Option<(Option<Json>, Vec<StoredJournal>)>,
    /// How many requests each step holds.
    pub(super) sizes: Vec<usize>,
    /// Steps by name, and as whom.
    pub(super) steps: Vec<(&'static str, Identity)>,
    pub(super) calls: Vec<Observation>,
    /// What each of them was asked.
    pub(super) verbs: Vec<Verb>,
    pub(super) ends: Vec<End>,
    pub(super) queue: Queue,
    carries: BTreeMap<ObjectKey, Carry>,
    /// What each key wants to be woken by.
    reads: BTreeMap<ObjectKey, Gather>,
    since_start: usize,
}

pub(super) const GRANTS: &str = "{http: [{host: exporter, methods: [PUT]}]}";

pub(super) fn terms(grants: &str, digest: &str) -> Arc<Terms> {
    let plugin = PluginFacts::default();
    Arc::new(made_of(&format!("grants: {grants}"), "", digest, plugin))
}

/// What plugins with children are granted.
const ALL: &str = "grants: {deleteSelf: true, http: [{host: exporter, methods: [PUT, DELETE]}], \
    apply: [{apiVersion: v1, kind: ConfigMap, namespaces: [other]}, {apiVersion: v1, kind: Service}, \
    {apiVersion: apps/v1, kind: Deployment}, {apiVersion: batch/v1, kind: Job}, \
    {apiVersion: networking.k8s.io/v1, kind: Ingress}, {apiVersion: acme.io/v1, kind: ClusterThing, namespaces: ['*']}], \
    read: [{apiVersion: v1, kind: ConfigMap}]}";

/// Terms with these further members of the mapping, for objects with these labels.
pub(super) fn with(members: &str, selector: &str, plugin: PluginFacts) -> Arc<Terms> {
    let digest = "sha256:0123456789abcdef";
    Arc::new(made_of(
        &format!("{ALL}{members}"),
        selector,
        digest,
        plugin,
    ))
}

fn made_of(members: &str, selector: &str, digest: &str, plugin: PluginFacts) -> Terms {
    let text = format!(
        "{{for: {{apiVersion: batch.acme.io/v1, kind: ReportJob, labelSelector: '{selector}'}}, plugin: {{file: p.wasm}}, {members}, serviceAccount: jobs, retry: {{base: 1s, max: 60s, limit: 3}}, queue: {{priority: .spec.priority, notBefore: .spec.notBefore}}}}"
    );
    let known = [
        "phase",
        "retries",
        "message",
        "url",
        "value",
        "observedGeneration",
        "conditions",
    ];
    let known: BTreeMap<&str, Value> = known
        .map(|name| (name, json!({"x-kubernetes-preserve-unknown-fields": true})))
        .into();
    Terms {
        mapping: Arc::new(CheckedMapping::parse("report-jobs", &text, "guesthouse").unwrap()),
        digest: digest.to_owned(),
        kind: KindFacts {
            takes_status: Ok(()),
            schema: StatusSchema::of_crd(&json!({"properties": {"status": {"properties": known}}})),
            fingerprint: "k1".into(),
        },
        plugin,
    }
}

impl Sim {
    /// A host with this plugin, just started, and one object `job`.
    pub(super) fn new(plugin: Plugin, spec: Value) -> Self {
        Self::mapped(plugin, spec, terms(GRANTS, "sha256:0123456789abcdef"))
    }

    /// The same under these terms.
    pub(super) fn mapped(plugin: Plugin, spec: Value, terms: Arc<Terms>) -> Self {
        Self::placed(plugin, spec, terms, key("job"))
    }

    /// The same with the object somewhere else.
    pub(super) fn placed(plugin: Plugin, spec: Value, terms: Arc<Terms>, at: ObjectKey) -> Self {
        let mut sim = Self {
            now: START,
            latency: Span(0),
            cluster: Cluster::default(),
            exporter: Exporter::default(),
            terms,
            plugin,
            finalize: plugin,
            requests: 0,
            ill: None,
            is_read: false,
            is_removal: false,
            at: at.clone(),
            crashes: VecDeque::new(),
            faults: Vec::new(),
            store: None,
            sizes: Vec::new(),
            steps: Vec::new(),
            calls: Vec::new(),
            verbs: Vec::new(),
            ends: Vec::new(),
            queue: Queue::new(1),
            carries: BTreeMap::new(),
            reads: BTreeMap::new(),
            since_start: 0,
        };
        sim.cluster.create_at(&at, spec);
        sim.restart();
        sim
    }

    /// Whatever was in memory only is gone; every object is queued.
    pub(super) fn restart(&mut self) {
        self.since_start = 0;
        self.carries.clear();
        self.reads.clear();
        self.cluster.changed.clear();
        self.cluster.background();
        self.cluster.things.listed();
        self.queue = Queue::new(1);
        self.queue
            .set_mapping(MAPPING, 1, self.terms.mapping.mapping.retry.base);
        for key in self.cluster.keys() {
            self.push(&key, Why::Initial, None);
        }
    }

    pub(super) fn push(&mut self, object: &ObjectKey, why: Why, version: Option<u64>) {
        let text = self.cluster.read(object);
        let text = text.as_ref().map_or("{}", Json::as_str);
        let (priority, not_before) = (&self.terms.mapping.priority, &self.terms.mapping.not_before);
        let push = Push {
            why,
            version,
            priority: priority.as_ref().unwrap().i64(text).unwrap().unwrap_or(0),
            not_before: not_before
                .as_ref()
                .unwrap()
                .str(text)
                .unwrap()
                .map(|at| Time::parse(&at).unwrap()),
        };
        let key = Key {
            mapping: MAPPING,
            object: object.clone(),
        };
        self.queue.push(&key, push, self.now);
    }

    /// What the watches bring of everything but the reconciled objects.
    fn deliver_things(&mut self) -> bool {
        self.cluster.background();
        let changed = std::mem::take(&mut self.cluster.things.changed);
        for place in &changed {
            self.cluster.things.acknowledge(place);
            let woken = self.reads.iter().filter(|(_, reads)| wakes(reads, place));
            for key in woken.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                self.push(&key, Why::Event, None);
            }
        }
        !changed.is_empty()
    }

    fn deliver(&mut self) {
        self.cluster.background();
        if self.cluster.things.lag == 0 {
            self.deliver_things();
        }
        for (key, version) in std::mem::take(&mut self.cluster.changed) {
            self.push(&key, Why::Event, version);
        }
    }

    /// One pass of `job`, whatever the queue says; it must not crash.
    pub(super) fn pass(&mut self, forced: bool) -> End {
        self.steps.clear();
        let at = self.at.clone();
        let end = self.run(&at, forced).expect("a crash");
        self.cluster.changed.clear();
        end
    }

    /// Names of the steps of the last pass.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.steps.iter().map(|(name, _)| *name).collect()
    }

    /// Passes what the queue brings until the clock shows `until`.
    pub(super) fn run_until(&mut self, until: Time) {
        self.drain(until);
        self.now = until;
    }

    fn drain(&mut self, until: Time) {
        for _ in 0..10_000 {
            self.deliver();
            if let Some(job) = self.queue.pop(self.now) {
                let end = self.run(&job.key.object, job.forced);
                self.deliver();
                if let Some(end) = end {
                    let finish = Finish {
                        version: end.version,
                        again: end.again,
                        wake: end.wake,
                        backoff: end.backoff,
                    };
                    self.ends.push(end);
                    self.queue.finish(&job.key, finish, self.now);
                }
                continue;
            }
            // Where the watches are late, they bring their news when nothing else is left to do.
            if self.deliver_things() {
                continue;
            }
            match self.queue.next_time().filter(|at| *at <= until) {
                Some(at) => self.now = at,
                None => return,
            }
        }
        panic!("it never comes to rest: {:?}", self.steps);
    }

    /// The same, until nothing is left to do for an hour.
    pub(super) fn settle(&mut self) {
        self.drain(Time(self.now.0 + 3_600_000));
    }

    /// One pass; none if the host crashed in it.
    fn run(&mut self, object: &ObjectKey, forced: bool) -> Option<End> {
        let store = self.store.take();
        let (seen, journals) =
            store.unwrap_or_else(|| (self.cluster.read(object), self.cluster.journals_of(object)));
        let begin = Begin {
            key: object.clone(),
            object: seen,
            journals,
            carry: self.carries.remove(object).unwrap_or_default(),
            forced,
        };
        let (mut pass, mut step) = Pass::start(self.terms.clone(), begin, self.now);
        loop {
            self.steps.push((step.action.name(), step.identity.clone()));
            self.sizes.push(size(&step.action));
            self.since_start += 1;
            let crash = self
                .crashes
                .front()
                .filter(|crash| crash.after == self.since_start)
                .copied();
            let ended = match &step.action {
                StepAction::End(end) => Some((**end).clone()),
                _ => None,
            };
            let mask = crash.map_or(u32::MAX, |crash| crash.mask);
            let told = self.carry_out(object, step, mask);
            if crash.is_some() {
                self.crashes.pop_front();
                self.restart();
                return None;
            }
            if let Some(end) = ended {
                self.carries.insert(object.clone(), end.carry.clone());
                if let Some(reads) = &end.reads {
                    self.reads.insert(object.clone(), reads.clone());
                }
                return Some(end);
            }
            self.now = self.now.after(self.latency);
            step = pass.resume(told, self.now);
        }
    }

    fn carry_out(&mut self, key: &ObjectKey, step: Step, mask: u32) -> Told {
        let name = step.action.name();
        let fault = self.faults.iter().position(|(at, _)| *at == name);
        let mut lose = false;
        match fault.map(|index| self.faults.remove(index).1) {
            None => {}
            Some(Fault::Refuse(error)) => return refused(name, error),
            Some(Fault::Lose) => lose = true,
            Some(Fault::Meanwhile(edit)) => edit(&mut self.cluster),
        }
        self.is_read = matches!(name, "read" | "look");
        self.is_removal = matches!(name, "remove" | "drop-journal" | "delete-self");
        let told = match step.action {
            StepAction::Read => Told::Object(self.request(|sim| Ok(sim.cluster.read(key)))),
            StepAction::Call(verb, observation) => {
                let reply = match verb {
                    Verb::Reconcile => (self.plugin)(&observation),
                    Verb::Finalize => (self.finalize)(&observation),
                };
                self.verbs.push(verb);
                self.calls.push(*observation);
                Told::Reply(reply)
            }
            StepAction::Journal(write) => {
                Told::Journaled(self.request(|sim| sim.cluster.put_journal(&write)))
            }
            StepAction::DropJournal { name, version } => {
                Told::Journaled(self.request(|sim| sim.cluster.drop_journal(&name, &version)))
            }
            StepAction::Send(sends) => Told::Sent(
                in_mask(&sends, mask)
                    .map(|send| self.exporter.send(send, self.now))
                    .collect(),
            ),
            StepAction::Patch(write) => {
                Told::Written(self.request(|sim| sim.cluster.patch(key, &write)))
            }
            StepAction::Status(write) => {
                Told::Written(self.request(|sim| sim.cluster.put_status(key, &write)))
            }
            StepAction::Finalizer(write) => {
                Told::Written(self.request(|sim| sim.cluster.patch_finalizers(key, &write)))
            }
            StepAction::DeleteSelf { uid } => {
                Told::Removed(vec![self.request(|sim| sim.cluster.delete_self(key, &uid))])
            }
            StepAction::Gather(gather) => Told::Gathered(self.gather(&gather)),
            StepAction::Look(objects) => Told::Looked(
                in_mask(&objects, mask)
                    .map(|object| {
                        self.request(|sim| sim.cluster.things.look(object, key.namespace()))
                    })
                    .collect(),
            ),
            StepAction::Apply(writes) => Told::Applied(
                in_mask(&writes, mask)
                    .map(|write| {
                        let place = self.place(&write.object);
                        self.child_request(&place, |sim| sim.cluster.things.apply(write))
                    })
                    .collect(),
            ),
            StepAction::Remove(removals) => Told::Removed(
                in_mask(&removals, mask)
                    .map(|removal| {
                        let place = self.place(&removal.object);
                        self.child_request(&place, |sim| sim.cluster.things.remove(removal))
                    })
                    .collect(),
            ),
            StepAction::Tell(notes) => {
                self.cluster.events.extend(notes);
                Told::Done
            }
            StepAction::End(_) => Told::Done,
        };
        if lose {
            refused(name, unavailable(None))
        } else {
            told
        }
    }

    /// One request to the API server, of which one may go wrong.
    fn request<T>(
        &mut self,
        make: impl FnOnce(&mut Self) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        self.requests += 1;
        let ill = match &self.ill {
            Some((at, ill)) if *at == self.requests => Some(ill.clone()),
            _ => None,
        };
        match ill {
            // Not there means that somebody else was faster.
            Some(Ill::Refused(WriteError::NotFound)) if self.is_removal => {
                make(self).and(Err(WriteError::NotFound))
            }
            Some(Ill::Refused(WriteError::NotFound)) if self.is_read => make(self),
            Some(Ill::Refused(error)) => Err(error),
            Some(Ill::Lost) => make(self).and(Err(unavailable(None))),
            None => make(self),
        }
    }

    /// One whose answer the store knows of; a lost one comes with the watch.
    fn child_request<T>(
        &mut self,
        place: &Place,
        make: impl FnOnce(&mut Self) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let answer = self.request(make);
        match &answer {
            Ok(_) => self.cluster.things.acknowledge(place),
            Err(_) if self.cluster.things.is_ahead(place) => {
                self.cluster.things.changed.push(place.clone());
            }
            Err(_) => {}
        }
        answer
    }

    fn place(&self, object: &ObjectRef) -> Place {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        things::place(&object.kind, namespace, &object.name)
    }

    fn gather(&self, gather: &Gather) -> Gathered {
        let things = &self.cluster.things;
        Gathered {
            answers: gather
                .readings
                .iter()
                .map(|reading| things.answer(reading))
                .collect(),
            children: gather
                .children
                .iter()
                .map(|child| things.found(child))
                .collect(),
        }
    }

    /// The store as it is now, to be shown to a later pass.
    pub(super) fn snapshot(&self) -> (Option<Json>, Vec<StoredJournal>) {
        (
            self.cluster.read(&self.at),
            self.cluster.journals_of(&self.at),
        )
    }

    pub(super) fn version(&self) -> Option<u64> {
        version_number(
            self.cluster.object("job")["metadata"]["resourceVersion"]
                .as_str()
                .unwrap(),
        )
    }

    /// Names of the objects whose plugin was called, in order.
    pub(super) fn called(&self) -> Vec<String> {
        let name = |seen: &Observation| {
            super::plugins::object(seen)["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        self.calls.iter().map(name).collect()
    }
}

pub(super) fn unavailable(seconds: Option<u64>) -> WriteError {
    WriteError::Unavailable {
        message: "503 Service Unavailable".into(),
        retry_after: seconds.map(Span::from_secs),
    }
}

/// Whether a change of an object wakes a key that has read this.
fn wakes(reads: &Gather, place: &Place) -> bool {
    let is_child =
        |child: &ChildRef| things::place(&child.kind, &child.namespace, &child.name) == *place;
    let of_kind = |kind: &Kind| kind.group() == place.0 && kind.kind == place.1;
    let is_read = |reading: &Reading| {
        let named = match &reading.source {
            ReadSource::Object {
                namespace, name, ..
            } => *namespace == place.2 && *name == place.3,
            _ => true,
        };
        named && reading.source.kind().is_some_and(of_kind)
    };
    reads.children.iter().any(is_child) || reads.readings.iter().any(is_read)
}

fn size(action: &StepAction) -> usize {
    match action {
        StepAction::Send(batch) => batch.len(),
        StepAction::Apply(batch) => batch.len(),
        StepAction::Remove(batch) => batch.len(),
        _ => 1,
    }
}

/// Of a batch, what was done before the host stopped.
fn in_mask<T>(batch: &[T], mask: u32) -> impl Iterator<Item = &T> {
    let done = move |(index, _): &(usize, &T)| mask & (1 << index) != 0;
    batch.iter().enumerate().filter(done).map(|(_, item)| item)
}

fn refused(step: &str, error: WriteError) -> Told {
    match step {
        "read" => Told::Object(Err(error)),
        "journal" | "drop-journal" => Told::Journaled(Err(error)),
        "patch" | "status" | "finalizer" => Told::Written(Err(error)),
        "delete-self" => Told::Removed(vec![Err(error)]),
        other => panic!("{other} cannot be refused"),
    }
}
