//! The journal: the durable record of one object under one mapping.
//!
//! It holds what must outlive a crash and stands nowhere else: receipts of http effects, the retry counter with its deadline,
//! and the last trouble, so that dead letters are listable where a kind has no conditions. It is written only when there is
//! something to record, by PUT with the version read: a conflict means that another owner writes, and ends the pass.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    contract::{
        Cause, FailedSend, Kind, MAX_RECEIPTS, Mode, ObjectRef, OnDelete, Ownership, Receipt,
        ReceiptState, Response,
    },
    mapping::OnRemove,
    object::Uid,
    outcome::Outcome,
    time::Time,
};

/// What an object's journal says. Members this version does not know are kept: a host that was rolled back must not lose
/// what a newer one recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// Whose it is.
    pub object: Subject,
    /// The mapping's name.
    pub mapping: String,
    /// How the object stands: the last outcome, `applied` for both kinds of success.
    pub outcome: Outcome,
    /// The last trouble in words; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Failed passes in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryRecord>,
    /// What became of http effects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<ReceiptRecord>,
    /// Children on record, by effect id: those asked for last and those still to be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<ChildRecord>,
    /// The finalizer this mapping put on the object, recorded before it is put on: what drains and sweeps works from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<FinalizerRecord>,
    /// The last token of the annotation `guesthouse.dev/reconcile` that was taken up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled: Option<String>,
    /// Whatever else stands there.
    #[serde(flatten)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

/// The object a journal is about. Group and kind identify it, the version does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Its group; empty for the core group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for cluster-scoped kinds.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Subject {
    /// The subject of an object of `kind`.
    pub fn new(kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Self {
        Self {
            group: kind.group().to_owned(),
            kind: kind.kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.as_str().to_owned(),
        }
    }
}

/// One child: which object, whose wish, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildRecord {
    /// Id of the effect that asked for it.
    pub effect: String,
    /// Ids of effects it came after: deletion goes in reverse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for cluster-scoped kinds.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; none until the server has answered to the first apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Hash of what was asked for and applied last; empty until then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub asked: String,
    /// [`crate::children::fingerprint`] of what the server answered to that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seen: String,
    /// Whose it is.
    #[serde(default)]
    pub ownership: Ownership,
    /// Kept or made once.
    #[serde(default)]
    pub mode: Mode,
    /// What happens to it when the reconciled object is deleted.
    #[serde(default)]
    pub on_delete: OnDelete,
    /// Why the last write of it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Cause>,
}

impl ChildRecord {
    /// Which object.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef {
            kind: self.kind.clone(),
            namespace: (!self.namespace.is_empty()).then(|| self.namespace.clone()),
            name: self.name.clone(),
        }
    }
}

/// A finalizer of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinalizerRecord {
    /// Its name in `metadata.finalizers`.
    pub name: String,
    /// What is done with it when the mapping is removed. The mapping itself may be gone by then.
    #[serde(default)]
    pub on_remove: OnRemove,
    /// The name it had before the mapping gave it another one; it may still be on the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl FinalizerRecord {
    /// Every name of ours that may be on the object.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name)
            .chain(&self.before)
            .map(String::as_str)
    }
}

/// Failed passes in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryRecord {
    /// How many; moves only when a deadline is consumed.
    pub attempt: u32,
    /// The deadline; none once the object is stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// Hash of generation, plugin digest and the mapping's basis: another one starts anew.
    pub basis: String,
}

/// What became of one http effect, by id and key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptRecord {
    /// The effect's id.
    pub effect: String,
    /// The plugin's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// [`crate::keys::request_fingerprint`] of the request that was sent.
    pub request: String,
    /// How it stands.
    pub state: RecordState,
}

/// How an http effect stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordState {
    /// A definite answer.
    Answered(Response),
    /// Sent without a definite answer; sent again at `nextAt`.
    #[serde(rename_all = "camelCase")]
    Failed {
        /// Sends so far.
        attempts: u32,
        /// Why.
        error: Cause,
        /// Not before.
        next_at: Time,
    },
    /// At-most-once: about to be sent. Found by a later pass it means that the answer was lost.
    Intent {
        /// Tries so far that never left the host.
        attempts: u32,
    },
    /// At-most-once: sent, and the answer is lost.
    Unknown,
}

impl ReceiptRecord {
    /// Whether it is never sent again under this id and key.
    pub fn is_final(&self) -> bool {
        matches!(self.state, RecordState::Answered(_) | RecordState::Unknown)
    }

    /// As the plugin sees it.
    pub fn receipt(&self) -> Receipt {
        let state = match &self.state {
            RecordState::Answered(response) => ReceiptState::Answered(response.clone()),
            RecordState::Failed {
                attempts,
                error,
                next_at,
            } => ReceiptState::Failed(FailedSend {
                attempts: *attempts,
                error: error.clone(),
                next_at: next_at.seconds_up().seconds(),
            }),
            RecordState::Intent { .. } | RecordState::Unknown => ReceiptState::Unknown,
        };
        Receipt {
            effect: self.effect.clone(),
            key: self.key.clone(),
            state,
        }
    }
}

