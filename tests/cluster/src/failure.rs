//! What is printed with a failure: the host's log, its Events, and the objects that are not settled.

use crate::api::{
    ECHOES, EVENTS, JOURNALS, PROVISION_REQUESTS, REPORT_JOBS, Resource, WEBSITES, WISHES,
};
use crate::scene::Scene;
use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use std::time::Duration;

/// Lines of the host's log that are printed.
const LOG_TAIL: usize = 60;
/// Objects of a kind that are printed.
const OBJECTS: usize = 4;

impl Scene<'_> {
    /// What helps to understand a failure.
    pub(crate) async fn print(&self) {
        eprintln!("--- scene {}: exporter {:?}", self.namespace, self.counts());
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        eprintln!("--- the host's log, {}, ends:", self.log_path().display());
        for line in &lines[lines.len().saturating_sub(LOG_TAIL)..] {
            eprintln!("{line}");
        }
        let printed = [
            (EVENTS, &self.home),
            (REPORT_JOBS, &self.namespace),
            (ECHOES, &self.namespace),
            (WISHES, &self.namespace),
            (WEBSITES, &self.namespace),
            (PROVISION_REQUESTS, &self.namespace),
            (JOURNALS, &self.home),
        ];
        for (resource, namespace) in printed {
            if let Err(error) = self.print_objects(resource, namespace).await {
                eprintln!("--- {} cannot be listed: {error:#}", resource.plural);
            }
        }
    }

    fn counts(&self) -> report_exporter::Stats {
        report_exporter::Stats {
            attempts: Default::default(),
            ..self.exporter.stats()
        }
    }

    /// Those that are not settled first.
    async fn print_objects(&self, resource: Resource, namespace: &str) -> Result<()> {
        let list = self.api.list(resource, namespace);
        let mut objects = tokio::time::timeout(Duration::from_secs(10), list)
            .await
            .map_err(|_| anyhow!("no answer"))??;
        let settled = |object: &Value| {
            object["status"]["phase"] == "Done" || object["record"]["outcome"] == "applied"
        };
        objects.sort_by_key(settled);
        eprintln!("--- {} {} in {namespace}", objects.len(), resource.plural);
        for mut object in objects.into_iter().take(OBJECTS) {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            match serde_saphyr::to_string(&object) {
                Ok(yaml) => eprintln!("{yaml}"),
                Err(error) => bail!("print YAML: {error}"),
            }
        }
        Ok(())
    }
}
