//! What the outside world was made to do: the exporter's own account, which no host can talk out of.

use report_exporter::Exporter;
use serde::{Deserialize, Serialize};

/// The exporter's account at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// Reports made.
    pub made: u64,
    /// Requests answered from the record of their key: harmless, and bounded by what was interrupted.
    pub repeats: u64,
    /// Reports made again under another key: what must never happen.
    pub duplicates: u64,
    /// Requests that failed as told.
    pub failed: u64,
    /// Requests that arrived, failed or not.
    pub attempts: u64,
    /// Ids of the reports made.
    pub reports: Vec<String>,
}

impl Ledger {
    /// As it stands.
    pub fn of(exporter: &Exporter) -> Self {
        let stats = exporter.stats();
        Self {
            made: stats.made,
            repeats: stats.repeats,
            duplicates: stats.duplicates,
            failed: stats.failed,
            attempts: stats.attempts.values().map(|all| all.len() as u64).sum(),
            reports: exporter.reports().into_iter().map(|r| r.id).collect(),
        }
    }
}
