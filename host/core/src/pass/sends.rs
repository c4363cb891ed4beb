//! Http effects of a pass: which to send now, what their answers mean, and when to ask again.

use super::{JournalWrite, Pass, Sent, Stage, Step, StepAction};
use crate::{
    contract::{Cause, MAX_ROUNDS, Response},
    journal::{ReceiptRecord, RecordState},
    keys::journal_name,
    outcome::Outcome,
    plan::{Checked, Send},
    time::Time,
    units::Span,
};

/// What is left of a decision's http effects once those that can be sent now have been.
pub(super) enum Owed {
    /// Everything has a definite answer.
    Nothing,
    /// Sent without a definite answer; the next send is due then.
    Retry(Cause, Time),
    /// Something comes after an effect that is not done.
    Blocked(Cause),
}

/// Whether a status code is a definite answer: 408, 425, 429 and 5xx are not.
fn is_definite(code: u16) -> bool {
    code < 500 && !matches!(code, 408 | 425 | 429)
}

impl Pass {
    /// Effects that were not tried in this pass and may be sent now.
    pub(super) fn due(&self, checked: &Checked, now: Time) -> Vec<Send> {
        let untried = |send: &&Send| {
            !self
                .tried
                .contains(&(send.effect.clone(), send.key.clone()))
        };
        let due = |send: &&Send| match self
            .journal
            .receipt(&send.effect, send.key.as_deref())
            .map(|record| &record.state)
        {
            None => true,
            Some(RecordState::Failed { next_at, .. }) => *next_at <= now,
            Some(_) => false,
        };
        let free = |send: &&Send| send.after.iter().all(|id| self.is_done(id, checked));
        checked
            .sends
            .iter()
            .filter(untried)
            .filter(due)
            .filter(free)
            .cloned()
            .collect()
    }

    /// Whether an effect that others come after has succeeded: answered below 400, current, or gone.
    pub(super) fn is_done(&self, id: &str, checked: &Checked) -> bool {
        if let Some(wish) = checked.wishes.iter().find(|wish| wish.effect == id) {
            return self.is_child_done(wish);
        }
        if let Some(deletion) = checked.deletions.iter().find(|d| d.effect == id) {
            return self.record_at(&deletion.object).is_none();
        }
        let Some(send) = checked.sends.iter().find(|send| send.effect == id) else {
            return false;
        };
        let record = self.journal.receipt(id, send.key.as_deref());
        matches!(record.map(|record| &record.state), Some(RecordState::Answered(response)) if response.code < 400)
    }

    /// What a final decision still waits for.
    pub(super) fn owed(&self, checked: &Checked) -> Owed {
        let mut retry: Option<(Cause, Time)> = None;
        for send in &checked.sends {
            let record = self.journal.receipt(&send.effect, send.key.as_deref());
            if let Some(RecordState::Failed { error, next_at, .. }) =
                record.map(|record| &record.state)
                && retry.as_ref().is_none_or(|(_, at)| next_at < at)
            {
                retry = Some((error.clone(), *next_at));
            }
        }
        if let Some((cause, at)) = retry {
            return Owed::Retry(cause, at);
        }
        for send in &checked.sends {
            if let Some(id) = send.after.iter().find(|id| !self.is_done(id, checked)) {
                let message = format!(
                    "the effect `{}` comes after `{id}`, which has not succeeded",
                    send.effect
                );
                return Owed::Blocked(Cause::new("DependencyNotReady", message));
            }
        }
        Owed::Nothing
    }

    /// Sends what is due; intents of at-most-once effects are journaled before the first byte.
    pub(super) fn begin_sending(&mut self, sends: Vec<Send>, now: Time) -> Step {
        if self.round + 1 >= MAX_ROUNDS {
            return self.too_many_rounds(now);
        }
        for send in sends.iter().filter(|send| send.at_most_once) {
            let attempts = self.attempts_of(send);
            self.journal
                .file(record(send, RecordState::Intent { attempts }));
        }
        if sends.iter().any(|send| send.at_most_once) {
            self.stage = Stage::Intending(sends);
            return self.write_journal();
        }
        self.send(sends)
    }

    pub(super) fn send(&mut self, sends: Vec<Send>) -> Step {
        self.tried.extend(
            sends
                .iter()
                .map(|send| (send.effect.clone(), send.key.clone())),
        );
        self.stage = Stage::Sending(sends.clone());
        self.as_account(StepAction::Send(sends))
    }

