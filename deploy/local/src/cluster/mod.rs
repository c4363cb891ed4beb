//! A running control plane: start, ask, restart parts, end.

pub(crate) mod detached;
mod start;

use crate::audit::{self, AuditEvent};
use crate::binaries::Binaries;
use crate::components::Component;
use crate::layout::{Layout, State};
use crate::lock::FileLock;
use crate::pki::Authority;
use crate::probe::Probe;
use crate::process::{self, ProcessId, Watchdog};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(50);

/// How a cluster is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster's folder; made if absent. One cluster a folder.
    pub dir: PathBuf,
    /// Keep an audit log of every request ([`Cluster::audit_events`]). Costs the API server a few percent.
    pub audit: bool,
    /// Let etcd wait for the disk. Off by default: nothing here has to survive a power cut.
    pub fsync: bool,
    /// Start with the objects that a former cluster left in the folder, instead of empty.
    pub keep_data: bool,
    /// How long each component may take to become ready.
    pub deadline: Duration,
    /// Further arguments of the API server, like `--min-request-timeout=5`.
    pub apiserver_args: Vec<String>,
}

impl Options {
    /// An empty cluster in `dir`: no audit log, no waiting for the disk.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            audit: false,
            fsync: false,
            keep_data: false,
            deadline: Duration::from_secs(180),
            apiserver_args: Vec::new(),
        }
    }

    /// The same with an audit log.
    #[must_use]
    pub fn with_audit(mut self) -> Self {
        self.audit = true;
        self
    }
}

/// A control plane. One that this process started ends when the value is dropped; one that runs detached stays.
#[derive(Debug)]
pub struct Cluster {
    layout: Layout,
    options: Options,
    state: State,
    authority: Authority,
    probe: Probe,
    /// Children of this process, to be waited for.
    children: Vec<Child>,
    watchdog: Option<Watchdog>,
    /// Held for as long as this value owns the folder.
    lock: Option<FileLock>,
    ends_on_drop: bool,
}

impl Cluster {
    /// Where the API server listens, like `https://127.0.0.1:34567`.
    pub fn url(&self) -> String {
        self.state.url()
    }

    /// The cluster's folder.
    pub fn dir(&self) -> &Path {
        self.layout.dir()
    }

    /// The administrator's kubeconfig (user `admin`, group `system:masters`).
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// Each component's pid.
    pub fn pids(&self) -> Vec<(Component, u32)> {
        self.state
            .running
            .iter()
            .map(|r| (r.component, r.process.pid))
            .collect()
    }

    /// A component's log file.
    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component)
    }

    /// The audit log (JSON lines), if one is kept.
    pub fn audit_log(&self) -> Option<PathBuf> {
        self.state.audit.then(|| self.layout.audit_log())
    }

    /// The programs that run.
    pub fn binaries(&self) -> &Binaries {
        &self.state.binaries
    }

    /// kubectl, as the administrator, in an environment that no kubeconfig or setting of the user's reaches.
    pub fn kubectl(&self) -> Command {
        self.kubectl_as(&self.kubeconfig())
    }

    /// kubectl as the user of another kubeconfig of this cluster.
    pub fn kubectl_as(&self, kubeconfig: &Path) -> Command {
        let mut command = Command::new(&self.state.binaries.kubectl);
        command
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .env("KUBECTL_KUBERC", "false");
        command
            .env("HOME", self.layout.kube_cache())
            .env("KUBECACHEDIR", self.layout.kube_cache());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    /// A kubeconfig with a client certificate for `user` in `groups` (two at most). The user may do nothing until
    /// RBAC says otherwise.
    ///
    /// # Errors
    /// On more than two groups, or when the file cannot be written.
    pub fn client_kubeconfig(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let identity = self.authority.client(user, groups)?;
        let path = self.layout.user(user);
        self.authority
            .write_kubeconfig(&path, &self.url(), user, &identity)?;
        Ok(path)
    }

    /// Every request answered so far, in the order the server wrote them: all whose answer had arrived before this
    /// call are among them.
    ///
    /// # Errors
    /// When the cluster keeps no audit log, or the server does not answer.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        // A request's line is written when its answer is complete, which its client may see a moment earlier. So a
        // request of our own is made, and its line waited for.
        static MARKER: AtomicU64 = AtomicU64::new(0);
        let path = self
            .audit_log()
            .context("this cluster keeps no audit log")?;
        let number = MARKER.fetch_add(1, Ordering::Relaxed);
        let marker = format!("/version?audit-marker={}-{number}", std::process::id());
        self.probe.https(self.state.ports.kube_apiserver, &marker)?;
        let deadline = Instant::now() + self.options.deadline;
        loop {
            let mut events = audit::read(&path)?;
            if events.iter().any(|e| e.request_uri == marker) {
                events.retain(|e| !e.request_uri.starts_with("/version?audit-marker="));
                return Ok(events);
            }
            if Instant::now() > deadline {
                bail!("the audit log {} does not move", path.display());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Ends a component (SIGTERM, then SIGKILL) and starts it again with the same ports and data; returns when it is
    /// ready. Only for a cluster that this value owns.
    ///
    /// # Errors
    /// When the cluster is not owned, or the component does not come back.
    pub fn restart(&mut self, component: Component) -> Result<()> {
        if self.lock.is_none() {
            bail!(
                "the cluster in {} belongs to another process",
                self.dir().display()
            );
        }
        process::end(&self.processes(|c| c == component))?;
        self.state.running.retain(|r| r.component != component);
        self.reap();
        self.spawn(component)?;
        self.wait_ready(component)
    }

    /// Ends all components and waits for them.
    ///
    /// # Errors
    /// When a process outlives SIGKILL, or the record cannot be written.
    pub fn stop(mut self) -> Result<()> {
        self.end_all()
    }

    fn end_all(&mut self) -> Result<()> {
        self.ends_on_drop = false;
        // etcd last: an API server without its store does not end in good order.
        process::end(&self.processes(|c| c != Component::Etcd))?;
        process::end(&self.processes(|c| c == Component::Etcd))?;
        for child in &mut self.children {
            // It has ended, unless it never made it into the record. This takes its exit code, so that no zombie stays.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.children.clear();
        self.state.running.clear();
        self.state.write(&self.layout)?;
        self.watchdog = None;
        self.lock = None;
        Ok(())
    }

    fn processes(&self, which: impl Fn(Component) -> bool) -> Vec<ProcessId> {
        let chosen = self.state.running.iter().filter(|r| which(r.component));
        chosen.map(|r| r.process.clone()).collect()
    }

    /// Takes the exit codes of children that have ended.
    fn reap(&mut self) {
        self.children
            .retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.ends_on_drop {
            return;
        }
        if let Err(e) = self.end_all() {
            eprintln!("cluster in {}: {e:#}", self.dir().display());
        }
    }
}
