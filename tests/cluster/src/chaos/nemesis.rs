//! What is done to a host, its API server and its surroundings, and how one sees that it took hold.

use super::Set;
use crate::api::{KINDS, ROLE_BINDINGS, Resource};
use crate::artifacts::{crash_binary, plugin};
use crate::host::{Arguments, Host};
use crate::proxy::{Fault, Proxy, Rule, Verb, Way, mix};
use crate::run::now_ms;
use crate::scene::Scene;
use crate::workload::{REPORT_JOB, name as object_name};
use anyhow::{Context, Result, ensure};
use guesthouse_local::Component;
use report_exporter::{Fail, Mode};
use serde_json::json;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a fault is on.
const HOLD: Duration = Duration::from_secs(3);
/// A kind of this run alone, which is deleted and comes again.
const PASSING: Resource = Resource {
    api_version: "chaos.guesthouse.dev/v1",
    kind: "Passing",
    plural: "passings",
};
const WRITTEN: &[&str] = &["reportjobs", "journals"];

/// One thing that is done.
pub(super) enum One {
    /// SIGKILL, wherever it stands.
    Kill,
    /// SIGKILL at a point.
    Crash(&'static str, u64),
    /// SIGSTOP for a while.
    Stop,
    /// SIGTERM in the middle of everything.
    Term,
    /// A rule at the proxy; the host is started anew if it is about lists.
    Rule(Rule, bool),
    /// Nothing passes that way.
    Block(Way),
    /// All connections are cut.
    CutAll,
    /// A component of the control plane ends and starts again.
    Restart(Component),
    /// A component of the control plane is killed and starts again.
    KillComponent(Component),
    /// The API server stands still.
    FreezeApi,
    /// The host's rights are withdrawn.
    Rights,
    /// A kind is deleted, and defined again.
    Kind,
    /// The exporter fails that way.
    Exporter(Mode),
    /// Compiled plugins on disk are cut to half their length.
    Cache,
    /// The plugin is another one.
    Swap,
    /// The mapping is edited.
    Mapping,
}

/// All there is, in an order.
pub(super) struct All;

impl All {
    pub(super) fn in_order(set: Set, seed: u64, round: u64) -> Vec<One> {
        let mut all: Vec<(u64, One)> = match set {
            Set::Pr => few(),
            Set::Nightly => few().into_iter().chain(more(seed, round)).collect(),
        }
        .into_iter()
        .enumerate()
        .map(|(at, one)| (mix(seed ^ mix(round << 32 | at as u64)), one))
        .collect();
        all.sort_by_key(|(order, _)| *order);
        all.into_iter().map(|(_, one)| one).collect()
    }
}

/// One of each group.
fn few() -> Vec<One> {
    vec![
        One::Kill,
        One::Crash("after-send", 5),
        One::Block(Way::Both),
        rule("503", Fault::Status(503, Some(1)), |r| r.percent(40, 1)),
        rule("lost", Fault::Lost, |r| r.writes().percent(30, 2)),
        rule("410", Fault::GoneInStream, |r| r.percent(2, 3)),
        One::Restart(Component::KubeApiserver),
        One::Exporter(Mode::Http500),
        One::Swap,
    ]
}

fn more(seed: u64, round: u64) -> Vec<One> {
    let (late, more) = (Duration::from_millis(25), Duration::from_millis(100));
    let status = |code| Fault::Status(code, None);
    let mut all = vec![
        One::Stop,
        One::Term,
        One::Block(Way::Send),
        One::Block(Way::Receive),
        One::CutAll,
        One::KillComponent(Component::Etcd),
        One::KillComponent(Component::KubeApiserver),
        One::FreezeApi,
        One::Rights,
        One::Kind,
        One::Exporter(Mode::Http429),
        One::Exporter(Mode::Lost),
        One::Exporter(Mode::Close),
        One::Cache,
        One::Mapping,
        rule("409", status(409), |r| {
            r.writes().on(WRITTEN).percent(60, 4)
        }),
        rule("429", Fault::Status(429, Some(1)), |r| r.percent(40, 5)),
        rule("429-bare", status(429), |r| r.percent(40, 6)),
        rule("500", status(500), |r| r.percent(40, 7)),
        rule("401", status(401), |r| r.percent(40, 8)),
        rule("403", status(403), |r| r.percent(40, 9)),
        rule("cut-before", Fault::CutBefore, |r| r.percent(20, 10)),
        rule("cut-after", Fault::CutAfter, |r| r.percent(20, 11)),
        rule("cut-in-the-body", Fault::CutInBody, |r| r.percent(20, 12)),
        rule("truncated", Fault::Truncated, |r| r.percent(5, 13)),
        rule("late", Fault::Delay(late, more), |r| r.requests()),
        rule("bookmarks-only", Fault::BookmarksOnly, |r| {
            r.on(&["reportjobs"])
        }),
        rule("cut-stream", Fault::CutStream, |r| r.percent(5, 14)),
    ];
    let slow = Fault::Delay(Duration::from_secs(5), Duration::ZERO);
    let lists = Rule::new("slow-lists", slow)
        .verbs(&[Verb::List, Verb::Watch])
        .times(6);
    all.push(One::Rule(lists, true));
    let gone = Rule::new("404", status(404))
        .verbs(&[Verb::List, Verb::Watch])
        .on(&["reportjobs"]);
    all.push(One::Rule(gone.times(4), true));
    let points = REPORT_JOB.points.iter().enumerate();
    all.extend(points.map(|(at, (point, _))| {
        // Once in a process, or once in each pass.
        let once = point.contains("swap") || point.contains("cache");
        let passing = mix(seed ^ mix(round << 16 | at as u64)) % 20 + 1;
        One::Crash(point, if once { 1 } else { passing })
    }));
    all
}

fn rule(name: &str, fault: Fault, narrow: impl FnOnce(Rule) -> Rule) -> One {
    One::Rule(narrow(Rule::new(name, fault)), false)
}

impl One {
    pub(super) fn name(&self) -> String {
        match self {
            One::Kill => "kill".to_owned(),
            One::Crash(point, at) => format!("crash {point}:{at}"),
            One::Stop => "stop".to_owned(),
            One::Term => "term".to_owned(),
            One::Rule(rule, _) => format!("api {}", rule.name()),
            One::Block(way) => format!("block {way:?}").to_lowercase(),
            One::CutAll => "cut all".to_owned(),
            One::Restart(component) => format!("restart {}", component.name()),
            One::KillComponent(component) => format!("kill {}", component.name()),
            One::FreezeApi => "freeze kube-apiserver".to_owned(),
            One::Rights => "rights withdrawn".to_owned(),
            One::Kind => "kind deleted".to_owned(),
            One::Exporter(mode) => format!("exporter {mode:?}").to_lowercase(),
            One::Cache => "cache cut".to_owned(),
            One::Swap => "plugin swapped".to_owned(),
            One::Mapping => "mapping edited".to_owned(),
        }
    }
}

/// Somebody whose rights can be withdrawn.
pub(super) async fn identity(scene: &Scene<'_>) -> Result<PathBuf> {
    let kubeconfig = scene.nobody("chaos-host")?;
    grant(scene).await?;
    Ok(kubeconfig)
}

async fn grant(scene: &Scene<'_>) -> Result<()> {
    let binding = json!({
        "metadata": {"name": "chaos-host"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "chaos-host"}],
    });
    scene.api.create(ROLE_BINDINGS, "", binding).await?;
    Ok(())
}

