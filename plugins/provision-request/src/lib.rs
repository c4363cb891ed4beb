//! `acme.io/v1 ProvisionRequest`: a resource outside the cluster that is there as long as its object is.
//!
//! Every pass looks first whether the resource is there. If it is not, or has another size, one http effect, `provision`,
//! asks for it under a key that holds all that is sent; then it is watched until it is ready. What the provisioner shows
//! decides, not what was sent: a resource whose creation was answered into the void is found and not made again. Deletion
//! takes the resource away before the finalizer goes.
//!
//! - There is never more than one resource for an object: its id is made of namespace, name and uid.
//! - A resource that vanished is not replaced: it held something, and an empty one in its place would hide the loss. A new
//!   generation is somebody's decision to have a new one.
//! - The region of a resource does not change: a changed region stalls the object, and changing it back goes on.

mod release;
mod resource;
mod types;

pub use resource::{LOOK, PROVISION, RELEASE};
pub use types::{Config, Phase, ProvisionRequestSpec, ProvisionRequestStatus, Size};

use guesthouse_sdk::contract::Response;
use guesthouse_sdk::prelude::*;
use resource::{Known, Resource, id, key, look, provision};

/// The plugin.
pub struct ProvisionRequest;

type Wanted = Decision<ProvisionRequestStatus>;

impl Reconciler for ProvisionRequest {
    type Spec = ProvisionRequestSpec;
    type Status = ProvisionRequestStatus;
    type Config = Config;

