//! The native competitor: kube's `Controller` over `DynamicObject`, as a user would write it for a kind that is known only at
//! run time, with the reconciler that `bench/peer-plugin` has as a plugin.
//!
//! An object whose phase is neither `Done` nor `Failed` becomes `Done` with a url (merge patch of the status), then gets the
//! label that mirrors the phase (merge patch): two writes an object. `CONCURRENCY` is kube's setting of that name, reconciles
//! at once; 0 or absent is kube's default, without bound.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{Config, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;

struct Shared {
    client: Client,
    resource: ApiResource,
}

async fn reconcile(job: Arc<DynamicObject>, shared: Arc<Shared>) -> Result<Action, kube::Error> {
    let phase = job.data["status"]["phase"].as_str();
    if matches!(phase, Some("Done" | "Failed")) {
        return Ok(Action::await_change());
    }
    let namespace = job.namespace().unwrap_or_default();
    let name = job.name_any();
    let format = job.data["spec"]["format"].as_str().unwrap_or("pdf");
    let jobs: Api<DynamicObject> =
        Api::namespaced_with(shared.client.clone(), &namespace, &shared.resource);
    let params = PatchParams::default();
    let status = json!({"status": {
        "phase": "Done",
        "url": format!("https://reports.example/{name}.{format}"),
        "observedGeneration": job.metadata.generation,
    }});
    jobs.patch_status(&name, &params, &Patch::Merge(&status))
        .await?;
    let label = json!({"metadata": {"labels": {"workqueue.acme.io/phase": "done"}}});
    jobs.patch(&name, &params, &Patch::Merge(&label)).await?;
    Ok(Action::await_change())
}

fn failed(job: Arc<DynamicObject>, error: &kube::Error, _: Arc<Shared>) -> Action {
    eprintln!("{}: {error}", job.name_any());
    Action::requeue(Duration::from_secs(1))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let concurrency = match std::env::var("CONCURRENCY") {
        Ok(text) => text.parse().context("CONCURRENCY")?,
        Err(_) => 0,
    };
    let client = Client::try_default().await?;
    let kind = GroupVersionKind::gvk("batch.acme.io", "v1", "ReportJob");
    let resource = ApiResource::from_gvk_with_plural(&kind, "reportjobs");
    let jobs: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let shared = Arc::new(Shared {
        client,
        resource: resource.clone(),
    });
    Controller::new_with(jobs, watcher::Config::default(), resource)
        .with_config(Config::default().concurrency(concurrency))
        .shutdown_on_signal()
        .run(reconcile, failed, shared)
        .for_each(|_| async {})
        .await;
    Ok(())
}
