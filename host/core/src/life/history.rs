//! Which versions served and were refused, the newest first.

use serde::{Deserialize, Serialize};

use crate::{
    contract::{MAX_MESSAGE, cut},
    time::Time,
};

/// Entries that are kept.
pub const MOST_PAST: usize = 10;

/// A version that serves no more, or never did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Past {
    /// Of its bytes.
    pub digest: String,
    /// As it calls itself.
    pub version: String,
    /// Since when it served; none: it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When that ended, or when it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Why.
    pub ended: String,
}

/// The last versions, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Vec<Past>);

impl History {
    /// Adds one. The same refusal of the same version said again is not another entry.
    pub fn push(&mut self, mut past: Past) {
        past.ended = cut(&past.ended, MAX_MESSAGE).to_owned();
        let again = self.0.first().is_some_and(|last| {
            past.since.is_none()
                && last.since.is_none()
                && (&last.digest, &last.ended) == (&past.digest, &past.ended)
        });
        if !again {
            self.0.insert(0, past);
            self.0.truncate(MOST_PAST);
        }
    }

    /// The newest first.
    pub fn entries(&self) -> &[Past] {
        &self.0
    }

    /// The version that served before the one of this digest: where a rollback leads without being told where to.
    pub fn before(&self, serving: &str) -> Option<&Past> {
        let served = |past: &&Past| past.since.is_some() && past.digest != serving;
        self.0.iter().find(served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(digest: &str, served: bool, ended: &str) -> Past {
        Past {
            digest: digest.to_owned(),
            since: served.then_some(Time(0)),
            until: Some(Time(1)),
            ended: ended.to_owned(),
            ..Past::default()
        }
    }

    #[test]
    fn ten_entries_are_kept_and_a_refusal_said_again_is_one() {
        let mut history = History::default();
        for n in 0..20 {
            history.push(past(&n.to_string(), true, "swapped"));
        }
        assert_eq!(history.entries().len(), MOST_PAST);
        assert_eq!(history.entries()[0].digest, "19");
        history.push(past("bad", false, "refused"));
        history.push(past("bad", false, "refused"));
        assert_eq!(history.entries()[1].digest, "19");
        history.push(past("bad", false, "refused otherwise"));
        assert_eq!(history.entries()[1].digest, "bad");
    }

    #[test]
    fn a_rollback_leads_to_what_served_before_and_never_to_what_was_refused() {
        let mut history = History::default();
        assert_eq!(history.before("b"), None);
        history.push(past("a", true, "swapped"));
        history.push(past("bad", false, "refused"));
        history.push(past("b", true, "returned"));
        let before = history.before("b").map(|past| past.digest.as_str());
        assert_eq!(before, Some("a"));
    }
}
