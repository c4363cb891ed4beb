//! What the demo claims, compared with what cluster and exporter say at its end.

use super::jobs::{self, POISONED};
use anyhow::{Context, Result};
use report_exporter::{Report, Stats};
use serde_json::Value;
use std::collections::BTreeMap;

/// Attempts after which a `ReportJob` fails, and the least time they take with 1 + 2 + 4 + 8 s between them, each 10 % less.
const ATTEMPTS: u64 = 5;
const LEAST_MILLISECONDS: u64 = 13_500;

/// What happened, as far as it can be told only while it does.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// The plugin's digest at first and after the swap.
    pub(super) swap: (String, String),
    /// Jobs pending when the new digest served, and when the host was killed.
    pub(super) pending_at_swap: usize,
    pub(super) pending_at_kill: usize,
    /// Answers that the exporter was told to lose.
    pub(super) lost: u64,
}

/// What there is at the end.
pub(super) struct Facts {
    pub(super) jobs: usize,
    pub(super) course: Course,
    /// `.status` by the job's name.
    statuses: BTreeMap<String, Value>,
    /// Names in the listing of what is pending.
    pending: usize,
    stats: Stats,
    /// Names of the reports that were made.
    made: Vec<String>,
    /// The exporter's id of the poisoned job.
    poisoned: String,
}

/// Something that was claimed, and whether it is so.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) holds: bool,
    pub(super) text: String,
}

impl Facts {
    /// Facts out of `kubectl get reportjobs -o json`, the pending listing and the exporter.
    pub(super) fn new(
        (jobs, namespace): (usize, &str),
        course: Course,
        listed: &str,
        pending: usize,
        (stats, reports): (Stats, &[Report]),
    ) -> Result<Self> {
        let listed: Value = serde_json::from_str(listed).context("parse the list of jobs")?;
        let items = listed["items"]
            .as_array()
            .context("the list of jobs has no items")?;
        let status = |job: &Value| {
            let name = job["metadata"]["name"].as_str().unwrap_or_default();
            (name.to_owned(), job["status"].clone())
        };
        let prefix = format!("{namespace}.");
        let made = reports
            .iter()
            .map(|report| report.id.strip_prefix(&prefix).unwrap_or(&report.id));
        Ok(Self {
            jobs,
            course,
            statuses: items.iter().map(status).collect(),
            pending,
            stats,
            made: made.map(str::to_owned).collect(),
            poisoned: format!("{prefix}{POISONED}"),
        })
    }

    fn in_phase(&self, phase: &str) -> usize {
        let statuses = self.statuses.values();
        statuses.filter(|status| status["phase"] == phase).count()
    }

    /// Milliseconds from the poisoned job's first attempt to each.
    pub(super) fn attempts(&self) -> Vec<u64> {
        let all = self.stats.attempts.get(&self.poisoned);
        let all = all.map(Vec::as_slice).unwrap_or_default();
        let first = all.first().copied().unwrap_or_default();
        all.iter().map(|at| at - first).collect()
    }

    pub(super) fn claims(&self) -> Vec<Claim> {
        let claim = |holds: bool, text: String| Claim { holds, text };
        let (jobs, stats, course) = (self.jobs, &self.stats, &self.course);
        let mut expected: Vec<String> = (1..=jobs).map(jobs::name).collect();
        expected.sort();
        let poisoned = self.statuses.get(POISONED).unwrap_or(&Value::Null);
        let cause = poisoned["message"].as_str().unwrap_or_default();
        let took = self.attempts().last().copied().unwrap_or_default();
        let (done, failed) = (self.in_phase("Done"), self.in_phase("Failed"));
        vec![
            claim(
                self.pending == 0,
                format!("nothing is pending: {} in the listing", self.pending),
            ),
            claim(
                done == jobs && failed == 1,
                format!("{done} of {jobs} jobs are Done, {failed} is Failed"),
            ),
            claim(
                self.made == expected && stats.made == jobs as u64 && stats.duplicates == 0,
                format!(
                    "every report was made once: the exporter made {} and {} twice",
                    stats.made, stats.duplicates
                ),
            ),
            claim(
                stats.repeats >= course.lost,
                format!(
                    "{} requests were sent again with the same key and answered from the exporter's record ({} answers were lost)",
                    stats.repeats, course.lost
                ),
            ),
            claim(
                poisoned["phase"] == "Failed"
                    && poisoned["retries"] == ATTEMPTS
                    && !cause.is_empty(),
                format!(
                    "{POISONED} is Failed after {} attempts: {cause}",
                    poisoned["retries"]
                ),
            ),
            claim(
                took >= LEAST_MILLISECONDS,
                format!(
                    "its retries waited at least 1, 2, 4 and 8 s: {} s in all",
                    seconds(took)
                ),
            ),
            claim(
                course.swap.0 != course.swap.1
                    && !course.swap.1.is_empty()
                    && course.pending_at_swap > 0,
                format!(
                    "the plugin was swapped while {} jobs were pending: {} to {}",
                    course.pending_at_swap, course.swap.0, course.swap.1
                ),
            ),
            claim(
                course.pending_at_kill > 0,
                format!(
                    "the host was killed while {} jobs were pending",
                    course.pending_at_kill
                ),
            ),
        ]
    }
}

