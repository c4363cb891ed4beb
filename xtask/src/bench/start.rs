//! The start with many mappings: a hundred plugins of their own digest, their compiled code in the cache, an object for each.

use super::{Bench, Who, tables::Results};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// Mappings, plugins and objects.
const MAPPINGS: usize = 100;
/// Namespace of these mappings; those of the other measurements are elsewhere.
pub(super) const NAMESPACE: &str = "guesthouse-start";
/// The load program labels its objects in turn.
const SHARD: &str = "bench.guesthouse.dev/shard";

impl Bench<'_> {
    /// From the host's start to the first object done, and to the last one of all mappings.
    pub(super) fn start(&self, rounds: usize, results: &mut Results) -> Result<()> {
        let dir = self.work.join("start");
        std::fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        let wasm = std::fs::read(self.built.plugins.join("peer_plugin.wasm"))?;
        let mut mappings = Map::new();
        for number in 0..MAPPINGS {
            let file = dir.join(format!("p{number}.wasm"));
            std::fs::write(&file, [&wasm[..], &section(number)].concat())
                .with_context(|| format!("write {}", file.display()))?;
            let mapping = json!({
                "for": {
                    "apiVersion": "batch.acme.io/v1", "kind": "ReportJob",
                    "labelSelector": format!("{SHARD}={number}"),
                },
                "plugin": {"file": file},
                "serviceAccount": "bench",
            });
            // JSON is YAML.
            mappings.insert(format!("m{number}.yaml"), mapping.to_string().into());
        }
        self.apply(&configuration(mappings).to_string())?;
        let n = MAPPINGS.to_string();
        for round in 0..=rounds {
            let line = self.measure("drain", &["-n", &n], Some(Who::HostOfMany))?;
            self.measure("delete", &[], None)?;
            // The first one compiles.
            if round > 0 {
                results.take(&line)?;
            }
        }
        Ok(())
    }
}

fn configuration(mappings: Map<String, Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "start", "namespace": NAMESPACE,
                "labels": {"guesthouse.dev/mappings": "true"},
            },
            "data": mappings,
        },
    ]})
}

/// A custom section that nobody reads: other bytes, so another digest.
fn section(number: usize) -> Vec<u8> {
    let text = format!("bench{number:03}");
    let mut section = vec![0, 9, 8];
    section.extend_from_slice(text.as_bytes());
    section
}
