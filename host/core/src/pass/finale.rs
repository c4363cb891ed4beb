//! What a pass writes of its last reply: a counted failure, labels, status, in that order, each only when it differs.

use super::{
    Finale, Object, ObjectWrite, Pass, Stage, Step, StepAction, Then, Verb, WriteError,
    children::is_admission, gate::MAX_TOKEN,
};
use crate::{
    contract::{Cause, Json, MAX_MESSAGE, cut},
    object::{FieldPath, Head},
    outcome::Outcome,
    plan::MetaPatch,
    status::{self, Computed, Verdict, Wish},
    time::Time,
};

/// Conflicts of one pass before it is begun again.
const MAX_CONFLICTS: u32 = 3;
/// Passes discarded for newer generations before a status is written all the same, stamped with the generation seen.
const MAX_DISCARDED: u32 = 3;

impl Finale {
    /// An outcome, and nothing to write beside it.
    pub(super) fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            cause: None,
            retry_at: None,
            wake: None,
            handled: false,
            labels: Default::default(),
            annotations: Default::default(),
            status: None,
            conditions: Vec::new(),
            events: Vec::new(),
            new_trouble: false,
            then: Then::Nothing,
        }
    }

    /// A pass that carries nothing out.
    pub(super) fn trouble(outcome: Outcome, cause: Cause, retry_at: Option<Time>) -> Self {
        Self {
            cause: Some(Cause {
                message: cut(&cause.message, MAX_MESSAGE).to_owned(),
                ..cause
            }),
            retry_at,
            ..Self::of(outcome)
        }
    }

    /// Nothing more is wanted of the object but that it is let go.
    pub(super) fn release() -> Self {
        Self {
            handled: true,
            then: Then::Release,
            ..Self::of(Outcome::Applied)
        }
    }

    /// The trouble in words; empty without any.
    fn message(&self) -> &str {
        self.cause
            .as_ref()
            .filter(|_| self.outcome.is_trouble())
            .map_or("", |cause| &cause.message)
    }
}

impl Pass {
    /// Records what must outlive a crash; then the writes that others see.
    pub(super) fn finish(&mut self, mut finale: Finale, now: Time) -> Step {
        if self.observes() {
            return self.observed_trouble(finale);
        }
        // A plugin that gave up on its clean-up holds nobody, where the mapping says so.
        let gave_up = self.verb == Verb::Finalize && finale.outcome == Outcome::Stalled;
        // Once in a pass: what a letting go itself ends in is said as it is.
        if gave_up && !self.let_go && self.terms.plugin.broken.is_none() {
            if self.releases_broken() {
                return self.tear_down_now(now);
            }
            if let Some(cause) = &mut finale.cause {
                cause.message = cut(&self.with_way_out(&cause.message), MAX_MESSAGE).to_owned();
            }
        }
        // A status that cannot be is found before anything is written.
        if let Err(error) = self.status(&finale) {
            let cause = Cause::new("BadOutput", error);
            let (outcome, retry_at) = self.nack(Outcome::PluginFailed, None, now);
            finale = Finale::trouble(outcome, cause, retry_at);
        }
        let known = self
            .told
            .as_ref()
            .is_some_and(|(outcome, told)| *outcome == finale.outcome && told == finale.message());
        finale.new_trouble = finale.outcome.is_trouble() && !known;
        // A failure that was counted must not be forgotten, nor what became of children; everything else would be found again
        // by the next call.
        let counted = !finale.handled && finale.retry_at.is_some();
        let (record, before) = (&self.journal, self.journaled.as_ref());
        let inventory_moved = before.map_or(!record.inventory.is_empty(), |before| {
            before.inventory != record.inventory
        });
        let last_word = matches!(finale.outcome, Outcome::Stalled | Outcome::Denied);
        let owed = if inventory_moved && last_word {
            // What stops further calls is said after the status: a crash between the two would lose the status for good.
            true
        } else {
            (counted || inventory_moved) && self.must_journal(&finale)
        };
        if owed {
            self.stage = Stage::Recording(Box::new(finale));
            return self.write_journal();
        }
        self.patch(finale, now)
    }

    /// Has the journal say how the pass ends; whether that must be written.
    pub(super) fn must_journal(&mut self, finale: &Finale) -> bool {
        self.journal.outcome = finale.outcome.settled_as();
        self.journal.message = finale.message().to_owned();
        if finale.handled {
            self.journal.retry = None;
        }
        if let Some(token) = &self.token {
            self.journal.reconciled = Some(cut(token, MAX_TOKEN).to_owned());
        }
        let record = &self.journal;
        let worth_one = finale.outcome.is_trouble()
            || !record.receipts.is_empty()
            || !record.inventory.is_empty()
            || record.finalizer.is_some()
            || record.reconciled.is_some();
        self.journaled.as_ref() != Some(&self.journal) && (self.journaled.is_some() || worth_one)
    }

