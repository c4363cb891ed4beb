//! Jobs out, reports in.

use guesthouse_core::{
    contract::{EventType, Json},
    outcome::Outcome,
    pass::{Begin, End, Note, Terms},
    queue::{Finish, Job, Key},
    units::Span,
};

use super::{Supervisor, mappings::KeyState};
use crate::{
    clock,
    events::About,
    worker::{self, Assignment, Report},
};

/// When a key whose journal cannot be read is looked at again.
const UNREADABLE: Span = Span::from_secs(30);

impl Supervisor {
    /// Starts every pass that may run now.
    pub(super) fn dispatch(&mut self) {
        if self.stopping || !self.ownership.may_begin() {
            return;
        }
        while let Some(job) = self.queue.pop(clock::now()) {
            let key = job.key.clone();
            match self.assignment(job) {
                Ok(assignment) => {
                    self.ownership
                        .begun(key.mapping, &assignment.terms.mapping.name);
                    tokio::spawn(worker::run(
                        self.shop.clone(),
                        assignment,
                        self.channels.reports.clone(),
                    ));
                }
                Err(why) => {
                    tracing::error!(object = %key.object, "no pass: {why}");
                    self.tell_no_pass(&key, &why);
                    let wake = Some(clock::now().after(UNREADABLE));
                    self.queue.finish(
                        &key,
                        Finish {
                            wake,
                            backoff: true,
                            ..Finish::default()
                        },
                        clock::now(),
                    );
                }
            }
        }
    }

    /// An object that cannot be passed says so itself: nobody else would.
    fn tell_no_pass(&self, key: &Key, why: &str) {
        let name = self.names.get(&key.mapping);
        let Some(runtime) = name.and_then(|name| self.mappings.get(name)) else {
            return;
        };
        let Some(entry) = self.entry(runtime, &key.object) else {
            return;
        };
        let kind = runtime.checked.kind.clone();
        let about = About::object(kind, &key.object, entry.uid().to_string());
        let note = Note {
            type_: EventType::Warning,
            reason: "NotPassed".to_owned(),
            note: format!("mapping {}: {why}", runtime.checked.name),
        };
        self.shop.events.tell(&about, vec![note]);
    }

    fn assignment(&mut self, job: Job) -> Result<Assignment, String> {
        let name = self
            .names
            .get(&job.key.mapping)
            .ok_or("its mapping is gone")?;
        let runtime = self.mappings.get_mut(name).ok_or("its mapping is gone")?;
        let serving = runtime
            .serving
            .clone()
            .ok_or("its mapping does not serve")?;
        let fence = self
            .ownership
            .fence(name)
            .ok_or("its mapping is another replica's")?;
        let object = job.key.object.clone();
        let scope = runtime
            .scopes
            .iter()
            .find(|scope| scope.namespace.is_empty() || scope.namespace == object.namespace());
        let served = scope
            .and_then(|scope| self.kinds.get(scope)?.served.as_ref())
            .ok_or("its kind is not watched")?;
        let store = served.watch.store().clone();
        let journals = self
            .shop
            .journals
            .of(name, &runtime.checked.kind, &object)?;
        let carry = runtime
            .keys
            .get(&object)
            .map(|state| state.carry.clone())
            .unwrap_or_default();
        let begin = Begin {
            key: object.clone(),
            object: store.get(&object).map(|entry| Json::trusted(entry.raw())),
            journals,
            carry,
            forced: job.forced,
        };
        Ok(Assignment {
            key: job.key,
            terms: serving.terms,
            plugin: serving.plugin,
            resource: served.resource.clone(),
            store,
            begin,
            fence,
        })
    }

    /// What a worker has to say.
    pub(super) fn reported(&mut self, report: Report) {
        match report {
            Report::Parked(key) => self.queue.park(&key),
            Report::Unparked(key) => self.queue.unpark(&key),
            Report::Ended(key, terms, end) => self.ended(&key, &terms, *end),
        }
    }

    fn ended(&mut self, key: &Key, terms: &Terms, end: End) {
        let name = self.names.get(&key.mapping);
        if name.is_none() {
            self.sweep.again();
        }
        let mut freed = false;
        if let Some(runtime) = name.and_then(|name| self.mappings.get_mut(name)) {
            freed = runtime.swap.ended(&key.object);
            let gone = end.outcome == Outcome::Gone && end.wake.is_none();
            let state = (!gone).then(|| KeyState {
                carry: end.carry,
                version: end.version,
                // Where a mapping selects, an object that had no call and no say is none of its own.
                counts: runtime.checked.selector.is_none() || end.reads.is_some(),
            });
            let counted = |state: &KeyState| state.carry.last.filter(|_| state.counts);
            let now = state.as_ref().and_then(counted);
            let before = match state {
                Some(state) => runtime.keys.insert(key.object.clone(), state),
                None => runtime.keys.remove(&key.object),
            };
            runtime.tally.moved(before.as_ref().and_then(counted), now);
            if gone {
                self.shop.related.forget(key);
            }
        }
        if let Some(name) = name.cloned() {
            if freed {
                self.go_on_swapping(&name);
            }
            self.touch(&name);
            if end.calls > 0 {
                self.look_after_swap(&name, terms, end.outcome);
            }
        }
        let finish = Finish {
            version: end.version,
            again: end.again,
            wake: end.wake,
            backoff: end.backoff,
        };
        self.queue.finish(key, finish, clock::now());
        self.ownership.ended(key.mapping);
    }
}
