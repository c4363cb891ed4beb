//! The objects of the demo: the example's namespaces and mapping with this run's values, and the jobs.

use anyhow::{Result, bail};
use serde_json::{Value, json};

/// What README and users start from; the demo applies the same text.
const EXAMPLE: &str = include_str!("../../../deploy/examples/report-jobs.yaml");
/// The job whose export always fails.
pub(super) const POISONED: &str = "poisoned";
/// The label that mirrors a job's phase.
pub(super) const PHASE_LABEL: &str = "workqueue.acme.io/phase";

/// What this run has in the place of the example's values.
pub(super) struct Values<'a> {
    /// Namespace of the host.
    pub(super) host: &'a str,
    /// Namespace of the jobs.
    pub(super) reports: &'a str,
    /// The plugin's file.
    pub(super) plugin: &'a str,
    /// The exporter's host and port.
    pub(super) exporter: &'a str,
}

/// The documents of the example but its jobs.
///
/// # Errors
/// When the example does not hold a value that is to be replaced.
pub(super) fn manifests(values: &Values) -> Result<Vec<String>> {
    let reports = values.reports;
    let replacements = [
        (
            "name: guesthouse-system\n",
            format!("name: {}\n", values.host),
        ),
        (
            "namespace: guesthouse-system\n",
            format!("namespace: {}\n", values.host),
        ),
        ("name: reports\n", format!("name: {reports}\n")),
        ("namespaces: [reports]", format!("namespaces: [{reports}]")),
        (
            "target/wasm32-wasip1/guest/report_job.wasm}",
            format!("'{}'}}", values.plugin),
        ),
        ("127.0.0.1:8088'", format!("{}'", values.exporter)),
    ];
    let mut text = EXAMPLE.to_owned();
    for (from, to) in replacements {
        if !text.contains(from) {
            bail!("deploy/examples/report-jobs.yaml does not hold {from:?}");
        }
        text = text.replace(from, &to);
    }
    let is_job = |document: &&str| document.lines().any(|line| line == "kind: ReportJob");
    let documents = text.split("\n---\n").filter(|document| !is_job(document));
    // Comments are for those who read the file.
    let bare = |document: &str| {
        let lines = document
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        lines.map(|line| format!("{line}\n")).collect()
    };
    Ok(documents.map(bare).collect())
}

/// Name of the job with that number, from 1.
pub(super) fn name(number: usize) -> String {
    format!("report-{number:04}")
}

/// `count` jobs and the poisoned one, which goes first, as a list for kubectl.
pub(super) fn list(count: usize, namespace: &str) -> Value {
    const REPORTS: [&str; 3] = ["sales", "payroll", "stock"];
    let job = |name: &str, report: &str, priority: i64| {
        json!({
            "apiVersion": "batch.acme.io/v1",
            "kind": "ReportJob",
            "metadata": {"name": name, "namespace": namespace, "labels": {PHASE_LABEL: "pending"}},
            "spec": {"report": report, "format": "pdf", "priority": priority},
        })
    };
    let plain = (1..=count).map(|n| job(&name(n), REPORTS[n % REPORTS.len()], 0));
    let all = std::iter::once(job(POISONED, "audit", 10)).chain(plain);
    json!({"apiVersion": "v1", "kind": "List", "items": all.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_takes_the_values_of_a_run() {
        let values = Values {
            host: "host-7",
            reports: "reports-7",
            plugin: "/a b/x.wasm",
            exporter: "127.0.0.1:9",
        };
        let manifests = manifests(&values).unwrap();
        assert_eq!(manifests.len(), 4);
        let mappings = &manifests[3];
        for expected in [
            "namespace: host-7\n",
            "namespaces: [reports-7]",
            "{file: '/a b/x.wasm'}",
            "'http://127.0.0.1:9'",
            "host: '127.0.0.1:9'",
        ] {
            assert!(mappings.contains(expected), "{expected}: {mappings}");
        }
        let all = manifests.concat();
        assert!(
            !all.contains("8088") && !all.contains('#') && !all.contains("guesthouse-system"),
            "{all}"
        );
    }

    #[test]
    fn the_jobs_begin_as_pending_and_the_poisoned_one_goes_first() {
        let list = list(3, "reports");
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 4);
        assert_eq!(items[0]["metadata"]["name"], POISONED);
        assert!(
            items
                .iter()
                .all(|job| job["metadata"]["labels"][PHASE_LABEL] == "pending")
        );
        assert_eq!(items[3]["metadata"]["name"], name(3));
    }
}