/// What is disturbed.
pub(super) struct Subject<'a> {
    scene: &'a Scene<'a>,
    proxy: &'a Proxy,
    how: Arguments,
    host: Mutex<Option<Host>>,
    plugin: PathBuf,
    /// Numbers for what must be new each time.
    count: AtomicU64,
    seed: u64,
}

impl<'a> Subject<'a> {
    /// A host that serves report jobs by a plugin of its own file, and a kind that passes.
    pub(super) async fn start(
        scene: &'a Scene<'a>,
        proxy: &'a Proxy,
        mut how: Arguments,
        seed: u64,
    ) -> Result<Self> {
        how.binary = Some(crash_binary()?);
        how.cache = Some(scene.dir.join("cache"));
        how.log = "info,guesthouse_operator=info".to_owned();
        let subject = Self {
            scene,
            proxy,
            how,
            host: Mutex::new(None),
            plugin: scene.dir.join("plugin.wasm"),
            count: AtomicU64::new(0),
            seed,
        };
        std::fs::copy(plugin("report_job")?, &subject.plugin).context("a plugin of its own")?;
        subject.map("1s").await?;
        scene.define(PASSING).await?;
        let echoes = scene.mapping(PASSING, &plugin("echo")?);
        scene.map("passings", &echoes.to_string()).await?;
        subject.run(None)?;
        Ok(subject)
    }

    async fn map(&self, base: &str) -> Result<()> {
        let mut mapping = self.scene.report_jobs()?;
        mapping["plugin"] = json!({"file": self.plugin});
        mapping["retry"] = json!({"base": base});
        self.scene.map("report-jobs", &mapping.to_string()).await
    }

