//! Drives one pass: asks it for the next step, carries the step out, tells it what came of it.
//!
//! Nothing is decided here. Every write answers with the whole object, which goes into its store at once, so the next pass of
//! the key starts from our own last write whatever the watch is doing.

mod children;
mod object;

use std::{pin::pin, sync::Arc, task::Poll, time::Instant};

use guesthouse_core::{
    contract::{Kind, Observation, Reply, Verb},
    identity::Identity,
    journal::ChildRecord,
    object::ObjectKey,
    pass::{Begin, End, JournalWrite, Pass, Sent, StepAction, Terms, Told, WriteError},
    plan::Send,
    queue::Key,
    refusal::{Refusal, RefusalKind},
};
use guesthouse_sandbox::Plugin;
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    clock,
    cluster::{Api, Resource, Store},
    crash,
    credentials::Credentials,
    events::{About, Events},
    executor::{Executor, Work},
    journals::Journals,
    leases::Fence,
    outgoing::{self, Outgoing},
    related::{Reader, Related},
    trace,
};

/// What all workers share.
pub(crate) struct Shop {
    pub(crate) api: Api,
    pub(crate) journals: Arc<Journals>,
    pub(crate) related: Arc<Related>,
    pub(crate) executor: Executor,
    pub(crate) outgoing: Arc<Outgoing>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) events: Events,
}

/// What a worker tells the supervisor.
pub(crate) enum Report {
    /// The pass waits for http answers: its slot is free.
    Parked(Key),
    /// It goes on.
    Unparked(Key),
    /// It is over.
    Ended(Key, Arc<Terms>, Box<End>),
}

/// One job, as the supervisor hands it out.
pub(crate) struct Assignment {
    pub(crate) key: Key,
    pub(crate) terms: Arc<Terms>,
    /// None where it cannot be loaded: then the terms say so, and no pass calls it.
    pub(crate) plugin: Option<Plugin>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) store: Arc<Store>,
    pub(crate) begin: Begin,
    /// The right to make effects.
    pub(crate) fence: Fence,
}

/// Drives the pass to its end and reports it.
pub(crate) async fn run(shop: Arc<Shop>, job: Assignment, reports: UnboundedSender<Report>) {
    let started = Instant::now();
    trace::pass_begins(&job.terms, &job.key.object, &job.fence);
    let worker = Worker {
        shop: &shop,
        job: &job,
        reports: &reports,
    };
    let end = worker.drive(job.begin.clone()).await;
    if let Some(reads) = &end.reads {
        let identity = Identity::Account(job.terms.mapping.account.clone());
        shop.related.subscribe(&worker.reader(&identity), reads);
    }
    trace::pass_ended(
        &job.terms,
        &job.key.object,
        &end,
        started.elapsed(),
        &job.fence,
    );
    // The supervisor only goes away with the process.
    let _ = reports.send(Report::Ended(job.key, job.terms, Box::new(end)));
}

struct Worker<'a> {
    shop: &'a Shop,
    job: &'a Assignment,
    reports: &'a UnboundedSender<Report>,
}