/// Milliseconds as seconds.
pub(super) fn seconds(milliseconds: u64) -> String {
    format!("{}.{}", milliseconds / 1000, milliseconds % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Ten jobs, all as it should be.
    fn good() -> Facts {
        let mut items: Vec<Value> = (1..=10)
            .map(|n| json!({"metadata": {"name": jobs::name(n)}, "status": {"phase": "Done"}}))
            .collect();
        let failed = json!({"phase": "Failed", "retries": 5, "message": "http500: told to fail"});
        items.push(json!({"metadata": {"name": POISONED}, "status": failed}));
        let reports: Vec<Report> = (1..=10)
            .map(|n| Report {
                id: format!("reports.{}", jobs::name(n)),
                key: n.to_string(),
                body: String::new(),
            })
            .collect();
        let stats = Stats {
            made: 10,
            repeats: 3,
            attempts: [(
                "reports.poisoned".to_owned(),
                vec![5, 1_005, 3_005, 7_005, 15_005],
            )]
            .into(),
            ..Stats::default()
        };
        let course = Course {
            swap: ("sha256:a".to_owned(), "sha256:b".to_owned()),
            pending_at_swap: 8,
            pending_at_kill: 4,
            lost: 3,
        };
        let listed = json!({ "items": items }).to_string();
        Facts::new((10, "reports"), course, &listed, 0, (stats, &reports)).unwrap()
    }

    /// Which claims do not hold once the facts are spoilt.
    fn wrong(spoil: impl FnOnce(&mut Facts)) -> Vec<usize> {
        let mut facts = good();
        spoil(&mut facts);
        let claims = facts.claims();
        (0..claims.len()).filter(|n| !claims[*n].holds).collect()
    }

    #[test]
    fn each_claim_is_wrong_when_its_number_is_off() {
        assert_eq!(wrong(|_| ()), [] as [usize; 0]);
        assert_eq!(wrong(|f| f.pending = 1), [0]);
        let status = |f: &mut Facts, name: &str, key: &str, value: Value| {
            f.statuses.get_mut(name).unwrap()[key] = value;
        };
        assert_eq!(
            wrong(|f| status(f, &jobs::name(3), "phase", json!("Pending"))),
            [1]
        );
        assert_eq!(
            wrong(|f| status(f, &jobs::name(3), "phase", json!("Failed"))),
            [1]
        );
        assert_eq!(wrong(|f| f.stats.duplicates = 1), [2]);
        assert_eq!(wrong(|f| f.stats.made = 11), [2]);
        assert_eq!(wrong(|f| f.made[9] = jobs::name(1)), [2]);
        assert_eq!(wrong(|f| f.stats.repeats = 2), [3]);
        assert_eq!(wrong(|f| status(f, POISONED, "retries", json!(4))), [4]);
        assert_eq!(wrong(|f| status(f, POISONED, "message", Value::Null)), [4]);
        assert_eq!(wrong(|f| f.stats.attempts.clear()), [5]);
        assert_eq!(wrong(|f| f.course.swap.1 = f.course.swap.0.clone()), [6]);
        assert_eq!(wrong(|f| f.course.pending_at_swap = 0), [6]);
        assert_eq!(wrong(|f| f.course.pending_at_kill = 0), [7]);
    }

    #[test]
    fn attempts_are_counted_from_the_first() {
        assert_eq!(good().attempts(), [0, 1_000, 3_000, 7_000, 15_000]);
        assert_eq!(seconds(15_049), "15.0");
    }
}
