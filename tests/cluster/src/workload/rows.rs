//! The rows.

use super::{CHILDREN, Life, Workload, name};
use crate::api::{CONFIG_MAPS, ECHOES, PROVISION_REQUESTS, REPORT_JOBS, WEBSITES, WISHES};
use crate::kinds::{child, condition};
use Life::{Change, Create, Delete};
use report_exporter::{Fail, Mode};
use serde_json::{Value, json};

const FIRST: &[u64] = &[1];
const SECOND: &[u64] = &[2];
const SOME: &[u64] = &[1, 4];

/// Reports, each exported once; one of them at its second attempt.
pub const REPORT_JOB: Workload = Workload {
    name: "report-jobs",
    resource: REPORT_JOBS,
    mapping: |scene| scene.report_jobs(),
    outside: |scene| {
        let first = Fail::times(Mode::Http500, 1);
        scene.exporter.fail(first.only(scene.report(&name(0))));
    },
    object: |_| json!({"metadata": {"labels": {"workqueue.acme.io/phase": "pending"}}, "spec": {"report": "sales"}}),
    // Not the priority: whoever is edited would go first for ever.
    edit: |round| json!({"spec": {"parameters": {"round": round}}}),
    is_settled: |job| job["status"]["phase"] == "Done" && is_observed(job),
    on_record: |_| "applied",
    children: &[],
    has_receipts: true,
    // An attempt whose failure was not on record yet does not count.
    volatile: &["/status/retries"],
    ledger: |ledger, objects, _| {
        let mut findings = Vec::new();
        if (ledger.made, ledger.duplicates) != (objects as u64, 0) {
            findings.push(format!("{objects} reports were wanted: {ledger:?}"));
        }
        findings
    },
    points: &[
        (Create, "before-send", SOME),
        (Create, "after-send", SOME),
        (Create, "after-answer", SOME),
        (Create, "before-receipt", SOME),
        (Create, "after-receipt", SOME),
        (Create, "before-labels", SOME),
        (Create, "after-labels", SOME),
        (Create, "before-status", SOME),
        (Create, "after-status", SOME),
        (Create, "during-cache-write", &[1, 2]),
        (Create, "before-cache-rename", FIRST),
        (Create, "during-swap-publish", FIRST),
    ],
};

/// Objects that the plugin gives up until they are edited: what a journal holds without any effect.
pub const ECHO: Workload = Workload {
    name: "echoes",
    resource: ECHOES,
    mapping: |scene| scene.echoes(),
    outside: |_| {},
    object: |_| json!({"spec": {"fail": "terminal", "message": "not yet"}}),
    edit: |round| json!({"spec": {"fail": null, "round": round}}),
    is_settled: |echo| match echo["spec"]["fail"].is_null() {
        true => echo["status"]["echo"] == echo["spec"],
        false => condition(echo, "Stalled")["status"] == "True",
    },
    on_record: |echo| match echo["spec"]["fail"].is_null() {
        true => "applied",
        false => "stalled",
    },
    children: &[],
    has_receipts: true,
    volatile: &[],
    ledger: |_, _, _| Vec::new(),
    points: &[
        (Create, "before-journal", SECOND),
        (Create, "after-journal", SECOND),
        (Create, "before-status", SECOND),
        (Create, "after-status", SECOND),
        (Change, "before-journal", FIRST),
        (Change, "after-status", FIRST),
    ],
};

/// Websites with all their children; at every other edit the host is cleared, and the Ingress goes.
pub const WEBSITE: Workload = Workload {
    name: "websites",
    resource: WEBSITES,
    mapping: |scene| scene.websites(),
    outside: |_| {},
    object: |_| json!({"spec": {"host": "site.example", "content": {"index.html": "new"}}}),
    edit: |round| {
        let host = (round % 2 == 0).then_some("site.example");
        json!({"spec": {"host": host, "content": {"index.html": format!("round {round}")}}})
    },
    is_settled: |site| {
        is_ready(site) && site["status"]["readyReplicas"] == site["spec"]["replicas"]
    },
    on_record: |_| "applied",
    children: CHILDREN,
    has_receipts: false,
    // A Service's addresses are drawn by the API server.
    volatile: &["/spec/clusterIP", "/spec/clusterIPs"],
    ledger: |_, _, _| Vec::new(),
    points: &[
        (Create, "before-finalizer-write", FIRST),
        (Create, "after-finalizer-write", SECOND),
        (Create, "before-journal", &[2, 9]),
        (Create, "after-journal", &[1, 10]),
        (Create, "before-apply", &[1, 8]),
        (Create, "after-apply", &[2, 9]),
        (Create, "before-status", FIRST),
        (Create, "after-status", SECOND),
        (Change, "before-apply", FIRST),
        (Change, "after-apply", &[2, 5]),
        (Change, "before-delete", SECOND),
        (Change, "after-delete", FIRST),
        (Change, "after-journal", SECOND),
        (Change, "before-status", SECOND),
        (Delete, "before-delete", &[1, 4]),
        (Delete, "after-delete", &[2, 5]),
        (Delete, "before-finalizer-removal", SECOND),
        (Delete, "after-finalizer-removal", FIRST),
    ],
};

