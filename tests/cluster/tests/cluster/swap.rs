//! Another plugin under a running host.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{CONFIG_MAPS, REPORT_JOBS, Scene, output, plugin, scenario};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn a_plugin_file_that_is_replaced_is_swapped_in_and_all_objects_are_passed_again() -> Result<()> {
    scenario("swap-file", async |scene| {
        let file = scene.dir.join("plugin.wasm");
        let put = async |plugin: &Path| {
            let aside = scene.dir.join("plugin.new");
            std::fs::copy(plugin, &aside)?;
            std::fs::rename(&aside, &file).context("put a file in place")
        };
        put(&plugin("echo")?).await?;
        swapped(scene, json!({"file": file}), put).await
    })
}

#[test]
fn a_plugin_in_a_config_map_that_is_replaced_is_swapped_in_and_all_objects_are_passed_again()
-> Result<()> {
    scenario("swap-config-map", async |scene| {
        let put = async |plugin: &Path| {
            // As a user does it.
            let from = format!("--from-file=plugin.wasm={}", plugin.display());
            let arguments = [
                "create",
                "configmap",
                "the-plugin",
                "-n",
                &scene.home,
                &from,
            ];
            let dry = ["--dry-run=client", "-o", "json"];
            let made = output(scene.kubectl().args(arguments).args(dry))?;
            let object: Value = serde_json::from_str(&made)?;
            let found = scene
                .api
                .find(CONFIG_MAPS, &scene.home, "the-plugin")
                .await?;
            if found.is_none() {
                scene.api.create(CONFIG_MAPS, &scene.home, object).await?;
            } else {
                let patch = json!({"binaryData": object["binaryData"]});
                scene
                    .api
                    .patch(CONFIG_MAPS, &scene.home, "the-plugin", patch)
                    .await?;
            }
            Ok(())
        };
        put(&plugin("echo")?).await?;
        let source = json!({"configMap": {"name": "the-plugin", "key": "plugin.wasm"}});
        swapped(scene, source, put).await
    })
}

/// From a plugin that knows no phases to one for which every job is done, and back. Both are for the same objects, so that every
/// one of them shows who was here last.
async fn swapped(
    scene: &Scene<'_>,
    source: Value,
    put: impl AsyncFn(&Path) -> Result<()>,
) -> Result<()> {
    let mut mapping = scene.mapping(REPORT_JOBS, Path::new(""));
    mapping["plugin"] = source;
    scene.map("report-jobs", &mapping.to_string()).await?;
    let host = scene.host()?;
    let names: Vec<_> = (0..20).map(|number| format!("job-{number}")).collect();
    for name in &names {
        scene.job(name, json!({})).await?;
    }
    for (next, phase) in [
        ("", "Pending"),
        ("peer_plugin", "Done"),
        ("echo", "Pending"),
    ] {
        if !next.is_empty() {
            put(&plugin(next)?).await?;
        }
        let passed = |job: &Value| {
            job["status"]["phase"] == phase && job["status"]["observedGeneration"] == 1
        };
        for name in &names {
            scene.job_is(name, phase, passed).await?;
        }
    }
    for told in ["echo", "peer-plugin"] {
        scene
            .told(&scene.home, "report-jobs", "MappingActive", told)
            .await?;
    }
    ensure!(host.ended()?.is_none(), "it was restarted");
    Ok(())
}
