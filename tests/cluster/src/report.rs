//! The history of a run: all that its judge looks at, so that it can be kept and judged again by rules that come later.
//!
//! On disk it is a folder of JSON lines: `requests.jsonl`, `objects.jsonl`, `children.jsonl`, `journals.jsonl`, `nemeses.jsonl`,
//! `passes.jsonl`, and `run.json` with what there is once.

use crate::ledger::Ledger;
use crate::proxy::{Asked, Proxy};
use crate::scene::Scene;
use crate::workload::marked;
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
    /// What carries an owner's mark at the end.
    pub children: Vec<Value>,
    /// Beginnings and ends of passes, as the hosts logged them: which replica did what cannot be seen from outside.
    pub passes: Vec<Passing>,
}

/// The beginning or the end of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Passing {
    /// When, in RFC 3339 in UTC with microseconds: text compares as time does.
    pub at: String,
    /// Whether it ends.
    pub ends: bool,
    /// Of which mapping.
    pub mapping: String,
    /// Of which object.
    pub object: String,
    /// Under which term of the mapping's claim.
    pub term: u64,
    /// On which replica.
    pub replica: String,
}

impl Passing {
    /// Out of a line of a host's log.
    pub fn read(line: &Value) -> Option<Self> {
        let ends = match line["message"].as_str()? {
            "pass begins" => false,
            "pass" => true,
            _ => return None,
        };
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        Some(Self {
            at: text("timestamp")?,
            ends,
            mapping: text("mapping")?,
            object: text("object")?,
            term: line["term"].as_u64()?,
            replica: text("replica")?,
        })
    }
}

impl History {
    /// Of a scene whose host goes through a proxy, with these objects.
    pub async fn of(
        scene: &Scene<'_>,
        proxy: &Proxy,
        run: Run,
        nemeses: Vec<Nemesis>,
        objects: Vec<Value>,
    ) -> Result<Self> {
        Ok(Self {
            run,
            requests: proxy.requests(),
            nemeses,
            objects,
            journals: scene.journals().await?,
            children: marked(scene).await?,
            passes: scene.trace()?,
        })
    }

    /// Writes it into a folder, which is made.
    pub fn save(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        write(dir, "run.json", &serde_json::to_string_pretty(&self.run)?)?;
        write(dir, "requests.jsonl", &lines(&self.requests)?)?;
        write(dir, "nemeses.jsonl", &lines(&self.nemeses)?)?;
        write(dir, "objects.jsonl", &lines(&self.objects)?)?;
        write(dir, "children.jsonl", &lines(&self.children)?)?;
        write(dir, "passes.jsonl", &lines(&self.passes)?)?;
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
            // Earlier versions kept none.
            children: parsed_if_there(dir, "children.jsonl")?,
            passes: parsed_if_there(dir, "passes.jsonl")?,
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

fn parsed_if_there<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Vec<T>> {
    match dir.join(name).exists() {
        true => parsed(dir, name),
        false => Ok(Vec::new()),
    }
}

fn parsed<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Vec<T>> {
    let text = read(dir, name)?;
    let parse = |line| serde_json::from_str(line).with_context(|| format!("{name}: {line}"));
    text.lines().map(parse).collect()
}
