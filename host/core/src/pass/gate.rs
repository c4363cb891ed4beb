//! What can be said before the plugin is asked.

use super::{Pass, Stage, Step, StepAction, WriteError};
use crate::{
    contract::{Cause, EventType, Json, Observation},
    object::Head,
    outcome::Outcome,
    time::Time,
    units::Span,
};

/// Annotation that stops all passes of an object while it is `true`.
pub const PAUSED: &str = "guesthouse.dev/paused";

impl Pass {
    /// gone | journals of an earlier object | paused | being deleted | given up | nothing changed | call.
    pub(super) fn gate(&mut self, now: Time) -> Step {
        if !self.left.is_empty() {
            // Nothing of a journal may go on the word of a cache.
            self.stage = Stage::Sweeping;
            return self.as_host(StepAction::Read);
        }
        self.gate_object(now)
    }

    fn gate_object(&mut self, now: Time) -> Step {
        let Some(object) = self.object.clone() else {
            return self.end(Outcome::Gone, None, None);
        };
        let (paused, deleting) = match Head::parse(object.raw.as_str()) {
            Ok(head) => (
                head.annotations
                    .get(PAUSED)
                    .is_some_and(|value| value == "true"),
                head.is_deleting(),
            ),
            Err(error) => {
                return self.cluster_failed(
                    &format!("the object cannot be read: {error}"),
                    None,
                    now,
                );
            }
        };
        if paused {
            return self.pause();
        }
        if deleting {
            // No finalizer of ours is on it: others are at work, and it goes without us.
            return self.end(Outcome::Unchanged, None, None);
        }
        if !self.forced {
            // A wake that has come bypasses the memo, whoever brought the key here.
            let holds = |memo: &super::Memo| {
                memo.covers == self.covers() && memo.wake.is_none_or(|at| now < at)
            };
            if let Some(memo) = self.carry.memo.filter(holds) {
                return self.skip(memo);
            }
            if self.is_given_up() {
                let cause = Cause::new(Outcome::Stalled.reason(), self.journal.message.clone());
                return self.end(Outcome::Stalled, Some(cause), None);
            }
        }
        if self.has_unfiled {
            self.stage = Stage::Refiling;
            return self.write_journal();
        }
        self.call()
    }

    /// Given up on this generation, plugin and mapping, and said so: the journal is written after everything else.
    fn is_given_up(&self) -> bool {
        self.journal.outcome == Outcome::Stalled
            && self
                .journal
                .retry
                .as_ref()
                .is_some_and(|retry| retry.next_at.is_none() && retry.basis == self.basis())
    }

    /// The call is skipped, never the pass: the timer of the wake stays.
    fn skip(&mut self, memo: super::Memo) -> Step {
        let outcome = if memo.outcome == Outcome::Applied {
            Outcome::Unchanged
        } else {
            memo.outcome
        };
        let carry = self.carry.clone();
        let step = self.end(outcome, None, memo.wake);
        self.keep_carry(step, carry)
    }

    fn pause(&mut self) -> Step {
        let first = self.carry.last != Some(Outcome::Paused);
        let note = super::Note {
            type_: EventType::Normal,
            reason: Outcome::Paused.reason().into(),
            note: format!(
                "paused by the annotation {PAUSED}; nothing is called or written until it is taken off"
            ),
        };
        let step = self.end(Outcome::Paused, None, None);
        if first {
            self.tell_before(step, vec![note])
        } else {
            step
        }
    }

    /// What the server says of the object, asked because its journals may have to go.
    pub(super) fn swept(&mut self, found: Result<Option<Json>, WriteError>, now: Time) -> Step {
        let uid = match found {
            Ok(None) | Err(WriteError::NotFound) => String::new(),
            Ok(Some(json)) => match Head::parse(json.as_str()) {
                Ok(head) => head.uid.to_string(),
                Err(error) => {
                    return self.cluster_failed(
                        &format!("the object cannot be read: {error}"),
                        None,
                        now,
                    );
                }
            },
            Err(error) => return self.write_failed("reading the object", error, now),
        };
        // One that is there after all keeps its journal; the watch will bring it.
        self.left.retain(|stored| stored.journal.object.uid != uid);
        self.drop_next(now)
    }

    pub(super) fn drop_next(&mut self, now: Time) -> Step {
        let Some(stored) = self.left.first() else {
            return self.gate_object(now);
        };
        let action = StepAction::DropJournal {
            name: stored.name.clone(),
            version: stored.version.clone(),
        };
        self.stage = Stage::Dropping;
        self.as_host(action)
    }

    pub(super) fn dropped_journal(
        &mut self,
        result: Result<String, WriteError>,
        now: Time,
    ) -> Step {
        match result {
            Ok(_) | Err(WriteError::NotFound) => {
                self.writes += 1;
                self.left.remove(0);
                self.drop_next(now)
            }
            Err(error) => {
                self.write_failed("deleting the journal of an object that is gone", error, now)
            }
        }
    }

    /// Asks the plugin.
    pub(super) fn call(&mut self) -> Step {
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        let mapping = &self.terms.mapping;
        let observation = Observation {
            object: object.raw.clone(),
            related: Vec::new(),
            children: Vec::new(),
            receipts: self
                .journal
                .receipts
                .iter()
                .map(crate::journal::ReceiptRecord::receipt)
                .collect(),
            config: mapping.config.clone(),
            mapping: mapping.name.clone(),
            now: self.began.seconds(),
            attempt: self.attempt(),
            round: self.round,
            extensions: Vec::new(),
        };
        self.calls += 1;
        self.stage = Stage::Calling;
        self.as_host(StepAction::Call(
            super::Verb::Reconcile,
            Box::new(observation),
        ))
    }

    /// Failed passes in a row on this generation, plugin and mapping.
    pub(super) fn attempt(&self) -> u32 {
        self.journal
            .retry
            .as_ref()
            .filter(|retry| retry.basis == self.basis())
            .map_or(0, |retry| retry.attempt)
    }

    /// The pause between passes that the API server did not take part in.
    pub(super) fn cluster_pause(&self, retry_after: Option<Span>) -> Span {
        let uid = self.object.as_ref().map_or_else(
            || crate::object::Uid::new(self.key.as_str()),
            |o| o.uid.clone(),
        );
        let failures = self.carry.cluster_failures.saturating_add(1);
        let own = crate::retry::delay(Span(500), Span::from_secs(30), failures, &uid, "cluster");
        let max = self.terms.mapping.mapping.retry.max;
        retry_after.map_or(own, |asked| asked.min(max).max(own))
    }
}