/// Resources outside: made once, resized once, gone before their objects are.
pub const PROVISION_REQUEST: Workload = Workload {
    name: "provision-requests",
    resource: PROVISION_REQUESTS,
    mapping: |scene| {
        let mut mapping = scene.provision_requests(&scene.provider.url())?;
        mapping["retry"] = json!({"base": "200ms", "max": "2s", "limit": 20});
        Ok(mapping)
    },
    outside: |_| {},
    object: |_| json!({"spec": {"size": "small", "region": "eu"}}),
    edit: |round| {
        let size = ["medium", "large", "small"][round % 3];
        json!({"spec": {"size": size}})
    },
    is_settled: |request| is_ready(request) && request["status"]["size"] == request["spec"]["size"],
    on_record: |_| "applied",
    children: &[],
    // What is found as it shall be is not asked for again: then there is none.
    has_receipts: false,
    volatile: &[],
    ledger: |ledger, objects, life| {
        let wanted = match life {
            Create => (1, 0, 0),
            Change => (1, 1, 0),
            Delete => (1, 1, 1),
        };
        let mut findings = Vec::new();
        if ledger.acts.len() != objects {
            findings.push(format!("{objects} resources were wanted: {ledger:?}"));
        }
        for (id, acts) in &ledger.acts {
            if (acts.created, acts.resized, acts.deleted) != wanted {
                findings.push(format!("{id} at the end of {life:?}: {acts:?}"));
            }
        }
        let there = if life == Delete { 0 } else { objects };
        if ledger.resources.len() != there {
            findings.push(format!("{there} resources are wanted: {ledger:?}"));
        }
        findings
    },
    points: &[
        (Create, "before-finalizer-write", SECOND),
        (Create, "after-finalizer-write", FIRST),
        (Create, "before-journal", FIRST),
        (Create, "after-journal", SECOND),
        (Create, "before-send", FIRST),
        (Create, "after-send", SOME),
        (Create, "after-answer", SECOND),
        (Create, "before-receipt", SOME),
        (Create, "after-receipt", FIRST),
        (Create, "before-status", SECOND),
        (Create, "after-status", FIRST),
        (Change, "before-send", SECOND),
        (Change, "after-send", SOME),
        (Change, "before-receipt", FIRST),
        (Change, "after-receipt", SECOND),
        (Change, "before-status", FIRST),
        (Delete, "before-send", FIRST),
        (Delete, "after-send", SOME),
        (Delete, "before-receipt", SECOND),
        (Delete, "after-receipt", FIRST),
        (Delete, "after-status", SECOND),
        (Delete, "before-finalizer-removal", SOME),
        (Delete, "after-finalizer-removal", SECOND),
    ],
};

/// Children of which nothing is said any more after an edit: they stay.
pub const WISH: Workload = Workload {
    name: "wishes",
    resource: WISHES,
    mapping: |scene| scene.wishes("decide", &[CONFIG_MAPS]),
    outside: |_| {},
    object: |number| {
        let name = name(number);
        let (first, second) = (format!("{name}-a"), format!("{name}-b"));
        let mut after = child("b", CONFIG_MAPS, &second, json!({"data": {"b": "1"}}));
        after["after"] = json!(["a"]);
        let first = child("a", CONFIG_MAPS, &first, json!({"data": {"a": "1"}}));
        json!({"spec": {"reconcile": {"children": [first, after]}}})
    },
    edit: |round| json!({"spec": {"reconcile": {"children": null, "labels": {"round": round.to_string()}}}}),
    is_settled: is_ready,
    on_record: |_| "applied",
    children: &[CONFIG_MAPS],
    has_receipts: false,
    // How its children stood in the last call, which need not be the last pass.
    volatile: &["/status"],
    ledger: |_, _, _| Vec::new(),
    points: &[
        (Change, "before-labels", FIRST),
        (Change, "after-status", SECOND),
    ],
};

fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

fn is_ready(object: &Value) -> bool {
    let ready = condition(object, "Ready");
    ready["status"] == "True"
        && ready["observedGeneration"] == object["metadata"]["generation"]
        && is_observed(object)
}
