//! What a plugin answers: a decision or a failure, built step by step.

use std::borrow::Borrow;
use std::marker::PhantomData;

use serde::Serialize;

use crate::contract::{self, Cause, ConditionStatus, EventType, FailureKind, Need, Wake};
use crate::effect::{Apply, Delete, Http};

/// All that a plugin wants. Empty, it is valid: nothing to do, and the status stays.
#[derive(Clone, Debug)]
pub struct Decision<S> {
    wanted: contract::Decision,
    /// A value that could not be written as JSON; then there is no decision.
    broken: Option<Cause>,
    of: PhantomData<fn(S)>,
}

impl<S> Default for Decision<S> {
    fn default() -> Self {
        Decision {
            wanted: contract::Decision::default(),
            broken: None,
            of: PhantomData,
        }
    }
}

impl<S: Serialize> Decision<S> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The whole status. `observedGeneration` is the host's to write.
    pub fn status(mut self, status: impl Borrow<S>) -> Self {
        match to_json("status", status.borrow()) {
            Ok(text) => self.wanted.status = Some(contract::Status::Replace(text)),
            Err(cause) => self.broken = Some(cause),
        }
        self
    }

    /// The whole status as JSON text, for what no type should touch.
    pub fn status_json(mut self, text: impl Into<String>) -> Self {
        self.wanted.status = Some(contract::Status::Replace(text.into()));
        self
    }

    /// A part of the status by RFC 7386: null removes, what is not named stays.
    pub fn merge_status(mut self, part: &impl Serialize) -> Self {
        match to_json("status", part) {
            Ok(text) => self.wanted.status = Some(contract::Status::Merge(text)),
            Err(cause) => self.broken = Some(cause),
        }
        self
    }

    /// A condition; `status` may be a bool, or an `Option<bool>` where `None` is `Unknown`.
    pub fn condition(
        mut self,
        type_: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        self.wanted.conditions.push(condition(
            type_.into(),
            status.into(),
            reason.into(),
            message.into(),
        ));
        self
    }

    /// Sets a label of the object.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.wanted.labels.push((key.into(), Some(value.into())));
        self
    }

    /// Takes a label off the object.
    pub fn remove_label(mut self, key: impl Into<String>) -> Self {
        self.wanted.labels.push((key.into(), None));
        self
    }

    /// Sets an annotation of the object.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.wanted
            .annotations
            .push((key.into(), Some(value.into())));
        self
    }

    /// Takes an annotation off the object.
    pub fn remove_annotation(mut self, key: impl Into<String>) -> Self {
        self.wanted.annotations.push((key.into(), None));
        self
    }

    /// Something to read first; until it is answered nothing else of this decision is carried out.
    pub fn need(mut self, need: Need) -> Self {
        self.wanted.needs.push(need);
        self
    }

    /// A child, beside others.
    pub fn apply(self, child: Apply) -> Self {
        self.effect(child.finish())
    }

    /// All the children this object shall have: others on record are deleted.
    pub fn children(mut self, children: impl IntoIterator<Item = Apply>) -> Self {
        self.wanted.complete = true;
        children.into_iter().fold(self, Self::apply)
    }

    /// A deletion.
    pub fn delete(self, delete: Delete) -> Self {
        self.effect(Ok(delete.finish()))
    }

    /// A request with a receipt.
    pub fn http(self, request: Http) -> Self {
        self.effect(request.finish())
    }

    fn effect(mut self, effect: Result<contract::Effect, Cause>) -> Self {
        match effect {
            Ok(effect) => self.wanted.effects.push(effect),
            Err(cause) => self.broken = Some(cause),
        }
        self
    }

    /// An Event, told only by a pass that changes something else too.
    pub fn event(self, reason: impl Into<String>, note: impl Into<String>) -> Self {
        self.tell(EventType::Normal, reason.into(), note.into())
    }

    /// An Event that asks somebody to act.
    pub fn warning(self, reason: impl Into<String>, note: impl Into<String>) -> Self {
        self.tell(EventType::Warning, reason.into(), note.into())
    }

    fn tell(mut self, type_: EventType, reason: String, note: String) -> Self {
        self.wanted.events.push(contract::Event {
            type_,
            reason,
            note,
        });
        self
    }

    /// Call again at that time at the latest (RFC 3339, UTC, whole seconds), computed from spec or status.
    pub fn wake_at(mut self, at: impl Into<String>) -> Self {
        self.wanted.wake = Some(Wake::At(at.into()));
        self
    }

    /// Call again that many seconds after this pass at the latest; not kept over a restart.
    pub fn wake_after(mut self, seconds: u32) -> Self {
        self.wanted.wake = Some(Wake::After(seconds));
        self
    }

    /// In `finalize`: nothing is left to clean up.
    pub fn finalized(mut self) -> Self {
        self.wanted.finalized = true;
        self
    }

    /// The decision as the contract has it, for what no builder covers.
    pub fn raw(&mut self) -> &mut contract::Decision {
        &mut self.wanted
    }

    /// The finished decision; a value that cannot be written as JSON makes it a terminal failure, `BadDecision`.
    pub(crate) fn finish(self) -> Result<contract::Decision, Failure> {
        match self.broken {
            None => Ok(self.wanted),
            Some(cause) => Err(Failure::new(FailureKind::Terminal, cause)),
        }
    }
}

