//! The objects: `ReportJob`s of half a kilobyte, or of about 3 KB with nested parameters, new or settled.

use crate::api::{Api, IN_FLIGHT};
use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use std::time::Duration;

/// The label that mirrors the phase.
/// Objects carry the numbers below [`SHARDS`] in turn.
const SHARD_LABEL: &str = "bench.guesthouse.dev/shard";
const SHARDS: usize = 100;
pub(crate) const PHASE_LABEL: &str = "workqueue.acme.io/phase";
/// Sections of the big objects: 2.3 KB of spec in 46 small maps.
pub(crate) const SECTIONS: usize = 4;
const ATTEMPTS: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Create {
    /// How many.
    #[arg(short)]
    n: usize,
    /// With about 2 KB of nested parameters.
    #[arg(long)]
    big: bool,
    /// Already Done, with status and label as a controller leaves them.
    #[arg(long)]
    done: bool,
    /// Namespace of the objects.
    #[arg(long, default_value = "default")]
    namespace: String,
}

#[derive(clap::Args)]
pub(crate) struct Delete {
    /// Namespace of the objects.
    #[arg(long, default_value = "default")]
    namespace: String,
}

pub(crate) async fn create(args: &Create) -> Result<()> {
    let api = Api::infer(&args.namespace).await?;
    let sections = if args.big { SECTIONS } else { 0 };
    make(&api, args.n, sections, args.done).await
}

/// Creates `n` objects, some at once.
pub(crate) async fn make(api: &Api, n: usize, sections: usize, done: bool) -> Result<()> {
    stream::iter(0..n)
        .map(|index| async move {
            let name = name(index);
            api.create(object(&name, index, sections, done)).await?;
            if done {
                api.patch_status(&name, settled(&name)).await?;
            }
            anyhow::Ok(())
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await
}

pub(crate) async fn delete(args: &Delete) -> Result<()> {
    let api = Api::infer(&args.namespace).await?;
    // Deleting many may take the server longer than it gives itself (504); it goes on where it stopped.
    for _ in 0..ATTEMPTS {
        let result = api.delete_all().await;
        if api.count().await?.0 == 0 {
            return Ok(());
        }
        if let Err(error) = result {
            eprintln!("deleting again: {error:#}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("objects are left after {ATTEMPTS} deletions of all")
}

/// The name of the object with this number.
pub(crate) fn name(index: usize) -> String {
    format!("job-{index:06}")
}

/// An object to create.
pub(crate) fn object(name: &str, index: usize, sections: usize, done: bool) -> String {
    let mut object = json!({
        "apiVersion": "batch.acme.io/v1",
        "kind": "ReportJob",
        "metadata": {"name": name},
        "spec": spec(index, sections),
    });
    // In turn, so that many mappings can share the objects.
    object["metadata"]["labels"] = json!({SHARD_LABEL: (index % SHARDS).to_string()});
    if done {
        object["metadata"]["labels"][PHASE_LABEL] = json!("done");
    }
    object.to_string()
}

pub(crate) fn spec(index: usize, sections: usize) -> Value {
    let mut spec = json!({"report": "sales", "format": "pdf", "priority": index % 10, "notBefore": "2026-01-01T00:00:00Z"});
    if sections > 0 {
        let sections: Vec<Value> = (0..sections).map(|s| section(s, index)).collect();
        spec["parameters"] = json!({ "sections": sections });
    }
    spec
}

fn section(section: usize, index: usize) -> Value {
    let columns: Vec<Value> = (0..5)
        .map(|c| json!({"name": format!("column_{section}_{c}"), "width": 40 + c, "align": "left"}))
        .collect();
    let filters: Vec<Value> = (0..4)
        .map(
            |c| json!({"field": format!("field_{c}"), "op": "eq", "value": format!("value-{index}-{c}")}),
        )
        .collect();
    json!({
        "title": format!("Section {section} of job {index}"),
        "columns": columns,
        "filters": filters,
        "limits": {"rows": 1000 + section, "bytes": 1 << 20},
    })
}

/// The status that either competitor leaves, as a merge patch.
fn settled(name: &str) -> String {
    json!({"status": {
        "phase": "Done",
        "url": format!("https://reports.example/{name}.pdf"),
        "observedGeneration": 1,
    }})
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_big_object_has_about_two_kilobytes_of_parameters() {
        let small = object("a", 1, 0, false).len();
        let big = object("a", 1, SECTIONS, false).len();
        assert!((2000..2600).contains(&(big - small)), "{}", big - small);
    }
}
