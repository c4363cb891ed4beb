//! Compilation in a child process: a component on its stdin, native code on its stdout, limits of the system's own around it.
//!
//! The parent gives the process no environment, its own process group and a deadline; what it says on stderr is a refusal's
//! text. The child takes its limits from its arguments before it reads a byte.

use std::{
    io::{Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use guesthouse_core::refusal::{Refusal, RefusalKind::*};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};

use crate::{
    Budget, Metering,
    compile::{self, COMPILE_STACK, over_time},
    engine::Shape,
    refuse::refuse,
};

/// Most native code taken from a child, bytes.
const MAX_CODE: u64 = 1 << 30;
/// Most of a child's stderr that is read, bytes.
const MAX_WORDS: u64 = 4096;

/// Compiles in a child process.
pub(crate) fn compile(
    exe: &Path,
    args: &[String],
    shape: Shape,
    budget: &Budget,
    component: Vec<u8>,
) -> Result<Vec<u8>, Refusal> {
    let deadline = Instant::now() + budget.time;
    let mut child = Group(
        Command::new(exe)
            .args(args)
            .args(
                Job {
                    shape,
                    memory: budget.memory,
                    seconds: budget.time.as_secs() + 1,
                }
                .to_args(),
            )
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                refuse(
                    Host,
                    format!("cannot start the compiler {}: {error}", exe.display()),
                )
            })?,
    );
    let (code, words) = talk(&mut child.0, component)?;
    let Ok(code) = code.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
        return Err(over_time(budget.time));
    };
    let Some(status) = child.wait(deadline) else {
        return Err(over_time(budget.time));
    };
    if status.success() && !code.is_empty() {
        return Ok(code);
    }
    // Its end closed the pipe, unless a process of its own holds it open.
    let words = words
        .recv_timeout(Duration::from_secs(1))
        .unwrap_or_default();
    Err(failed(status, &String::from_utf8_lossy(&words), budget))
}

/// Threads that feed and hear the child: none of the three pipes may wait for another.
#[allow(clippy::type_complexity)] // Two receivers of bytes.
fn talk(
    child: &mut Child,
    component: Vec<u8>,
) -> Result<(mpsc::Receiver<Vec<u8>>, mpsc::Receiver<Vec<u8>>), Refusal> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(refuse(Host, "the compiler has no pipes"));
    };
    std::thread::spawn(move || {
        // A child that ends early says why itself.
        let _ = stdin.write_all(&component);
    });
    Ok((hear(stdout, MAX_CODE), hear(stderr, MAX_WORDS)))
}

fn hear(from: impl Read + Send + 'static, max: u64) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read is the best there is; the exit status decides.
        let _ = from.take(max).read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}

fn failed(status: ExitStatus, words: &str, budget: &Budget) -> Refusal {
    let words = words.trim();
    let signal = status.signal();
    let text = if signal == Some(Signal::XCPU.as_raw()) {
        return over_time(budget.time);
    } else if words.contains("memory allocation of") || words.contains("Cannot allocate memory") {
        format!(
            "compiling needs more than {} MiB of memory; is the module larger than it need be?",
            budget.memory >> 20
        )
    } else if let Some(signal) = signal {
        format!("the compiler was ended by signal {signal}: {words}")
    } else {
        format!("cannot be compiled: {words}")
    };
    refuse(CompileFailed, text)
}

/// A child and all it may start, ended with this value.
struct Group(Child);

impl Group {
    /// Waits until the deadline. The pipes are closed when this is called, so the end is near or never.
    fn wait(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1))
                }
                _ => return None,
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // Gone already in the good case.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// What the parent tells the child.
struct Job {
    shape: Shape,
    memory: u64,
    seconds: u64,
}

impl Job {
    fn to_args(&self) -> [String; 4] {
        let metering = match self.shape.metering {
            Metering::Epoch => "epoch",
            Metering::Fuel => "fuel",
        };
        [
            format!("--metering={metering}"),
            format!("--stack={}", self.shape.stack),
            format!("--memory={}", self.memory),
            format!("--seconds={}", self.seconds),
        ]
    }

    fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut job = Self {
            shape: Shape {
                metering: Metering::Epoch,
                stack: 0,
            },
            memory: 0,
            seconds: 0,
        };
        for arg in args {
            let number = |text: &str| {
                text.parse::<u64>()
                    .map_err(|error| format!("{arg}: {error}"))
            };
            match arg.split_once('=') {
                Some(("--metering", "epoch")) => job.shape.metering = Metering::Epoch,
                Some(("--metering", "fuel")) => job.shape.metering = Metering::Fuel,
                Some(("--stack", text)) => job.shape.stack = number(text)? as usize,
                Some(("--memory", text)) => job.memory = number(text)?,
                Some(("--seconds", text)) => job.seconds = number(text)?,
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        Ok(job)
    }
}

/// The child's side, the body of a hidden verb of whatever binary [`crate::Compiler::Child`] names: `args` are those after
/// its own. Reads a component from stdin and writes native code to stdout.
pub fn compile_child_main(args: impl IntoIterator<Item = String>) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            // Stderr is all there is to say it on.
            let _ = writeln!(std::io::stderr(), "{words}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: impl IntoIterator<Item = String>) -> Result<(), String> {
    let job = Job::parse(args)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Cpu, job.seconds)?;
    limit(Resource::As, job.memory)?;
    // A parent that was killed cannot end us.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| error.to_string())?;
    let work = move || -> Result<(), String> {
        let mut component = Vec::new();
        std::io::stdin()
            .read_to_end(&mut component)
            .map_err(|error| format!("stdin: {error}"))?;
        let code = compile::here(job.shape, &component)?;
        std::io::stdout()
            .write_all(&code)
            .map_err(|error| format!("stdout: {error}"))
    };
    let thread = std::thread::Builder::new()
        .stack_size(COMPILE_STACK)
        .spawn(work)
        .map_err(|error| error.to_string())?;
    thread
        .join()
        .unwrap_or_else(|_| Err("the compiler panicked".into()))
}

fn limit(resource: Resource, to: u64) -> Result<(), String> {
    setrlimit(
        resource,
        Rlimit {
            current: Some(to),
            maximum: Some(to),
        },
    )
    .map_err(|error| format!("limit {resource:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_its_way_through_the_arguments() {
        let job = Job {
            shape: Shape {
                metering: Metering::Fuel,
                stack: 77,
            },
            memory: 88,
            seconds: 99,
        };
        let read = Job::parse(job.to_args()).unwrap();
        assert_eq!(
            (
                read.shape.metering,
                read.shape.stack,
                read.memory,
                read.seconds
            ),
            (Metering::Fuel, 77, 88, 99)
        );
        assert!(Job::parse(["--what=1".into()]).is_err());
    }
}
