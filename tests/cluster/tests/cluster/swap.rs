//! Another plugin under a running host.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{Arguments, CONFIG_MAPS, REPORT_JOBS, Scene, output, plugin, scenario};
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

#[test]
fn swaps_in_the_middle_of_a_drain_lose_nothing_and_double_nothing() -> Result<()> {
    scenario("swap-drain", async |scene| {
        let file = scene.dir.join("plugin.wasm");
        let mut wasm = std::fs::read(plugin("report_job")?)?;
        let mut put = || {
            // A custom section (WebAssembly core specification, 5.5.3) says nothing and makes another digest.
            wasm.extend(b"\0\x05\x04more");
            let aside = scene.dir.join("plugin.new");
            std::fs::write(&aside, &wasm)?;
            std::fs::rename(&aside, &file).context("put a file in place")
        };
        put()?;
        let mut mapping = scene.report_jobs()?;
        mapping["plugin"] = json!({"file": file});
        scene.map("report-jobs", &mapping.to_string()).await?;
        for number in 0..100 {
            scene.job(&format!("job-{number}"), json!({})).await?;
        }
        // Slow enough that the swaps find it at work, however long they take.
        scene.exporter.delay(300);
        let host = scene.host_with(&Arguments::with(&["--http-in-flight", "2"]))?;
        for swap in 1..=3 {
            let more = scene.exporter.stats().made + 5;
            scene
                .until("some more reports are made", || {
                    Ok(scene.exporter.stats().made >= more)
                })
                .await?;
            put()?;
            // Each version is told with its own digest.
            scene
                .eventually("the new version serves", async || {
                    let mut events = scene.api.events(&scene.home, "report-jobs").await?;
                    events.retain(|event| event.reason == "MappingActive");
                    Ok((events.len() as u64 == swap + 1).then_some(()))
                })
                .await?;
        }
        ensure!(
            scene.exporter.stats().made < 100,
            "all was done before the last swap"
        );
        scene.exporter.delay(0);
        for job in scene.drained(100).await? {
            ensure!(job["status"]["phase"] == "Done", "{job}");
        }
        let stats = scene.exporter.stats();
        ensure!(
            (stats.made, stats.repeats, stats.duplicates) == (100, 0, 0),
            "{stats:?}"
        );
        ensure!(host.ended()?.is_none(), "it was restarted");
        Ok(())
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
