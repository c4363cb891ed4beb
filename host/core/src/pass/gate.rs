//! What can be said before the plugin is asked.

use super::{Finale, Pass, Stage, Step, StepAction, Then, Verb, WriteError};
use crate::{
    contract::{EventType, Json, Observation, cut},
    mapping::OnExit,
    object::Head,
    outcome::Outcome,
    time::Time,
    units::Span,
};

/// Annotation that stops all passes of an object while it is `true`.
pub const PAUSED: &str = "guesthouse.dev/paused";
/// Annotation that asks for a pass: each new value is taken up once, also for an object that was given up.
pub const RECONCILE: &str = "guesthouse.dev/reconcile";
/// Most of a token that is told from others, bytes: it stands in the journal.
pub(super) const MAX_TOKEN: usize = 128;

impl Pass {
    /// gone | journals of an earlier object | paused | being deleted | left the selector | finalizer first | nothing changed |
    /// given up | stopped | call.
    pub(super) fn gate(&mut self, now: Time) -> Step {
        if !self.left.is_empty() {
            // Nothing of a journal may go on the word of a cache.
            self.stage = Stage::Sweeping;
            return self.as_host(StepAction::Read);
        }
        self.gate_object(now)
    }

    /// What the object itself says, before anything beside it is read.
    fn gate_object(&mut self, now: Time) -> Step {
        let Some(object) = self.object.clone() else {
            return self.end(Outcome::Gone, None, None);
        };
        let head = match Head::parse(object.raw.as_str()) {
            Ok(head) => head,
            Err(error) => {
                let why = format!("the object cannot be read: {error}");
                return self.cluster_failed(&why, None, now);
            }
        };
        let annotation = |name: &str| head.annotations.get(name).map(|value| value.to_string());
        if annotation(PAUSED).is_some_and(|value| value == "true") {
            return self.pause();
        }
        self.token = annotation(RECONCILE).filter(|token| {
            let token = cut(token, MAX_TOKEN);
            !token.is_empty() && self.journal.reconciled.as_deref() != Some(token)
        });
        if self.token.is_some() {
            self.forced = true;
        }
        let ours = self.holds_finalizer();
        if self.observes() && (head.is_deleting() || !self.is_selected(&head)) {
            // Whatever it is waiting for, this mapping does nothing about it.
            return self.end(Outcome::Unchanged, None, None);
        }
        if head.is_deleting() {
            if !ours {
                // No finalizer of ours is on it: others are at work, and it goes without us.
                return self.end(Outcome::Unchanged, None, None);
            }
            self.verb = Verb::Finalize;
        } else if !self.is_selected(&head) {
            return self.left_selector(ours, now);
        } else if self.terms.plugin.broken.is_some() {
            // Nothing can be said about it; what was said last stands.
            return self.end(Outcome::Unchanged, None, None);
        } else if !self.observes()
            && (self.terms.plugin.finalizes && !ours || ours && self.is_outdated())
        {
            return self.put_finalizer();
        }
        self.gather_first(now)
    }

    /// The object does not carry the labels the mapping asks for: it is let go, if it ever was ours.
    fn left_selector(&mut self, ours: bool, now: Time) -> Step {
        self.exit = true;
        let holds = ours || !self.journal.inventory.is_empty();
        match self.terms.mapping.mapping.on_exit {
            OnExit::Finalize if holds => {
                self.verb = Verb::Finalize;
                self.gather_first(now)
            }
            OnExit::Release if ours => self.release(Finale::release()),
            _ if self.journal.finalizer.is_some() => {
                // It is off, and nobody lived to say so.
                self.conclude(Finale {
                    then: Then::Nothing,
                    ..Finale::release()
                })
            }
            OnExit::Finalize | OnExit::Release => self.end(Outcome::Unchanged, None, None),
        }
    }

    /// Whether the mapping is about an object with these labels.
    fn is_selected(&self, head: &Head<'_>) -> bool {
        let selector = self.terms.mapping.selector.as_ref();
        selector.is_none_or(|selector| {
            selector.matches(|key| head.labels.get(key).map(|value| &**value))
        })
    }

    /// Whether the plugin has a say in this pass.
    pub(super) fn calls_plugin(&self) -> bool {
        let plugin = &self.terms.plugin;
        plugin.broken.is_none() && (self.verb == Verb::Reconcile || plugin.finalizes)
    }

    /// The rest of the gate, once everything a decision depends on is known.
    pub(super) fn gate_known(&mut self, now: Time) -> Step {
        if let Some(why) = self.terms.plugin.broken.clone() {
            return self.finalize_broken(&why, now);
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
                return self.stay_given_up(now);
            }
        }
        if let Some(step) = self.stopped(now) {
            return step;
        }
        if self.token.is_some() {
            // Asked for by name: what was given up starts anew.
            self.journal.retry = None;
        }
        if self.has_unfiled {
            self.stage = Stage::Refiling;
            return self.write_journal();
        }
        self.go_on(now)
    }

    /// The plugin is asked; where it has no say, the children and the finalizer go.
    pub(super) fn go_on(&mut self, now: Time) -> Step {
        if self.calls_plugin() {
            self.call()
        } else {
            self.tear_down_now(now)
        }
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
        let mut end = self.ending(outcome, None, memo.wake);
        end.carry = self.carry.clone();
        self.ended(Box::new(end))
    }

    fn pause(&mut self) -> Step {
        let end = self.ending(Outcome::Paused, None, None);
        if self.carry.last == Some(Outcome::Paused) {
            return self.ended(Box::new(end));
        }
        let note = super::Note {
            type_: EventType::Normal,
            reason: Outcome::Paused.reason().into(),
            note: format!(
                "paused by the annotation {PAUSED}; nothing is called or written until it is taken off"
            ),
        };
        self.end_with(end, vec![note])
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
        self.changed_children = false;
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        let mapping = &self.terms.mapping;
        let observation = Observation {
            object: object.raw.clone(),
            related: self.related(),
            children: self.children_seen(),
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
        self.as_host(StepAction::Call(self.verb, Box::new(observation)))
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
