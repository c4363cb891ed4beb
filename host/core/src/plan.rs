//! Checking a decision as a whole, before anything is done: one bad part, and nothing is.
//!
//! What passes is turned into values that say exactly what would be sent and written; the pass takes its steps from them and
//! `guesthouse render` prints them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    contract::{
        Action, Cause, Condition, Decision, Delivery, Effect, Http, MAX_EFFECT_ID, MAX_KEY,
        MAX_REASON, Request, Wake,
    },
    grants::Grants,
    journal::Journal,
    keys::{idempotency_key, request_fingerprint},
    object::{Head, Uid},
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Its http effects, in order.
    pub sends: Vec<Send>,
    /// When the plugin wants to be called again.
    pub wake: Option<Time>,
}

/// Checks everything about a decision but its status, which [`crate::status`] checks on the way.
pub fn check(
    decision: &Decision,
    grants: &Grants,
    uid: &Uid,
    journal: &Journal,
    takes_status: Result<(), &str>,
    now: Time,
) -> Result<Checked, Rejection> {
    if !decision.needs.is_empty() {
        return Err(unsupported("needs"));
    }
    if decision.finalized {
        return Err(unsupported("finalized"));
    }
    if let Some(extension) = decision.extensions.first() {
        return Err(unsupported(&format!("the extension `{}`", extension.name)));
    }
    check_conditions(&decision.conditions)?;
    check_labels(decision)?;
    for event in &decision.events {
        check_reason("event", &event.reason)?;
    }
    if let Err(why) = takes_status
        && (decision.status.is_some() || !decision.conditions.is_empty())
    {
        return Err(Rejection::denied(format!(
            "the plugin returned a status or conditions, but {why}"
        )));
    }
    let wake = wake_time(decision.wake.as_ref(), now)?;
    let sends = check_effects(&decision.effects, grants, uid)?;
    for send in &sends {
        same_request(send, journal)?;
    }
    if !journal.has_room_for(sends.iter().map(|send| send.effect.as_str())) {
        return Err(Rejection::denied(
            "the object has 64 receipts, the most that are kept; use one effect id with changing keys for what comes again and again",
        ));
    }
    Ok(Checked { sends, wake })
}

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
        if !is_qualified_name(key) {
            return Err(Rejection::bad(format!(
                "`{key}` is no valid {what} key; write at most 63 letters, digits, `-`, `_`, `.`, with a DNS name and `/` before them"
            )));
        }
        if key.starts_with("guesthouse.dev/") || key.contains(".guesthouse.dev/") {
            return Err(Rejection::denied(format!(
                "the {what} `{key}` is the host's; use a prefix of your own"
            )));
        }
    }
    for (key, value) in &decision.labels {
        if let Some(value) = value
            && !(value.is_empty() || is_name_part(value))
        {
            return Err(Rejection::bad(format!(
                "`{value}` is no valid value of the label `{key}`; write at most 63 letters, digits, `-`, `_`, `.`, or use an annotation"
            )));
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

fn check_effects(effects: &[Effect], grants: &Grants, uid: &Uid) -> Result<Vec<Send>, Rejection> {
    let mut ids = BTreeSet::new();
    for effect in effects {
        if effect.id.is_empty() || effect.id.len() > MAX_EFFECT_ID {
            return Err(Rejection::bad(format!(
                "the effect id `{}` must have 1 to {MAX_EFFECT_ID} bytes",
                effect.id
            )));
        }
        if !ids.insert(effect.id.as_str()) {
            return Err(Rejection::bad(format!(
                "the effect id `{}` is there twice; ids must be unique within the object",
                effect.id
            )));
        }
    }
    check_order(effects, &ids)?;
    effects
        .iter()
        .map(|effect| match &effect.action {
            Action::Http(http) => send(effect, http, grants, uid),
            Action::Apply(_) => Err(unsupported(&format!("an apply (`{}`)", effect.id))),
            Action::Delete(_) => Err(unsupported(&format!("a delete (`{}`)", effect.id))),
            Action::Other(extension) => Err(unsupported(&format!(
                "the extension `{}` (`{}`)",
                extension.name, effect.id
            ))),
        })
        .collect()
}

/// `after` names effects of this decision, and no circle.
fn check_order(effects: &[Effect], ids: &BTreeSet<&str>) -> Result<(), Rejection> {
    let mut left: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for effect in effects {
        if let Some(unknown) = effect.after.iter().find(|id| !ids.contains(id.as_str())) {
            return Err(Rejection::bad(format!(
                "the effect `{}` comes after `{unknown}`, which is not among the effects; return it too, or take it out of `after`",
                effect.id
            )));
        }
        left.insert(
            &effect.id,
            effect.after.iter().map(String::as_str).collect(),
        );
    }
    while let Some(free) = left
        .iter()
        .find(|(_, after)| after.is_empty())
        .map(|(id, _)| *id)
    {
        left.remove(free);
        for after in left.values_mut() {
            after.remove(free);
        }
    }
    match left.keys().next() {
        None => Ok(()),
        Some(id) => Err(Rejection::bad(format!(
            "the effect `{id}` comes after itself, by way of others; break the circle in `after`"
        ))),
    }
}

fn send(effect: &Effect, http: &Http, grants: &Grants, uid: &Uid) -> Result<Send, Rejection> {
    if http.request.credential.is_some() {
        return Err(unsupported(&format!(
            "a credential (effect `{}`)",
            effect.id
        )));
    }
    if http.key.as_ref().is_some_and(|key| key.len() > MAX_KEY) {
        return Err(Rejection::bad(format!(
            "the key of the effect `{}` must have at most {MAX_KEY} bytes; hash what is longer",
            effect.id
        )));
    }
    let grant = grants
        .http(http)
        .map_err(|why| Rejection::denied(format!("effect `{}`: {why}", effect.id)))?;
    let asked = http
        .request
        .timeout
        .map(|seconds| Span::from_secs(u64::from(seconds)));
    Ok(Send {
        effect: effect.id.clone(),
        key: http.key.clone(),
        idempotency_key: http
            .literal_key
            .clone()
            .unwrap_or_else(|| idempotency_key(uid, &effect.id, http.key.as_deref())),
        at_most_once: http.delivery == Delivery::AtMostOnce,
        request: http.request.clone(),
        timeout: asked.map_or(grant.timeout, |asked| asked.min(grant.timeout)),
        answer_headers: grant.answer_headers.clone(),
        answer_body: grant.answer_body,
        fingerprint: request_fingerprint(http),
        after: effect.after.clone(),
    })
}

/// The same id and key with another request would be answered from the old one's receipt: an error of the plugin.
fn same_request(send: &Send, journal: &Journal) -> Result<(), Rejection> {
    match journal.receipt(&send.effect, send.key.as_deref()) {
        Some(record) if record.request != send.fingerprint => Err(Rejection::bad(format!(
            "the effect `{}` was sent with another request under the same key; a new wish takes a new `key`, usually something of the spec",
            send.effect
        ))),
        _ => Ok(()),
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
