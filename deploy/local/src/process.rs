//! Processes named so that they cannot be mistaken, and the watchdog that outlives a killed owner.
//!
//! A pid alone may belong to another program by the time somebody acts on it. Together with the process's start time
//! and its name it names one process for as long as the machine runs.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// How long the kernel may take to end a process after SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// One process of this machine: pid, start time, name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// When it started, in the system's own unit (Linux: clock ticks since boot).
    started: String,
    /// The program's name, cut as the system cuts it.
    name: String,
}

impl ProcessId {
    /// The process that has this pid now; `None` if there is none, or only a zombie.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let (started, name) = look(pid)?;
        Some(Self { pid, started, name })
    }

    /// True while exactly this process lives.
    pub(crate) fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    fn signal(&self, signal: Signal) {
        if !self.is_alive() {
            return;
        }
        // An error means that it has just ended, which is what was wanted.
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Resident memory in bytes, where the system tells.
    pub(crate) fn resident_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }
}

/// Start time and name of a living process.
#[cfg(target_os = "linux")]
fn look(pid: u32) -> Option<(String, String)> {
    // proc(5): pid (name) state ...; the start time is field 22. The name may itself hold spaces and parentheses.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let state = *fields.first()?;
    (state != "Z" && state != "X").then_some(((*fields.get(19)?).to_owned(), name))
}

/// Start time and name of a living process.
#[cfg(not(target_os = "linux"))]
fn look(pid: u32) -> Option<(String, String)> {
    let output = Command::new("ps")
        .args(["-o", "stat=,lstart=,comm=", "-p", &pid.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut words = text.split_whitespace();
    let state = words.next()?;
    let started = words.by_ref().take(5).collect::<Vec<_>>().join(" ");
    (!state.starts_with('Z')).then_some((started, words.next()?.to_owned()))
}

/// Ends these processes: SIGTERM to all, SIGKILL to those that take too long. Returns when all are gone.
///
/// # Errors
/// Names a process that is still there after SIGKILL.
pub(crate) fn end(processes: &[ProcessId]) -> Result<()> {
    for (signal, grace) in [(Signal::TERM, GRACE), (Signal::KILL, KILL_GRACE)] {
        for process in processes {
            process.signal(signal);
        }
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline {
            if !processes.iter().any(ProcessId::is_alive) {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
    }
    match processes.iter().find(|p| p.is_alive()) {
        Some(process) => anyhow::bail!("process {} ({}) does not end", process.pid, process.name),
        None => Ok(()),
    }
}

/// A shell that ends the components when their owner is gone, however it went.
///
/// It reads one line a component from a pipe whose other end only the owner holds: the kernel closes it even after
/// SIGKILL. (A parent-death signal would need `unsafe` here, and fires when the *thread* that started a child ends.)
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    pipe: Option<ChildStdin>,
}

// `set -f` keeps the shell from expanding names; field 22 of /proc/PID/stat is the start time, and the components'
// names hold no spaces.
const WATCH: &str = r#"set -f
while read -r pid started; do all="$all $pid:$started"; done
for one in $all; do
  pid=${one%%:*}
  { read -r stat < "/proc/$pid/stat"; } 2>/dev/null || continue
  set -- $stat
  shift 21
  [ "$1" = "${one#*:}" ] && kill -KILL "$pid" 2>/dev/null
done
exit 0
"#;

impl Watchdog {
    /// Starts it; `None` on systems without `/proc`, where the next start has to clean up.
    pub(crate) fn start() -> Result<Option<Self>> {
        if !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let mut shell = Command::new("/bin/sh")
            .args(["-c", WATCH])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own: Ctrl-C in the terminal must not end it before its work is done.
            .process_group(0)
            .spawn()
            .context("start the watchdog")?;
        let pipe = shell.stdin.take();
        Ok(Some(Self { shell, pipe }))
    }

    pub(crate) fn watch(&mut self, process: &ProcessId) -> Result<()> {
        match &mut self.pipe {
            Some(pipe) => {
                writeln!(pipe, "{} {}", process.pid, process.started).context("tell the watchdog")
            }
            None => Ok(()),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_another_one_when_its_start_time_differs_and_is_then_left_alone() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        let namesake = ProcessId {
            started: "1".to_owned(),
            ..process.clone()
        };
        assert!(!namesake.is_alive());
        end(&[namesake]).unwrap();
        assert!(
            process.is_alive(),
            "a process of another start time was ended"
        );
        end(std::slice::from_ref(&process)).unwrap();
        assert!(!process.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' TERM; echo; while :; do read x; done"]);
        let mut child = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The line says that the trap is set.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        end(std::slice::from_ref(&process)).unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
