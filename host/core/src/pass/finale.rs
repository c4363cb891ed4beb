//! The end of a pass: journal, labels, status, Events, in that order, each only when it differs.

use super::{
    Carry, End, Finale, Memo, Note, Object, ObjectWrite, Pass, Stage, Step, StepAction, WriteError,
};
use crate::{
    contract::{Cause, EventType, Json, MAX_MESSAGE, cut},
    object::{FieldPath, Head, version_number},
    outcome::Outcome,
    plan::MetaPatch,
    status::{self, Computed, Verdict, Wish},
    time::Time,
    units::Span,
};

/// Conflicts of one pass before it is begun again.
const MAX_CONFLICTS: u32 = 3;
/// Passes discarded for newer generations before a status is written all the same, stamped with the generation seen.
const MAX_DISCARDED: u32 = 3;

impl Finale {
    /// A pass that carries nothing out.
    pub(super) fn trouble(outcome: Outcome, cause: Cause, wake: Option<Time>) -> Self {
        Self {
            outcome,
            cause: Some(Cause {
                message: cut(&cause.message, MAX_MESSAGE).to_owned(),
                ..cause
            }),
            wake,
            backoff: wake.is_some(),
            handled: false,
            labels: Default::default(),
            annotations: Default::default(),
            status: None,
            conditions: Vec::new(),
            events: Vec::new(),
            new_trouble: false,
        }
    }
}

impl Pass {
    /// Records what must outlive a crash; then the writes that others see.
    pub(super) fn finish(&mut self, mut finale: Finale, now: Time) -> Step {
        // A status that cannot be is found before anything is written.
        if let Err(error) = self.status(&finale) {
            let cause = Cause::new("BadOutput", error);
            let (outcome, wake) = self.nack(Outcome::PluginFailed, None, now);
            finale = Finale::trouble(outcome, cause, wake);
        }
        let message = finale
            .cause
            .as_ref()
            .filter(|_| finale.outcome.is_trouble())
            .map_or("", |cause| &cause.message)
            .to_owned();
        let known = self
            .told
            .as_ref()
            .is_some_and(|(outcome, told)| *outcome == finale.outcome && *told == message);
        finale.new_trouble = finale.outcome.is_trouble() && !known;
        self.journal.outcome = finale.outcome.settled_as();
        self.journal.message = message;
        let worth_one = finale.outcome.is_trouble() || !self.journal.receipts.is_empty();
        if self.journaled.as_ref() != Some(&self.journal) && (self.journaled.is_some() || worth_one)
        {
            self.stage = Stage::Recording(Box::new(finale));
            return self.write_journal();
        }
        self.patch(finale, now)
    }

