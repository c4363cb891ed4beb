//! What is asked of the provisioner, and what is known of the resource.
//!
//! Two things tell of the resource: the last look at it and the answer to what was asked for last. Whichever is newer counts:
//! a look may be a few seconds old, so one from before the last answer says nothing.

use guesthouse_sdk::contract::{ReceiptState, Response};
use guesthouse_sdk::prelude::*;

use crate::ProvisionRequest;

/// Name of the look at the resource.
pub const LOOK: &str = "resource";
/// Id of the effect that makes or resizes it.
pub const PROVISION: &str = "provision";
/// Id of the effect that takes it away.
pub const RELEASE: &str = "release";

/// A resource as the provisioner shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Resource {
    pub(crate) size: String,
    pub(crate) region: String,
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
}

/// The resource's id: of one object in one life, so there can never be two for it, nor one for two.
pub(crate) fn id(seen: &Observation<ProvisionRequest>) -> String {
    let namespace = seen.namespace().unwrap_or_default();
    [namespace, seen.name(), seen.uid()].join(".")
}

/// Its address. Namespace, name and uid need no escaping: they are lower-case letters, digits, `-` and `.`.
pub(crate) fn url(seen: &Observation<ProvisionRequest>) -> String {
    let provisioner = seen.config().provisioner.trim_end_matches('/');
    [provisioner, "/resources/", &id(seen)].concat()
}

/// A look at the resource: whether it is there, and how far.
///
/// It is a `fetch` and no http effect: it changes nothing, it is repeated as long as the resource is on its way, and only its
/// latest answer counts. An effect is carried out once for each key and its answer is on record for good.
pub(crate) fn look(seen: &Observation<ProvisionRequest>) -> Need {
    // A look as old as the wake that leads to it must be taken again.
    let fresh = seen.config().poll_seconds.saturating_sub(1).max(1);
    Need::fetch(LOOK, url(seen), fresh)
}

/// What makes one wish another: all that is sent, and the generation, since a size that comes back after another one is a
/// new wish. (Under the key of the first time the provisioner would only repeat its answer of that time.)
pub(crate) fn key(seen: &Observation<ProvisionRequest>) -> String {
    let (spec, generation) = (seen.spec(), seen.generation().to_string());
    let sent = fingerprint([url(seen).as_str(), spec.size.name(), &spec.region]);
    [&generation, "-", &sent].concat()
}

/// The request that makes the resource, or makes it as large as it shall be.
pub(crate) fn provision(seen: &Observation<ProvisionRequest>) -> Http {
    #[derive(Serialize)]
    struct Wish<'a> {
        size: &'a str,
        region: &'a str,
    }
    let spec = seen.spec();
    Http::put(PROVISION, url(seen)).key(key(seen)).json(&Wish {
        size: spec.size.name(),
        region: &spec.region,
    })
}

/// What is known of the resource.
pub(crate) struct Known {
    /// As it was last; `None`: it is not there.
    pub(crate) resource: Option<Resource>,
    /// A look from before the last answer: another one is due.
    pub(crate) stale: bool,
    /// Something was sent that had no definite answer, so whatever was seen may just be changing.
    pub(crate) open: bool,
}

impl Known {
    /// Out of the look and the receipt, whatever key it is of.
    pub(crate) fn read(
        seen: &Observation<ProvisionRequest>,
        looked: &Response,
    ) -> Result<Known, Failure> {
        let there = match looked.code {
            404 | 410 => None,
            200 => Some(looked.json::<Resource>().ok_or_else(|| {
                Failure::retry("BadAnswer", "the provisioner's answer is not a resource")
            })?),
            code => {
                let why = ["GET was answered ", &code.to_string()].concat();
                return Err(Failure::retry("UnexpectedAnswer", why));
            }
        };
        let mut receipts = seen.raw().receipts.iter();
        let last = receipts.find(|receipt| receipt.effect == PROVISION);
        let own = last.is_some_and(|last| last.key.as_deref() == Some(&key(seen)));
        let (mut known, mut answered) = (there, None);
        if let Some(ReceiptState::Answered(answer)) = last.map(|last| &last.state) {
            answered = Some(answer);
        }
        // RFC 3339 in UTC and whole seconds: text compares as time does.
        let stale = answered.is_some_and(|answer| looked.at <= answer.at);
        if let Some(answer) = answered.filter(|answer| stale && answer.is_success()) {
            known = answer.json().or_else(|| own.then(|| wish(seen))).or(known);
        }
        let open = match last.map(|last| &last.state) {
            Some(ReceiptState::Failed(_)) => true,
            // Of the own wish nothing more can be sent under this key: then it is as it is seen.
            Some(ReceiptState::Unknown) => !own,
            Some(ReceiptState::Answered(_)) | None => false,
        };
        Ok(Known {
            resource: known,
            stale,
            open,
        })
    }
}

/// What a success without a readable body says.
fn wish(seen: &Observation<ProvisionRequest>) -> Resource {
    Resource {
        size: seen.spec().size.name().into(),
        region: seen.spec().region.clone(),
        state: String::new(),
        endpoint: None,
    }
}
