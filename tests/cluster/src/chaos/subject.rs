//! Who is disturbed: how each nemesis is brought about and taken back, and how one sees that it took hold.

mod changes;
mod replicas;

use super::nemesis::One;
use crate::api::{ROLE_BINDINGS, Resource};
use crate::artifacts::{crash_binary, plugin};
use crate::host::{Arguments, Host};
use crate::proxy::{Proxy, Rule, Verb, mix};
use crate::scene::Scene;
use crate::workload::{PROVISION_REQUEST, REPORT_JOB, WEBSITE, name as object_name};
use anyhow::{Context, Result, ensure};
use report_exporter::{Fail, Mode};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a replica's Lease lasts, in seconds.
const LEASE: &str = "3";
/// How long a fault is on.
const HOLD: Duration = Duration::from_secs(3);
/// A kind of this run alone, which is deleted and comes again.
const PASSING: Resource = Resource {
    api_version: "chaos.guesthouse.dev/v1",
    kind: "Passing",
    plural: "passings",
};
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
    /// Another replica, while there is one.
    second: Mutex<Option<Host>>,
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
        how.log = "info,guesthouse_operator::trace=debug".to_owned();
        how.arguments = ["--lease-seconds", LEASE].map(str::to_owned).to_vec();
        let subject = Self {
            scene,
            proxy,
            how,
            host: Mutex::new(None),
            second: Mutex::new(None),
            plugin: scene.dir.join("plugin.wasm"),
            count: AtomicU64::new(0),
            seed,
        };
        std::fs::copy(plugin("report_job")?, &subject.plugin).context("a plugin of its own")?;
        subject.map("1s").await?;
        WEBSITE.install(scene).await?;
        PROVISION_REQUEST.install(scene).await?;
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
        let echoed = |echo: &Value| echo["status"]["echo"]["a"] == number;
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
                // Its port is free only when it is all gone.
                let again = async || Ok(self.scene.restart(*component).ok());
                self.scene.eventually("it starts again", again).await?;
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
            One::Mapping => self.mapping().await,
            One::Leader(what) => self.leader(*what).await,
            One::Admission => self.admission().await,
            One::Version => self.version().await,
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
}