impl Journal {
    /// An empty one.
    pub fn new(object: Subject, mapping: &str) -> Self {
        Self {
            object,
            mapping: mapping.to_owned(),
            outcome: Outcome::Applied,
            message: String::new(),
            retry: None,
            receipts: Vec::new(),
            inventory: Vec::new(),
            finalizer: None,
            reconciled: None,
            rest: BTreeMap::new(),
        }
    }

    /// The receipt filed under id and key.
    pub fn receipt(&self, effect: &str, key: Option<&str>) -> Option<&ReceiptRecord> {
        self.receipts
            .iter()
            .find(|r| r.effect == effect && r.key.as_deref() == key)
    }

    /// Files a receipt in place of the one under its id and key, and drops the superseded keys of its id; never another's,
    /// since dropping a live one would double its effect.
    pub fn file(&mut self, record: ReceiptRecord) {
        self.receipts.retain(|r| r.effect != record.effect);
        let place = self.receipts.partition_point(|r| r.effect < record.effect);
        self.receipts.insert(place, record);
    }

    /// Whether there is room for effects with these ids.
    pub fn has_room_for<'a>(&self, ids: impl Iterator<Item = &'a str>) -> bool {
        let new = ids
            .filter(|id| !self.receipts.iter().any(|r| r.effect == *id))
            .count();
        self.receipts.len() + new <= MAX_RECEIPTS
    }

    /// Intents that a crash left behind become unknown: nobody sends them again.
    pub fn lose_intents(&mut self) {
        for record in &mut self.receipts {
            if matches!(record.state, RecordState::Intent { .. }) {
                record.state = RecordState::Unknown;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let kind = Kind {
            api_version: "g/v1".into(),
            kind: "K".into(),
        };
        Journal::new(Subject::new(&kind, "ns", "n", &Uid::new("u")), "m")
    }

    fn record(effect: &str, key: Option<&str>, state: RecordState) -> ReceiptRecord {
        ReceiptRecord {
            effect: effect.into(),
            key: key.map(Into::into),
            request: "r".into(),
            state,
        }
    }

    #[test]
    fn a_new_key_drops_the_superseded_one_of_its_id_and_no_other() {
        let mut journal = journal();
        journal.file(record("b", None, RecordState::Unknown));
        journal.file(record("a", Some("1"), RecordState::Unknown));
        journal.file(record("a", Some("2"), RecordState::Intent { attempts: 0 }));
        let found: Vec<_> = journal
            .receipts
            .iter()
            .map(|r| (r.effect.as_str(), r.key.as_deref()))
            .collect();
        assert_eq!(found, [("a", Some("2")), ("b", None)]);
    }

    #[test]
    fn there_is_room_for_64_ids_and_not_for_one_more() {
        let mut journal = journal();
        for id in 0..MAX_RECEIPTS {
            assert!(journal.has_room_for([id.to_string().as_str()].into_iter()));
            journal.file(record(&id.to_string(), None, RecordState::Unknown));
        }
        assert!(
            journal.has_room_for(["3"].into_iter()),
            "one that is there needs no room"
        );
        assert!(!journal.has_room_for(["new"].into_iter()));
    }

    #[test]
    fn an_intent_left_by_a_crash_is_seen_as_unknown_and_never_sent_again() {
        let mut journal = journal();
        journal.file(record("a", None, RecordState::Intent { attempts: 0 }));
        journal.lose_intents();
        assert!(journal.receipts[0].is_final());
        assert_eq!(journal.receipts[0].receipt().state, ReceiptState::Unknown);
    }

    #[test]
    fn a_child_is_recorded_before_anything_is_known_of_it_and_what_is_usual_takes_no_room() {
        let text = r#"{"object":{"group":"g","kind":"K","namespace":"ns","name":"n","uid":"u"},"mapping":"m","outcome":"applied","inventory":[{"effect":"e","kind":{"apiVersion":"v1","kind":"ConfigMap"},"namespace":"ns","name":"c"}],"finalizer":{"name":"guesthouse.dev/m"},"reconciled":"1"}"#;
        let journal: Journal = serde_json::from_str(text).unwrap();
        let child = &journal.inventory[0];
        assert_eq!((child.uid.as_deref(), child.asked.as_str()), (None, ""));
        assert_eq!(
            (child.ownership, child.mode),
            (Ownership::Owned, Mode::Keep)
        );
        assert_eq!(child.on_delete, OnDelete::Delete);
        assert_eq!(child.reference().namespace.as_deref(), Some("ns"));
        let finalizer = journal.finalizer.clone().unwrap();
        assert_eq!(finalizer.on_remove, OnRemove::Release);
        let again: Journal =
            serde_json::from_str(&serde_json::to_string(&journal).unwrap()).unwrap();
        assert_eq!(again, journal);
    }

    #[test]
    fn a_cluster_scoped_child_is_named_without_a_namespace() {
        let text = r#"{"effect":"e","kind":{"apiVersion":"v1","kind":"Namespace"},"name":"c"}"#;
        let child: ChildRecord = serde_json::from_str(text).unwrap();
        assert_eq!(child.reference().namespace, None);
    }

    #[test]
    fn members_of_a_newer_host_are_kept() {
        let text = r#"{"object":{"group":"g","kind":"K","namespace":"ns","name":"n","uid":"u"},"mapping":"m","outcome":"applied","later":[1,{"a":9007199254740993}]}"#;
        let journal: Journal = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&journal).unwrap(), text);
    }
}
