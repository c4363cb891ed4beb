//! What the host says of its passes in the log: one line a pass at `info` (at `debug` where nothing changed), every step with
//! its content at `trace` under the target `guesthouse::step`, lines of the guest under `guesthouse::guest`.

use std::time::Duration;

use guesthouse_core::{
    contract::ObjectRef,
    object::ObjectKey,
    outcome::Outcome,
    pass::{ChildWrite, End, Removal, Step, StepAction, Terms, short_digest},
};
use guesthouse_sandbox::{Called, Level};

use crate::leases::Fence;

/// A pass is about to begin; with the line about its end, what is needed to tell whether two overlapped.
pub(crate) fn pass_begins(terms: &Terms, object: &ObjectKey, fence: &Fence) {
    let (mapping, term, replica) = (terms.mapping.name.as_str(), fence.term(), fence.replica());
    tracing::debug!(mapping, %object, term, replica, "pass begins");
}

/// One line about a pass.
pub(crate) fn pass_ended(
    terms: &Terms,
    object: &ObjectKey,
    end: &End,
    took: Duration,
    fence: &Fence,
) {
    let (term, replica) = (fence.term(), fence.replica());
    let cause = end
        .cause
        .as_ref()
        .map(|cause| format!("{}: {}", cause.reason, cause.message))
        .unwrap_or_default();
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let mapping = terms.mapping.name.as_str();
    let (outcome, calls, writes) = (end.outcome.as_str(), end.calls, end.writes);
    match end.outcome {
        Outcome::Unchanged | Outcome::Gone | Outcome::Paused => {
            tracing::debug!(mapping, %object, outcome, calls, writes, ms, cause, term, replica, "pass");
        }
        Outcome::Applied | Outcome::Waiting => {
            tracing::info!(mapping, %object, outcome, calls, writes, ms, cause, term, replica, "pass");
        }
        _ => {
            let plugin = short_digest(&terms.digest);
            tracing::warn!(mapping, %object, plugin, outcome, calls, writes, ms, cause, term, replica, "pass");
        }
    }
}

/// A step that is about to be carried out.
pub(crate) fn step(terms: &Terms, object: &ObjectKey, step: &Step) {
    if !tracing::enabled!(target: "guesthouse::step", tracing::Level::TRACE) {
        return;
    }
    let (mapping, name, identity) = (
        terms.mapping.name.as_str(),
        step.action.name(),
        step.identity.to_string(),
    );
    let content = match &step.action {
        StepAction::Send(sends) => serde_json::to_string(sends),
        StepAction::Patch(write) => serde_json::to_string(&write.body),
        StepAction::Status(write) => serde_json::to_string(&write.body),
        StepAction::Journal(write) => serde_json::to_string(&write.journal),
        StepAction::Tell(notes) => serde_json::to_string(notes),
        StepAction::Call(_, seen) => serde_json::to_string(seen),
        StepAction::Finalizer(write) => serde_json::to_string(&write.patch),
        // A Secret's content is nobody's to read here.
        StepAction::Apply(writes) => serde_json::to_string(&bodies(writes)),
        StepAction::Remove(removals) => serde_json::to_string(&objects(removals)),
        StepAction::Look(objects) => serde_json::to_string(objects),
        _ => Ok(String::new()),
    };
    let content = content.unwrap_or_default();
    tracing::trace!(target: "guesthouse::step", mapping, %object, step = name, identity, content, "step");
}

/// What is applied, but for the content of Secrets.
fn bodies(writes: &[ChildWrite]) -> Vec<serde_json::Value> {
    let body = |write: &ChildWrite| match write.object.kind.kind.as_str() {
        "Secret" => serde_json::json!({"kind": "Secret", "name": write.object.name}),
        _ => serde_json::from_str(write.body.as_str()).unwrap_or_default(),
    };
    writes.iter().map(body).collect()
}

fn objects(removals: &[Removal]) -> Vec<&ObjectRef> {
    removals.iter().map(|removal| &removal.object).collect()
}

/// What a guest said, and its reply at `trace`.
pub(crate) fn called(terms: &Terms, object: &ObjectKey, called: &Called) {
    let mapping = terms.mapping.name.as_str();
    for line in &called.logs {
        let message = line.message.as_str();
        match line.level {
            Level::Debug => {
                tracing::debug!(target: "guesthouse::guest", mapping, %object, "{message}")
            }
            Level::Info => {
                tracing::info!(target: "guesthouse::guest", mapping, %object, "{message}")
            }
            Level::Warn => {
                tracing::warn!(target: "guesthouse::guest", mapping, %object, "{message}")
            }
            Level::Error => {
                tracing::error!(target: "guesthouse::guest", mapping, %object, "{message}")
            }
        }
    }
    if called.dropped_logs > 0 {
        tracing::warn!(target: "guesthouse::guest", mapping, %object, dropped = called.dropped_logs, "more lines than `limits.logs` lets through");
    }
    if tracing::enabled!(target: "guesthouse::step", tracing::Level::TRACE) {
        let content = match &called.result {
            Ok(reply) => serde_json::to_string(reply).unwrap_or_default(),
            Err(refusal) => refusal.to_string(),
        };
        tracing::trace!(target: "guesthouse::step", mapping, %object, step = "reply", content, "step");
    }
}
