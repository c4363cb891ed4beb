//! Deletion: the resource goes first, then the finalizer.
//!
//! Nothing is looked at: a deletion of what is not there is answered 404, which is as good. The id is of this object's uid, so
//! it is nobody else's.

use guesthouse_sdk::contract::{Receipt as Record, ReceiptState};
use guesthouse_sdk::prelude::*;

use crate::resource::{RELEASE, url};
use crate::{Phase, ProvisionRequest, Wanted, rejection, status};

/// Asks for the deletion until there is a definite answer, and lets the object go when the resource is gone.
pub(crate) fn finalize(seen: &Observation<ProvisionRequest>) -> Result<Wanted, Failure> {
    let mut receipts = seen.raw().receipts.iter();
    let last = receipts.find(|receipt| receipt.effect == RELEASE);
    let Some(last) = last else {
        return Ok(ask(
            seen,
            seen.attempt(),
            "Deleting",
            "the resource is taken away",
        ));
    };
    let why = match &last.state {
        ReceiptState::Answered(answer) if answer.is_success() => return Ok(gone(seen)),
        ReceiptState::Answered(answer) if matches!(answer.code, 404 | 410) => {
            return Ok(gone(seen));
        }
        ReceiptState::Answered(answer) => rejection(answer),
        ReceiptState::Failed(send) => {
            return Ok(ask(
                seen,
                asked_in(last),
                &send.error.reason,
                &send.error.message,
            ));
        }
        ReceiptState::Unknown => "what became of the deletion is not known".into(),
    };
    // Answered for good under this key. A later attempt is another wish; within this one it would be the same question again.
    if seen.attempt() > asked_in(last) {
        return Ok(ask(seen, seen.attempt(), "DeletionRefused", &why));
    }
    Err(Failure::retry("DeletionRefused", why.as_str())
        .status(&status(seen, Phase::Deleting, None))
        .condition("Ready", false, "DeletionRefused", why))
}

/// The attempt that a deletion was first asked for in: its key.
fn asked_in(last: &Record) -> u32 {
    let key = last.key.as_deref().unwrap_or_default();
    key.parse().unwrap_or_default()
}

fn ask(seen: &Observation<ProvisionRequest>, key: u32, reason: &str, message: &str) -> Wanted {
    Wanted::new()
        .status(status(seen, Phase::Deleting, None))
        .condition("Ready", false, reason, message)
        .http(Http::delete(RELEASE, url(seen)).key(key.to_string()))
}

fn gone(seen: &Observation<ProvisionRequest>) -> Wanted {
    Wanted::new()
        .status(status(seen, Phase::Deleting, None))
        .condition("Ready", false, "Released", "the resource is gone")
        .event("Released", "the resource is gone")
        .finalized()
}
