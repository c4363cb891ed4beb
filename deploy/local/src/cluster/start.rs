//! Starting: the folder, the keys, then each component in turn until it is ready.

use super::{Cluster, Options, POLL};
use crate::binaries::{Binaries, KUBERNETES_VERSION};
use crate::components::{self, Component, Ports};
use crate::layout::{Layout, Running, State, write_file};
use crate::lock::FileLock;
use crate::pki::{Authority, MASTERS};
use crate::probe::{self, Probe};
use crate::process::{self, ProcessId, Watchdog};
use anyhow::{Context, Result, anyhow, bail};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Another program may take a free port before a component does; it is not that likely to do so five times.
const PORT_ATTEMPTS: usize = 5;
/// Lines of a component's log shown with an error.
const LOG_TAIL: usize = 25;

/// Who ends the components.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The value that starts them.
    Owned,
    /// A later `down`.
    Detached,
}

impl Cluster {
    /// Starts a control plane in `options.dir` and waits until it serves. What a former owner left running there is
    /// ended first.
    ///
    /// # Errors
    /// When the folder is in use by a living owner, or a component ends or does not become ready in time; the error
    /// holds the end of its log.
    pub fn start(binaries: &Binaries, options: Options) -> Result<Self> {
        let layout = Layout::new(&options.dir)?;
        layout.create()?;
        let lock = take_lock(&layout)?;
        Self::launch(binaries, options, lock, Mode::Owned)
    }

    /// As [`Cluster::start`], with the folder's lock already held.
    pub(super) fn launch(
        binaries: &Binaries,
        options: Options,
        lock: FileLock,
        mode: Mode,
    ) -> Result<Self> {
        let layout = Layout::new(&options.dir)?;
        end_leftovers(&layout)?;
        if !options.keep_data {
            layout.wipe()?;
        }
        layout.create()?;
        let former = State::read(&layout)
            .map(|s| s.ports)
            .filter(Ports::are_free);
        let authority = Authority::open(&layout)?;
        let probe = Probe::new(
            &authority,
            &authority.client("guesthouse-local", &[MASTERS])?,
        )?;
        let state = State {
            detached: mode == Mode::Detached,
            owner: std::process::id(),
            ports: former.map_or_else(Ports::free, Ok)?,
            audit: options.audit,
            fsync: options.fsync,
            version: binaries
                .kubernetes_version()
                .unwrap_or_else(|_| KUBERNETES_VERSION.to_owned()),
            binaries: binaries.clone(),
            running: Vec::new(),
        };
        let watchdog = if mode == Mode::Owned {
            Watchdog::start()?
        } else {
            None
        };
        let mut cluster = Self {
            layout,
            options,
            state,
            authority,
            probe,
            children: Vec::new(),
            watchdog,
            lock: Some(lock),
            // Also in detached mode, until all is well: a start that fails leaves nothing behind.
            ends_on_drop: true,
        };
        cluster.bring_up()?;
        if mode == Mode::Detached {
            cluster.ends_on_drop = false;
            cluster.lock = None;
        }
        Ok(cluster)
    }

    fn bring_up(&mut self) -> Result<()> {
        for attempt in 1.. {
            self.write_files()?;
            let result = Component::ALL.into_iter().try_for_each(|component| {
                self.spawn(component)?;
                self.wait_ready(component)
            });
            let Err(error) = result else { break };
            if attempt == PORT_ATTEMPTS || !self.lost_a_port() {
                return Err(error);
            }
            process::end(&self.processes(|_| true))?;
            self.reap();
            self.state.running.clear();
            for component in Component::ALL {
                let _ = std::fs::remove_file(self.layout.log(component));
            }
            self.state.ports = Ports::free()?;
        }
        Ok(())
    }

    /// All that depends on the ports.
    fn write_files(&self) -> Result<()> {
        let (url, authority) = (self.url(), &self.authority);
        authority.write_kubeconfig(
            &self.layout.kubeconfig(),
            &url,
            "admin",
            &authority.client("admin", &[MASTERS])?,
        )?;
        let manager = "system:kube-controller-manager";
        authority.write_kubeconfig(
            &components::controller_manager_kubeconfig(&self.layout),
            &url,
            manager,
            &authority.client(manager, &[MASTERS])?,
        )?;
        write_file(
            &self.layout.audit_policy(),
            components::AUDIT_POLICY.as_bytes(),
            0o644,
        )
    }

