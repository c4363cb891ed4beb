//! `web.acme.io/v1 Website`: one object becomes a ConfigMap, a Deployment, a Service and, with a host, an Ingress.
//!
//! The plugin says what shall be there, all of it in every pass; the host makes, changes and removes. A host that is cleared
//! is an Ingress that is no longer named, and goes. What became of the children makes the status; the condition `Ready` is the
//! host's, which knows the same and more.

mod parts;
mod types;

pub use parts::{CONTENT, CONTENT_HASH, DEPLOYMENT, INGRESS, SERVICE, child_name};
pub use types::{Config, Phase, WebsiteSpec, WebsiteStatus};

use guesthouse_sdk::contract::{Child, ChildState};
use guesthouse_sdk::prelude::*;

/// Name of the look at the Deployment.
pub const PODS: &str = "deployment";

/// The plugin.
pub struct Website;

impl Reconciler for Website {
    type Spec = WebsiteSpec;
    type Status = WebsiteStatus;
    type Config = Config;

    fn describe() -> Plugin {
        Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .serves(crd())
            .grants(&json!({
                "apply": [
                    {"apiVersion": "v1", "kind": "ConfigMap"},
                    {"apiVersion": "apps/v1", "kind": "Deployment"},
                    {"apiVersion": "v1", "kind": "Service"},
                    {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"},
                ],
                "read": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            }))
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Decision<WebsiteStatus>, Failure> {
        check(seen.spec())?;
        Ok(Decision::new()
            // Children tell only how far they are; how many pods there are stands in the Deployment.
            .need(Need::object(PODS, parts::deployment(seen)))
            .children(parts::all(seen))
            .status(status(seen)?))
    }
}

guesthouse_sdk::export!(Website);

/// The kind's definition.
pub fn crd() -> Crd {
    Crd::of::<Website>("web.acme.io/v1", "Website")
        .with_conditions()
        .column("URL", "string", ".status.url")
        .column("Wanted", "integer", ".spec.replicas")
        .column("Pods", "integer", ".status.readyReplicas")
        .column("Phase", "string", ".status.phase")
        .ready_column()
        .wide_column("Message", "string", ".status.message")
        .age_column()
}

/// What the API server would refuse, said once and in the words of the spec.
fn check(spec: &WebsiteSpec) -> Result<(), Failure> {
    // Keys of a ConfigMap (kubernetes.io: reference/kubernetes-api/config-and-storage-resources/config-map-v1, `data`).
    let valid = |name: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !name.is_empty() && name.len() <= 253 && name.chars().all(fits) && !name.starts_with("..")
    };
    match spec
        .content
        .keys()
        .find(|name| !valid(name) || *name == ".")
    {
        None => Ok(()),
        Some(name) => Err(Failure::stall(
            "InvalidContent",
            format!(
                "spec.content: {name:?} cannot be the name of a file: letters, digits, `-`, `_` and `.`"
            ),
        )),
    }
}

/// How the children stand, those that shall be there: one that goes is no part of the website any more.
fn status(seen: &Observation<Website>) -> Result<WebsiteStatus, Failure> {
    let spec = seen.spec();
    let mut wanted = vec![CONTENT, DEPLOYMENT, SERVICE];
    wanted.extend(spec.host.as_ref().map(|_| INGRESS));
    let children = || wanted.iter().map(|id| (*id, seen.child(id)));
    let failed = children().find(|(_, child)| child.is_some_and(is_failed));
    let late = children().find(|(_, child)| !child.is_some_and(is_current));
    let (phase, why) = match (failed, late) {
        (Some(failed), _) => (Phase::Failed, Some(failed)),
        (None, Some(late)) => (Phase::Progressing, Some(late)),
        (None, None) => (Phase::Ready, None),
    };
    let url = match &spec.host {
        Some(host) => ["http://", host].concat(),
        None => {
            let namespace = seen.namespace().unwrap_or_default();
            ["http://", &child_name(seen.name()), ".", namespace, ".svc"].concat()
        }
    };
    Ok(WebsiteStatus {
        phase,
        url: Some(url),
        ready_replicas: ready_replicas(seen)?,
        message: why.map(|(id, child)| explain(id, child)),
    })
}

fn is_failed(child: &Child) -> bool {
    child.state == ChildState::Failed
}

/// One whose change was refused may still be current as it was before.
fn is_current(child: &Child) -> bool {
    child.state == ChildState::Current && child.error.is_none()
}

/// What a child that is not current waits for.
fn explain(id: &str, child: Option<&Child>) -> String {
    let said = match child {
        None => "not made yet",
        Some(child) => match (&child.error, child.message.as_str()) {
            (Some(error), _) => error.message.as_str(),
            (None, "") => "not ready yet",
            (None, message) => message,
        },
    };
    [id, ": ", said].concat()
}

/// How many pods are ready, as the Deployment says; 0 for one that is not there or not ours, and where it may not be read.
fn ready_replicas(seen: &Observation<Website>) -> Result<i32, Failure> {
    #[derive(Deserialize)]
    struct Deployment {
        metadata: Metadata,
        #[serde(default)]
        status: Counts,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Counts {
        ready_replicas: i32,
    }
    let related = seen.related(PODS);
    if matches!(related, Related::Unavailable(_)) {
        return Ok(0);
    }
    let ours = seen
        .child(DEPLOYMENT)
        .and_then(|child| child.uid.as_deref());
    let found = related.one::<Deployment>()?;
    Ok(found
        .filter(|found| ours.is_some() && found.metadata.uid.as_deref() == ours)
        .map_or(0, |found| found.status.ready_replicas))
}
