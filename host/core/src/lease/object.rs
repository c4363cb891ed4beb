//! Leases as the objects they are stored in (coordination.k8s.io/v1).

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Base, Holder, LeaseOf, Record, Stored};
use crate::{keys::Hash, time::Time, units::Span};

/// Label of every Lease of the host; its value says of what: `replica` or `claim`.
pub const LEASE_LABEL: &str = "guesthouse.dev/lease";
/// Annotation of a claim: the mapping.
const MAPPING: &str = "guesthouse.dev/mapping";
/// Annotation of a replica that takes nothing more.
const LEAVING: &str = "guesthouse.dev/leaving";

impl LeaseOf {
    /// The object's name. A claim's is a hash, since a mapping's name may be as long as a name can be.
    pub fn object_name(&self) -> String {
        match self {
            LeaseOf::Replica(name) => format!("guesthouse-replica-{name}"),
            LeaseOf::Claim(mapping) => {
                format!("guesthouse-claim-{}", Hash::of("claim").part(mapping).hex())
            }
        }
    }
}

impl Record {
    /// The whole object to send. `base` goes with it, so that the server checks both uid and version: a PUT to a Lease that
    /// is gone would create it otherwise.
    pub fn object(&self, base: Option<&Base>, namespace: &str, wall: Time) -> String {
        let now = format!(
            "{}.{:06}Z",
            &wall.seconds()[..19],
            wall.0.rem_euclid(1000) * 1000
        );
        let (label, mut annotations) = match &self.of {
            LeaseOf::Replica(_) => ("replica", BTreeMap::new()),
            LeaseOf::Claim(mapping) => ("claim", BTreeMap::from([(MAPPING, mapping.as_str())])),
        };
        if self.leaving {
            annotations.insert(LEAVING, "true");
        }
        let mut metadata = json!({
            "name": self.of.object_name(), "namespace": namespace,
            "labels": {LEASE_LABEL: label}, "annotations": annotations,
        });
        if let Some(base) = base {
            metadata["uid"] = base.uid.as_str().into();
            metadata["resourceVersion"] = base.version.as_str().into();
        }
        let mut spec =
            json!({"leaseTransitions": self.term.min(i32::MAX as u64), "renewTime": now});
        if let Some(holder) = &self.holder {
            spec["holderIdentity"] = holder.to_string().into();
        }
        if matches!(self.of, LeaseOf::Replica(_)) {
            spec["leaseDurationSeconds"] = self.duration.0.div_ceil(1000).into();
        }
        let lease: Value = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
        });
        lease.to_string()
    }
}

#[derive(Deserialize)]
struct Lease<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    holder_identity: Option<Cow<'a, str>>,
    lease_transitions: Option<u64>,
    lease_duration_seconds: Option<u64>,
}

impl Stored {
    /// Reads an object. None: it is no Lease of ours, by label, name or content.
    pub fn parse(raw: &str) -> Option<Self> {
        let lease: Lease<'_> = serde_json::from_str(raw).ok()?;
        let (metadata, spec) = (lease.metadata, lease.spec);
        let of = match metadata.labels.get(LEASE_LABEL)?.as_str() {
            "replica" => LeaseOf::Replica(
                metadata
                    .name
                    .strip_prefix("guesthouse-replica-")?
                    .to_owned(),
            ),
            "claim" => LeaseOf::Claim(metadata.annotations.get(MAPPING)?.clone()),
            _ => return None,
        };
        if of.object_name() != metadata.name {
            return None;
        }
        // One that does not say how long it lasts is taken for the usual one.
        let duration = match of {
            LeaseOf::Replica(_) => spec.lease_duration_seconds.unwrap_or(15).clamp(1, 86_400),
            LeaseOf::Claim(_) => 0,
        };
        let duration = Span::from_secs(duration);
        Some(Self {
            base: Base {
                uid: metadata.uid.into_owned(),
                version: metadata.resource_version.into_owned(),
            },
            record: Record {
                of,
                holder: spec.holder_identity.as_deref().and_then(Holder::parse),
                term: spec.lease_transitions.unwrap_or(0),
                leaving: metadata.annotations.contains_key(LEAVING),
                duration,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(of: LeaseOf, holder: Option<&str>) -> Record {
        Record {
            duration: match of {
                LeaseOf::Replica(_) => Span::from_secs(15),
                LeaseOf::Claim(_) => Span(0),
            },
            of,
            holder: holder.and_then(Holder::parse),
            term: 7,
            leaving: false,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let base = Base {
            uid: "u".into(),
            version: "12".into(),
        };
        let leaving = Record {
            leaving: true,
            ..record(LeaseOf::Replica("b".into()), Some("b_1"))
        };
        for record in [
            record(LeaseOf::Replica("a-0".into()), Some("a-0_x1")),
            record(LeaseOf::Claim("report-jobs".into()), Some("a-0_x1")),
            record(LeaseOf::Claim("m".repeat(63)), None),
            leaving,
        ] {
            let text = record.object(Some(&base), "ns", Time(1_234));
            let read = Stored::parse(&text).unwrap();
            assert_eq!((read.record, read.base), (record, base.clone()), "{text}");
        }
    }

    #[test]
    fn times_have_the_form_of_a_micro_time_and_a_new_lease_names_no_state() {
        let at = Time::parse("2026-11-29T21:53:00.045Z").unwrap();
        let text = record(LeaseOf::Claim("m".into()), None).object(None, "ns", at);
        assert!(
            text.contains(r#""renewTime":"2026-11-29T21:53:00.045000Z""#),
            "{text}"
        );
        assert!(
            !text.contains("uid") && !text.contains("resourceVersion"),
            "{text}"
        );
    }

    #[test]
    fn a_lease_that_is_none_of_ours_is_passed_over() {
        let text = record(LeaseOf::Replica("a".into()), Some("a_1")).object(
            Some(&Base {
                uid: "u".into(),
                version: "1".into(),
            }),
            "ns",
            Time(0),
        );
        assert!(Stored::parse(&text).is_some());
        assert_eq!(
            Stored::parse(&text.replace("guesthouse.dev/lease", "x/y")),
            None
        );
        assert_eq!(
            Stored::parse(&text.replace("guesthouse-replica-", "other-")),
            None
        );
    }
}
