//! How a pass ends: a closed set, which is the metric label, the log field and the Event reason.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a pass ended. Kebab-case in logs, metrics and journals; CamelCase as Event and condition reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing had to be written.
    Unchanged,
    /// What the plugin wanted was carried out.
    Applied,
    /// Something that others must do is missing.
    Waiting,
    /// The plugin asked for another try, or a write or a send did not succeed.
    Retrying,
    /// The mapping does not grant what the plugin asked for.
    Denied,
    /// Given up until something changes.
    Stalled,
    /// The plugin was refused: trap, timeout, bad output.
    PluginFailed,
    /// The API server did not take part; nothing is the plugin's fault.
    ClusterFailed,
    /// Paused by its annotation.
    Paused,
    /// The object is no more.
    Gone,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 10] = [
        Outcome::Unchanged,
        Outcome::Applied,
        Outcome::Waiting,
        Outcome::Retrying,
        Outcome::Denied,
        Outcome::Stalled,
        Outcome::PluginFailed,
        Outcome::ClusterFailed,
        Outcome::Paused,
        Outcome::Gone,
    ];

    /// kebab-case.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Unchanged => "unchanged",
            Outcome::Applied => "applied",
            Outcome::Waiting => "waiting",
            Outcome::Retrying => "retrying",
            Outcome::Denied => "denied",
            Outcome::Stalled => "stalled",
            Outcome::PluginFailed => "plugin-failed",
            Outcome::ClusterFailed => "cluster-failed",
            Outcome::Paused => "paused",
            Outcome::Gone => "gone",
        }
    }

    /// CamelCase.
    pub fn reason(self) -> &'static str {
        match self {
            Outcome::Unchanged => "Unchanged",
            Outcome::Applied => "Applied",
            Outcome::Waiting => "Waiting",
            Outcome::Retrying => "Retrying",
            Outcome::Denied => "Denied",
            Outcome::Stalled => "Stalled",
            Outcome::PluginFailed => "PluginFailed",
            Outcome::ClusterFailed => "ClusterFailed",
            Outcome::Paused => "Paused",
            Outcome::Gone => "Gone",
        }
    }

    /// The journal and the status speak of one outcome for both: whether the last pass wrote something is no state.
    pub fn settled_as(self) -> Outcome {
        if self == Outcome::Unchanged {
            Outcome::Applied
        } else {
            self
        }
    }

    /// Somebody may have to act, so the transition into it is journaled and told as a Warning.
    pub fn is_trouble(self) -> bool {
        matches!(
            self,
            Outcome::Retrying | Outcome::Denied | Outcome::Stalled | Outcome::PluginFailed
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::{Refusal, RefusalKind};
    use std::collections::BTreeSet;

    /// policy-server#287: what an object is called, or what an error says, becomes a metric's label.
    #[test]
    fn a_label_is_one_of_few_words_whatever_happened_to_which_object() {
        let labels: BTreeSet<_> = Outcome::ALL
            .iter()
            .map(|outcome| outcome.as_str())
            .collect();
        assert_eq!(labels.len(), Outcome::ALL.len(), "each has its own");
        let is_word = |label: &str| label.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(labels.iter().all(|label| is_word(label)), "{labels:?}");
        let label = |words: &str| Refusal::new(RefusalKind::Panic, words).kind.as_str();
        assert_eq!(label("job-7 of ns"), label("job-8 of ns"));
    }
}