/// Why there is no decision. Nothing is carried out then, but status and conditions may say why.
///
/// Any error converts into a retry with the reason `Error`, so `?` works.
#[derive(Clone, Debug)]
pub struct Failure(Box<contract::Failure>);

impl Failure {
    fn new(kind: FailureKind, cause: Cause) -> Failure {
        Failure(Box::new(contract::Failure {
            kind,
            cause,
            after: None,
            status: None,
            conditions: Vec::new(),
        }))
    }

    /// May work later: again with the mapping's backoff.
    pub fn retry(reason: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Retry, Cause::new(reason, message))
    }

    /// Will not work as things are: the object is stalled until something changes.
    pub fn stall(reason: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Terminal, Cause::new(reason, message))
    }

    /// Not before that many seconds; only for a retry.
    pub fn after(mut self, seconds: u32) -> Failure {
        self.0.after = Some(seconds);
        self
    }

    /// The whole status to leave behind.
    pub fn status(mut self, status: &impl Serialize) -> Failure {
        match to_json("status", status) {
            Ok(text) => self.0.status = Some(contract::Status::Replace(text)),
            Err(cause) => return Failure::new(FailureKind::Terminal, cause),
        }
        self
    }

    /// A part of the status to leave behind (RFC 7386): null removes, what is not named stays.
    pub fn merge_status(mut self, part: &impl Serialize) -> Failure {
        match to_json("status", part) {
            Ok(text) => self.0.status = Some(contract::Status::Merge(text)),
            Err(cause) => return Failure::new(FailureKind::Terminal, cause),
        }
        self
    }

    /// A condition to leave behind.
    pub fn condition(
        mut self,
        type_: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Failure {
        self.0.conditions.push(condition(
            type_.into(),
            status.into(),
            reason.into(),
            message.into(),
        ));
        self
    }

    /// The failure as the contract has it.
    pub fn into_raw(self) -> contract::Failure {
        *self.0
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::retry("Error", error.to_string())
    }
}

impl From<bool> for ConditionStatus {
    fn from(is: bool) -> ConditionStatus {
        if is {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        }
    }
}

impl From<Option<bool>> for ConditionStatus {
    fn from(is: Option<bool>) -> ConditionStatus {
        is.map_or(ConditionStatus::Unknown, ConditionStatus::from)
    }
}

fn condition(
    type_: String,
    status: ConditionStatus,
    reason: String,
    message: String,
) -> contract::Condition {
    contract::Condition {
        type_,
        status,
        reason,
        message,
    }
}

/// The value's JSON text; `what` names it in the cause.
pub(crate) fn to_json(what: &str, value: &(impl Serialize + ?Sized)) -> Result<String, Cause> {
    serde_json::to_string(value).map_err(|e| {
        Cause::new(
            "BadDecision",
            format!("{what} cannot be written as JSON: {e}"),
        )
    })
}