    /// Labels and annotations; the status continues from the version this returns.
    pub(super) fn patch(&mut self, finale: Finale, now: Time) -> Step {
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
            Err(WriteError::NotFound) => self.end_again(Outcome::Gone),
            Err(error) => self.object_write_failed("patching labels and annotations", error, now),
        }
    }

    fn write_status(&mut self, finale: Finale, now: Time) -> Step {
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
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
            Ok(Computed { changed: None, .. }) => self.conclude(finale),
            Err(error) => self.cluster_failed(&error, None, now),
        }
    }

    /// The status the object shall have, from the version this pass knows.
    fn status(&self, finale: &Finale) -> Result<Computed, String> {
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
        };
        status::compute(&current, wish, verdict, &self.terms.kind.schema)
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
                Ok(()) => self.conclude(finale),
                Err(error) => self.cluster_failed(&error, None, now),
            },
            Err(WriteError::Conflict) => self.read_again(finale),
            Err(WriteError::NotFound) => self.end_again(Outcome::Gone),
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
        let json = match found {
            Ok(Some(json)) => json,
            Ok(None) | Err(WriteError::NotFound) => return self.end_again(Outcome::Gone),
            Err(error) => return self.write_failed("reading the object again", error, now),
        };
        let seen = self.generation();
        let before = self.object.as_ref().map(|object| object.uid.clone());
        let fresh = match Object::parse(json) {
            Ok(fresh) => fresh,
            Err(error) => return self.cluster_failed(&error.to_string(), None, now),
        };
        if before.as_ref() != Some(&fresh.uid) {
            return self.end_again(Outcome::Gone);
        }
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
        self.patch(finale, now)
    }

    /// The object as the server wrote it; the generation stays the one the plugin saw.
    fn adopt(&mut self, json: Json) -> Result<(), String> {
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

    fn conclude(&mut self, finale: Finale) -> Step {
        let notes = self.notes(&finale);
        let outcome = match finale.outcome {
            Outcome::Applied if self.writes == 0 => Outcome::Unchanged,
            other => other,
        };
        let settled = matches!(
            finale.outcome,
            Outcome::Applied | Outcome::Waiting | Outcome::Denied | Outcome::Stalled
        );
        // After a write of our own the plugin has not seen the object as it is now: there is nothing to skip a call by.
        let memo = (settled && !finale.backoff && self.object_writes == 0).then(|| Memo {
            covers: self.covers(),
            outcome: finale.outcome,
            wake: finale.wake,
        });
        let mut end = self.ending(outcome, finale.cause, finale.wake);
        end.backoff = finale.backoff;
        end.carry = Carry {
            memo,
            last: Some(outcome),
            discarded: 0,
            cluster_failures: 0,
        };
        let step = self.as_host(StepAction::End(Box::new(end)));
        self.stage = Stage::Ended;
        if notes.is_empty() {
            step
        } else {
            self.tell_before(step, notes)
        }
    }

    /// The plugin's events where something changed, and the host's own word on new trouble.
    fn notes(&self, finale: &Finale) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.writes > 0 {
            notes.extend(finale.events.iter().map(|event| Note {
                type_: event.type_,
                reason: event.reason.clone(),
                note: cut(&event.note, MAX_MESSAGE).to_owned(),
            }));
        }
        let warn = |reason: &str, text: String| Note {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: cut(&text, MAX_MESSAGE).to_owned(),
        };
        if let (true, Some(cause)) = (finale.new_trouble, &finale.cause) {
            let (mapping, digest) = (&self.terms.mapping.name, short_digest(&self.terms.digest));
            let text = format!(
                "{}: {} (mapping {mapping}, plugin {digest}, object {})",
                cause.reason, cause.message, self.key
            );
            notes.push(warn(finale.outcome.reason(), text));
        }
        if !self.dropped.is_empty() {
            let text = format!(
                "the kind's schema does not know {}; the API server drops it",
                self.dropped.join(", ")
            );
            notes.push(warn("FieldsDropped", text));
        }
        notes
    }

    pub(super) fn tell_before(&mut self, end: Step, notes: Vec<Note>) -> Step {
        match end.action {
            StepAction::End(end) => {
                self.stage = Stage::Telling(end);
                self.as_host(StepAction::Tell(notes))
            }
            _ => end,
        }
    }

    pub(super) fn ended(&mut self, end: Box<End>) -> Step {
        self.stage = Stage::Ended;
        self.as_host(StepAction::End(end))
    }

    fn ending(&self, outcome: Outcome, cause: Option<Cause>, wake: Option<Time>) -> End {
        End {
            outcome,
            cause,
            wake,
            backoff: false,
            again: false,
            version: self
                .object
                .as_ref()
                .and_then(|object| version_number(&object.version)),
            carry: Carry {
                last: Some(outcome),
                ..Carry::default()
            },
            calls: self.round + u32::from(!matches!(outcome, Outcome::Gone | Outcome::Paused)),
            writes: self.writes,
            dropped: self.dropped.clone(),
        }
    }

    /// The pass is over without a word to anybody.
    pub(super) fn end(
        &mut self,
        outcome: Outcome,
        cause: Option<Cause>,
        wake: Option<Time>,
    ) -> Step {
        let end = self.ending(outcome, cause, wake);
        self.ended(Box::new(end))
    }

    /// The pass is over, and its key is queued again at once.
    pub(super) fn end_again(&mut self, outcome: Outcome) -> Step {
        let mut end = self.ending(outcome, None, None);
        end.again = true;
        end.carry.discarded = self.carry.discarded;
        self.ended(Box::new(end))
    }

    pub(super) fn keep_carry(&mut self, mut step: Step, carry: Carry) -> Step {
        if let StepAction::End(end) = &mut step.action {
            end.calls = 0;
            end.carry = carry;
        }
        step
    }

    /// The API server did not take part: nothing is written, no attempt is counted.
    pub(super) fn cluster_failed(
        &mut self,
        why: &str,
        retry_after: Option<Span>,
        now: Time,
    ) -> Step {
        let wake = now.after(self.cluster_pause(retry_after));
        let mut end = self.ending(
            Outcome::ClusterFailed,
            Some(Cause::new("ClusterFailed", why)),
            Some(wake),
        );
        end.backoff = true;
        end.carry.cluster_failures = self.carry.cluster_failures.saturating_add(1);
        end.carry.discarded = self.carry.discarded;
        self.ended(Box::new(end))
    }

    /// A write that concerns the host's own records, or a read.
    pub(super) fn write_failed(&mut self, what: &str, error: WriteError, now: Time) -> Step {
        let (message, retry_after) = match error {
            WriteError::Conflict => ("it was changed meanwhile".to_owned(), None),
            WriteError::NotFound => ("it is not there".to_owned(), None),
            WriteError::Invalid(message) | WriteError::Forbidden(message) => (message, None),
            WriteError::Unavailable {
                message,
                retry_after,
            } => (message, retry_after),
        };
        self.cluster_failed(&format!("{what}: {message}"), retry_after, now)
    }

    /// A write to the object that the server answered with a no: what it says concerns this object and is retried.
    fn object_write_failed(&mut self, what: &str, error: WriteError, now: Time) -> Step {
        let (outcome, cause) = match error {
            WriteError::Invalid(message) => (
                Outcome::PluginFailed,
                Cause::new("Invalid", format!("{what}: {message}")),
            ),
            WriteError::Forbidden(message) => (
                Outcome::Retrying,
                Cause::new("Forbidden", format!("{what}: {message}")),
            ),
            other => return self.write_failed(what, other, now),
        };
        let (outcome, wake) = self.nack(outcome, None, now);
        let finale = Finale::trouble(outcome, cause, wake);
        if self.conflicts > MAX_CONFLICTS {
            return self.cluster_failed(what, None, now);
        }
        // What was refused once is not written again in this pass; the refusal itself is.
        self.conflicts = MAX_CONFLICTS + 1;
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

/// `sha256:` and twelve digits: enough for people to tell plugins apart.
pub fn short_digest(digest: &str) -> &str {
    cut(digest, 19)
}
