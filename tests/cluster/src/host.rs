//! The host as its users run it: a process, killed and started again at will.

use crate::artifacts::host_binary;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// How a host is run.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// Filter of its log, in the syntax of `RUST_LOG`.
    pub log: String,
    /// Further arguments of `guesthouse run`.
    pub arguments: Vec<String>,
}

impl Default for Arguments {
    /// Logs every pass.
    fn default() -> Self {
        Self {
            log: "info,guesthouse_operator=debug".to_owned(),
            arguments: Vec::new(),
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
}

/// A running host. It is killed when it is dropped.
#[derive(Debug)]
pub struct Host {
    child: Child,
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
        let mut child = Command::new(host_binary()?)
            .args(["run", "--log-format", "json", "--namespace", namespace])
            .arg("--cache")
            .arg(cache)
            .args(&how.arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("GUESTHOUSE_LOG", &how.log)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .context("start the host")?;
        match watchdog(child.id()) {
            Ok(watchdog) => Ok(Self { child, watchdog }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("look at the host")
    }

    /// SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        signal(self.pid(), Signal::TERM)
    }

    /// SIGKILL, wherever it stands.
    pub fn kill(self) {}
}

impl Drop for Host {
    fn drop(&mut self) {
        for child in [&mut self.child, &mut self.watchdog] {
            let _ = child.kill();
            let _ = child.wait();
        }
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