impl Worker<'_> {
    async fn drive(&self, begin: Begin) -> End {
        let mut steps = crash::Steps::new();
        let (mut pass, mut step) = Pass::start(self.terms(), begin, clock::now());
        loop {
            trace::step(&self.job.terms, &self.job.key.object, &step);
            steps.before(match &step.action {
                StepAction::Finalizer(write) if !write.put => "finalizer-removal",
                action => action.name(),
            });
            let told = match step.action {
                StepAction::End(end) => return *end,
                action => self.carry_out(&step.identity, action).await,
            };
            steps.after();
            step = pass.resume(told, clock::now());
        }
    }

    /// The job's terms.
    fn terms(&self) -> Arc<Terms> {
        let mut terms = self.job.terms.clone();
        if crash::is_mutant("finalizer-after-effect") && crash::is_first(&self.object().to_string())
        {
            Arc::make_mut(&mut terms).plugin.finalizes = false;
        }
        terms
    }

    async fn carry_out(&self, identity: &Identity, action: StepAction) -> Told {
        if has_effect(&action) && !self.job.fence.allows() {
            return not_ours(&action);
        }
        match action {
            StepAction::Read => Told::Object(self.read(identity).await),
            StepAction::Gather(gather) => {
                let reader = self.reader(identity);
                Told::Gathered(self.shop.related.gather(&reader, &gather).await)
            }
            StepAction::Look(objects) => Told::Looked(self.look(identity, &objects).await),
            StepAction::Call(verb, seen) => self.call(verb, seen).await,
            StepAction::Journal(write) if is_left_out(&write) => {
                Told::Journaled(Ok(write.version.unwrap_or_default()))
            }
            StepAction::Journal(write) => {
                Told::Journaled(self.shop.journals.write(identity, &write).await)
            }
            StepAction::DropJournal { name, version } => {
                Told::Journaled(self.shop.journals.remove(identity, &name, &version).await)
            }
            StepAction::Send(sends) => Told::Sent(self.send(identity, &sends).await),
            StepAction::Apply(writes) => Told::Applied(self.apply(identity, &writes).await),
            StepAction::Remove(removals) => Told::Removed(self.remove(identity, &removals).await),
            StepAction::Finalizer(write) => Told::Written(self.finalizer(identity, &write).await),
            StepAction::DeleteSelf { uid } => {
                Told::Removed(vec![self.delete_self(identity, &uid).await])
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

    /// Sends, and gives the slot back while the answers are waited for. The place in the line for the wire is taken before
    /// that, so that what goes next does not overtake it.
    async fn send(&self, identity: &Identity, sends: &[Send]) -> Vec<Sent> {
        let secrets = self.shop.credentials.read(identity, sends).await;
        let fence = Some(&self.job.fence);
        let mut sending = pin!(self.shop.outgoing.send_all(sends, &secrets, fence));
        if let Poll::Ready(sent) = futures::poll!(&mut sending) {
            return sent;
        }
        let _ = self.reports.send(Report::Parked(self.job.key.clone()));
        let sent = sending.await;
        let _ = self.reports.send(Report::Unparked(self.job.key.clone()));
        sent
    }

    fn reader<'a>(&'a self, identity: &'a Identity) -> Reader<'a> {
        let namespaces = &self.job.terms.mapping.mapping.for_.namespaces;
        Reader {
            key: &self.job.key,
            identity,
            confined: !namespaces.is_empty(),
        }
    }

    fn object(&self) -> &ObjectKey {
        &self.job.key.object
    }

    async fn call(&self, verb: Verb, seen: Box<Observation>) -> Told {
        let terms = &self.job.terms;
        let Some(plugin) = self.job.plugin.clone() else {
            let why = "the pass asked for a plugin that is not loaded";
            return Told::Reply(Err(Refusal::new(RefusalKind::Host, why)));
        };
        let limits = terms.mapping.mapping.limits.clone();
        let work = Work {
            plugin,
            verb,
            seen,
            limits,
        };
        let called = self.shop.executor.call(&terms.mapping.name, work).await;
        trace::called(terms, self.object(), &called);
        Told::Reply(called.result.map(|reply| bent(verb, reply)))
    }

    fn about(&self) -> About {
        let object = self.object();
        let uid = self
            .job
            .store
            .get(object)
            .map(|entry| entry.uid().to_string())
            .unwrap_or_default();
        let kind = Kind {
            api_version: self.job.resource.api_version(),
            kind: self.job.resource.kind.to_string(),
        };
        About::object(kind, object, uid)
    }
}

/// A journal that a host which does wrong does not write.
fn is_left_out(write: &JournalWrite) -> bool {
    let journal = &write.journal;
    let made = |child: &ChildRecord| !child.asked.is_empty();
    crash::is_mutant("skip-receipt-journal") && !journal.receipts.is_empty()
        || crash::is_mutant("create-before-inventory") && !journal.inventory.iter().all(made)
}

/// What a host that does wrong takes a reply for.
fn bent(verb: Verb, mut reply: Reply) -> Reply {
    if let Reply::Decision(decision) = &mut reply {
        decision.complete |= crash::is_mutant("prune-without-complete");
        if verb == Verb::Finalize && crash::is_mutant("let-go-early") {
            decision.effects.clear();
            decision.finalized = true;
        }
    }
    reply
}

/// Whether others can see that the step was made.
fn has_effect(action: &StepAction) -> bool {
    !matches!(
        action,
        StepAction::Read
            | StepAction::Gather(_)
            | StepAction::Look(_)
            | StepAction::Call(..)
            | StepAction::End(_)
    )
}

/// Another replica may have the mapping by now: to the pass the API server is away, and so it ends without a trace.
fn not_ours(action: &StepAction) -> Told {
    let away = || WriteError::Unavailable {
        message: "this replica has lost its Lease, or the claim to this mapping".to_owned(),
        retry_after: None,
    };
    match action {
        StepAction::Journal(_) | StepAction::DropJournal { .. } => Told::Journaled(Err(away())),
        StepAction::Send(sends) => Told::Sent(sends.iter().map(|_| outgoing::not_ours()).collect()),
        StepAction::Patch(_) | StepAction::Status(_) | StepAction::Finalizer(_) => {
            Told::Written(Err(away()))
        }
        StepAction::Apply(writes) => Told::Applied(writes.iter().map(|_| Err(away())).collect()),
        StepAction::Remove(removals) => {
            Told::Removed(removals.iter().map(|_| Err(away())).collect())
        }
        StepAction::DeleteSelf { .. } => Told::Removed(vec![Err(away())]),
        // What a pass did not ask for ends it as well.
        _ => Told::Done,
    }
}
