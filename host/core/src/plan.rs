//! Checking a decision as a whole, before anything is done: one bad part, and nothing is.
//!
//! What passes is turned into values that say exactly what would be sent and written; the pass takes its steps from them and
//! `guesthouse render` prints them.

mod effects;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    children::{Parent, Wish},
    contract::{
        Cause, Condition, Decision, Kind, MAX_REASON, Need, ObjectRef, Request, Verb, Wake,
    },
    journal::Journal,
    mapping::{Credential, Mapping},
    object::{Head, ObjectKey, Uid},
    outcome::Outcome,
    time::Time,
    units::{Bytes, Span},
};

/// Why a decision is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// [`Outcome::Denied`] for grants and ownership, [`Outcome::PluginFailed`] for what no mapping could allow.
    pub outcome: Outcome,
    /// Which part, why, and what to do.
    pub cause: Cause,
}

impl Rejection {
    /// Not granted.
    pub fn denied(message: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Denied,
            cause: Cause::new("Denied", message),
        }
    }

    /// Not a valid decision.
    pub fn bad(message: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::PluginFailed,
            cause: Cause::new("BadOutput", message),
        }
    }
}

/// An http effect that passed the check: all that the shell needs to send it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Send {
    /// The effect's id.
    pub effect: String,
    /// The plugin's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Value of the `Idempotency-Key` header.
    pub idempotency_key: String,
    /// Never sent twice: the intent is journaled first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
    /// The request.
    pub request: Request,
    /// The Secret to send with it; its value is known to the driver alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
    /// How long to wait for the whole answer.
    pub timeout: Span,
    /// Headers of the answer to keep, lower case.
    #[serde(skip)]
    pub answer_headers: Vec<String>,
    /// Most of the answer's body to keep.
    #[serde(skip)]
    pub answer_body: Bytes,
    /// What makes the request another.
    #[serde(skip)]
    pub fingerprint: String,
    /// Effects that must have succeeded first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// A decision that passed the check.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Its http effects, in order.
    pub sends: Vec<Send>,
    /// Its applies, in order.
    pub wishes: Vec<Wish>,
    /// Its deletions of children, in order.
    pub deletions: Vec<Deletion>,
    /// The effect that deletes the object itself.
    pub delete_self: Option<String>,
    /// When the plugin wants to be called again.
    pub wake: Option<Time>,
}

/// A `delete` that passed the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Id of the effect.
    pub effect: String,
    /// Effects it comes after.
    pub after: Vec<String>,
    /// Which object.
    pub object: ObjectRef,
    /// Only the one of this uid.
    pub uid: Option<String>,
}

/// What a decision is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// The mapping's name.
    pub name: &'a str,
    /// The mapping: grants and credentials.
    pub mapping: &'a Mapping,
    /// Kind of the object.
    pub kind: &'a Kind,
    /// The object.
    pub key: &'a ObjectKey,
    /// Its uid.
    pub uid: &'a Uid,
    /// Its journal.
    pub journal: &'a Journal,
    /// Whether its status may be written, or why not.
    pub takes_status: Result<(), &'a str>,
    /// What was asked.
    pub verb: Verb,
    /// Needs of the descriptor.
    pub needs: &'a [Need],
    /// When the pass began.
    pub now: Time,
}

impl<'a> Bounds<'a> {
    fn parent(&self) -> Parent<'a> {
        Parent {
            mapping: self.name,
            kind: self.kind,
            key: self.key,
            uid: self.uid,
        }
    }
}

/// Checks everything about a decision but its status, which [`crate::status`] checks on the way.
pub fn check(decision: &Decision, bounds: Bounds<'_>) -> Result<Checked, Rejection> {
    if decision.finalized && bounds.verb != Verb::Finalize {
        return Err(Rejection::bad(
            "`finalized` is the answer of `finalize` only; leave it out of what `reconcile` returns",
        ));
    }
    if let Some(extension) = decision.extensions.first() {
        return Err(unsupported(&format!("the extension `{}`", extension.name)));
    }
    crate::needs::check_needs(bounds.needs, &decision.needs)?;
    check_conditions(&decision.conditions)?;
    check_labels(decision)?;
    for event in &decision.events {
        check_reason("event", &event.reason)?;
    }
    if let Err(why) = bounds.takes_status
        && (decision.status.is_some() || !decision.conditions.is_empty())
    {
        return Err(Rejection::denied(format!(
            "the plugin returned a status or conditions, but {why}"
        )));
    }
    let checked = Checked {
        wake: wake_time(decision.wake.as_ref(), bounds.now)?,
        ..effects::check(&decision.effects, bounds)?
    };
    for send in &checked.sends {
        effects::same_request(send, bounds.journal)?;
    }
    let ids = checked.sends.iter().map(|send| send.effect.as_str());
    if !bounds.journal.has_room_for(ids) {
        return Err(Rejection::denied(
            "the object has 64 receipts, the most that are kept; use one effect id with changing keys for what comes again and again",
        ));
    }
    let children = checked.wishes.len() + bounds.journal.inventory.len();
    if checked.wishes.len() > MAX_CHILDREN || children > 2 * MAX_CHILDREN {
        return Err(Rejection::denied(format!(
            "the object has more than {MAX_CHILDREN} children, the most that its journal holds; put more into each, or make a kind of its own for a group of them"
        )));
    }
    Ok(checked)
}

