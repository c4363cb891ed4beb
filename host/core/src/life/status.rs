//! What a Mapping object says: the status that the host writes, with conditions as kstatus and `kubectl wait` read them.

use serde::{Deserialize, Serialize};

use super::{History, Tally};
use crate::{
    contract::{Kind, MAX_MESSAGE, cut},
    pass::short_digest,
    time::Time,
};

/// How a mapping stands: a closed set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Nothing serves yet: its kind, its plugin or the journals are not there.
    #[default]
    Waiting,
    /// What is configured serves.
    Serving,
    /// A newer version is being tried; the one before serves on.
    Rehearsing,
    /// A newer version decides otherwise and waits to be approved; the one before serves on.
    Held,
    /// The newest version is refused; the one before serves on, if there is one.
    Refused,
    /// The newest version failed in service; the one before serves again.
    Returned,
    /// A version serves that somebody pinned.
    Pinned,
    /// The mapping's text cannot be used; its last good one stays in force, if there is one.
    Invalid,
}

impl State {
    /// All of them.
    pub const ALL: [State; 8] = [
        State::Waiting,
        State::Serving,
        State::Rehearsing,
        State::Held,
        State::Refused,
        State::Returned,
        State::Pinned,
        State::Invalid,
    ];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Waiting => "Waiting",
            State::Serving => "Serving",
            State::Rehearsing => "Rehearsing",
            State::Held => "Held",
            State::Refused => "Refused",
            State::Returned => "Returned",
            State::Pinned => "Pinned",
            State::Invalid => "Invalid",
        }
    }

    /// Something is held against the newest version, which does not serve.
    pub fn is_doubt(self) -> bool {
        matches!(self, State::Held | State::Refused | State::Returned)
    }

    /// Ready, and what stands beside it. Ready asks whether what is configured is what serves.
    fn conditions(self) -> (&'static str, Option<&'static str>) {
        match self {
            State::Serving | State::Pinned => ("True", None),
            State::Waiting | State::Rehearsing | State::Held => ("Unknown", Some("Reconciling")),
            State::Refused | State::Returned | State::Invalid => ("False", Some("Stalled")),
        }
    }
}

/// The kind a mapping is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServedKind {
    /// `batch.acme.io/v1`.
    pub api_version: String,
    /// `ReportJob`.
    pub kind: String,
}

impl From<&Kind> for ServedKind {
    fn from(kind: &Kind) -> Self {
        Self {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
        }
    }
}

/// The version that serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Serves {
    /// As it calls itself.
    pub name: String,
    /// Likewise.
    pub version: String,
    /// Of its bytes.
    pub digest: String,
    /// The digest as tables show it.
    pub short: String,
    /// Where it came from.
    pub origin: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

impl Serves {
    /// A version.
    pub fn new(name: &str, version: &str, digest: &str, origin: String, since: Time) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            digest: digest.to_owned(),
            short: short_digest(digest).to_owned(),
            origin,
            since: Some(since.whole_seconds()),
        }
    }
}

/// The newest version, where it is not the one that serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Newest {
    /// Of its bytes.
    pub digest: String,
    /// Hash of the mapping it was judged under.
    pub basis: String,
    /// [`State::Held`], [`State::Refused`] or [`State::Returned`].
    pub state: State,
    /// Why it does not serve.
    pub why: String,
}

/// What came of trying a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RehearsalReport {
    /// The version.
    pub digest: String,
    /// Objects that it was asked about.
    pub objects: u64,
    /// Of those, the ones decided as before.
    pub same: u64,
    /// Decided otherwise.
    pub different: u64,
    /// It failed where the version before did not.
    pub failed: u64,
    /// What decides about them was not known without reading or sending.
    pub not_comparable: u64,
    /// Some of the differences, one object a line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// What the mapping said last that could be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LastGood {
    /// Its text; JSON, which is YAML.
    pub text: String,
}

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCondition {
    /// Ready, Reconciling or Stalled.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// The state.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Of the Mapping object.
    pub observed_generation: i64,
    /// When `status` changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// How many objects stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub objects: u64,
    /// Waiting for a pass, or in one.
    pub queued: u64,
    /// Tried again by themselves.
    pub retrying: u64,
    /// Left alone until something changes.
    pub stalled: u64,
}

impl Counts {
    /// By the last outcomes; `objects` where the store knows better than the passes do.
    pub fn of(tally: &Tally, objects: Option<u64>, queued: u64) -> Self {
        Self {
            objects: objects.unwrap_or_else(|| tally.known()),
            queued,
            retrying: tally.retrying(),
            stalled: tally.stalled(),
        }
    }
}

