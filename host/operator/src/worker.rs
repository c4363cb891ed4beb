//! Drives one pass: asks it for the next step, carries the step out, tells it what came of it.
//!
//! Nothing is decided here. Every write answers with the whole object, which goes into the store at once, so the next pass of
//! the key starts from our own last write whatever the watch is doing.

use std::{sync::Arc, time::Instant};

use guesthouse_core::{
    contract::Json,
    identity::Identity,
    object::{self, ObjectKey},
    pass::{Begin, End, ObjectWrite, Pass, StepAction, Terms, Told, WriteError},
    plan::MetaPatch,
    queue::Key,
};
use guesthouse_sandbox::{Plugin, Verb};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    clock,
    cluster::{Answer, Api, PatchKind, Resource, Store, request::Want},
    crash,
    errors::write_error,
    events::{About, Events},
    executor::{Executor, Work},
    journals::Journals,
    outgoing::Outgoing,
    trace,
};

/// What all workers share.
pub(crate) struct Shop {
    pub(crate) api: Api,
    pub(crate) journals: Arc<Journals>,
    pub(crate) executor: Executor,
    pub(crate) outgoing: Outgoing,
    pub(crate) events: Events,
}

/// What a worker tells the supervisor.
pub(crate) enum Report {
    /// The pass waits for http answers: its slot is free.
    Parked(Key),
    /// It goes on.
    Unparked(Key),
    /// It is over.
    Ended(Key, Box<End>),
}

/// One job, as the supervisor hands it out.
pub(crate) struct Assignment {
    pub(crate) key: Key,
    pub(crate) terms: Arc<Terms>,
    pub(crate) plugin: Plugin,
    pub(crate) resource: Arc<Resource>,
    pub(crate) store: Arc<Store>,
    pub(crate) begin: Begin,
}

/// Drives the pass to its end and reports it.
pub(crate) async fn run(shop: Arc<Shop>, job: Assignment, reports: UnboundedSender<Report>) {
    let started = Instant::now();
    let worker = Worker {
        shop: &shop,
        job: &job,
        reports: &reports,
    };
    let end = worker.drive(job.begin.clone()).await;
    trace::pass_ended(&job.terms, &job.key.object, &end, started.elapsed());
    // The supervisor only goes away with the process.
    let _ = reports.send(Report::Ended(job.key, Box::new(end)));
}

struct Worker<'a> {
    shop: &'a Shop,
    job: &'a Assignment,
    reports: &'a UnboundedSender<Report>,
}

