//! `guesthouse render` shows what the host does.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{Arguments, Scene, host_binary, output, plugin, scenario};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn render_prints_the_decisions_and_the_plan_that_the_host_acts_on() -> Result<()> {
    scenario("render", async |scene| {
        let mapping = scene.report_jobs()?.to_string();
        scene.map("report-jobs", &mapping).await?;
        // Without a cluster the account is taken to be in the usual namespace.
        let usual = format!("serviceaccount {}/", scene.home);
        let mut job = scene.job("job", json!({"format": "csv"})).await?;
        if let Some(metadata) = job["metadata"].as_object_mut() {
            // As kubectl prints it.
            metadata.remove("managedFields");
        }
        let how = Arguments {
            log: "info,guesthouse_operator=debug,guesthouse::step=trace".to_owned(),
            ..Arguments::default()
        };
        let _host = scene.host_with(&how)?;
        scene.done("job").await?;
        scene
            .until("the pass is over", || {
                Ok(!scene.passes_of("job")?.is_empty())
            })
            .await?;
        let steps = steps(scene)?;

        let files = Files::new(scene, &job, &mapping)?;
        let first = steps.iter().find(|step| step["step"] == "call");
        let began = first.context("a call")?["content"]["now"].clone();
        let began = began.as_str().context("a time")?;
        let before = files.render(began, None)?;
        let receipts = receipts(&steps)?;
        let after = files.render(began, Some(&receipts))?;

        let of = |name: &str| -> Vec<Value> {
            let steps = steps.iter().filter(|step| step["step"] == name);
            steps.map(|step| step["content"].clone()).collect()
        };
        ensure!(of("call").len() == 2, "{steps:#?}");
        same(&json!(of("reply")), &joined(&before, &after, "calls")?)?;
        // A receipt is journaled between the two, which `render` was given; all else is as printed.
        let acted: Vec<Value> = steps
            .iter()
            .filter(|step| {
                !["call", "reply", "journal", "end"]
                    .iter()
                    .any(|s| step["step"] == *s)
            })
            .map(|step| {
                let identity = step["identity"].as_str().unwrap_or_default();
                let identity = identity.replace(&usual, "serviceaccount guesthouse-system/");
                json!({"step": step["step"], "as": identity, "content": step["content"]})
            })
            .collect();
        ensure!(acted.len() == 4, "send, patch, status and tell: {acted:#?}");
        same(&json!(acted), &joined(&before, &after, "plan")?)?;
        let pass = &scene.passes_of("job")?[0];
        ensure!(after["end"]["outcome"] == pass["outcome"], "{after} {pass}");
        Ok(())
    })
}

/// What the host logged of its steps for the job, contents as values.
fn steps(scene: &Scene<'_>) -> Result<Vec<Value>> {
    let mut log = scene.log()?;
    log.retain(|line| line["target"] == "guesthouse::step");
    for line in &mut log {
        let text = line["content"].as_str().unwrap_or_default();
        line["content"] = serde_json::from_str(text).unwrap_or(Value::Null);
    }
    Ok(log)
}

/// The receipts that the host put on record, in the form of an observation.
fn receipts(steps: &[Value]) -> Result<Value> {
    let journal = steps.iter().find(|step| step["step"] == "journal");
    let mut receipts = journal.context("a journal")?["content"]["receipts"].clone();
    for receipt in receipts.as_array_mut().into_iter().flatten() {
        if let Some(record) = receipt.as_object_mut() {
            record.remove("request");
        }
    }
    Ok(receipts)
}

fn joined(before: &Value, after: &Value, member: &str) -> Result<Value> {
    let list = |of: &Value| of[member].as_array().cloned().context("a list");
    Ok(json!([list(before)?, list(after)?].concat()))
}

fn same(host: &Value, render: &Value) -> Result<()> {
    ensure!(
        host == render,
        "the host did\n{host:#}\nand render says\n{render:#}"
    );
    Ok(())
}

struct Files {
    dir: PathBuf,
}

impl Files {
    fn new(scene: &Scene<'_>, job: &Value, mapping: &str) -> Result<Self> {
        std::fs::write(scene.dir.join("job.json"), job.to_string())?;
        // A mapping is called as its file.
        std::fs::write(scene.dir.join("report-jobs.yaml"), mapping)?;
        Ok(Self {
            dir: scene.dir.clone(),
        })
    }

    fn render(&self, now: &str, receipts: Option<&Value>) -> Result<Value> {
        let file = |name: &str| self.dir.join(name);
        let mut render = Command::new(host_binary()?);
        render
            .arg("render")
            .arg(plugin("report_job")?)
            .args([Path::new("-f"), &file("job.json")])
            .args([Path::new("--mapping"), &file("report-jobs.yaml")])
            .args(["--now", now]);
        if let Some(receipts) = receipts {
            std::fs::write(file("receipts.json"), receipts.to_string())?;
            render.arg("--receipts").arg(file("receipts.json"));
        }
        serde_saphyr::from_str(&output(&mut render)?).context("render prints YAML")
    }
}
