//! Progress of long steps: a bar on a terminal, a few plain lines anywhere else (continuous integration logs).

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Without a terminal, at most one line in this time.
const PLAIN_EVERY: Duration = Duration::from_secs(20);
/// Lines of a failed command that are shown.
const TAIL: usize = 40;

/// One step that takes a while, shown on stderr.
#[derive(Debug)]
pub struct Progress {
    label: String,
    bar: Option<ProgressBar>,
    started: Instant,
    last_line: Instant,
    done: u64,
    total: Option<u64>,
}

impl Progress {
    /// Begins a step of unknown length.
    pub fn start(label: impl Into<String>) -> Self {
        let label = label.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(label.clone());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if bar.is_none() {
            eprintln!("{label} ...");
        }
        let now = Instant::now();
        Self {
            label,
            bar,
            started: now,
            last_line: now,
            done: 0,
            total: None,
        }
    }

    /// Makes the step one of `total` units called `unit`.
    pub fn set_total(&mut self, total: u64, unit: &str) {
        self.total = Some(total);
        let Some(bar) = &self.bar else { return };
        let shape = format!("{{msg}} [{{bar:30}}] {{pos}}/{{len}} {unit} {{elapsed}}");
        // A template that does not parse would only cost the looks.
        if let Ok(style) = ProgressStyle::with_template(&shape) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_length(total);
    }

    /// Counts one unit as done.
    pub fn tick(&mut self) {
        self.done += 1;
        match &self.bar {
            Some(bar) => bar.inc(1),
            None => self.plain_line(None),
        }
    }

    /// Shows what happens at the moment; counts nothing.
    pub fn note(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("{}: {what}", self.label)),
            None => self.plain_line(Some(what)),
        }
    }

    /// Ends the step with a line that stays.
    pub fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("{}: done in {}", self.label, human(self.started.elapsed()));
    }

    fn plain_line(&mut self, what: Option<&str>) {
        if self.last_line.elapsed() < PLAIN_EVERY {
            return;
        }
        self.last_line = Instant::now();
        let took = human(self.started.elapsed());
        let what = match (what, self.total) {
            (Some(what), _) => what.to_owned(),
            (None, Some(total)) => format!("{} of {total}", self.done),
            (None, None) => "...".to_owned(),
        };
        eprintln!("{}: {what} ({took})", self.label);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // After `finish` this does nothing more; after an error it takes the bar away before the error is printed.
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn human(took: Duration) -> String {
    match took.as_secs() {
        s @ 0..10 => format!("{s}.{} s", took.subsec_millis() / 100),
        s @ 10..120 => format!("{s} s"),
        s => format!("{} min {} s", s / 60, s % 60),
    }
}

/// Runs `command`, hands every line of its stderr to `line` and shows the last lines only if it fails. Its stdout is
/// returned.
///
/// # Errors
/// When it cannot be started or ends with a failure; the error holds the last lines of its stderr.
pub fn run_with_progress(command: &mut Command, mut line: impl FnMut(&str)) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {name}"))?;
    // stdout is read beside stderr, since a full pipe would hold the child for ever.
    let out = child.stdout.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).map(|_| bytes)
        })
    });
    let mut tail = VecDeque::new();
    if let Some(pipe) = child.stderr.take() {
        for text in BufReader::new(pipe).split(b'\n') {
            let text = String::from_utf8_lossy(&text.context("read output")?).into_owned();
            line(&text);
            tail.push_back(text);
            if tail.len() > TAIL {
                tail.pop_front();
            }
        }
    }
    let status = child.wait().with_context(|| format!("wait for {name}"))?;
    if !status.success() {
        let tail: Vec<String> = tail.into();
        bail!("{name} failed ({status}):\n{}", tail.join("\n"));
    }
    match out.map(std::thread::JoinHandle::join) {
        Some(Ok(bytes)) => bytes.with_context(|| format!("read the output of {name}")),
        _ => bail!("output of {name} was lost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_shows_its_last_lines_and_a_good_one_its_output() {
        let mut seen = Vec::new();
        let mut good = Command::new("sh");
        good.args(["-c", "echo out; echo one >&2; echo two >&2"]);
        let out = run_with_progress(&mut good, |l| seen.push(l.to_owned())).unwrap();
        assert_eq!(
            (out.as_slice(), seen),
            (
                b"out\n".as_slice(),
                vec!["one".to_owned(), "two".to_owned()]
            )
        );

        let mut bad = Command::new("sh");
        bad.args(["-c", "echo the cause >&2; exit 3"]);
        let error = run_with_progress(&mut bad, |_| ()).unwrap_err().to_string();
        assert!(
            error.contains("the cause") && error.contains("exit status: 3"),
            "{error}"
        );
    }
}
