//! The history of a run: all that its judge looks at, so that it can be kept and judged again by rules that come later.
//!
//! On disk it is a folder of JSON lines: `requests.jsonl`, `objects.jsonl`, `journals.jsonl`, `nemeses.jsonl`, and
//! `run.json` with what there is once.

use crate::ledger::Ledger;
use crate::proxy::Asked;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::path::Path;

/// What was done to a run, and whether it took hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nemesis {
    /// Which.
    pub name: String,
    /// From when, in milliseconds since 1970.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// How often it struck.
    pub hits: u64,
}

/// What there is once of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Run {
    /// What was running.
    pub workload: String,
    /// Where all random choices come from.
    pub seed: u64,
    /// Objects that were created and not deleted.
    pub objects: usize,
    /// Creates and edits made by the traffic.
    pub changes: u64,
    /// How long the traffic ran, in milliseconds.
    pub traffic_ms: u64,
    /// Changes a second below which the run does not count; 0: any number does.
    pub least_rate: u64,
    /// Requests with one verb for one thing within one second, at most.
    pub most_requests: usize,
    /// The outside world's account.
    pub ledger: Ledger,
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// What there is once.
    pub run: Run,
    /// The host's requests to the API server.
    pub requests: Vec<Asked>,
    /// What was done to it; none in a control run.
    pub nemeses: Vec<Nemesis>,
    /// The objects as they stand at the end.
    pub objects: Vec<Value>,
    /// The journals as they stand at the end.
    pub journals: Vec<Value>,
}

impl History {
    /// Writes it into a folder, which is made.
    pub fn save(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        write(dir, "run.json", &serde_json::to_string_pretty(&self.run)?)?;
        write(dir, "requests.jsonl", &lines(&self.requests)?)?;
        write(dir, "nemeses.jsonl", &lines(&self.nemeses)?)?;
        write(dir, "objects.jsonl", &lines(&self.objects)?)?;
        write(dir, "journals.jsonl", &lines(&self.journals)?)
    }

    /// Reads one that was written.
    pub fn load(dir: &Path) -> Result<Self> {
        let run = read(dir, "run.json")?;
        Ok(Self {
            run: serde_json::from_str(&run).context("run.json")?,
            requests: parsed(dir, "requests.jsonl")?,
            nemeses: parsed(dir, "nemeses.jsonl")?,
            objects: parsed(dir, "objects.jsonl")?,
            journals: parsed(dir, "journals.jsonl")?,
        })
    }
}

fn lines<T: Serialize>(all: &[T]) -> Result<String> {
    let mut text = String::new();
    for one in all {
        text += &serde_json::to_string(one)?;
        text.push('\n');
    }
    Ok(text)
}

fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

fn read(dir: &Path, name: &str) -> Result<String> {
    let path = dir.join(name);
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

fn parsed<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Vec<T>> {
    let text = read(dir, name)?;
    let parse = |line| serde_json::from_str(line).with_context(|| format!("{name}: {line}"));
    text.lines().map(parse).collect()
}