impl Worker<'_> {
    async fn drive(&self, begin: Begin) -> End {
        let mut steps = crash::Steps::new();
        let (mut pass, mut step) = Pass::start(self.job.terms.clone(), begin, clock::now());
        loop {
            trace::step(&self.job.terms, &self.job.key.object, &step);
            steps.before(step.action.name());
            let told = match step.action {
                StepAction::End(end) => return *end,
                action => self.carry_out(&step.identity, action).await,
            };
            steps.after();
            step = pass.resume(told, clock::now());
        }
    }

    async fn carry_out(&self, identity: &Identity, action: StepAction) -> Told {
        match action {
            StepAction::Read => Told::Object(self.read(identity).await),
            StepAction::Call(seen) => self.call(seen).await,
            StepAction::Journal(write)
                if crash::is_mutant("skip-receipt-journal")
                    && !write.journal.receipts.is_empty() =>
            {
                Told::Journaled(Ok(write.version.unwrap_or_default()))
            }
            StepAction::Journal(write) => {
                Told::Journaled(self.shop.journals.write(identity, &write).await)
            }
            StepAction::DropJournal { name, version } => {
                Told::Journaled(self.shop.journals.remove(identity, &name, &version).await)
            }
            StepAction::Send(sends) => {
                let _ = self.reports.send(Report::Parked(self.job.key.clone()));
                let results = self.shop.outgoing.send_all(&sends).await;
                let _ = self.reports.send(Report::Unparked(self.job.key.clone()));
                Told::Sent(results)
            }
            StepAction::Patch(write) => Told::Written(self.patch(identity, &write).await),
            StepAction::Status(write) => Told::Written(self.status(identity, &write).await),
            StepAction::Tell(notes) => {
                self.shop.events.tell(&self.about(), notes);
                Told::Done
            }
            // `drive` takes these out before.
            StepAction::End(_) => Told::Done,
        }
    }

    fn object(&self) -> &ObjectKey {
        &self.job.key.object
    }

    async fn read(&self, identity: &Identity) -> Result<Option<Json>, WriteError> {
        let object = self.object();
        let found = self
            .shop
            .api
            .get(
                identity,
                &self.job.resource,
                object.namespace(),
                object.name(),
            )
            .await;
        match found {
            Ok(raw) => {
                let _ = self.job.store.absorb(raw.as_bytes());
                Ok(Some(Json::trusted(&*raw)))
            }
            Err(error) => match write_error(error) {
                WriteError::NotFound => Ok(None),
                other => Err(other),
            },
        }
    }

    async fn call(&self, seen: Box<guesthouse_core::contract::Observation>) -> Told {
        let terms = &self.job.terms;
        let limits = terms.mapping.mapping.limits.clone();
        let work = Work {
            plugin: self.job.plugin.clone(),
            verb: Verb::Reconcile,
            seen,
            limits,
        };
        let called = self.shop.executor.call(&terms.mapping.name, work).await;
        trace::called(terms, self.object(), &called);
        Told::Reply(called.result)
    }

    async fn patch(
        &self,
        identity: &Identity,
        write: &ObjectWrite<MetaPatch>,
    ) -> Result<Json, WriteError> {
        #[derive(Serialize)]
        struct Body<'a> {
            metadata: Metadata<'a>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            // Versions are unique over all objects of a kind: another uid has another one.
            resource_version: &'a str,
            #[serde(flatten)]
            patch: &'a MetaPatch,
        }
        let body = Body {
            metadata: Metadata {
                resource_version: &write.version,
                patch: &write.body,
            },
        };
        let body =
            serde_json::to_string(&body).map_err(|error| WriteError::Invalid(error.to_string()))?;
        let (object, resource) = (self.object(), &self.job.resource);
        let answer = self
            .shop
            .api
            .patch(
                identity,
                resource,
                object.namespace(),
                object.name(),
                PatchKind::Merge,
                body,
                Want::Object,
            )
            .await;
        self.written(answer.map_err(write_error)?)
    }

    async fn status(
        &self,
        identity: &Identity,
        write: &ObjectWrite<Value>,
    ) -> Result<Json, WriteError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            api_version: String,
            kind: &'a str,
            metadata: Metadata<'a>,
            status: &'a Value,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            name: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            namespace: &'a str,
            uid: &'a str,
            resource_version: &'a str,
        }
        let (object, resource) = (self.object(), &self.job.resource);
        let metadata = Metadata {
            name: object.name(),
            namespace: object.namespace(),
            uid: &write.uid,
            resource_version: &write.version,
        };
        let body = Body {
            api_version: resource.api_version(),
            kind: &resource.kind,
            metadata,
            status: &write.body,
        };
        let body =
            serde_json::to_string(&body).map_err(|error| WriteError::Invalid(error.to_string()))?;
        let answer = self
            .shop
            .api
            .put_status(
                identity,
                resource,
                object.namespace(),
                object.name(),
                body,
                Want::Object,
            )
            .await;
        let answer = answer.map_err(write_error)?;
        for warning in &answer.warnings {
            tracing::warn!(mapping = self.job.terms.mapping.name, %object, warning, "the API server warns about a status");
        }
        self.written(answer)
    }

    /// The object as the server wrote it; into the store before anybody can ask for it.
    fn written(&self, answer: Answer) -> Result<Json, WriteError> {
        let unreadable = |error: object::ObjectError| WriteError::Unavailable {
            message: error.to_string(),
            retry_after: None,
        };
        let raw = object::compact(&answer.body).map_err(unreadable)?;
        self.job.store.absorb(raw.as_bytes()).map_err(unreadable)?;
        Ok(Json::trusted(raw))
    }

    fn about(&self) -> About {
        let object = self.object();
        let uid = self
            .job
            .store
            .get(object)
            .map(|entry| entry.uid().to_string())
            .unwrap_or_default();
        About {
            api_version: self.job.resource.api_version(),
            kind: self.job.resource.kind.to_string(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid,
        }
    }
}