/// Most children of one object: their records stand in its journal.
pub const MAX_CHILDREN: usize = 256;

fn unsupported(part: &str) -> Rejection {
    Rejection {
        outcome: Outcome::PluginFailed,
        cause: Cause::new(
            "Unsupported",
            format!(
                "the decision uses {part}, which this host does not carry out yet; leave it out"
            ),
        ),
    }
}

/// The conditions of a decision or failure, checked for what the API server would refuse.
pub fn check_conditions(conditions: &[Condition]) -> Result<(), Rejection> {
    let mut seen = BTreeSet::new();
    for condition in conditions {
        if !is_qualified_name(&condition.type_) {
            return Err(Rejection::bad(format!(
                "`{}` is no condition type; write a name as in `Ready` or `example.com/Ready`",
                condition.type_
            )));
        }
        if !seen.insert(&condition.type_) {
            return Err(Rejection::bad(format!(
                "the condition `{}` is there twice; return each type once",
                condition.type_
            )));
        }
        check_reason(&condition.type_, &condition.reason)?;
    }
    Ok(())
}

/// `[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?`, as `metav1.Condition` asks for.
pub fn is_reason(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let inner = |b: u8| word(b) || b == b',' || b == b':';
    let bytes = text.as_bytes();
    bytes.len() <= MAX_REASON
        && bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|b| word(*b))
        && bytes.iter().all(|b| inner(*b))
}

fn check_reason(of: &str, reason: &str) -> Result<(), Rejection> {
    if is_reason(reason) {
        return Ok(());
    }
    Err(Rejection::bad(format!(
        "the reason `{reason}` of {of} is not CamelCase of at most {MAX_REASON} bytes, as in `NotReady`"
    )))
}

fn check_labels(decision: &Decision) -> Result<(), Rejection> {
    let keys = decision
        .labels
        .keys()
        .map(|key| ("label", key))
        .chain(decision.annotations.keys().map(|key| ("annotation", key)));
    for (what, key) in keys {
        check_meta_key("", what, key)?;
    }
    for (key, value) in &decision.labels {
        if let Some(value) = value {
            check_label_value("", key, value)?;
        }
    }
    let sizes = decision
        .annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_ref().map_or(0, String::len));
    if sizes.sum::<usize>() > 256 * 1024 {
        return Err(Rejection::bad(
            "the annotations have more than 256 KiB, the most that Kubernetes keeps; return less",
        ));
    }
    Ok(())
}

/// A label's or annotation's key that is valid and not the host's; `of` stands before the message.
pub(crate) fn check_meta_key(of: &str, what: &str, key: &str) -> Result<(), Rejection> {
    if !is_qualified_name(key) {
        return Err(Rejection::bad(format!(
            "{of}`{key}` is no valid {what} key; write at most 63 letters, digits, `-`, `_`, `.`, with a DNS name and `/` before them"
        )));
    }
    if key.starts_with("guesthouse.dev/") || key.contains(".guesthouse.dev/") {
        return Err(Rejection::denied(format!(
            "{of}the {what} `{key}` is the host's; use a prefix of your own"
        )));
    }
    Ok(())
}

/// A label's value that is valid; `of` stands before the message.
pub(crate) fn check_label_value(of: &str, key: &str, value: &str) -> Result<(), Rejection> {
    if value.is_empty() || is_name_part(value) {
        return Ok(());
    }
    Err(Rejection::bad(format!(
        "{of}`{value}` is no valid value of the label `{key}`; write at most 63 letters, digits, `-`, `_`, `.`, or use an annotation"
    )))
}

/// `[prefix/]name` of Kubernetes labels, annotations and condition types.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name_part(text),
        Some((prefix, name)) => {
            let labels = |label: &str| {
                !label.is_empty()
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            };
            prefix.len() <= 253 && prefix.split('.').all(labels) && is_name_part(name)
        }
    }
}

pub(crate) fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

fn wake_time(wake: Option<&Wake>, now: Time) -> Result<Option<Time>, Rejection> {
    match wake {
        None => Ok(None),
        Some(Wake::After(seconds)) => Ok(Some(
            now.whole_seconds()
                .after(Span::from_secs(u64::from(*seconds))),
        )),
        Some(Wake::At(text)) => {
            Ok(Some(Time::parse(text).map_err(|error| {
                Rejection::bad(format!("wake: {error}"))
            })?))
        }
    }
}

/// Labels and annotations that differ from what a decision wants; none removes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetaPatch {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Option<String>>,
}

impl MetaPatch {
    /// What of a wish the object does not show yet; none if it shows all.
    pub fn of(
        labels: &BTreeMap<String, Option<String>>,
        annotations: &BTreeMap<String, Option<String>>,
        head: &Head<'_>,
    ) -> Option<Self> {
        let differs = |wish: &BTreeMap<String, Option<String>>,
                       has: &BTreeMap<_, std::borrow::Cow<'_, str>>| {
            wish.iter()
                .filter(|(key, value)| has.get(key.as_str()).map(|has| &**has) != value.as_deref())
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        let patch = Self {
            labels: differs(labels, &head.labels),
            annotations: differs(annotations, &head.annotations),
        };
        (patch != Self::default()).then_some(patch)
    }
}

#[cfg(test)]
mod tests;
