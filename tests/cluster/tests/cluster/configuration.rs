//! Wrong mappings are told on their ConfigMap and concern nobody else; what was good stays in force.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{CONFIG_MAPS, ECHOES, REPORT_JOBS, Scene, plugin, scenario};
use report_exporter::Exporter;
use serde_json::{Value, json};
use std::path::Path;

/// vector#2224
#[test]
fn each_wrong_mapping_is_told_on_its_config_map_and_the_good_ones_run() -> Result<()> {
    scenario("wrong", async |scene| {
        scene.map_report_jobs().await?;
        let wrongs = wrongs(scene)?;
        for (name, mapping, ..) in &wrongs {
            scene.map(name, &mapping.to_string()).await?;
        }
        let host = scene.host()?;
        for (name, _, reason, note) in &wrongs {
            let told = scene.told(&scene.home, name, reason, note).await?;
            ensure!(told.type_ == "Warning", "{told:?}");
            let names = format!("mapping {name}: ");
            ensure!(told.note.starts_with(&names), "{told:?}");
        }
        scene.job("good", json!({})).await?;
        scene.done("good").await?;
        // Of two mappings over the same objects the younger one is refused, and the older one has them.
        scene
            .map("younger", &scene.report_jobs()?.to_string())
            .await?;
        scene
            .told(&scene.home, "younger", "MappingInvalid", "report-jobs")
            .await?;
        scene.job("still", json!({})).await?;
        scene.done("still").await?;
        // Each was told once.
        for (name, ..) in &wrongs {
            let events = scene.api.events(&scene.home, name).await?;
            ensure!(events.len() == 1, "{name}: {events:?}");
        }
        ensure!(host.ended()?.is_none());
        Ok(())
    })
}

