//! What the story looks at while it goes on: listings, Events, and the queue as it shrinks.

use super::{PHASE_LABEL, ROWS, Story};
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// How often the queue is listed.
pub(super) const POLL: Duration = Duration::from_millis(300);
/// Nothing in the demo takes this long without something to see.
pub(super) const DEADLINE: Duration = Duration::from_secs(90);

impl Story<'_> {
    /// The queue as kubectl lists it.
    pub(super) fn show_pending(&mut self) -> Result<()> {
        let listing = ["-l".to_owned(), format!("{PHASE_LABEL}=pending")];
        self.table(&["get", "reportjobs", &listing[0], &listing[1]], true, ROWS)
    }

    /// Runs kubectl in the jobs' namespace (else in the host's), and shows command and table.
    pub(super) fn table(&mut self, args: &[&str], of_jobs: bool, rows: usize) -> Result<()> {
        let namespace = if of_jobs {
            self.world.reports()
        } else {
            self.world.namespace()
        };
        self.terminal
            .command(&format!("kubectl -n {namespace} {}", args.join(" ")));
        let all = [&["-n", namespace], args].concat();
        let table = self.world.kubectl_shown(&all)?;
        self.terminal.table(&table, rows);
        Ok(())
    }

    /// How many are in the queue.
    pub(super) fn pending(&self) -> Result<usize> {
        let label = format!("{PHASE_LABEL}=pending");
        let args = [
            "-n",
            self.world.reports(),
            "get",
            "reportjobs",
            "-l",
            &label,
            "-o",
            "name",
        ];
        Ok(self.world.kubectl(&args)?.lines().count())
    }

    /// Lists the queue until at most so many are left in it; returns how many.
    pub(super) fn drain_to(&mut self, least: usize) -> Result<usize> {
        let mut progress = (usize::MAX, Instant::now());
        loop {
            let left = self.pending()?;
            self.show_remaining(left);
            if left <= least {
                return Ok(left);
            }
            self.host()?.check()?;
            if left != progress.0 {
                progress = (left, Instant::now());
            } else if progress.1.elapsed() > DEADLINE {
                let tail = self.host()?.log_tail();
                bail!("{left} jobs stay pending; the host says:\n{tail}");
            }
            self.world.interrupt().pause(POLL)?;
        }
    }

    pub(super) fn show_remaining(&mut self, left: usize) {
        let made = self.exporter.stats().made;
        self.terminal
            .remaining(left, self.jobs + 1, &format!("{made} reports made"));
    }

    /// Asks until the answer is as wanted.
    pub(super) fn wait_for<T>(
        &mut self,
        what: &str,
        ask: impl Fn(&Self) -> Result<T>,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let started = Instant::now();
        loop {
            let answer = ask(self)?;
            if is_wanted(&answer) {
                return Ok(answer);
            }
            self.host()?.check()?;
            if started.elapsed() > DEADLINE {
                let tail = self.host()?.log_tail();
                bail!("waiting for {what} in vain; the host says:\n{tail}");
            }
            self.world.interrupt().pause(POLL)?;
        }
    }

    /// The digests that have served, in order, as the ConfigMap's Events tell.
    pub(super) fn digests(&self) -> Result<Vec<String>> {
        let args = [
            "-n",
            self.world.namespace(),
            "get",
            "events",
            "--field-selector",
            "reason=MappingActive",
            "--sort-by=.eventTime",
            "-o",
            "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}",
        ];
        let notes = self.world.kubectl(&args)?;
        let digest = |note: &str| {
            let (_, after) = note.split_once('(')?;
            Some(after.split_once(')')?.0.to_owned())
        };
        Ok(notes.lines().filter_map(digest).collect())
    }
}
