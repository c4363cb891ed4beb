//! The turns of the machine: what was asked, what was told, what comes next.

use super::{Finale, Pass, Stage, Step, Told, WriteError};
use crate::{
    contract::{Cause, ConditionStatus, Decision, Failure, FailureKind, Reply},
    journal::RetryRecord,
    outcome::Outcome,
    plan::{self, Rejection},
    refusal::Refusal,
    time::Time,
    units::Span,
};

use super::sends::Owed;

impl Pass {
    pub(super) fn advance(&mut self, told: Told, now: Time) -> Step {
        match (std::mem::replace(&mut self.stage, Stage::Ended), told) {
            (Stage::Sweeping, Told::Object(found)) => self.swept(found, now),
            (Stage::Dropping, Told::Journaled(result)) => self.dropped_journal(result, now),
            (Stage::Calling, Told::Reply(reply)) => self.replied(reply, now),
            (Stage::Intending(sends), Told::Journaled(result)) => {
                match self.journal_stands(result, now) {
                    Ok(()) => self.send(sends),
                    Err(step) => *step,
                }
            }
            (Stage::Sending(sends), Told::Sent(results)) => self.sent(&sends, results, now),
            (Stage::Refiling, Told::Journaled(result)) => match self.journal_stands(result, now) {
                Ok(()) => self.call(),
                Err(step) => *step,
            },
            (Stage::Filing, Told::Journaled(result)) => match self.journal_stands(result, now) {
                Ok(()) => {
                    self.round += 1;
                    self.call()
                }
                Err(step) => *step,
            },
            (Stage::Recording(finale), Told::Journaled(result)) => {
                match self.journal_stands(result, now) {
                    Ok(()) => self.patch(*finale, now),
                    Err(step) => *step,
                }
            }
            (Stage::Patching(finale), Told::Written(result)) => self.patched(*finale, result, now),
            (Stage::Writing(finale), Told::Written(result)) => {
                self.status_written(*finale, result, now)
            }
            (Stage::Rereading(finale), Told::Object(found)) => self.reread(*finale, found, now),
            (Stage::Closing(finale), Told::Journaled(result)) => {
                match self.journal_stands(result, now) {
                    Ok(()) => self.conclude(*finale),
                    Err(step) => *step,
                }
            }
            (Stage::Telling(end), Told::Done) => self.ended(end),
            (_, told) => self.cluster_failed(
                &format!(
                    "the driver told `{}` where something else was asked",
                    told.name()
                ),
                None,
                now,
            ),
        }
    }

    fn journal_stands(
        &mut self,
        result: Result<String, WriteError>,
        now: Time,
    ) -> Result<(), Box<Step>> {
        match result {
            Ok(version) => {
                self.writes += 1;
                self.has_unfiled = false;
                self.journal_version = Some(version);
                self.journaled = Some(self.journal.clone());
                Ok(())
            }
            // Another owner writes this journal: whatever this pass knows is old.
            Err(WriteError::Conflict | WriteError::NotFound) => Err(Box::new(self.cluster_failed(
                "the journal was written by another owner",
                None,
                now,
            ))),
            Err(error) => Err(Box::new(self.write_failed(
                "writing the journal",
                error,
                now,
            ))),
        }
    }

    fn replied(&mut self, reply: Result<Reply, Refusal>, now: Time) -> Step {
        match reply {
            Ok(Reply::Decision(decision)) => self.decided(decision, now),
            Ok(Reply::Failure(failure)) => self.failed(failure, now),
            Err(refusal) => {
                self.plugin_failed(Cause::new(refusal.kind.as_str(), refusal.message), now)
            }
        }
    }

    fn decided(&mut self, decision: Decision, now: Time) -> Step {
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        let takes_status = self
            .terms
            .kind
            .takes_status
            .as_ref()
            .copied()
            .map_err(String::as_str);
        let grants = &self.terms.mapping.mapping.grants;
        let checked = match plan::check(
            &decision,
            grants,
            &object.uid,
            &self.journal,
            takes_status,
            self.began,
        ) {
            Ok(checked) => checked,
            Err(rejection) => return self.rejected(rejection, now),
        };
        let due = self.due(&checked, now);
        if !due.is_empty() {
            return self.begin_sending(due, now);
        }
        let ready = decision
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready");
        let (outcome, cause, retry_at) = match self.owed(&checked) {
            Owed::Retry(cause, at) => (Outcome::Retrying, Some(cause), Some(at)),
            Owed::Blocked(cause) => (Outcome::Waiting, Some(cause), None),
            Owed::Nothing => match ready {
                Some(ready) if ready.status == ConditionStatus::Unknown => (
                    Outcome::Waiting,
                    Some(Cause::new(&ready.reason, &ready.message)),
                    None,
                ),
                _ => (Outcome::Applied, None, None),
            },
        };
        self.finish(
            Finale {
                outcome,
                cause,
                retry_at,
                wake: checked.wake,
                handled: true,
                labels: decision.labels,
                annotations: decision.annotations,
                status: decision.status,
                conditions: decision.conditions,
                events: decision.events,
                new_trouble: false,
            },
            now,
        )
    }

