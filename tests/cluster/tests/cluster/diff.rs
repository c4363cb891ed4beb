//! What another version would decide, told by the command line.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    CONFIG_MAPS, Receiver, Scene, WISHES, child, host_binary, plugin, scenario,
};
use serde_json::{Value, json};
use std::process::{Command, Output};

fn diff(scene: &Scene<'_>, old: &str, new: &str, more: &[&str]) -> Result<Output> {
    Command::new(host_binary()?)
        .arg("diff")
        .args([plugin(old)?, plugin(new)?])
        .args(more)
        .env("KUBECONFIG", scene.somebody("differ")?)
        .output()
        .context("run guesthouse diff")
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

#[test]
fn a_diff_of_files_names_what_changes_and_ends_with_one_where_something_does() -> Result<()> {
    scenario("diff-files", async |scene| {
        let objects = scene.dir.join("objects.yaml");
        let job = |name: &str| {
            json!({
                "apiVersion": "batch.acme.io/v1", "kind": "ReportJob",
                "metadata": {"name": name, "namespace": "n"}, "spec": {"report": "r"},
            })
        };
        let both = format!("{}\n---\n{}\n", job("a"), job("b"));
        std::fs::write(&objects, both)?;
        let file = objects.to_string_lossy().into_owned();
        let same = diff(scene, "peer_plugin", "peer_plugin", &["-f", &file])?;
        ensure!(same.status.code() == Some(0), "{}", text(&same));
        ensure!(
            text(&same).contains("2 as before, 0 otherwise"),
            "{}",
            text(&same)
        );
        let other = diff(scene, "peer_plugin", "echo", &["-f", &file, "-o", "json"])?;
        ensure!(other.status.code() == Some(1), "{}", text(&other));
        let report: Value = serde_json::from_slice(&other.stdout)?;
        ensure!(report["different"] == 2 && report["same"] == 0, "{report}");
        let changes = report["objects"][0]["changes"]
            .as_array()
            .context("changes")?;
        let phase = changes.iter().find(|c| c["path"] == "status.replace.phase");
        ensure!(
            phase.is_some_and(|c| c["old"] == "Done" && c["new"].is_null()),
            "{report}"
        );
        let wrong = diff(scene, "peer_plugin", "echo", &["-f", "/nowhere"])?;
        ensure!(wrong.status.code() == Some(3), "{}", text(&wrong));
        Ok(())
    })
}

#[test]
fn a_diff_of_live_objects_knows_their_children_and_receipts_and_writes_nothing() -> Result<()> {
    scenario("diff-live", async |scene| {
        let receiver = Receiver::start().await?;
        let mapping = scene.wishes("decide", &[CONFIG_MAPS])?;
        scene.map("wishes", &mapping.to_string()).await?;
        let _host = scene.host()?;
        let url = receiver.url();
        let request = json!({"id": "send", "method": "PUT", "url": url, "body": "x"});
        let wanted = json!({"reconcile": {
            "children": [child("child", CONFIG_MAPS, "child", json!({"data": {"a": "b"}}))], "http": [request],
        }});
        scene.wish("settled", wanted).await?;
        scene.wish("panics", json!({"fail": "panic"})).await?;
        scene.ready(WISHES, "settled").await?;
        scene.ready(WISHES, "panics").await?;
        let (mark, sent) = (scene.mark()?, receiver.requests().len());
        let live = ["--from-cluster", "wishes", "-n", &scene.home];
        let same = diff(scene, "decide", "decide", &live)?;
        ensure!(same.status.code() == Some(0), "{}", text(&same));
        ensure!(
            text(&same).contains("2 as before, 0 otherwise, 0 fail, 0 not"),
            "{}",
            text(&same)
        );
        let other = diff(scene, "decide", "echo", &live)?;
        ensure!(other.status.code() == Some(1), "{}", text(&other));
        for part in [
            "diff-live/panics: fails: Panic",
            "diff-live/settled:\n",
            "  effects",
        ] {
            ensure!(text(&other).contains(part), "{}", text(&other));
        }
        ensure!(receiver.requests().len() == sent, "something was sent");
        let wrote = scene.writes_by("differ", mark)?;
        ensure!(wrote.is_empty(), "{wrote:?}");
        let none = diff(
            scene,
            "decide",
            "echo",
            &["--from-cluster", "nothing", "-n", &scene.home],
        )?;
        ensure!(none.status.code() == Some(3), "{}", text(&none));
        ensure!(text(&none).contains("there are: wishes"), "{}", text(&none));
        Ok(())
    })
}
