//! Many swaps under load. `GUESTHOUSE_TEST_SWAPS=500` makes it more of them.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{Host, Receiver, Scene, WISHES, overlaps, plugin, scenario};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

/// Pause between two changes that come from outside.
const PACE: Duration = Duration::from_millis(100);
/// Swaps until memory is what it will be.
const WARM: usize = 15;
/// Changes before a swap that did not come counts as one that never does.
const MOST: usize = 600;
/// Objects that are there from the beginning.
const FIRST: usize = 40;

/// istio#33091, adm-controller#368: crash on hot upgrade under load; 500 swaps lose nothing and leak nothing.
#[test]
fn swaps_under_load_between_good_versions_and_a_broken_one_lose_double_and_leak_nothing()
-> Result<()> {
    scenario("swaps", async |scene| {
        let swaps: usize = std::env::var("GUESTHOUSE_TEST_SWAPS")
            .map_or(Ok(30), |count| count.parse())
            .context("GUESTHOUSE_TEST_SWAPS")?;
        let receiver = Receiver::start().await?;
        let versions = Versions::new(scene)?;
        versions.put(0)?;
        let mut mapping = scene.wishes("decide", &[])?;
        mapping["plugin"] = json!({"file": versions.path});
        scene.map("wishes", &mapping.to_string()).await?;
        let host = scene.host()?;
        for number in 0..FIRST {
            make(scene, &receiver, number).await?;
        }
        let mut log = Log::new(scene);
        log.until(scene, "MappingActive", 1).await?;
        let mut load = Load {
            scene,
            receiver: &receiver,
            made: FIRST,
            turn: 0,
        };
        // The first burst is over by then.
        for _ in 0..50 {
            load.step().await?;
        }
        log.passes()?;
        for _ in 0..100 {
            load.step().await?;
        }
        let quiet = log.passes()?;
        let (mut taken, mut refused, mut warm) = (1, 0, 0);
        for swap in 1..=swaps {
            versions.put(swap)?;
            let reason = match versions.is_broken(swap) {
                true => {
                    refused += 1;
                    ("PluginRefused", refused)
                }
                false => {
                    taken += 1;
                    ("MappingActive", taken)
                }
            };
            let began = load.turn;
            while log.count(reason.0)? < reason.1 {
                ensure!(load.turn < began + MOST, "swap {swap}: never {}", reason.0);
                load.step().await?;
            }
            if swap == WARM {
                warm = memory(&host)?;
            }
        }
        let swapping = log.passes()?;
        let end = memory(&host)?;
        println!(
            "{swaps} swaps, {refused} of them refused; p99 of a pass {} ms quiet, {} ms swapping; {warm} KiB, then {end} KiB",
            p99(quiet),
            p99(swapping),
        );
        judged(scene, &receiver, load.made).await?;
        ensure!(refused > 0 && taken > 2, "{refused} refused, {taken} taken");
        ensure!(host.ended()?.is_none(), "it was restarted");
        ensure!(
            end < warm + warm / 4 + 16_384,
            "{warm} KiB became {end} KiB"
        );
        Ok(())
    })
}

/// Every object is handled, each request was made once, and no pass met another one of its key.
async fn judged(scene: &Scene<'_>, receiver: &Receiver, made: usize) -> Result<()> {
    let objects = scene
        .eventually("all wishes are handled", async || {
            let all = scene.api.list(WISHES, &scene.namespace).await?;
            let handled = |wish: &Value| {
                wish["status"]["observedGeneration"] == wish["metadata"]["generation"]
            };
            Ok(all.iter().all(handled).then_some(all))
        })
        .await?;
    ensure!(objects.len() == made, "{} of {made}", objects.len());
    for wish in &objects {
        ensure!(wish["status"]["receipts"]["send"] == "200", "{wish}");
        let turn = wish["spec"]["reconcile"]["labels"]["turn"].clone();
        ensure!(wish["metadata"]["labels"]["turn"] == turn, "{wish}");
    }
    let mut requests: BTreeMap<String, usize> = BTreeMap::new();
    for request in receiver.requests() {
        let line = request.lines().next().unwrap_or_default();
        *requests.entry(line.to_owned()).or_default() += 1;
    }
    ensure!(requests.len() == made, "{} of {made}", requests.len());
    let twice = requests.iter().find(|(_, count)| **count != 1);
    ensure!(twice.is_none(), "{twice:?}");
    let met = overlaps(scene.trace()?);
    ensure!(met.is_empty(), "{met:#?}");
    Ok(())
}

