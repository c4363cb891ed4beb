//! The reconciler of the benchmark, the same that the other hosts run: an object that is neither `Done` nor `Failed` becomes
//! `Done`, with a url and the label that mirrors the phase. No effects, so that only host, sandbox and API server are measured.

use guesthouse_sdk::prelude::*;

const PHASE: &str = "workqueue.acme.io/phase";

/// The part of the spec that is looked at.
#[derive(Deserialize)]
pub struct PeerSpec {
    #[serde(default = "pdf")]
    format: String,
}

/// The status.
#[derive(Clone, Serialize, Deserialize)]
pub struct PeerStatus {
    #[serde(default)]
    phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// The plugin.
pub struct Peer;

fn pdf() -> String {
    "pdf".into()
}

impl Reconciler for Peer {
    type Spec = PeerSpec;
    type Status = PeerStatus;
    type Config = NoConfig;

    fn describe() -> Plugin {
        Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .serves_kind("batch.acme.io/v1", "ReportJob")
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Decision<PeerStatus>, Failure> {
        if let Some(status) = seen
            .status()
            .filter(|status| matches!(status.phase.as_str(), "Done" | "Failed"))
        {
            return Ok(Decision::new().status(status.clone()));
        }
        let url = [
            "https://reports.example/",
            seen.name(),
            ".",
            &seen.spec().format,
        ]
        .concat();
        Ok(Decision::new()
            .status(PeerStatus {
                phase: "Done".into(),
                url: Some(url),
            })
            .label(PHASE, "done"))
    }
}

guesthouse_sdk::export!(Peer);

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_sdk::testing::{decide, observe};

    #[test]
    fn a_new_object_becomes_done_with_url_and_label() {
        let job = json!({"metadata": {"name": "a"}, "spec": {"report": "r", "format": "csv", "parameters": {"x": [1]}}});
        let decision = decide::<Peer>(&observe(job)).unwrap();
        assert_eq!(
            decision.status_text(),
            Some(r#"{"phase":"Done","url":"https://reports.example/a.csv"}"#)
        );
        assert_eq!(decision.label(PHASE), Some(Some("done")));
        assert_eq!(decision.effects, []);
    }

    #[test]
    fn a_done_object_keeps_its_status_whatever_its_spec_says() {
        let job = json!({"metadata": {"name": "a"}, "spec": {"format": "html"}, "status": {"phase": "Done", "url": "u"}});
        let decision = decide::<Peer>(&observe(job)).unwrap();
        assert_eq!(
            decision.status_text(),
            Some(r#"{"phase":"Done","url":"u"}"#)
        );
        assert_eq!(decision.labels, []);
    }
}