    /// Labels and annotations; the status continues from the version this returns.
    pub(super) fn patch(&mut self, finale: Finale, now: Time) -> Step {
        if finale.labels.is_empty() && finale.annotations.is_empty() {
            return self.write_status(finale, now);
        }
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        let patch = match Head::parse(object.raw.as_str()) {
            Ok(head) => MetaPatch::of(&finale.labels, &finale.annotations, &head),
            Err(error) => {
                return self.cluster_failed(
                    &format!("the object cannot be read: {error}"),
                    None,
                    now,
                );
            }
        };
        let Some(body) = patch else {
            return self.write_status(finale, now);
        };
        let write = ObjectWrite {
            uid: object.uid.as_str().to_owned(),
            version: object.version.clone(),
            body,
        };
        self.stage = Stage::Patching(Box::new(finale));
        self.as_account(StepAction::Patch(write))
    }

    /// What the server answered to the patch.
    pub(super) fn patched(
        &mut self,
        finale: Finale,
        result: Result<Json, WriteError>,
        now: Time,
    ) -> Step {
        match result {
            Ok(json) => match self.adopt(json) {
                Ok(()) => self.write_status(finale, now),
                Err(error) => self.cluster_failed(&error, None, now),
            },
            Err(WriteError::Conflict) => self.read_again(finale),
            Err(WriteError::NotFound) => self.went_away(now),
            Err(error) => self.object_write_failed("patching labels and annotations", error, now),
        }
    }

    fn write_status(&mut self, finale: Finale, now: Time) -> Step {
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        if self.exit {
            // Another mapping may be about the object by now, and an object has one writer of its status. What goes wrong on the
            // way out stands in the journal and is told as an Event.
            return self.after_status(finale);
        }
        let speechless = finale.status.is_none() && finale.conditions.is_empty();
        let goes = self.verb == Verb::Finalize && !self.exit;
        if finale.then == Then::Release && goes && speechless {
            // The object goes with the next request: the host's own word would be a write for nobody.
            return self.after_status(finale);
        }
        let (uid, version) = (object.uid.as_str().to_owned(), object.version.clone());
        match self.status(&finale) {
            Ok(Computed {
                changed: Some(body),
                dropped,
            }) => {
                self.dropped = dropped;
                self.stage = Stage::Writing(Box::new(finale));
                self.as_account(StepAction::Status(ObjectWrite { uid, version, body }))
            }
            Ok(Computed { changed: None, .. }) => self.after_status(finale),
            Err(error) => self.cluster_failed(&error, None, now),
        }
    }

    /// The status stands. What is left is the last request about the object, if there is one.
    fn after_status(&mut self, finale: Finale) -> Step {
        match finale.then {
            Then::Nothing => self.conclude(finale),
            Then::Release => self.release(finale),
            Then::DeleteSelf => {
                let uid = self.uid().as_str().to_owned();
                self.stage = Stage::DeletingSelf(Box::new(finale));
                self.as_account(StepAction::DeleteSelf { uid })
            }
        }
    }

    /// The object was deleted by its own plugin; what holds it still is seen to by the passes that follow.
    pub(super) fn self_deleted(
        &mut self,
        finale: Finale,
        mut results: Vec<Result<bool, WriteError>>,
        now: Time,
    ) -> Step {
        match results.pop() {
            Some(Ok(_) | Err(WriteError::NotFound | WriteError::Conflict)) => {
                self.writes += 1;
                self.conclude(finale)
            }
            Some(Err(error)) => self.object_write_failed("deleting the object", error, now),
            None => self.cluster_failed("the driver did not say what became of it", None, now),
        }
    }

    /// The status the object shall have, from the version this pass knows.
    pub(super) fn status(&self, finale: &Finale) -> Result<Computed, String> {
        let none = Computed {
            changed: None,
            dropped: Vec::new(),
        };
        let (Some(object), Ok(())) = (&self.object, &self.terms.kind.takes_status) else {
            return Ok(none);
        };
        let current = current_status(&object.raw)?;
        let verdict = Verdict {
            outcome: finale.outcome,
            cause: finale.cause.as_ref(),
            generation: object.generation,
            handled: finale.handled,
            now: self.began,
        };
        let wish = Wish {
            status: finale.status.as_ref(),
            conditions: &finale.conditions,
            foreign: &self.terms.mapping.foreign_status,
        };
        status::compute(
            &object.raw,
            &current,
            wish,
            verdict,
            &self.terms.kind.schema,
        )
        .map_err(|error| error.to_string())
    }

