//! Who is disturbed: how each nemesis is brought about and taken back, and how one sees that it took hold.

use super::nemesis::{Leader, One};
use crate::api::{KINDS, LEASES, ROLE_BINDINGS, Resource};
use crate::artifacts::{crash_binary, plugin};
use crate::host::{Arguments, Host};
use crate::proxy::{Asked, Proxy, Rule, Verb, mix};
use crate::run::now_ms;
use crate::scene::Scene;
use crate::workload::{PROVISION_REQUEST, REPORT_JOB, WEBSITE, name as object_name};
use anyhow::{Context, Result, ensure};
use report_exporter::{Fail, Mode};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
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
const POLICIES: Resource = Resource {
    api_version: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
};
const POLICY_BINDINGS: Resource = Resource {
    api_version: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
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

    /// Ends whatever replica there is beside the first.
    pub(super) fn alone(&self) -> Result<()> {
        self.second().take();
        match self.ended()? {
            Some(_) => self.run(None),
            None => Ok(()),
        }
    }

    fn second(&self) -> MutexGuard<'_, Option<Host>> {
        self.second.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which replica has the claim to a mapping, without its instance.
    async fn holder(&self, mapping: &str) -> Result<Option<String>> {
        // An API server that is away is asked again.
        let Ok(leases) = self.scene.api.list(LEASES, &self.scene.home).await else {
            return Ok(None);
        };
        let of =
            |lease: &&Value| lease["metadata"]["annotations"]["guesthouse.dev/mapping"] == mapping;
        let holder = leases
            .iter()
            .find(of)
            .map(|l| l["spec"]["holderIdentity"].clone());
        let holder = holder.as_ref().and_then(Value::as_str).unwrap_or_default();
        let name = holder.split('_').next().unwrap_or_default().to_owned();
        Ok(Some(name).filter(|name| !name.is_empty()))
    }

    /// Another replica comes; whoever has the report jobs is killed, or frozen beyond its Lease; the other one takes over.
    async fn leader(&self, what: Leader) -> Result<u64> {
        let other = format!("other-{}", self.new_number());
        let mut how = self.how.clone();
        how.replica.clone_from(&other);
        *self.second() = Some(self.scene.host_with(&how)?);
        let lease = format!("guesthouse-replica-{other}");
        self.scene
            .eventually("the other has its Lease", async || {
                self.scene.api.find(LEASES, &self.scene.home, &lease).await
            })
            .await?;
        let leader = self
            .scene
            .eventually("somebody leads", async || self.holder("report-jobs").await)
            .await?;
        let is_second = leader == other;
        match (what, is_second) {
            (Leader::Killed, true) => drop(self.second().take()),
            (Leader::Killed, false) => drop(self.host().take()),
            (Leader::Frozen, true) => freeze(&self.second(), true)?,
            (Leader::Frozen, false) => freeze(&self.host(), true)?,
        }
        let moved = self
            .scene
            .eventually("another leads", async || {
                Ok(self
                    .holder("report-jobs")
                    .await?
                    .filter(|holder| *holder != leader))
            })
            .await;
        match (what, is_second) {
            (Leader::Killed, true) => {}
            // The other one goes on alone for a while.
            (Leader::Killed, false) => self.run(None)?,
            (Leader::Frozen, true) => freeze(&self.second(), false)?,
            (Leader::Frozen, false) => freeze(&self.host(), false)?,
        }
        moved?;
        let second = self.second().take();
        if let Some(second) = second {
            self.scene.stop(second).await?;
        }
        Ok(1)
    }

    /// The API server's policy denies what the host writes.
    async fn admission(&self) -> Result<u64> {
        let name = "chaos-denies";
        let groups = [
            "",
            "apps",
            "networking.k8s.io",
            "batch.acme.io",
            "web.acme.io",
            "acme.io",
        ];
        let kinds = ["configmaps", "deployments", "services", "ingresses"];
        let statuses = [
            "reportjobs/status",
            "websites/status",
            "provisionrequests/status",
        ];
        let resources = [&kinds[..], &statuses].concat();
        let policy = json!({"metadata": {"name": name}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": groups, "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": resources,
            }]},
            "matchConditions": [
                {"name": "host", "expression": "request.userInfo.username == 'chaos-host'"},
            ],
            "validations": [
                {"expression": "false", "message": "denied for a while", "reason": "Forbidden"},
            ],
        }});
        let mark = self.proxy.mark();
        self.scene.api.create(POLICIES, "", policy).await?;
        let binding = json!({"metadata": {"name": name}, "spec": {
            "policyName": name, "validationActions": ["Deny"],
        }});
        self.scene.api.create(POLICY_BINDINGS, "", binding).await?;
        let refused = self
            .until("the host's writes are denied", async || {
                let since = self.proxy.since(mark);
                let denied = |asked: &&Asked| asked.verb.is_write() && asked.server == 403;
                Ok(since.iter().filter(denied).count() as u64)
            })
            .await;
        tokio::time::sleep(HOLD).await;
        for kind in [POLICY_BINDINGS, POLICIES] {
            self.scene.api.delete(kind, "", name).await?;
        }
        refused
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
                let is = |line: &&Value| line["state"] == "gone";
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
            let ignored = |line: &&Value| line["message"] == "entry of compiled code is ignored";
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

    /// First to something that cannot be meant: what was good serves on. Then to something else that is.
    async fn mapping(&self) -> Result<u64> {
        let mark = self.scene.log()?.len();
        self.scene.map("report-jobs", "{nonsense: 1}").await?;
        self.logged(mark, "MappingInvalid").await?;
        let even = self.new_number().is_multiple_of(2);
        self.map(if even { "1s" } else { "900ms" }).await?;
        self.active_since(mark).await
    }

    async fn active_since(&self, mark: usize) -> Result<u64> {
        self.logged(mark, "MappingActive").await
    }

    /// Waits until the host gave a reason in its log.
    async fn logged(&self, mark: usize, reason: &str) -> Result<u64> {
        let what = format!("the host logs {reason}");
        self.until(&what, async || {
            let log = self.scene.log()?;
            let is = |line: &&Value| line["reason"] == reason;
            Ok(log.iter().skip(mark).filter(is).count() as u64)
        })
        .await
    }
}

fn freeze(host: &Option<Host>, freeze: bool) -> Result<()> {
    host.as_ref().context("a host")?.freeze(freeze)
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let aside = path.with_extension("new");
    std::fs::write(&aside, bytes)?;
    std::fs::rename(&aside, path).with_context(|| format!("replace {}", path.display()))
}