type Wrong = (&'static str, Value, &'static str, &'static str);

/// Name, mapping, the Event's reason, and what its note says. None overlaps another.
fn wrongs(scene: &Scene<'_>) -> Result<Vec<Wrong>> {
    let good = |name: &str| -> Result<Value> {
        let mut mapping = scene.report_jobs()?;
        mapping["for"]["namespaces"] = json!([format!("{}-{name}", scene.namespace)]);
        Ok(mapping)
    };
    let mut unknown_field = good("a")?;
    unknown_field["resinc"] = json!("10h");
    let mut missing_file = good("b")?;
    missing_file["plugin"] = json!({"file": "/nowhere/report_job.wasm"});
    let text = scene.dir.join("text.wasm");
    std::fs::write(&text, "this is not WebAssembly\n")?;
    let mut not_wasm = good("c")?;
    not_wasm["plugin"] = json!({"file": text});
    let wrong_kind = scene.mapping(ECHOES, &plugin("report_job")?);
    let mut wrong_config = good("e")?;
    wrong_config["config"] = json!({"exporter": 7});
    let mut no_config_map = good("f")?;
    no_config_map["plugin"] = json!({"configMap": {"name": "nowhere", "key": "report_job.wasm"}});
    Ok(vec![
        (
            "unknown-field",
            unknown_field,
            "MappingInvalid",
            "unknown field `resinc`, expected one of",
        ),
        (
            "missing-file",
            missing_file,
            "PluginRefused",
            "/nowhere/report_job.wasm cannot be read",
        ),
        ("not-wasm", not_wasm, "PluginRefused", "BadModule"),
        (
            "wrong-kind",
            wrong_kind,
            "PluginRefused",
            "report-job is for batch.acme.io/v1 ReportJob, not for test.guesthouse.dev/v1 Echo",
        ),
        (
            "wrong-config",
            wrong_config,
            "PluginRefused",
            "config.exporter does not fit",
        ),
        (
            "no-config-map",
            no_config_map,
            "PluginRefused",
            "there is no such ConfigMap",
        ),
    ])
}

/// vector#2224
#[test]
fn a_good_mapping_that_is_edited_into_a_bad_one_serves_on_until_it_is_repaired() -> Result<()> {
    scenario("edited", async |scene| {
        let good = scene.report_jobs()?;
        scene.map("report-jobs", &good.to_string()).await?;
        let _host = scene.host()?;
        scene.job("before", json!({})).await?;
        scene.done("before").await?;

        let mut bad = good.clone();
        bad["concurency"] = json!(3);
        scene.map("report-jobs", &bad.to_string()).await?;
        let note = "the last good version stays in force";
        let told = scene
            .told(&scene.home, "report-jobs", "MappingInvalid", note)
            .await?;
        ensure!(told.note.contains("`concurency`"), "{told:?}");
        scene.job("meanwhile", json!({})).await?;
        scene.done("meanwhile").await?;

        // What reads well may still not fit the plugin.
        let mut unfit = good.clone();
        unfit["config"]["exporter"] = json!(7);
        scene.map("report-jobs", &unfit.to_string()).await?;
        scene
            .told(&scene.home, "report-jobs", "PluginRefused", "serves on")
            .await?;
        scene.job("unfit", json!({})).await?;
        scene.done("unfit").await?;

        // Repaired to something that shows: another exporter.
        let other = Exporter::start("127.0.0.1:0").await?;
        let mut repaired = good;
        repaired["config"]["exporter"] = json!(other.url());
        scene.map("report-jobs", &repaired.to_string()).await?;
        exported_to(scene, &other).await?;
        ensure!(scene.exporter.stats().duplicates == 0);
        Ok(())
    })
}

/// Creates jobs until one is exported there, which shows that the mapping is in force.
async fn exported_to(scene: &Scene<'_>, exporter: &Exporter) -> Result<()> {
    let mut number = 0;
    scene
        .eventually("a job is exported to the other exporter", async || {
            let name = format!("after-{number}");
            number += 1;
            scene.job(&name, json!({})).await?;
            let job = scene.done(&name).await?;
            let url = job["status"]["url"].as_str().context("a url")?;
            Ok(url.starts_with(&exporter.url()).then_some(()))
        })
        .await
}

#[test]
fn a_plugin_file_that_is_overwritten_by_garbage_serves_on_until_it_is_repaired() -> Result<()> {
    scenario("overwritten", async |scene| {
        let file = scene.dir.join("plugin.wasm");
        replace(&file, &std::fs::read(plugin("peer_plugin")?)?)?;
        let mapping = scene.mapping(REPORT_JOBS, &file);
        scene.map("report-jobs", &mapping.to_string()).await?;
        let _host = scene.host()?;
        scene.job("before", json!({})).await?;
        scene.done("before").await?;

        // Not by renaming: as a copy that went wrong does it.
        std::fs::write(&file, b"\0asm garbage")?;
        let told = scene
            .told(&scene.home, "report-jobs", "PluginRefused", "serves on")
            .await?;
        ensure!(
            told.note.contains("BadModule") && told.note.contains("sha256:"),
            "{told:?}"
        );
        scene.job("meanwhile", json!({})).await?;
        scene.done("meanwhile").await?;

        std::fs::remove_file(&file)?;
        scene
            .told(
                &scene.home,
                "report-jobs",
                "PluginRefused",
                "cannot be read",
            )
            .await?;
        scene.job("without", json!({})).await?;
        scene.done("without").await?;

        // Repaired by another plugin, so that it shows: this one has no phases.
        replace(&file, &std::fs::read(plugin("echo")?)?)?;
        scene
            .told(&scene.home, "report-jobs", "MappingActive", "echo")
            .await?;
        let pending = |job: &Value| job["status"]["phase"] == "Pending";
        scene.job_is("before", "echoed", pending).await?;
        Ok(())
    })
}

#[test]
fn of_two_config_maps_with_one_mapping_the_older_has_it_until_it_goes() -> Result<()> {
    scenario("twice", async |scene| {
        let object = |name: &str, plugin: &Path| {
            let mapping = scene.mapping(REPORT_JOBS, plugin);
            let labels = json!({"guesthouse.dev/mappings": "true"});
            json!({
                "metadata": {"name": name, "labels": labels},
                "data": {"report-jobs.yaml": mapping.to_string()},
            })
        };
        let create = |object: Value| scene.api.create(CONFIG_MAPS, &scene.home, object);
        create(object("older", &plugin("peer_plugin")?)).await?;
        let _host = scene.host()?;
        scene.job("one", json!({})).await?;
        scene.done("one").await?;
        // In the same second the name decides.
        create(object("younger", &plugin("echo")?)).await?;
        scene
            .told(
                &scene.home,
                "younger",
                "MappingIgnored",
                "older ConfigMap `older`",
            )
            .await?;
        scene.job("two", json!({})).await?;
        scene.done("two").await?;
        scene.api.delete(CONFIG_MAPS, &scene.home, "older").await?;
        scene
            .told(&scene.home, "younger", "MappingActive", "echo")
            .await?;
        Ok(())
    })
}

#[test]
fn objects_of_a_mapping_that_is_removed_are_left_alone_until_it_comes_back() -> Result<()> {
    scenario("removed", async |scene| {
        scene.map_report_jobs().await?;
        scene.map("echoes", &scene.echoes()?.to_string()).await?;
        let _host = scene.host()?;
        scene.job("before", json!({})).await?;
        scene.done("before").await?;
        let name = "report-jobs";
        scene.api.delete(CONFIG_MAPS, &scene.home, name).await?;
        scene
            .until("the host knows that the mapping is removed", || {
                let removed =
                    |line: &Value| line["reason"] == "MappingRemoved" && line["mapping"] == name;
                Ok(scene.log()?.iter().any(removed))
            })
            .await?;
        scene.job("meanwhile", json!({})).await?;
        // What is still mapped is served after it, and what is not was left alone.
        let echo = json!({"metadata": {"name": "echo"}, "spec": {}});
        scene.create(ECHOES, echo).await?;
        let echoed = |echo: &Value| echo["status"]["observedGeneration"] == 1;
        scene.object_is(ECHOES, "echo", "echoed", echoed).await?;
        let job = scene.read_job("meanwhile").await?;
        ensure!(job["status"]["observedGeneration"] == -1, "{job}");
        ensure!(
            scene.journal("before").await?.is_some(),
            "a journal went with the mapping"
        );

        scene.map_report_jobs().await?;
        scene.done("meanwhile").await?;
        ensure!(scene.attempts("before").len() == 1 && scene.attempts("meanwhile").len() == 1);
        Ok(())
    })
}

/// Puts bytes in a file's place at once.
fn replace(file: &Path, bytes: &[u8]) -> Result<()> {
    let aside = file.with_extension("new");
    std::fs::write(&aside, bytes)?;
    std::fs::rename(&aside, file).context("put a file in place")
}
