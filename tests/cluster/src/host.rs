//! The host as its users run it: a process, killed and started again at will.

use crate::artifacts::host_binary;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a host is run.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// Filter of its log, in the syntax of `RUST_LOG`.
    pub log: String,
    /// Further arguments of `guesthouse run`.
    pub arguments: Vec<String>,
    /// Its name among replicas. A host that is started again under it goes on at once where the last one ended.
    pub replica: String,
    /// Who it is at the API server, if not the scene's own identity, which may do everything.
    pub kubeconfig: Option<PathBuf>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
    /// The program, if not the usual one.
    pub binary: Option<PathBuf>,
    /// Where compiled plugins are kept, if not with all others.
    pub cache: Option<PathBuf>,
    /// Whether it may end by itself: it was told to crash.
    pub may_end: bool,
}

impl Default for Arguments {
    /// Logs every pass.
    fn default() -> Self {
        Self {
            log: "info,guesthouse_operator=debug".to_owned(),
            arguments: Vec::new(),
            replica: "host".to_owned(),
            kubeconfig: None,
            environment: Vec::new(),
            binary: None,
            cache: None,
            may_end: false,
        }
    }
}

impl Arguments {
    /// With further arguments of `guesthouse run`.
    pub fn with(arguments: &[&str]) -> Self {
        Self {
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// One of several replicas, with Leases that last a few seconds.
    pub fn replica(name: &str) -> Self {
        Self {
            replica: name.to_owned(),
            ..Self::with(&["--lease-seconds", "3"])
        }
    }
}

/// A running host. It is killed when it is dropped.
#[derive(Debug)]
pub struct Host(pub(crate) Arc<Process>);

/// The process behind a [`Host`].
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    children: Mutex<Children>,
    /// It was asked to end.
    may_end: AtomicBool,
}

#[derive(Debug)]
struct Children {
    host: Child,
    /// Kills the host should this process be killed before it could; it waits for the end of a pipe that only we hold.
    watchdog: Child,
}

impl Host {
    pub(crate) fn start(
        kubeconfig: &Path,
        namespace: &str,
        cache: &Path,
        log: &Path,
        how: &Arguments,
    ) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("open {}", log.display()))?;
        let binary = how.binary.clone().map_or_else(host_binary, Ok)?;
        let mut host = Command::new(binary)
            .args(["run", "--log-format", "json", "--namespace", namespace])
            .arg("--cache")
            .arg(how.cache.as_deref().unwrap_or(cache))
            .args(["--replica-name", &how.replica])
            .args(&how.arguments)
            .envs(how.environment.iter().map(|(name, value)| (name, value)))
            .env(
                "KUBECONFIG",
                how.kubeconfig.as_deref().unwrap_or(kubeconfig),
            )
            .env("GUESTHOUSE_LOG", &how.log)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .context("start the host")?;
        let pid = host.id();
        match watchdog(pid) {
            Ok(watchdog) => Ok(Self(Arc::new(Process {
                pid,
                children: Mutex::new(Children { host, watchdog }),
                may_end: AtomicBool::new(how.may_end),
            }))),
            Err(error) => {
                let _ = host.kill();
                let _ = host.wait();
                Err(error)
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        self.0.ended()
    }

    /// Stops it where it stands, or lets it go on.
    pub fn freeze(&self, freeze: bool) -> Result<()> {
        signal(self.pid(), if freeze { Signal::STOP } else { Signal::CONT })
    }

    /// SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        self.0.may_end.store(true, Ordering::Relaxed);
        signal(self.pid(), Signal::TERM)
    }

    /// SIGKILL, wherever it stands.
    pub fn kill(self) {
        self.0.kill();
    }
}

impl Process {
    fn children(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> Result<Option<ExitStatus>> {
        self.children().host.try_wait().context("look at the host")
    }

    /// An error if it ended although nobody asked it to.
    pub(crate) fn check(&self) -> Result<()> {
        match self.ended()? {
            Some(status) if !self.may_end.load(Ordering::Relaxed) => {
                bail!("the host ended by itself: {status}")
            }
            _ => Ok(()),
        }
    }

    fn kill(&self) {
        self.may_end.store(true, Ordering::Relaxed);
        let mut children = self.children();
        let children = &mut *children;
        for child in [&mut children.host, &mut children.watchdog] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process that this one started, or that its control plane did.
pub(crate) fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.context("a process id")?, signal).context("signal a process")
}

fn watchdog(pid: u32) -> Result<Child> {
    // `read` ends when the pipe does.
    Command::new("/bin/sh")
        .args(["-c", "read -r _; kill -KILL \"$1\" 2>/dev/null", "sh"])
        .arg(pid.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start the host's watchdog")
}