    /// Files what became of each request; then the journal is written, before the plugin sees any of it.
    pub(super) fn sent(&mut self, sends: &[Send], results: Vec<Sent>, now: Time) -> Step {
        if results.len() != sends.len() {
            return self.cluster_failed("the driver did not tell of every request", None, now);
        }
        self.new_receipt = false;
        for (send, result) in sends.iter().zip(results) {
            let state = self.filed(send, result, now);
            self.new_receipt |= matches!(state, RecordState::Answered(_) | RecordState::Unknown);
            self.journal.file(record(send, state));
        }
        self.note_sends();
        self.has_unfiled = true;
        self.stage = Stage::Filing;
        self.write_journal()
    }

    fn filed(&self, send: &Send, result: Sent, now: Time) -> RecordState {
        let (cause, retry_after) = match result {
            Sent::Answered { response, .. } if is_definite(response.code) => {
                return RecordState::Answered(response);
            }
            // It may have been done, and at most once means that nobody tries again.
            Sent::Answered { .. } | Sent::Lost(_) if send.at_most_once => {
                return RecordState::Unknown;
            }
            Sent::Answered {
                response,
                retry_after,
            } => (answer_cause(send, &response), retry_after),
            Sent::Lost(cause) | Sent::NotSent(cause) => (cause, None),
        };
        let attempts = self.attempts_of(send).saturating_add(1);
        let next_at = now.after(self.resend_after(attempts, retry_after));
        RecordState::Failed {
            attempts,
            error: cause,
            next_at,
        }
    }

    /// Sends on record that had no definite answer.
    fn attempts_of(&self, send: &Send) -> u32 {
        match self
            .journal
            .receipt(&send.effect, send.key.as_deref())
            .map(|record| &record.state)
        {
            Some(RecordState::Failed { attempts, .. } | RecordState::Intent { attempts }) => {
                *attempts
            }
            _ => 0,
        }
    }

    /// 1, 2, 4, 8 s … ± 10 %; a `Retry-After` moves it later, up to `retry.max`.
    fn resend_after(&self, attempts: u32, retry_after: Option<Span>) -> Span {
        let retry = &self.terms.mapping.mapping.retry;
        let uid = self.uid();
        let own = crate::retry::delay(retry.base, retry.max, attempts, &uid, "send");
        retry_after.map_or(own, |asked| asked.min(retry.max).max(own))
    }

    /// The journal says how the object stands while its pass goes on, should this be the last that is heard of it.
    fn note_sends(&mut self) {
        let failed = self
            .journal
            .receipts
            .iter()
            .find_map(|record| match &record.state {
                RecordState::Failed { error, .. } => Some(error.message.clone()),
                _ => None,
            });
        self.journal.outcome = if failed.is_some() {
            Outcome::Retrying
        } else {
            Outcome::Applied
        };
        self.journal.message = failed.unwrap_or_default();
    }

    /// The journal as it shall stand.
    pub(super) fn write_journal(&mut self) -> Step {
        let uid = crate::object::Uid::new(&self.journal.object.uid);
        let write = JournalWrite {
            name: journal_name(&self.terms.mapping.name, &self.terms.mapping.kind, &uid),
            version: self.journal_version.clone(),
            journal: self.journal.clone(),
        };
        self.as_host(StepAction::Journal(Box::new(write)))
    }

    /// Five calls did not settle it. New receipts are progress: again at once; without them the plugin goes round in circles.
    pub(super) fn too_many_rounds(&mut self, now: Time) -> Step {
        if self.new_receipt {
            return self.end_again(Outcome::Waiting);
        }
        let message = format!(
            "after {MAX_ROUNDS} calls in one pass the decision still asks for something new; ask for all of it at once"
        );
        self.plugin_failed(Cause::new("TooManyRounds", message), now)
    }
}

fn record(send: &Send, state: RecordState) -> ReceiptRecord {
    ReceiptRecord {
        effect: send.effect.clone(),
        key: send.key.clone(),
        request: send.fingerprint.clone(),
        state,
    }
}

fn answer_cause(send: &Send, response: &Response) -> Cause {
    let reason = if response.code == 429 {
        "Throttled"
    } else {
        "ServerError"
    };
    Cause::new(
        reason,
        format!(
            "{} {} was answered {}",
            send.request.method, send.request.url, response.code
        ),
    )
}
