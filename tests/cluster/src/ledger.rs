//! What the outside world was made to do: the exporter's and the provisioner's own accounts, which no host can talk out of.

use crate::scene::Scene;
use provisioner::{Acts, Entry, Resource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Their account at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
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
    /// What was done for each resource, by id.
    pub acts: BTreeMap<String, Acts>,
    /// The resources that are there.
    pub resources: Vec<Resource>,
    /// Every request to the provisioner, in the order they arrived.
    pub asked: Vec<Entry>,
}

impl Ledger {
    /// As it stands.
    pub fn of(scene: &Scene<'_>) -> Self {
        let (exporter, provider) = (&scene.exporter, &scene.provider);
        let stats = exporter.stats();
        Self {
            made: stats.made,
            repeats: stats.repeats,
            duplicates: stats.duplicates,
            failed: stats.failed,
            attempts: stats.attempts.values().map(|all| all.len() as u64).sum(),
            reports: exporter.reports().into_iter().map(|r| r.id).collect(),
            acts: provider.stats().acts,
            resources: provider.resources(),
            asked: provider.ledger(),
        }
    }
}
