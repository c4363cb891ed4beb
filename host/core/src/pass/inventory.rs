//! The inventory of a pass: the children on record, and beside each what was found of it. Both lists move together.

use super::{
    Found, Pass,
    children::{Deed, Progress, about, uid_of},
};
use crate::{
    children::{self, Wish},
    contract::{Cause, ChildState, Json, Kind, Mode, ObjectRef, Ownership},
    journal::ChildRecord,
};

impl Pass {
    pub(super) fn note_applied(&mut self, at: usize, wish: &Wish, object: Json) {
        let head_uid = uid_of(&object);
        let seen = children::fingerprint(object.as_str(), &wish.object).unwrap_or_default();
        let mut record = self.journal.inventory.remove(at);
        self.found.remove(at);
        record.uid = head_uid;
        record.asked.clone_from(&wish.asked);
        record.seen = seen;
        settle(&mut record, wish);
        self.insert_record(record, Found::Object(object));
    }

    /// A child that is as asked for needs no request; whose effect asks for it, and in which order, may be new all the same,
    /// and what was wrong with it is over.
    pub(super) fn note_kept(&mut self, at: usize, wish: &Wish) {
        let mut record = self.journal.inventory[at].clone();
        settle(&mut record, wish);
        if record == self.journal.inventory[at] {
            return;
        }
        self.journal.inventory.remove(at);
        let found = self.found.remove(at);
        self.insert_record(record, found);
        self.changed_children = true;
    }

    /// Trouble stands on record, to be shown to the next call; one that never got a record gets one for it.
    pub(super) fn note_trouble(
        &mut self,
        wish: &Wish,
        progress: &Progress,
        namespace: Option<&str>,
    ) {
        let cause = match progress {
            Progress::Failed { cause, .. } | Progress::Denied(cause) | Progress::Pending(cause) => {
                cause
            }
            _ => return,
        };
        let at = match self.record_of(wish) {
            Some(at) => at,
            None => {
                let assumed = wish.namespace.as_deref().unwrap_or(self.key.namespace());
                let record = new_record(wish, namespace.unwrap_or(assumed));
                self.insert_record(record, Found::Absent)
            }
        };
        self.journal.inventory[at].error = Some(cause.clone());
    }

    pub(super) fn insert_record(&mut self, record: ChildRecord, found: Found) -> usize {
        let inventory = &mut self.journal.inventory;
        let at = inventory.partition_point(|other| {
            (&other.effect, place(other)) < (&record.effect, place(&record))
        });
        inventory.insert(at, record);
        self.found.insert(at, found);
        at
    }

    pub(super) fn remove_record(&mut self, at: usize) {
        self.journal.inventory.remove(at);
        self.found.remove(at);
    }

    /// The record of a wish's object, by place: an effect that names another object now leaves the old one to be pruned.
    pub(super) fn record_of(&self, wish: &Wish) -> Option<usize> {
        let inventory = &self.journal.inventory;
        inventory
            .iter()
            .position(|record| self.is_place_of(wish, record))
    }

    pub(super) fn is_place_of(&self, wish: &Wish, record: &ChildRecord) -> bool {
        self.names(&wish.kind, wish.namespace.as_deref(), &wish.name, record)
    }

    pub(super) fn record_at(&self, object: &ObjectRef) -> Option<usize> {
        let (kind, namespace) = (&object.kind, object.namespace.as_deref());
        let inventory = &self.journal.inventory;
        inventory
            .iter()
            .position(|record| self.names(kind, namespace, &object.name, record))
    }

    /// Whether these words name the object of a record. Without a namespace it may lie in the parent's, or in none.
    fn names(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        name: &str,
        record: &ChildRecord,
    ) -> bool {
        let place = match namespace {
            Some(namespace) => namespace == record.namespace,
            None => record.namespace.is_empty() || record.namespace == self.key.namespace(),
        };
        place && kind.same(&record.kind) && name == record.name
    }

    pub(super) fn position(&self, record: &ChildRecord) -> Option<usize> {
        let inventory = &self.journal.inventory;
        inventory
            .iter()
            .position(|other| place(other) == place(record))
    }

    /// Whether a child that others come after is there, as asked for, and ready.
    pub(super) fn is_child_done(&self, wish: &Wish) -> bool {
        let Some(at) = self.record_of(wish) else {
            return false;
        };
        let record = &self.journal.inventory[at];
        if record.error.is_some() || record.asked != wish.asked && wish.mode == Mode::Keep {
            return false;
        }
        let state = children::child(record, &self.found[at]).state;
        let removed =
            wish.mode == Mode::Once && !record.asked.is_empty() && state == ChildState::Absent;
        state == ChildState::Current || removed
    }

    /// The first child that is not ready, as a cause.
    pub(super) fn unready(&self, deed: &Deed) -> Option<Cause> {
        deed.checked.wishes.iter().find_map(|wish| {
            let at = self.record_of(wish)?;
            let child = children::child(&self.journal.inventory[at], &self.found[at]);
            let done = self.is_child_done(wish) || wish.ownership == Ownership::Fields;
            (!done).then(|| {
                let message = if child.message.is_empty() {
                    "it is not ready".to_owned()
                } else {
                    child.message
                };
                about(wish, Cause::new("DependencyNotReady", message))
            })
        })
    }
}

pub(super) fn new_record(wish: &Wish, namespace: &str) -> ChildRecord {
    ChildRecord {
        effect: wish.effect.clone(),
        after: wish.after.clone(),
        kind: wish.kind.clone(),
        namespace: namespace.to_owned(),
        name: wish.name.clone(),
        uid: None,
        asked: String::new(),
        seen: String::new(),
        ownership: wish.ownership,
        mode: wish.mode,
        on_delete: wish.on_delete,
        error: None,
    }
}

/// The record says what the wish says, and that nothing is wrong.
pub(super) fn settle(record: &mut ChildRecord, wish: &Wish) {
    record.error = None;
    record.effect.clone_from(&wish.effect);
    record.after.clone_from(&wish.after);
    (record.ownership, record.mode, record.on_delete) = (wish.ownership, wish.mode, wish.on_delete);
}

/// Which object: group, kind, namespace, name.
pub(super) type Place = (String, String, String, String);

pub(super) fn place(record: &ChildRecord) -> Place {
    (
        record.kind.group().to_owned(),
        record.kind.kind.clone(),
        record.namespace.clone(),
        record.name.clone(),
    )
}

pub(super) fn reference(wish: &Wish) -> ObjectRef {
    ObjectRef {
        kind: wish.kind.clone(),
        namespace: wish.namespace.clone(),
        name: wish.name.clone(),
    }
}