    pub(super) fn status_written(
        &mut self,
        finale: Finale,
        result: Result<Json, WriteError>,
        now: Time,
    ) -> Step {
        match result {
            Ok(json) => match self.adopt(json) {
                Ok(()) => self.after_status(finale),
                Err(error) => self.cluster_failed(&error, None, now),
            },
            Err(WriteError::Conflict) => self.read_again(finale),
            Err(WriteError::NotFound) => self.went_away(now),
            Err(error) => self.object_write_failed("writing the status", error, now),
        }
    }

    fn read_again(&mut self, finale: Finale) -> Step {
        self.conflicts += 1;
        self.stage = Stage::Rereading(Box::new(finale));
        self.as_account(StepAction::Read)
    }

    /// After a conflict: the same generation is merged again without a call; a newer one discards this pass.
    pub(super) fn reread(
        &mut self,
        finale: Finale,
        found: Result<Option<Json>, WriteError>,
        now: Time,
    ) -> Step {
        let fresh = match self.found_again(found, now) {
            Ok(fresh) => fresh,
            Err(step) => return *step,
        };
        let seen = self.generation();
        if fresh.generation != seen {
            self.carry.discarded = self.carry.discarded.saturating_add(1);
            if self.carry.discarded <= MAX_DISCARDED {
                return self.end_again(Outcome::Waiting);
            }
        }
        if self.conflicts > MAX_CONFLICTS {
            return self.cluster_failed(
                "others keep writing the object; it is tried again",
                None,
                now,
            );
        }
        self.object = Some(Object {
            generation: seen,
            ..fresh
        });
        self.unseen = true;
        self.patch(finale, now)
    }

    /// The object as the server has it after a conflict, or how the pass ends without it.
    pub(super) fn found_again(
        &mut self,
        found: Result<Option<Json>, WriteError>,
        now: Time,
    ) -> Result<Object, Box<Step>> {
        let ended = match found.map(|found| found.map(Object::parse)) {
            Ok(Some(Ok(fresh))) if fresh.uid == self.uid() => return Ok(fresh),
            Ok(Some(Ok(_)) | None) | Err(WriteError::NotFound) => self.went_away(now),
            Ok(Some(Err(error))) => self.cluster_failed(&error.to_string(), None, now),
            Err(error) => self.write_failed("reading the object again", error, now),
        };
        Err(Box::new(ended))
    }

    /// The object as the server wrote it; the generation stays the one the plugin saw.
    pub(super) fn adopt(&mut self, json: Json) -> Result<(), String> {
        let seen = self.generation();
        let written = Object::parse(json).map_err(|error| error.to_string())?;
        self.object = Some(Object {
            generation: seen,
            ..written
        });
        self.writes += 1;
        self.object_writes += 1;
        Ok(())
    }

    /// A write to the object that the server answered with a no: what it says concerns this object and is retried.
    pub(super) fn object_write_failed(&mut self, what: &str, error: WriteError, now: Time) -> Step {
        let limit = self.terms.mapping.mapping.retry.limit;
        let (limit, outcome, cause) = match error {
            WriteError::Invalid(message) if !is_admission(&message) => (
                limit,
                Outcome::PluginFailed,
                Cause::new("Invalid", format!("{what}: {message}")),
            ),
            // Rights and quotas are given by people, and nothing of the object or the plugin changes when they are.
            WriteError::Forbidden(message) | WriteError::Invalid(message) => (
                u32::MAX,
                Outcome::Retrying,
                Cause::new("Forbidden", format!("{what}: {message}")),
            ),
            other => return self.write_failed(what, other, now),
        };
        let (outcome, retry_at) = self.nack_within(limit, outcome, None, now);
        let finale = Finale::trouble(outcome, cause, retry_at);
        // What was refused is not written again in this pass; the refusal itself is. If that is refused too, the journal has it.
        if std::mem::replace(&mut self.refused, true) {
            return self.conclude(finale);
        }
        self.finish(finale, now)
    }
}

/// `status` of an object, null where there is none.
fn current_status(object: &Json) -> Result<serde_json::Value, String> {
    let path = FieldPath::parse(".status").map_err(|error| error.to_string())?;
    match path
        .raw(object.as_str())
        .map_err(|error| error.to_string())?
    {
        None => Ok(serde_json::Value::Null),
        Some(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
    }
}
