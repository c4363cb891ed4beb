//! Clusters that outlive the process that starts them: `cargo xtask cluster`.

use super::start::{Mode, end_leftovers, take_lock};
use super::{Cluster, Options};
use crate::binaries::Binaries;
use crate::components::Component;
use crate::layout::{Layout, State};
use crate::pki::{Authority, MASTERS};
use crate::probe::Probe;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// What is known of the cluster in a folder.
#[derive(Debug, Clone)]
pub struct Status {
    /// Where its API server listens.
    pub url: String,
    /// Kubernetes' version, like `v1.36.3`.
    pub version: String,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// False when it belongs to a living process (a test, the demo) and ends with it.
    pub detached: bool,
    /// One entry a component.
    pub components: Vec<ComponentStatus>,
}

/// One component in a [`Status`].
#[derive(Debug, Clone)]
pub struct ComponentStatus {
    /// Which one.
    pub component: Component,
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// Resident memory in bytes, where the system tells.
    pub memory: Option<u64>,
    /// Why it does not serve; `None` when it does.
    pub problem: Option<String>,
}

impl Status {
    /// True when every component serves.
    pub fn is_ready(&self) -> bool {
        self.components.iter().all(|c| c.problem.is_none())
    }
}

impl Cluster {
    /// Starts a cluster that goes on after this process, or attaches to the one that already serves in the folder
    /// (then the second value is false). With [`Options::keep_data`] the objects of a former `up` are there again.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn up(binaries: &Binaries, options: Options) -> Result<(Self, bool)> {
        let layout = Layout::new(&options.dir)?;
        layout.create()?;
        let lock = take_lock(&layout)?;
        if let Ok(running) = Self::attach(&options.dir) {
            return Ok((running, false));
        }
        Ok((Self::launch(binaries, options, lock, Mode::Detached)?, true))
    }

    /// Empties the cluster in the folder: ends it, removes its objects and logs, starts it detached. Ports (if still
    /// free) and keys stay, so kubeconfigs go on working.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn reset(binaries: &Binaries, mut options: Options) -> Result<Self> {
        let layout = Layout::new(&options.dir)?;
        layout.create()?;
        let lock = take_lock(&layout)?;
        options.keep_data = false;
        Self::launch(binaries, options, lock, Mode::Detached)
    }

    /// Ends the detached cluster in the folder; its objects stay for the next [`Cluster::up`]. Returns how many
    /// processes were ended.
    ///
    /// # Errors
    /// When it belongs to a living process, or a process outlives SIGKILL.
    pub fn down(dir: &Path) -> Result<usize> {
        let layout = Layout::new(dir)?;
        if !layout.dir().exists() {
            return Ok(0);
        }
        let _lock = take_lock(&layout)?;
        end_leftovers(&layout)
    }

    /// The cluster that serves in the folder, whoever started it. The value does not own it: dropping it ends nothing.
    ///
    /// # Errors
    /// When none is recorded there, or a component does not serve.
    pub fn attach(dir: &Path) -> Result<Self> {
        let cluster = Self::recorded(dir)?;
        for status in cluster.component_status() {
            if let Some(problem) = status.problem {
                bail!(
                    "the cluster in {}: {}: {problem}",
                    dir.display(),
                    status.component.name()
                );
            }
        }
        Ok(cluster)
    }

    /// What runs in the folder.
    ///
    /// # Errors
    /// When no cluster is recorded there.
    pub fn status(dir: &Path) -> Result<Status> {
        let cluster = Self::recorded(dir)?;
        Ok(Status {
            url: cluster.url(),
            version: cluster.state.version.clone(),
            kubeconfig: cluster.kubeconfig(),
            detached: cluster.state.detached,
            components: cluster.component_status(),
        })
    }

    /// A view of what the folder's record says, alive or not.
    fn recorded(dir: &Path) -> Result<Self> {
        let layout = Layout::new(dir)?;
        let Some(state) = State::read(&layout) else {
            bail!("no cluster in {}", layout.dir().display())
        };
        let authority = Authority::open(&layout)?;
        let probe = Probe::new(
            &authority,
            &authority.client("guesthouse-local", &[MASTERS])?,
        )?;
        let mut options = Options::new(layout.dir());
        (options.audit, options.fsync, options.keep_data) = (state.audit, state.fsync, true);
        Ok(Self {
            layout,
            options,
            state,
            authority,
            probe,
            children: Vec::new(),
            watchdog: None,
            lock: None,
            ends_on_drop: false,
        })
    }

    fn component_status(&self) -> Vec<ComponentStatus> {
        Component::ALL
            .into_iter()
            .map(|component| self.status_of(component))
            .collect()
    }

    fn status_of(&self, component: Component) -> ComponentStatus {
        let process = self
            .processes(|c| c == component)
            .into_iter()
            .find(|p| p.is_alive());
        // Asked only of a process of ours: its port may belong to somebody else by now.
        let problem = match &process {
            Some(_) => self.check(component).err().map(|e| format!("{e:#}")),
            None => Some("not running".to_owned()),
        };
        ComponentStatus {
            component,
            pid: process.as_ref().map(|p| p.pid),
            memory: process
                .as_ref()
                .and_then(crate::process::ProcessId::resident_memory),
            problem,
        }
    }
}
