//! A controller as a child process, and what /proc says of it and of the machine.

use crate::Measured;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// Ticks of /proc's CPU times: 100 a second on every Linux that userland sees (USER_HZ).
const TICKS: f64 = 100.0;

/// The controller under test.
pub(crate) struct Controller {
    child: Child,
    pid: u32,
    pub(crate) started: Instant,
}

/// CPU time in seconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cpu {
    pub(crate) own: f64,
    /// Of children that ended: a compiler, say.
    pub(crate) children: f64,
}

/// Memory in MB (10^6 bytes).
pub(crate) struct Memory {
    pub(crate) rss: f64,
    pub(crate) anon: f64,
    pub(crate) peak: f64,
}

impl Controller {
    pub(crate) fn start(measured: &Measured) -> Result<Self> {
        let (program, args) = measured
            .command
            .split_first()
            .context("no controller named")?;
        let log = std::fs::File::create(&measured.log)
            .with_context(|| format!("create {}", measured.log.display()))?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        let pid = child.id().context("the controller ended at once")?;
        Ok(Self {
            child,
            pid,
            started: Instant::now(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn cpu(&self) -> Result<Cpu> {
        cpu(self.pid)
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let read = |name: &str| field(&status, name).with_context(|| format!("no {name}"));
        Ok(Memory {
            rss: read("VmRSS")?,
            anon: read("RssAnon")?,
            peak: read("VmHWM")?,
        })
    }

    /// Fails when it ended by itself.
    pub(crate) fn check(&mut self, measured: &Measured) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let log = std::fs::read_to_string(&measured.log).unwrap_or_default();
                bail!(
                    "the controller ended early ({status}), see {}; its last line: {}",
                    measured.log.display(),
                    log.lines().last().unwrap_or_default()
                )
            }
        }
    }

    /// SIGTERM, and SIGKILL if that is not heard.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(Duration::from_secs(5), self.child.wait())
            .await
            .is_err()
        {
            self.child.kill().await?;
        }
        Ok(())
    }
}

/// CPU time of a process.
pub(crate) fn cpu(pid: u32) -> Result<Cpu> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid}"))?;
    parse_stat(&stat).with_context(|| format!("read /proc/{pid}/stat"))
}

/// proc_pid_stat(5): utime, stime, cutime, cstime are fields 14 to 17; the name before them may hold anything.
fn parse_stat(stat: &str) -> Option<Cpu> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let ticks: Vec<f64> = rest
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse().ok())
        .collect();
    match ticks[..] {
        [user, system, child_user, child_system] => Some(Cpu {
            own: (user + system) / TICKS,
            children: (child_user + child_system) / TICKS,
        }),
        _ => None,
    }
}

/// A size of /proc/PID/status in MB; there it is in KiB.
fn field(status: &str, name: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// What others did on the machine meanwhile: a figure taken beside them is worth less.
pub(crate) struct Strangers {
    known: Vec<u32>,
    busy: f64,
    ours: f64,
    since: Instant,
}

impl Strangers {
    /// Counts from now on. `known` are the processes that belong to the measurement.
    pub(crate) fn watch(mut known: Vec<u32>) -> Result<Self> {
        known.push(std::process::id());
        Ok(Self {
            busy: busy()?,
            ours: sum(&known),
            known,
            since: Instant::now(),
        })
    }

    /// How many cores others used on average.
    pub(crate) fn cores(&self) -> Result<f64> {
        let others = (busy()? - self.busy) - (sum(&self.known) - self.ours);
        Ok((others / self.since.elapsed().as_secs_f64()).max(0.0))
    }
}

fn sum(pids: &[u32]) -> f64 {
    let one = |pid: &u32| cpu(*pid).map_or(0.0, |cpu| cpu.own);
    pids.iter().map(one).sum()
}

/// Seconds of CPU that were not idle (nor waiting for a disk), all cores together.
fn busy() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let fields = stat.lines().next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(1).take(8).flat_map(str::parse).collect();
    match ticks[..] {
        [user, nice, system, _, _, irq, softirq, steal] => {
            Ok((user + nice + system + irq + softirq + steal) / TICKS)
        }
        _ => bail!("/proc/stat is not as proc_stat(5) says"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_past_a_name_with_spaces_and_brackets() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 30 20 20 0 3 0 100";
        let cpu = parse_stat(stat).unwrap();
        assert_eq!((cpu.own, cpu.children), (2.0, 0.5));
    }

    #[test]
    fn memory_is_read_in_megabytes() {
        let status = "Name:\tx\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n";
        assert_eq!(field(status, "VmRSS"), Some(1.024));
        assert_eq!(field(status, "RssAnon"), None);
    }
}