    fn host(&self) -> MutexGuard<'_, Option<Host>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a host, after whatever there was.
    fn run(&self, crash: Option<String>) -> Result<()> {
        self.host().take();
        let mut how = self.how.clone();
        how.may_end = crash.is_some();
        let crash = crash.map(|point| ("GUESTHOUSE_CRASH".to_owned(), point));
        how.environment.extend(crash);
        *self.host() = Some(self.scene.host_with(&how)?);
        Ok(())
    }

    fn new_number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// A new object comes to its end.
    pub(super) async fn is_healthy(&self) -> Result<()> {
        let number = self.new_number();
        let probe = json!({"metadata": {"name": format!("probe-{number}")}, "spec": {"a": number}});
        let create = async || Ok(self.scene.create(PASSING, probe.clone()).await.ok());
        self.scene.eventually("a probe is created", create).await?;
        let echoed = |echo: &serde_json::Value| echo["status"]["echo"]["a"] == number;
        self.scene
            .object_is(PASSING, &format!("probe-{number}"), "echoed", echoed)
            .await?;
        Ok(())
    }

    /// Does it, takes it back, and says how often it took hold.
    pub(super) async fn meet(&self, one: &One) -> Result<u64> {
        match one {
            One::Kill => {
                self.run(None)?;
                Ok(1)
            }
            One::Crash(point, at) => self.crash(point, *at).await,
            One::Stop => self.stop().await,
            One::Term => self.term().await,
            One::Rule(rule, restart) => self.rule(rule, *restart).await,
            One::Block(way) => {
                let before = self
                    .proxy
                    .hits()
                    .get("blocked")
                    .copied()
                    .unwrap_or_default();
                self.proxy.block(*way);
                tokio::time::sleep(HOLD).await;
                let after = self
                    .proxy
                    .hits()
                    .get("blocked")
                    .copied()
                    .unwrap_or_default();
                self.proxy.heal();
                Ok(after - before)
            }
            One::CutAll => {
                let mark = self.proxy.mark();
                self.proxy.cut_all();
                // Watches are opened anew.
                self.until(&format!("watches begin again after {mark}"), async || {
                    let again = self.proxy.since(mark);
                    Ok(again
                        .iter()
                        .filter(|asked| asked.verb == Verb::Watch)
                        .count() as u64)
                })
                .await
            }
            One::Restart(component) => {
                self.scene.restart(*component)?;
                Ok(1)
            }
            One::KillComponent(component) => {
                self.scene.kill_component(*component)?;
                self.scene.restart(*component)?;
                Ok(1)
            }
            One::FreezeApi => {
                self.scene.freeze_api_server(true)?;
                tokio::time::sleep(HOLD).await;
                self.scene.freeze_api_server(false)?;
                Ok(1)
            }
            One::Rights => self.rights().await,
            One::Kind => self.kind().await,
            One::Exporter(mode) => self.exporter(*mode).await,
            One::Cache => self.cache().await,
            One::Swap => self.swap().await,
            One::Mapping => {
                let mark = self.scene.log()?.len();
                let base = if self.new_number().is_multiple_of(2) {
                    "1s"
                } else {
                    "900ms"
                };
                self.map(base).await?;
                self.active_since(mark).await
            }
        }
    }

    /// Waits until a count is not zero.
    async fn until(&self, what: &str, mut count: impl AsyncFnMut() -> Result<u64>) -> Result<u64> {
        self.scene
            .eventually(what, async || {
                Ok(Some(count().await?).filter(|count| *count > 0))
            })
            .await
    }

    async fn crash(&self, point: &str, at: u64) -> Result<u64> {
        if point.contains("cache") {
            self.empty_cache()?;
        }
        self.run(Some(format!("{point}:{at}")))?;
        // Traffic alone may not come by each point: reports are made for new objects only.
        self.scene
            .eventually("the host kills itself", async || {
                Ok(self.ended()?.map(|status| status.signal()))
            })
            .await
            .and_then(|signal| {
                ensure!(signal == Some(9), "it ended by {signal:?}");
                Ok(())
            })?;
        self.run(None)?;
        Ok(1)
    }

    fn ended(&self) -> Result<Option<std::process::ExitStatus>> {
        self.host().as_ref().context("a host")?.ended()
    }

    async fn stop(&self) -> Result<u64> {
        let pid = {
            let host = self.host();
            let host = host.as_ref().context("a host")?;
            host.freeze(true)?;
            host.pid()
        };
        let mark = self.proxy.mark();
        tokio::time::sleep(HOLD * 2).await;
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let stopped = state
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'));
        self.host().as_ref().context("a host")?.freeze(false)?;
        self.until(&format!("requests after {mark}"), async || {
            Ok((self.proxy.mark() - mark) as u64)
        })
        .await?;
        Ok(u64::from(stopped))
    }

