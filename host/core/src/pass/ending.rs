//! How a pass leaves its key: the last word to journal, Events and queue.

use super::{
    Carry, End, Finale, Gather, Memo, Note, Pass, Stage, Step, StepAction, Unfiled, WriteError,
};
use crate::{
    contract::{Cause, EventType, MAX_MESSAGE, cut},
    object::version_number,
    outcome::Outcome,
    time::Time,
    units::Span,
};

impl Pass {
    pub(super) fn conclude(&mut self, finale: Finale) -> Step {
        self.note_finalizer();
        if self.must_journal(&finale) {
            self.stage = Stage::Closing(Box::new(finale));
            return self.write_journal();
        }
        let notes = self.notes(&finale);
        let outcome = match finale.outcome {
            Outcome::Applied if self.writes == 0 => Outcome::Unchanged,
            other => other,
        };
        let settled = matches!(
            finale.outcome,
            Outcome::Applied | Outcome::Waiting | Outcome::Denied | Outcome::Stalled
        );
        let wake = self.wake_of(&finale);
        let backoff = finale.retry_at.is_some();
        // After a write of our own, or somebody else's that was found on the way, the plugin has not seen the object as it is
        // now: there is nothing to skip a call by.
        let seen = self.object_writes == 0 && !self.unseen && !self.changed_children;
        let memo = (settled && !backoff && seen).then(|| Memo {
            covers: self.covers(),
            outcome: finale.outcome,
            wake,
        });
        let mut end = self.ending(outcome, finale.cause, wake);
        end.backoff = backoff;
        // The version this pass knows is newer than the change it has not passed on to the plugin.
        // The same goes for children that were made, changed or deleted since the plugin saw them: their own echo wakes nobody.
        end.again = self.unseen || self.changed_children && finale.outcome != Outcome::Stalled;
        end.carry.memo = memo;
        end.carry.unfiled = None;
        self.end_with(end, notes)
    }

    /// The next pass at the latest. Where nothing was written, another call within the same second would see the same
    /// observation and say the same: a wake that keeps lying in the past must not keep the plugin running.
    fn wake_of(&self, finale: &Finale) -> Option<Time> {
        let next_second = self.began.whole_seconds().after(Span::from_secs(1));
        let wake = finale.wake.map(|at| {
            if self.writes == 0 {
                at.max(next_second)
            } else {
                at
            }
        });
        [finale.retry_at, wake].into_iter().flatten().min()
    }

    /// The plugin's events where something changed, and the host's own word on new trouble.
    pub(super) fn notes(&self, finale: &Finale) -> Vec<Note> {
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
                "not written: {}; a field must be in the kind's schema, and not in the mapping's foreignStatus",
                self.dropped.join(", ")
            );
            notes.push(warn("FieldsDropped", text));
        }
        notes
    }

    /// The pass is over, once its notes are told.
    pub(super) fn end_with(&mut self, end: End, notes: Vec<Note>) -> Step {
        let end = Box::new(end);
        if notes.is_empty() {
            return self.ended(end);
        }
        self.stage = Stage::Telling(end);
        self.as_host(StepAction::Tell(notes))
    }

    pub(super) fn ended(&mut self, end: Box<End>) -> Step {
        self.stage = Stage::Ended;
        self.as_host(StepAction::End(end))
    }

    /// Receipts that the journal does not have.
    fn unfiled(&self) -> Option<Unfiled> {
        self.has_unfiled.then(|| Unfiled {
            uid: self.journal.object.uid.clone(),
            receipts: self.journal.receipts.clone(),
        })
    }

    pub(super) fn ending(&self, outcome: Outcome, cause: Option<Cause>, wake: Option<Time>) -> End {
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
                unfiled: self.unfiled(),
                needs: self.carry.needs.clone(),
                pace: self.pace(),
                ..Carry::default()
            },
            calls: self.calls,
            writes: self.writes,
            dropped: self.dropped.clone(),
            reads: if outcome == Outcome::Gone {
                Some(Gather::default())
            } else {
                self.watched()
            },
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

    /// The object went away, or another one has its name, while this pass was at it. The watch will say so and queue the key;
    /// until then the store still shows the old one, and passing that again at once would only ask the server in a circle.
    pub(super) fn went_away(&mut self, now: Time) -> Step {
        let wake = now.after(self.cluster_pause(None));
        let mut end = self.ending(Outcome::Gone, None, Some(wake));
        end.backoff = true;
        end.carry.cluster_failures = self.carry.cluster_failures.saturating_add(1);
        self.ended(Box::new(end))
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
        let retry_after = match &error {
            WriteError::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        };
        self.cluster_failed(&format!("{what}: {error}"), retry_after, now)
    }
}

/// `sha256:` and twelve digits: enough for people to tell plugins apart.
pub fn short_digest(digest: &str) -> &str {
    cut(digest, 19)
}