    pub(super) fn spawn(&mut self, component: Component) -> Result<()> {
        let (layout, ports, binaries) = (&self.layout, &self.state.ports, &self.state.binaries);
        let (program, args) = match component {
            Component::Etcd => (
                &binaries.etcd,
                components::etcd_args(layout, ports, self.options.fsync),
            ),
            Component::KubeApiserver => (
                &binaries.kube_apiserver,
                components::apiserver_args(
                    layout,
                    ports,
                    self.options.audit,
                    &self.options.apiserver_args,
                ),
            ),
            Component::KubeControllerManager => (
                &binaries.kube_controller_manager,
                components::controller_manager_args(layout, ports),
            ),
        };
        let path = layout.log(component);
        let open = || {
            std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&path)
        };
        let log = open().with_context(|| format!("open {}", path.display()))?;
        let child = Command::new(program)
            .args(args)
            // Default paths (certificates, sockets) must not land where the caller happens to be.
            .current_dir(layout.dir())
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share the log")?)
            .stderr(log)
            // A group of its own, so that a Ctrl-C meant for the owner does not reach it first.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let pid = child.id();
        self.children.push(child);
        let process = ProcessId::of(pid).ok_or_else(|| self.failure(component, "ended at once"))?;
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.watch(&process)?;
        }
        self.state.running.push(Running { component, process });
        self.state.write(&self.layout)
    }

    /// Waits until `component` does its work, and fails at once when it has ended.
    pub(super) fn wait_ready(&self, component: Component) -> Result<()> {
        let started = Instant::now();
        loop {
            let Err(why) = self.check(component) else {
                return Ok(());
            };
            if !self
                .processes(|c| c == component)
                .iter()
                .all(ProcessId::is_alive)
            {
                return Err(self.failure(component, "ended while starting"));
            }
            if started.elapsed() > self.options.deadline {
                let why = format!(
                    "not ready after {} s ({why:#})",
                    self.options.deadline.as_secs()
                );
                return Err(self.failure(component, &why));
            }
            std::thread::sleep(POLL);
        }
    }

    /// One question to a component: does it serve?
    pub(super) fn check(&self, component: Component) -> Result<()> {
        let ports = &self.state.ports;
        match component {
            Component::Etcd => probe::http(ports.etcd, "/health"),
            Component::KubeApiserver => {
                self.probe.https(ports.kube_apiserver, "/readyz")?;
                // Made by the server itself shortly after it says that it is ready.
                self.probe
                    .https(ports.kube_apiserver, "/api/v1/namespaces/default")
            }
            Component::KubeControllerManager => {
                self.probe.https(ports.kube_controller_manager, "/healthz")
            }
        }
    }

    fn failure(&self, component: Component, what: &str) -> anyhow::Error {
        let log = self.layout.log(component);
        anyhow!(
            "{} {what}; {} ends with:\n{}",
            component.name(),
            log.display(),
            tail(&log)
        )
    }

    fn lost_a_port(&self) -> bool {
        Component::ALL
            .into_iter()
            .any(|c| tail(&self.layout.log(c)).contains("address already in use"))
    }
}

/// Ends what the folder's record says is running; returns how many processes that were.
pub(super) fn end_leftovers(layout: &Layout) -> Result<usize> {
    let Some(mut state) = State::read(layout) else {
        return Ok(0);
    };
    let alive = |state: &State, etcd: bool| -> Vec<ProcessId> {
        let chosen = state
            .running
            .iter()
            .filter(|r| (r.component == Component::Etcd) == etcd);
        chosen
            .map(|r| r.process.clone())
            .filter(ProcessId::is_alive)
            .collect()
    };
    let (servers, etcd) = (alive(&state, false), alive(&state, true));
    process::end(&servers)?;
    process::end(&etcd)?;
    state.running.clear();
    state.write(layout)?;
    Ok(servers.len() + etcd.len())
}

pub(super) fn take_lock(layout: &Layout) -> Result<FileLock> {
    match FileLock::try_take(&layout.lock())? {
        Some(lock) => Ok(lock),
        None => {
            let owner = State::read(layout).map_or_else(
                || "another process".to_owned(),
                |s| format!("process {}", s.owner),
            );
            bail!(
                "the cluster in {} is in use by {owner}: end that first",
                layout.dir().display()
            )
        }
    }
}

fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n")
}
