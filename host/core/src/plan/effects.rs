//! The effects of a decision: shape, order, grants and credentials of each.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bounds, Checked, Deletion, Rejection, Send, unsupported};
use crate::{
    children::{self, Wish},
    contract::{Action, Apply, Delete, Delivery, Effect, Http, MAX_EFFECT_ID, MAX_KEY},
    grants::HttpGrant,
    journal::Journal,
    keys::{idempotency_key, request_fingerprint},
    mapping::{Credential, Mapping},
    units::Span,
};

pub(super) fn check(effects: &[Effect], bounds: Bounds<'_>) -> Result<Checked, Rejection> {
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
    let mut checked = Checked {
        sends: Vec::new(),
        wishes: Vec::new(),
        deletions: Vec::new(),
        delete_self: None,
        wake: None,
    };
    for effect in effects {
        match &effect.action {
            Action::Http(http) => checked.sends.push(send(effect, http, bounds)?),
            Action::Apply(apply) => checked.wishes.push(wish(effect, apply, bounds)?),
            Action::Delete(delete) => deletion(effect, delete, bounds, &mut checked)?,
            Action::Other(extension) => {
                return Err(unsupported(&format!(
                    "the extension `{}` (`{}`)",
                    extension.name, effect.id
                )));
            }
        }
    }
    children::check_wishes(&checked.wishes, &bounds.parent())?;
    Ok(checked)
}

fn wish(effect: &Effect, apply: &Apply, bounds: Bounds<'_>) -> Result<Wish, Rejection> {
    let wish = children::check_apply(effect, apply)?;
    let grants = &bounds.mapping.grants;
    grants
        .apply(&wish, bounds.key)
        .map_err(|why| Rejection::denied(format!("effect `{}`: {why}", effect.id)))?;
    Ok(wish)
}

/// Of an own child, or of the object itself where that is granted; anything else is denied.
fn deletion(
    effect: &Effect,
    delete: &Delete,
    bounds: Bounds<'_>,
    checked: &mut Checked,
) -> Result<(), Rejection> {
    let object = &delete.object;
    let parent = bounds.parent();
    bounds
        .mapping
        .grants
        .delete(object, &parent)
        .map_err(|why| Rejection::denied(format!("effect `{}`: {why}", effect.id)))?;
    if parent.is(&object.kind, object.namespace.as_deref(), &object.name) {
        if delete
            .uid
            .as_deref()
            .is_none_or(|uid| uid == bounds.uid.as_str())
        {
            checked.delete_self = Some(effect.id.clone());
        }
        return Ok(());
    }
    checked.deletions.push(Deletion {
        effect: effect.id.clone(),
        after: effect.after.clone(),
        object: object.clone(),
        uid: delete.uid.clone(),
    });
    Ok(())
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

fn send(effect: &Effect, http: &Http, bounds: Bounds<'_>) -> Result<Send, Rejection> {
    if http.key.as_ref().is_some_and(|key| key.len() > MAX_KEY) {
        return Err(Rejection::bad(format!(
            "the key of the effect `{}` must have at most {MAX_KEY} bytes; hash what is longer",
            effect.id
        )));
    }
    let grant = bounds
        .mapping
        .grants
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
            .unwrap_or_else(|| idempotency_key(bounds.uid, &effect.id, http.key.as_deref())),
        at_most_once: http.delivery == Delivery::AtMostOnce,
        request: http.request.clone(),
        credential: credential(&effect.id, http, grant, bounds.mapping)?,
        timeout: asked.map_or(grant.timeout, |asked| asked.min(grant.timeout)),
        answer_headers: grant.answer_headers.clone(),
        answer_body: grant.answer_body,
        fingerprint: request_fingerprint(http),
        after: effect.after.clone(),
    })
}

/// The credential a request names: of the mapping, and granted for where the request goes.
fn credential(
    effect: &str,
    http: &Http,
    grant: &HttpGrant,
    mapping: &Mapping,
) -> Result<Option<Credential>, Rejection> {
    let Some(name) = &http.request.credential else {
        return Ok(None);
    };
    let Some(credential) = mapping.credentials.get(name) else {
        return Err(Rejection::denied(format!(
            "effect `{effect}`: the mapping has no credential `{name}`; name a Secret for it under `credentials`"
        )));
    };
    if !grant.credentials.contains(name) {
        return Err(Rejection::denied(format!(
            "effect `{effect}`: the credential `{name}` may not be sent to {}; to allow it add it to `credentials` of that entry in `grants.http`",
            grant.host
        )));
    }
    let set = |(header, _): &&(String, String)| header.eq_ignore_ascii_case(&credential.header);
    if http.request.headers.iter().any(|header| set(&header)) {
        return Err(Rejection::bad(format!(
            "the effect `{effect}` sets the header `{}` itself, which its credential `{name}` is sent in; leave it out",
            credential.header
        )));
    }
    Ok(Some(credential.clone()))
}

/// The same id and key with another request would be answered from the old one's receipt: an error of the plugin.
pub(super) fn same_request(send: &Send, journal: &Journal) -> Result<(), Rejection> {
    match journal.receipt(&send.effect, send.key.as_deref()) {
        Some(record) if record.request != send.fingerprint => Err(Rejection::bad(format!(
            "the effect `{}` was sent with another request under the same key; a new wish takes a new `key`, usually something of the spec",
            send.effect
        ))),
        _ => Ok(()),
    }
}
