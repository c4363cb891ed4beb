//! The host as a process of the demo: started, killed, started again.

use super::world::World;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Requests to the exporter at once. Few, so that one can see the queue shrink.
pub(super) const IN_FLIGHT: usize = 4;
/// The host lets passes end for 20 s; then it is ended.
const DRAIN: Duration = Duration::from_secs(25);
/// Lines of its log that are shown when it ends by itself.
const TAIL: usize = 20;

/// A running host. Dropping the value ends it.
pub(super) struct Host {
    process: Child,
    /// Ends the host when this process is gone, however it went: it waits for its end of a pipe to close.
    watchdog: Child,
    log: PathBuf,
}

impl Host {
    /// The arguments, as shown and as used.
    pub(super) fn arguments(world: &World) -> Vec<String> {
        let cache = world.folder().join("cache");
        [
            "run",
            "--namespace",
            world.namespace(),
            // Started again after a kill, it need not wait for its own Lease to run out.
            "--replica-name",
            "demo",
            "--http-in-flight",
            &IN_FLIGHT.to_string(),
            "--cache",
            &cache.to_string_lossy(),
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Starts one; its log goes on where a former one's ended.
    pub(super) fn start(binary: &Path, world: &World) -> Result<Self> {
        let log = world.folder().join("host.log");
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("open {}", log.display()))?;
        let process = Command::new(binary)
            .args(Self::arguments(world))
            .env("KUBECONFIG", world.kubeconfig())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            // A group of its own, so that Ctrl-C reaches the demo alone.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let watchdog = Command::new("/bin/sh")
            .args(["-c", "read -r _; kill -KILL \"$1\" 2>/dev/null", "watchdog"])
            .arg(process.id().to_string())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("start the watchdog")?;
        Ok(Self {
            process,
            watchdog,
            log,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// # Errors
    /// When it has ended by itself; the error holds the end of its log.
    pub(super) fn check(&mut self) -> Result<()> {
        let Some(status) = self.process.try_wait().context("look at the host")? else {
            return Ok(());
        };
        bail!("the host ended ({status}):\n{}", self.log_tail());
    }

    /// The end of its log.
    pub(super) fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// SIGKILL.
    pub(super) fn kill(mut self) -> Result<()> {
        self.process.kill().context("kill the host")?;
        self.process.wait().context("wait for the host")?;
        Ok(())
    }

    /// SIGTERM, and what it did with it.
    ///
    /// # Errors
    /// When it does not end in time, or ends with a failure.
    pub(super) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.context("the host has no pid")?;
        kill_process(pid, Signal::TERM).context("end the host")?;
        let deadline = Instant::now() + DRAIN;
        loop {
            if let Some(status) = self.process.try_wait().context("wait for the host")? {
                if status.success() {
                    return Ok(());
                }
                bail!("the host ended with {status}:\n{}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("the host does not end on SIGTERM:\n{}", self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // First, since a pid may be given away again as soon as its process was waited for.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
