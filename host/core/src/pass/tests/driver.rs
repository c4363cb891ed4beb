//! The driver: carries out steps on the world in memory, crashes where it is told to, and runs the real queue on a clock.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::{Value, json};

use super::world::{Cluster, Exporter, key};
use crate::{
    contract::{Json, Observation, Reply},
    identity::Identity,
    mapping::CheckedMapping,
    object::{ObjectKey, version_number},
    pass::{
        Begin, Carry, End, KindFacts, Pass, PluginFacts, Step, StepAction, StoredJournal, Terms, Told,
        WriteError,
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

pub(super) struct Sim {
    pub(super) now: Time,
    /// What each step takes.
    pub(super) latency: Span,
    pub(super) cluster: Cluster,
    pub(super) exporter: Exporter,
    pub(super) terms: Arc<Terms>,
    pub(super) plugin: Plugin,
    pub(super) crashes: VecDeque<Crash>,
    pub(super) faults: Vec<(&'static str, Fault)>,
    /// What the store shows in place of the truth.
    pub(super) store: Option<(Option<Json>, Vec<StoredJournal>)>,
    /// Steps by name, and as whom.
    pub(super) steps: Vec<(&'static str, Identity)>,
    pub(super) calls: Vec<Observation>,
    pub(super) ends: Vec<End>,
    pub(super) queue: Queue,
    carries: BTreeMap<ObjectKey, Carry>,
    since_start: usize,
}

pub(super) const GRANTS: &str = "{http: [{host: exporter, methods: [PUT]}]}";

pub(super) fn terms(grants: &str, digest: &str) -> Arc<Terms> {
    let text = format!(
        "{{for: {{apiVersion: batch.acme.io/v1, kind: ReportJob}}, plugin: {{file: p.wasm}}, grants: {grants}, serviceAccount: jobs, retry: {{base: 1s, max: 60s, limit: 3}}, queue: {{priority: .spec.priority, notBefore: .spec.notBefore}}}}"
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
    Arc::new(Terms {
        mapping: Arc::new(CheckedMapping::parse("report-jobs", &text, "guesthouse").unwrap()),
        digest: digest.to_owned(),
        kind: KindFacts {
            takes_status: Ok(()),
            schema: StatusSchema::of_crd(&json!({"properties": {"status": {"properties": known}}})),
            fingerprint: "k1".into(),
        },
        plugin: PluginFacts::default(),
    })
}

impl Sim {
    /// A host with this plugin, just started, and one object `job`.
    pub(super) fn new(plugin: Plugin, spec: Value) -> Self {
        let mut sim = Self {
            now: START,
            latency: Span(0),
            cluster: Cluster::default(),
            exporter: Exporter::default(),
            terms: terms(GRANTS, "sha256:0123456789abcdef"),
            plugin,
            crashes: VecDeque::new(),
            faults: Vec::new(),
            store: None,
            steps: Vec::new(),
            calls: Vec::new(),
            ends: Vec::new(),
            queue: Queue::new(1),
            carries: BTreeMap::new(),
            since_start: 0,
        };
        sim.cluster.create("job", spec);
        sim.restart();
        sim
    }

    /// Whatever was in memory only is gone; every object is queued.
    pub(super) fn restart(&mut self) {
        self.since_start = 0;
        self.carries.clear();
        self.cluster.changed.clear();
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

    fn deliver(&mut self) {
        for (key, version) in std::mem::take(&mut self.cluster.changed) {
            self.push(&key, Why::Event, version);
        }
    }

    /// One pass of `job`, whatever the queue says; it must not crash.
    pub(super) fn pass(&mut self, forced: bool) -> End {
        self.steps.clear();
        let end = self.run(&key("job"), forced).expect("a crash");
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
        let told = match step.action {
            StepAction::Read => Told::Object(Ok(self.cluster.read(key))),
            StepAction::Call(_, observation) => {
                let reply = (self.plugin)(&observation);
                self.calls.push(*observation);
                Told::Reply(reply)
            }
            StepAction::Journal(write) => Told::Journaled(self.cluster.put_journal(&write)),
            StepAction::DropJournal { name, version } => {
                Told::Journaled(self.cluster.drop_journal(&name, &version))
            }
            StepAction::Send(sends) => Told::Sent(
                sends
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| mask & (1 << index) != 0)
                    .map(|(_, send)| self.exporter.send(send, self.now))
                    .collect(),
            ),
            StepAction::Patch(write) => Told::Written(self.cluster.patch(key, &write)),
            StepAction::Status(write) => Told::Written(self.cluster.put_status(key, &write)),
            StepAction::Tell(notes) => {
                self.cluster.events.extend(notes);
                Told::Done
            }
            StepAction::End(_) => Told::Done,
            _ => Told::Done,
        };
        if lose {
            refused(name, unavailable(None))
        } else {
            told
        }
    }

    /// The store as it is now, to be shown to a later pass.
    pub(super) fn snapshot(&self) -> (Option<Json>, Vec<StoredJournal>) {
        (
            self.cluster.read(&key("job")),
            self.cluster.journals_of(&key("job")),
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

fn refused(step: &str, error: WriteError) -> Told {
    match step {
        "read" => Told::Object(Err(error)),
        "journal" | "drop-journal" => Told::Journaled(Err(error)),
        "patch" | "status" => Told::Written(Err(error)),
        other => panic!("{other} cannot be refused"),
    }
}