/// The status of a Mapping object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MappingStatus {
    /// Of the Mapping object.
    pub observed_generation: i64,
    /// How it stands.
    pub state: State,
    /// In words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The kind.
    #[serde(rename = "for")]
    pub for_: ServedKind,
    /// What serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Serves>,
    /// What does not, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<Newest>,
    /// What came of the last rehearsal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<RehearsalReport>,
    /// Objects of the mapping.
    pub objects: u64,
    /// Waiting for a pass, or in one.
    pub queued: u64,
    /// Tried again by themselves.
    pub retrying: u64,
    /// Left alone until something changes.
    pub stalled: u64,
    /// When another version took over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_swap: Option<Time>,
    /// The versions before, the newest first.
    pub history: History,
    /// What the mapping said last that could be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_good: Option<LastGood>,
    /// Ready, and Reconciling or Stalled where they are true.
    pub conditions: Vec<StatusCondition>,
}

impl MappingStatus {
    /// With these counts.
    pub fn count(&mut self, counts: Counts) {
        self.objects = counts.objects;
        self.queued = counts.queued;
        self.retrying = counts.retrying;
        self.stalled = counts.stalled;
    }

    /// Says the state and its conditions; the transition times are those of `before` where the status is the same.
    pub fn settle(
        &mut self,
        state: State,
        message: &str,
        generation: i64,
        before: &Self,
        now: Time,
    ) {
        self.state = state;
        self.message = cut(message, MAX_MESSAGE).to_owned();
        self.observed_generation = generation;
        let condition = |type_: &str, status: &str| {
            let had = before.conditions.iter().find(|had| had.type_ == type_);
            let since = had.filter(|had| had.status == status);
            StatusCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: state.as_str().to_owned(),
                message: self.message.clone(),
                observed_generation: generation,
                last_transition_time: since
                    .and_then(|since| since.last_transition_time)
                    .or(Some(now.whole_seconds())),
            }
        };
        let (ready, beside) = state.conditions();
        self.conditions = [Some(("Ready", ready)), beside.map(|type_| (type_, "True"))]
            .into_iter()
            .flatten()
            .map(|(type_, status)| condition(type_, status))
            .collect();
    }

    /// Whether it is worth a write over what stands in the cluster.
    pub fn is_news(&self, written: &Self) -> bool {
        self != written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn settled(state: State, before: &MappingStatus, now: Time) -> MappingStatus {
        let mut status = MappingStatus::default();
        status.settle(state, "words", 1, before, now);
        status
    }

    /// cli-utils pkg/kstatus/status/generic.go: no condition at all would be Current, and of two the first decides.
    #[test]
    fn each_state_has_one_ready_and_one_condition_beside_it_at_most() {
        for state in State::ALL {
            let status = settled(state, &MappingStatus::default(), Time(0));
            let types: Vec<_> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
            let ready = status.conditions[0].status.as_str();
            let wanted = match ready {
                "True" => vec!["Ready"],
                "Unknown" => vec!["Ready", "Reconciling"],
                _ => vec!["Ready", "Stalled"],
            };
            assert_eq!(types, wanted, "{state:?}");
            assert_eq!(status.observed_generation, 1);
            assert!(status.conditions.iter().all(|c| c.observed_generation == 1));
            assert_eq!(format!("{state:?}"), state.as_str());
        }
    }

    #[test]
    fn a_transition_time_moves_with_the_status_of_its_condition_alone() {
        let first = settled(State::Serving, &MappingStatus::default(), Time(1000));
        let pinned = settled(State::Pinned, &first, Time(5000));
        assert_eq!(pinned.conditions[0].last_transition_time, Some(Time(1000)));
        let refused = settled(State::Refused, &pinned, Time(9000));
        assert_eq!(refused.conditions[0].last_transition_time, Some(Time(9000)));
    }

    #[test]
    fn what_is_read_back_is_no_news_and_a_count_is() {
        let mut status = settled(State::Held, &MappingStatus::default(), Time(1000));
        status.plugin = Some(Serves::new(
            "p",
            "1",
            "sha256:0",
            "a file".into(),
            Time(1500),
        ));
        let text = serde_json::to_string(&status).unwrap();
        let read: MappingStatus = serde_json::from_str(&text).unwrap();
        assert!(!status.is_news(&read), "{text}");
        let mut tally = Tally::default();
        tally.moved(None, Some(Outcome::Denied));
        status.count(Counts::of(&tally, None, 3));
        assert!(status.is_news(&read));
        assert_eq!((status.objects, status.queued, status.stalled), (1, 3, 1));
    }

    /// A newer host may have written more.
    #[test]
    fn a_status_of_another_version_is_read_as_far_as_it_is_known() {
        let read: MappingStatus =
            serde_json::from_str(r#"{"state": "Serving", "later": 1}"#).unwrap();
        assert_eq!(read.state, State::Serving);
    }
}
