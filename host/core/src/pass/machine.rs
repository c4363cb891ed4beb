//! The turns of the machine: what was asked, what was told, what comes next.

use super::{Finale, Pass, Stage, Step, Told, Verb, WriteError, children::Deed};
use crate::{
    contract::{Cause, Decision, Failure, FailureKind, Reply},
    journal::RetryRecord,
    outcome::Outcome,
    plan::{self, Bounds, Checked, Rejection},
    refusal::Refusal,
    time::Time,
    units::Span,
};

impl Pass {
    pub(super) fn advance(&mut self, told: Told, now: Time) -> Step {
        match (std::mem::replace(&mut self.stage, Stage::Ended), told) {
            (stage, Told::Journaled(result)) if stage.waits_for_journal() => {
                match self.journal_stands(result, now) {
                    Ok(()) => self.journaled(stage, now),
                    Err(step) => *step,
                }
            }
            (Stage::Sweeping, Told::Object(found)) => self.swept(found, now),
            (Stage::Dropping, Told::Journaled(result)) => self.dropped_journal(result, now),
            (Stage::Putting, Told::Written(result)) => self.finalizer_put(result, now),
            (Stage::Gathering(asked), Told::Gathered(read)) => self.gathered(asked, read, now),
            (Stage::Calling, Told::Reply(reply)) => self.replied(reply, now),
            (Stage::Sending(sends), Told::Sent(results)) => self.sent(&sends, results, now),
            (Stage::Looking(deed), Told::Looked(results)) => self.looked(*deed, results, now),
            (Stage::Applying(deed, wave), Told::Applied(results)) => {
                self.applied(*deed, &wave, results, now)
            }
            (Stage::Finding(deed, objects), Told::Looked(results)) => {
                self.found_out(*deed, &objects, results, now)
            }
            (Stage::Removing(deed, removals), Told::Removed(results)) => {
                self.removed(*deed, &removals, results, now)
            }
            (Stage::Patching(finale), Told::Written(result)) => self.patched(*finale, result, now),
            (Stage::Writing(finale), Told::Written(result)) => {
                self.status_written(*finale, result, now)
            }
            (Stage::Rereading(finale), Told::Object(found)) => self.reread(*finale, found, now),
            (Stage::Releasing(finale), Told::Written(result)) => {
                self.finalizer_off(*finale, result, now)
            }
            (Stage::RereadingFinalizer(finale), Told::Object(found)) => {
                self.reread_finalizer(*finale, found, now)
            }
            (Stage::DeletingSelf(finale), Told::Removed(results)) => {
                self.self_deleted(*finale, results, now)
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

    /// The journal stands: what was waiting for it goes on.
    fn journaled(&mut self, stage: Stage, now: Time) -> Step {
        match stage {
            Stage::Marking => self.put_marked(),
            Stage::Refiling => self.go_on(now),
            Stage::Intending(sends) => self.send(sends),
            Stage::Filing => {
                self.round += 1;
                self.call()
            }
            Stage::Listing(deed) => self.advance_deed(*deed, now),
            Stage::Recording(finale) => self.patch(*finale, now),
            Stage::Closing(finale) => self.conclude(*finale),
            _ => self.cluster_failed("the journal was not asked for", None, now),
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
        let mapping = &self.terms.mapping;
        let bounds = Bounds {
            name: &mapping.name,
            mapping: &mapping.mapping,
            kind: &mapping.kind,
            key: &self.key,
            uid: &object.uid,
            journal: &self.journal,
            takes_status,
            verb: self.verb,
            needs: &self.terms.plugin.needs,
            now: self.began,
        };
        let checked = match plan::check(&decision, bounds) {
            Ok(checked) => checked,
            Err(rejection) => return self.rejected(rejection, now),
        };
        let unanswered = self.unanswered(&decision.needs);
        if !unanswered.is_empty() {
            return self.gather_more(unanswered, now);
        }
        if self.observes() {
            return self.observed(&decision, &checked);
        }
        let due = self.due(&checked, now);
        if !due.is_empty() {
            return self.begin_sending(due, now);
        }
        self.carry_out(decision, checked, now)
    }

    /// The last decision of the pass: its children, then its status.
    fn carry_out(&mut self, decision: Decision, checked: Checked, now: Time) -> Step {
        self.carry.needs = decision.needs;
        let finale = Finale {
            wake: checked.wake,
            handled: true,
            labels: decision.labels,
            annotations: decision.annotations,
            status: decision.status,
            conditions: decision.conditions,
            events: decision.events,
            ..Finale::of(Outcome::Applied)
        };
        // A status that cannot be is found before anything is written: here where children come first, else in `finish`.
        let children = !checked.wishes.is_empty()
            || !checked.deletions.is_empty()
            || !self.journal.inventory.is_empty();
        if (children || self.verb == Verb::Finalize)
            && let Err(error) = self.status(&finale)
        {
            return self.plugin_failed(Cause::new("BadOutput", error), now);
        }
        let mut deed = Deed::new(finale, checked);
        (deed.complete, deed.finalized) = (decision.complete, decision.finalized);
        self.advance_deed(deed, now)
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

    pub(super) fn rejected(&mut self, rejection: Rejection, now: Time) -> Step {
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
            }) if limit < u32::MAX => *attempt,
            Some(RetryRecord { attempt, .. }) => attempt.saturating_add(1),
            None => 1,
        };
        let was_stalled = limit < u32::MAX && before.is_some_and(|record| record.next_at.is_none());
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