    fn describe() -> Plugin {
        Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .serves(crd())
            .finalizes()
            // The host stands for the one in the mapping's config.
            .grants(&json!({"http": [
                {"host": "provisioner.example", "methods": ["GET", "PUT", "DELETE"], "path": "/resources/"},
            ]}))
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Wanted, Failure> {
        let looked = match seen.related(LOOK) {
            Related::Response(looked) => looked,
            Related::Unavailable(cause) => return Err(unseen(seen, cause)),
            Related::Unasked | Related::Objects(_) => return Ok(Wanted::new().need(look(seen))),
        };
        let known = Known::read(seen, looked)?;
        let spec = seen.spec();
        Ok(match &known.resource {
            Some(there) if there.region != spec.region => return Err(moved(seen, there)),
            Some(there) if there.size == spec.size.name() && !known.open => arrived(seen, there),
            _ => wanted(seen, &known),
        }
        .need(look(seen)))
    }

    fn finalize(seen: &Observation<Self>) -> Result<Wanted, Failure> {
        release::finalize(seen)
    }
}

guesthouse_sdk::export!(ProvisionRequest);

/// The kind's definition.
pub fn crd() -> Crd {
    Crd::of::<ProvisionRequest>("acme.io/v1", "ProvisionRequest")
        .with_conditions()
        .short_name("pr")
        .status_default(json!({"phase": "Pending", "observedGeneration": -1}))
        .selectable(".status.phase")
        .column("Size", "string", ".spec.size")
        .column("Region", "string", ".spec.region")
        .column("Phase", "string", ".status.phase")
        .ready_column()
        .column("Endpoint", "string", ".status.endpoint")
        .wide_column("Resource", "string", ".status.resource")
        .age_column()
}

/// The resource is there with the size it shall have: ready, or on its way.
fn arrived(seen: &Observation<ProvisionRequest>, there: &Resource) -> Wanted {
    match there.state.as_str() {
        "ready" => Wanted::new()
            .status(status(seen, Phase::Ready, Some(there)))
            .condition("Ready", true, "Provisioned", "the resource is ready")
            .event("Provisioned", "the resource is ready"),
        "failed" => refused(
            seen,
            Some(there),
            "ProvisioningFailed",
            "the provisioner says that the resource failed".into(),
        ),
        _ => Wanted::new()
            .status(status(seen, Phase::Provisioning, Some(there)))
            .condition("Ready", None, "Provisioning", "the provisioner is at work")
            .wake_after(seen.config().poll_seconds),
    }
}

/// The resource is not there, is not as it shall be, or may just be changing: asked for, unless it was answered for good.
fn wanted(seen: &Observation<ProvisionRequest>, known: &Known) -> Wanted {
    let there = known.resource.as_ref();
    let decision = match seen.receipt_for(PROVISION, &key(seen)) {
        Receipt::Unsent => {
            return asked(seen, there, "Requested", "the provisioner is asked".into());
        }
        Receipt::Failed(send) => {
            return asked(seen, there, &send.error.reason, send.error.message.clone());
        }
        Receipt::Unknown => {
            let why = "what became of the request is not known; a changed spec asks again";
            // It may still turn up.
            return refused(seen, there, "AnswerLost", why.into())
                .wake_after(seen.config().poll_seconds);
        }
        Receipt::Answered(answer) if !answer.is_success() => {
            refused(seen, there, "Rejected", rejection(answer))
        }
        // Made as asked for, and seen otherwise since.
        Receipt::Answered(_) => match there {
            None => refused(
                seen,
                None,
                "ResourceLost",
                "the resource was made and is gone; a changed spec makes a new one".into(),
            ),
            Some(there) => {
                let why = [
                    "the resource was changed by somebody else: it is ",
                    &there.size,
                ]
                .concat();
                refused(seen, Some(there), "ResourceChanged", why)
            }
        },
    };
    // One more look, for what was there before the answer.
    if known.stale {
        decision.wake_after(seen.config().poll_seconds)
    } else {
        decision
    }
}

/// Asks for the resource, now or once more.
fn asked(
    seen: &Observation<ProvisionRequest>,
    there: Option<&Resource>,
    reason: &str,
    message: String,
) -> Wanted {
    let phase = match there {
        None => Phase::Pending,
        Some(_) => Phase::Provisioning,
    };
    Wanted::new()
        .status(status(seen, phase, there))
        .condition("Ready", None, reason, message)
        .http(provision(seen))
}

/// Not as it shall be, and nothing more to ask for.
fn refused(
    seen: &Observation<ProvisionRequest>,
    there: Option<&Resource>,
    reason: &str,
    why: String,
) -> Wanted {
    Wanted::new()
        .status(status(seen, Phase::Failed, there))
        .warning(reason, why.as_str())
        .condition("Ready", false, reason, why)
}

/// The region was changed after the resource was made.
fn moved(seen: &Observation<ProvisionRequest>, there: &Resource) -> Failure {
    let why = [
        "the resource is in ",
        &there.region,
        " and cannot be moved: change `spec.region` back, or delete the object and make another one",
    ]
    .concat();
    Failure::stall("RegionImmutable", why.as_str())
        .status(&status(seen, Phase::Failed, Some(there)))
        .condition("Ready", false, "RegionImmutable", why)
}

/// Whether the resource is there cannot be seen. What was known before stays.
fn unseen(
    seen: &Observation<ProvisionRequest>,
    cause: &guesthouse_sdk::contract::Cause,
) -> Failure {
    let why = ["the resource cannot be looked at: ", &cause.message].concat();
    let failure = if cause.reason == "Denied" {
        Failure::stall("Denied", why.as_str())
    } else {
        Failure::retry(&cause.reason, why.as_str())
    };
    let ready = seen.status().is_some_and(|s| s.phase == Phase::Ready);
    if ready {
        failure
    } else {
        failure.condition("Ready", None, &cause.reason, why)
    }
}

fn status(
    seen: &Observation<ProvisionRequest>,
    phase: Phase,
    there: Option<&Resource>,
) -> ProvisionRequestStatus {
    // While it is resized a resource is where it was.
    let before = seen.status().and_then(|status| status.endpoint.clone());
    ProvisionRequestStatus {
        phase,
        resource: Some(id(seen)),
        endpoint: there.and_then(|there| there.endpoint.clone().or(before)),
        size: there.map(|there| there.size.clone()),
    }
}

/// What the provisioner said against it, cut at 512 bytes.
pub(crate) fn rejection(answer: &Response) -> String {
    let said = answer.text().unwrap_or_default().trim();
    let mut end = said.len().min(512);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    let colon = if end > 0 { ": " } else { "" };
    let code = answer.code.to_string();
    ["the provisioner answered ", &code, colon, &said[..end]].concat()
}