    async fn term(&self) -> Result<u64> {
        self.host().as_ref().context("a host")?.terminate()?;
        let ended = self
            .scene
            .eventually("the host ends after SIGTERM", async || self.ended())
            .await?;
        ensure!(ended.success(), "the host ended with {ended}");
        self.run(None)?;
        Ok(1)
    }

    async fn rule(&self, rule: &Rule, restart: bool) -> Result<u64> {
        let hits = || {
            self.proxy
                .hits()
                .get(rule.name())
                .copied()
                .unwrap_or_default()
        };
        let before = hits();
        self.proxy.set(rule.clone());
        if restart {
            self.run(None)?;
        }
        tokio::time::sleep(HOLD).await;
        let what = format!("{} strikes", rule.name());
        let struck = self.until(&what, async || Ok(hits() - before)).await;
        self.proxy.heal();
        struck
    }

    async fn rights(&self) -> Result<u64> {
        let mark = self.proxy.mark();
        self.scene
            .api
            .delete(ROLE_BINDINGS, "", "chaos-host")
            .await?;
        let refused = self
            .until("the host is refused", async || {
                let since = self.proxy.since(mark);
                Ok(since.iter().filter(|asked| asked.server == 403).count() as u64)
            })
            .await;
        tokio::time::sleep(HOLD).await;
        grant(self.scene).await?;
        refused
    }

    async fn kind(&self) -> Result<u64> {
        let mark = self.scene.log()?.len();
        self.scene
            .api
            .delete(KINDS, "", "passings.chaos.guesthouse.dev")
            .await?;
        let gone = self
            .until("the host sees that the kind is gone", async || {
                let log = self.scene.log()?;
                let is = |line: &&serde_json::Value| line["state"] == "gone";
                Ok(log.iter().skip(mark).filter(is).count() as u64)
            })
            .await?;
        let define = async || Ok(self.scene.define(PASSING).await.ok());
        self.scene
            .eventually("the kind can be defined again", define)
            .await?;
        Ok(gone)
    }

    /// For some objects to come, each so often that it is still made.
    async fn exporter(&self, mode: Mode) -> Result<u64> {
        let failed = || self.scene.exporter.stats().failed;
        let before = failed();
        let new: Vec<_> = (0..5).map(|_| 100_000 + self.new_number()).collect();
        for number in &new {
            let number = usize::try_from(*number)?;
            let times = mix(self.seed ^ number as u64) % 2 + 1;
            let fail = Fail {
                retry_after: Some(1),
                ..Fail::times(mode, times)
            };
            let report = self.scene.report(&object_name(number));
            self.scene.exporter.fail(fail.only(report));
            REPORT_JOB.create(self.scene, number).await?;
        }
        self.until("the exporter fails", async || Ok(failed() - before))
            .await
    }

    fn empty_cache(&self) -> Result<()> {
        let cache = self.scene.dir.join("cache");
        self.host().take();
        if cache.exists() {
            std::fs::remove_dir_all(cache)?;
        }
        Ok(())
    }

    async fn cache(&self) -> Result<u64> {
        self.host().take();
        for entry in std::fs::read_dir(self.scene.dir.join("cache/compiled"))? {
            let path = entry?.path();
            let bytes = std::fs::read(&path)?;
            std::fs::write(&path, &bytes[..bytes.len() / 2])?;
        }
        let mark = self.scene.log()?.len();
        self.run(None)?;
        self.until("the host does not take what is cut", async || {
            let log = self.scene.log()?;
            let ignored =
                |line: &&serde_json::Value| line["message"] == "entry of compiled code is ignored";
            Ok(log.iter().skip(mark).filter(ignored).count() as u64)
        })
        .await
    }

    /// The same plugin with a custom section more: another digest.
    async fn swap(&self) -> Result<u64> {
        let mark = self.scene.log()?.len();
        let mut bytes = std::fs::read(plugin("report_job")?)?;
        let payload = format!("{}-{}", now_ms(), self.new_number());
        let section = [&[5][..], b"chaos", payload.as_bytes()].concat();
        bytes.extend([0, u8::try_from(section.len())?]);
        bytes.extend(section);
        replace(&self.plugin, &bytes)?;
        self.active_since(mark).await
    }

    async fn active_since(&self, mark: usize) -> Result<u64> {
        self.until("the mapping is in force", async || {
            let log = self.scene.log()?;
            let active = |line: &&serde_json::Value| line["reason"] == "MappingActive";
            Ok(log.iter().skip(mark).filter(active).count() as u64)
        })
        .await
    }
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let aside = path.with_extension("new");
    std::fs::write(&aside, bytes)?;
    std::fs::rename(&aside, path).with_context(|| format!("replace {}", path.display()))
}
