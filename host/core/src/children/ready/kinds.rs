//! Kinds that say how far they are in ways of their own.

use serde_json::Value;

use super::{Readiness, Seen, all, current, failed, in_progress, int, text};

/// The rule of one kind, over spec and status.
type Rule = fn(&Value, &Seen) -> Readiness;

/// The rule of a kind, if it has one.
pub(super) fn rule(group: &str, kind: &str) -> Option<Rule> {
    Some(match (group, kind) {
        ("apps" | "extensions", "Deployment") => deployment,
        ("apps" | "extensions", "ReplicaSet") => replica_set,
        ("apps" | "extensions", "DaemonSet") => daemon_set,
        ("apps", "StatefulSet") => stateful_set,
        ("batch", "Job") => job,
        ("", "Pod") => pod,
        ("", "PersistentVolumeClaim") => claim,
        ("", "Service") => service,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition,
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") | ("policy", "PodDisruptionBudget") => {
            always
        }
        _ => return None,
    })
}

fn always(_: &Value, _: &Seen) -> Readiness {
    current()
}

/// Without a deadline the controller sets no `Progressing`; this number stands for none.
const NO_DEADLINE: i64 = i32::MAX as i64;

fn deployment(spec: &Value, seen: &Seen) -> Readiness {
    let progressing = seen.condition("Progressing");
    if progressing
        .as_ref()
        .is_some_and(|said| said.reason == "ProgressDeadlineExceeded")
    {
        return failed("progress deadline exceeded");
    }
    let deadline = int(spec, "/progressDeadlineSeconds").unwrap_or(NO_DEADLINE);
    let progressed = deadline == NO_DEADLINE
        || progressing
            .is_some_and(|said| said.status == "True" && said.reason == "NewReplicaSetAvailable");
    let wanted = int(spec, "/replicas").unwrap_or(1);
    let (replicas, updated) = (seen.int("/replicas"), seen.int("/updatedReplicas"));
    all(&[
        (wanted <= replicas, "fewer replicas than asked for"),
        (wanted <= updated, "replicas are being updated"),
        (replicas <= wanted, "replicas are being terminated"),
        (
            updated <= seen.int("/availableReplicas"),
            "replicas are not available yet",
        ),
        (
            wanted <= seen.int("/readyReplicas"),
            "replicas are not ready yet",
        ),
        (progressed, "its ReplicaSet is not available yet"),
        (seen.is_true("Available"), "not available yet"),
    ])
}

fn replica_set(spec: &Value, seen: &Seen) -> Readiness {
    let wanted = int(spec, "/replicas").unwrap_or(1);
    all(&[
        (
            !seen.is_true("ReplicaFailure"),
            "a pod could not be made or deleted",
        ),
        (
            wanted <= seen.int("/fullyLabeledReplicas"),
            "fewer replicas than asked for",
        ),
        (
            wanted <= seen.int("/availableReplicas"),
            "replicas are not available yet",
        ),
        (
            wanted <= seen.int("/readyReplicas"),
            "replicas are not ready yet",
        ),
        (
            seen.int("/replicas") <= wanted,
            "replicas are being terminated",
        ),
    ])
}

fn daemon_set(_: &Value, seen: &Seen) -> Readiness {
    let observed = int(&seen.status, "/observedGeneration").is_some() && seen.generation.is_some();
    let wanted = int(&seen.status, "/desiredNumberScheduled");
    let Some(wanted) = wanted.filter(|_| observed) else {
        return in_progress("its controller has not seen it yet");
    };
    all(&[
        (
            wanted <= seen.int("/currentNumberScheduled"),
            "pods are not scheduled yet",
        ),
        (
            wanted <= seen.int("/updatedNumberScheduled"),
            "pods are being updated",
        ),
        (
            wanted <= seen.int("/numberAvailable"),
            "pods are not available yet",
        ),
        (wanted <= seen.int("/numberReady"), "pods are not ready yet"),
    ])
}

fn stateful_set(spec: &Value, seen: &Seen) -> Readiness {
    if text(spec, "/updateStrategy/type") == "OnDelete" {
        return current();
    }
    let wanted = int(spec, "/replicas").unwrap_or(1);
    let replicas = seen.int("/replicas");
    let partition = int(spec, "/updateStrategy/rollingUpdate/partition");
    let rolled_out = match partition {
        Some(partition) => seen.int("/updatedReplicas") >= wanted - partition,
        None => {
            wanted <= seen.int("/currentReplicas")
                && seen.text("/currentRevision") == seen.text("/updateRevision")
        }
    };
    all(&[
        (wanted <= replicas, "fewer replicas than asked for"),
        (
            wanted <= seen.int("/readyReplicas"),
            "replicas are not ready yet",
        ),
        (replicas <= wanted, "replicas are being terminated"),
        (rolled_out, "replicas are being updated"),
    ])
}

fn job(_: &Value, seen: &Seen) -> Readiness {
    if let Some(said) = seen.condition("Failed")
        && said.status == "True"
    {
        return failed(format!("failed: {}", said.words()));
    }
    if seen.is_true("Complete") {
        return current();
    }
    in_progress(if seen.is_true("Suspended") {
        "suspended"
    } else if seen.text("/startTime").is_empty() {
        "not started yet"
    } else {
        "running"
    })
}

fn pod(_: &Value, seen: &Seen) -> Readiness {
    match seen.text("/phase") {
        "Succeeded" => current(),
        "Failed" => failed(match seen.text("/message") {
            "" => "ended without success",
            message => message,
        }),
        "Running" if seen.is_true("Ready") => current(),
        "Running" => match crash_looping(seen) {
            names if names.is_empty() => in_progress("running, and not ready yet"),
            names => failed(format!("containers keep crashing: {}", names.join(", "))),
        },
        "Pending" => match seen.condition("PodScheduled") {
            Some(said) if said.status == "False" && said.reason == "Unschedulable" => {
                in_progress("no node takes it")
            }
            _ => in_progress("pending"),
        },
        _ => in_progress("not seen by its node yet"),
    }
}

fn crash_looping(seen: &Seen) -> Vec<&str> {
    seen.status["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|container| text(container, "/state/waiting/reason") == "CrashLoopBackOff")
        .map(|container| text(container, "/name"))
        .collect()
}

fn claim(_: &Value, seen: &Seen) -> Readiness {
    match seen.text("/phase") {
        "Bound" => current(),
        _ => in_progress("not bound yet"),
    }
}

fn service(spec: &Value, _: &Seen) -> Readiness {
    if text(spec, "/type") == "LoadBalancer" && text(spec, "/clusterIP").is_empty() {
        return in_progress("no cluster IP yet");
    }
    current()
}

fn definition(_: &Value, seen: &Seen) -> Readiness {
    for said in seen.conditions() {
        match (said.type_, said.status) {
            ("NamesAccepted", "False") => return failed(said.words()),
            ("Established", "False") if said.reason != "Installing" => return failed(said.words()),
            ("Established", "True") => return current(),
            _ => {}
        }
    }
    in_progress("being installed")
}
