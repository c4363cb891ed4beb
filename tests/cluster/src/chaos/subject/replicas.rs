//! Two replicas, and what befalls the one that has the claim.

use super::Subject;
use crate::api::LEASES;
use crate::chaos::nemesis::Leader;
use crate::host::Host;
use anyhow::{Context, Result};
use serde_json::Value;
use std::sync::{MutexGuard, PoisonError};

impl Subject<'_> {
    /// Ends whatever replica there is beside the first.
    pub(in crate::chaos) fn alone(&self) -> Result<()> {
        self.second().take();
        match self.ended()? {
            Some(_) => self.run(None),
            None => Ok(()),
        }
    }

    fn second(&self) -> MutexGuard<'_, Option<Host>> {
        self.second.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which replica has the claim to a mapping, without its instance.
    async fn holder(&self, mapping: &str) -> Result<Option<String>> {
        // An API server that is away is asked again.
        let Ok(leases) = self.scene.api.list(LEASES, &self.scene.home).await else {
            return Ok(None);
        };
        let of =
            |lease: &&Value| lease["metadata"]["annotations"]["guesthouse.dev/mapping"] == mapping;
        let holder = leases
            .iter()
            .find(of)
            .map(|l| l["spec"]["holderIdentity"].clone());
        let holder = holder.as_ref().and_then(Value::as_str).unwrap_or_default();
        let name = holder.split('_').next().unwrap_or_default().to_owned();
        Ok(Some(name).filter(|name| !name.is_empty()))
    }

    /// Another replica comes; whoever has the report jobs is killed, or frozen beyond its Lease; the other one takes over.
    pub(super) async fn leader(&self, what: Leader) -> Result<u64> {
        let other = format!("other-{}", self.new_number());
        let mut how = self.how.clone();
        how.replica.clone_from(&other);
        *self.second() = Some(self.scene.host_with(&how)?);
        let lease = format!("guesthouse-replica-{other}");
        self.scene
            .eventually("the other has its Lease", async || {
                self.scene.api.find(LEASES, &self.scene.home, &lease).await
            })
            .await?;
        let leader = self
            .scene
            .eventually("somebody leads", async || self.holder("report-jobs").await)
            .await?;
        let is_second = leader == other;
        match (what, is_second) {
            (Leader::Killed, true) => drop(self.second().take()),
            (Leader::Killed, false) => drop(self.host().take()),
            (Leader::Frozen, true) => freeze(&self.second(), true)?,
            (Leader::Frozen, false) => freeze(&self.host(), true)?,
        }
        let mark = self.scene.log()?.len();
        let moved = self
            .scene
            .eventually("another leads", async || {
                Ok(self
                    .holder("report-jobs")
                    .await?
                    .filter(|holder| *holder != leader))
            })
            .await;
        match (what, is_second) {
            (Leader::Killed, true) => {}
            // The other one goes on alone for a while.
            (Leader::Killed, false) => self.run(None)?,
            (Leader::Frozen, true) => freeze(&self.second(), false)?,
            (Leader::Frozen, false) => freeze(&self.host(), false)?,
        }
        let taker = moved?;
        self.scene
            .until("the other one passes objects", || {
                let of = |line: &Value| line["message"] == "pass" && line["replica"] == *taker;
                Ok(self.scene.log()?.iter().skip(mark).any(of))
            })
            .await?;
        let second = self.second().take();
        if let Some(second) = second {
            self.scene.stop(second).await?;
        }
        Ok(1)
    }
}

fn freeze(host: &Option<Host>, freeze: bool) -> Result<()> {
    host.as_ref().context("a host")?.freeze(freeze)
}
