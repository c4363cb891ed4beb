//! Spec, status and config of a `ReportJob`; the CRD and the config's schema are made of them.

use guesthouse_sdk::prelude::*;

/// A report to be made once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportJobSpec {
    /// Which report.
    pub report: String,
    /// In which format.
    #[serde(default = "pdf")]
    pub format: String,
    /// Higher first.
    #[serde(default)]
    pub priority: i64,
    /// Not before this time.
    #[schemars(extend("format" = "date-time"))]
    pub not_before: Option<String>,
    /// Handed to the report as they are.
    #[schemars(extend("type" = "object"))]
    pub parameters: Option<Unread>,
}

/// How the export stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportJobStatus {
    /// Pending until there is a definite answer; Done and Failed are for good.
    #[serde(default)]
    pub phase: Phase,
    /// How many attempts had no definite answer.
    #[serde(default)]
    pub retries: i64,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where the report is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    #[default]
    /// Not exported yet.
    Pending,
    /// Exported.
    Done,
    /// Will not be exported.
    Failed,
}

impl Phase {
    /// The label's value.
    pub fn label(self) -> &'static str {
        match self {
            Phase::Pending => "pending",
            Phase::Done => "done",
            Phase::Failed => "failed",
        }
    }
}

/// The mapping's config.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The exporter's address, without a path: `http://exporter.reports`.
    pub exporter: String,
}

fn pdf() -> String {
    "pdf".into()
}