fn wish(receiver: &Receiver, number: usize, turn: usize) -> Value {
    let url = format!("{}/wish-{number}", receiver.url());
    let mut spec = json!({"reconcile": {
        "http": [{"id": "send", "method": "PUT", "url": url, "body": "hello"}],
        "labels": {"turn": turn.to_string()},
    }});
    // What the broken version fails on, and the good ones do not look at.
    if number.is_multiple_of(5) {
        spec["fail"] = json!("panic");
    }
    spec
}

async fn make(scene: &Scene<'_>, receiver: &Receiver, number: usize) -> Result<()> {
    let spec = wish(receiver, number, 0);
    scene.wish(&format!("wish-{number}"), spec).await?;
    Ok(())
}

/// Who makes and edits objects meanwhile.
struct Load<'a, 'b> {
    scene: &'a Scene<'b>,
    receiver: &'a Receiver,
    made: usize,
    turn: usize,
}

impl Load<'_, '_> {
    async fn step(&mut self) -> Result<()> {
        self.turn += 1;
        if self.turn.is_multiple_of(10) && self.made < 4 * FIRST {
            make(self.scene, self.receiver, self.made).await?;
            self.made += 1;
        } else {
            let number = self.turn % self.made;
            let spec = json!({"spec": wish(self.receiver, number, self.turn)});
            let name = format!("wish-{number}");
            self.scene.patch(WISHES, &name, spec).await?;
        }
        tokio::time::sleep(PACE).await;
        Ok(())
    }
}

/// Two good versions and a broken one, in turn.
struct Versions {
    path: PathBuf,
    aside: PathBuf,
    all: [Vec<u8>; 3],
}

impl Versions {
    fn new(scene: &Scene<'_>) -> Result<Self> {
        let good = std::fs::read(plugin("decide")?)?;
        // A custom section (WebAssembly core specification, 5.5.3) says nothing and makes another digest.
        let other = [&good[..], b"\0\x05\x04more"].concat();
        Ok(Self {
            path: scene.dir.join("plugin.wasm"),
            aside: scene.dir.join("plugin.new"),
            all: [good, other, std::fs::read(plugin("echo")?)?],
        })
    }

    fn is_broken(&self, turn: usize) -> bool {
        turn % 3 == 2
    }

    fn put(&self, turn: usize) -> Result<()> {
        std::fs::write(&self.aside, &self.all[turn % 3])?;
        std::fs::rename(&self.aside, &self.path).context("put a file in place")
    }
}

/// The host's log, each line read once.
struct Log {
    path: PathBuf,
    at: u64,
    reasons: BTreeMap<String, usize>,
    took: Vec<u64>,
}

impl Log {
    fn new(scene: &Scene<'_>) -> Self {
        Self {
            path: scene.dir.join("host.jsonl"),
            at: 0,
            reasons: BTreeMap::new(),
            took: Vec::new(),
        }
    }

    fn read(&mut self) -> Result<()> {
        let mut file = std::fs::File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.at))?;
        let mut lines = BufReader::new(file);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 && line.ends_with('\n') {
            self.at += line.len() as u64;
            let said: Value = serde_json::from_str(&line)?;
            if let Some(reason) = said["reason"].as_str() {
                *self.reasons.entry(reason.to_owned()).or_default() += 1;
            }
            if let ("pass", Some(ms)) =
                (said["message"].as_str().unwrap_or(""), said["ms"].as_u64())
            {
                self.took.push(ms);
            }
            line.clear();
        }
        Ok(())
    }

    fn count(&mut self, reason: &str) -> Result<usize> {
        self.read()?;
        Ok(self.reasons.get(reason).copied().unwrap_or(0))
    }

    async fn until(&mut self, scene: &Scene<'_>, reason: &str, count: usize) -> Result<()> {
        let what = format!("the log says {reason}");
        scene
            .until(&what, || Ok(self.count(reason)? >= count))
            .await
    }

    /// How long the passes took that ended since it was asked last, in milliseconds.
    fn passes(&mut self) -> Result<Vec<u64>> {
        self.read()?;
        Ok(std::mem::take(&mut self.took))
    }
}

fn p99(mut took: Vec<u64>) -> u64 {
    took.sort_unstable();
    let at = took.len().saturating_sub(1) * 99 / 100;
    took.get(at).copied().unwrap_or(0)
}

/// Resident memory, KiB.
fn memory(host: &Host) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.context("VmRSS")?.parse().context("VmRSS")
}