    /// The plugin's own word that it cannot, now or ever.
    fn failed(&mut self, failure: Failure, now: Time) -> Step {
        if let Err(rejection) = plan::check_conditions(&failure.conditions) {
            return self.rejected(rejection, now);
        }
        if !plan::is_reason(&failure.cause.reason) {
            let message = format!(
                "the failure's reason `{}` is not CamelCase; its message: {}",
                failure.cause.reason, failure.cause.message
            );
            return self.plugin_failed(Cause::new("BadOutput", message), now);
        }
        let (outcome, wake) = match failure.kind {
            FailureKind::Retry => self.nack(
                Outcome::Retrying,
                failure.after.map(|s| Span::from_secs(u64::from(s))),
                now,
            ),
            FailureKind::Terminal => {
                self.give_up(self.attempt());
                (Outcome::Stalled, None)
            }
        };
        let (status, conditions) = match &self.terms.kind.takes_status {
            Ok(()) => (failure.status, failure.conditions),
            Err(_) => (None, Vec::new()),
        };
        self.finish(
            Finale {
                status,
                conditions,
                ..Finale::trouble(outcome, failure.cause, wake)
            },
            now,
        )
    }

    /// A refusal of the call or of what came back: backs off like a retry.
    pub(super) fn plugin_failed(&mut self, cause: Cause, now: Time) -> Step {
        let (outcome, wake) = self.nack(Outcome::PluginFailed, None, now);
        self.finish(Finale::trouble(outcome, cause, wake), now)
    }

    fn rejected(&mut self, rejection: Rejection, now: Time) -> Step {
        if rejection.outcome == Outcome::PluginFailed {
            return self.plugin_failed(rejection.cause, now);
        }
        // Trying again changes nothing until the object, the plugin or the mapping does. The call itself did not fail.
        self.journal.retry = None;
        self.finish(
            Finale::trouble(rejection.outcome, rejection.cause, None),
            now,
        )
    }

    /// Counts a failed pass. The counter moves only when a deadline was consumed: an early event leaves both alone.
    pub(super) fn nack(
        &mut self,
        outcome: Outcome,
        after: Option<Span>,
        now: Time,
    ) -> (Outcome, Option<Time>) {
        let limit = self.terms.mapping.mapping.retry.limit;
        self.nack_within(limit, outcome, after, now)
    }

    /// The same with a limit of its own: what no plugin and no object is to blame for is never given up.
    pub(super) fn nack_within(
        &mut self,
        limit: u32,
        outcome: Outcome,
        after: Option<Span>,
        now: Time,
    ) -> (Outcome, Option<Time>) {
        let retry = &self.terms.mapping.mapping.retry;
        let basis = self.basis();
        let before = self
            .journal
            .retry
            .clone()
            .filter(|record| record.basis == basis);
        let attempt = match &before {
            Some(RetryRecord {
                next_at: Some(at), ..
            }) if now < *at => return (outcome, Some(*at)),
            // Given up already and taken up by a resync: still given up.
            Some(RetryRecord {
                next_at: None,
                attempt,
                ..
            }) => *attempt,
            Some(RetryRecord { attempt, .. }) => attempt.saturating_add(1),
            None => 1,
        };
        let was_stalled = before.is_some_and(|record| record.next_at.is_none());
        if attempt > limit || was_stalled {
            self.give_up(attempt);
            return (Outcome::Stalled, None);
        }
        let uid = self.uid();
        let own = crate::retry::delay(retry.base, retry.max, attempt, &uid, "retry");
        let next_at = now.after(after.map_or(own, |asked| asked.min(retry.max)));
        self.journal.retry = Some(RetryRecord {
            attempt,
            next_at: Some(next_at),
            basis,
        });
        (outcome, Some(next_at))
    }

    fn give_up(&mut self, attempt: u32) {
        self.journal.retry = Some(RetryRecord {
            attempt,
            next_at: None,
            basis: self.basis(),
        });
    }
}
