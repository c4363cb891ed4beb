//! Removals: what a plugin deletes, what it does not wish for any more, and what goes with its object.
//!
//! Nothing is deleted on the word of a cache, and nothing that is not ours: an object is asked for at the server where no
//! store shows it, and only what carries our mark is deleted, under its uid. What lost the mark is somebody's who took it off;
//! it stays, and leaves the record.

use super::{
    Found, Looked, Pass, Removal, Step, Verb, Way, WriteError,
    children::{Deed, Progress, uid_of},
    inventory::place,
};
use crate::{
    children::{self, Standing},
    contract::{Cause, ObjectRef, OnDelete, Ownership},
    journal::ChildRecord,
    time::Time,
};

/// The next batch of removals.
pub(super) enum Next {
    /// Only the server knows how these stand.
    Look(Vec<ObjectRef>),
    /// These can go now.
    Remove(Vec<Removal>),
    /// None is left for this pass.
    Nothing,
}

/// What becomes of one child that is to go.
enum Parting {
    /// No store shows it.
    Unknown,
    /// It is not ours any more, or never was.
    Forget,
    /// It is on its way out already.
    Going,
    /// By this request.
    Now(Box<Removal>),
}

impl Pass {
    /// Deletions that can be made now: those the plugin asks for, then what is not wished for any more.
    pub(super) fn next_removals(&mut self, deed: &mut Deed) -> Next {
        let mut leaving = Vec::new();
        for index in 0..deed.deletions.len() {
            let deletion = &deed.checked.deletions[index];
            if deed.deletions[index] != Progress::Open {
                continue;
            }
            let Some(at) = self.record_at(&deletion.object) else {
                // Gone already, or never ours: what carries no mark of ours is not touched.
                deed.deletions[index] = Progress::Done;
                continue;
            };
            let free = |id: &String| self.is_done(id, &deed.checked);
            if !deletion.after.iter().all(free) {
                continue;
            }
            deed.deletions[index] = Progress::Done;
            let record = &self.journal.inventory[at];
            if deletion.uid.is_none() || deletion.uid == record.uid {
                leaving.push(record.clone());
            }
        }
        leaving.retain(|record| !deed.tried.contains(&place(record)));
        match self.part(&leaving, deed) {
            Next::Nothing => {
                let doomed = self.doomed(deed);
                self.part(&doomed, deed)
            }
            next => next,
        }
    }

    /// What goes because nobody wishes for it, those first that nothing doomed came after: deletion in reverse.
    fn doomed(&self, deed: &Deed) -> Vec<ChildRecord> {
        let all_applied = deed.standing.iter().all(|p| *p == Progress::Done);
        if !(deed.teardown || deed.complete && all_applied) {
            return Vec::new();
        }
        let inventory = self.journal.inventory.iter();
        let doomed: Vec<ChildRecord> = inventory
            .filter(|record| self.is_doomed(record, deed))
            .cloned()
            .collect();
        children::next_removals(&doomed)
            .into_iter()
            .filter(|record| !deed.tried.contains(&place(record)))
            .cloned()
            .collect()
    }

    /// Looks at all of them before the first one goes.
    fn part(&mut self, leaving: &[ChildRecord], deed: &mut Deed) -> Next {
        let (mut unknown, mut removals) = (Vec::new(), Vec::new());
        let mut forgotten = false;
        for record in leaving {
            let Some(at) = self.position(record) else {
                continue;
            };
            match self.parting(at) {
                Parting::Unknown => unknown.push(record.reference()),
                Parting::Forget => {
                    self.forget(at);
                    forgotten = true;
                }
                Parting::Going => {
                    deed.tried.insert(place(record));
                    deed.removals.push(going(&record.reference()));
                }
                Parting::Now(removal) => removals.push(*removal),
            }
        }
        if !unknown.is_empty() {
            return Next::Look(unknown);
        }
        if removals.is_empty() {
            // Others may have come after what was forgotten.
            return if forgotten {
                self.next_removals(deed)
            } else {
                Next::Nothing
            };
        }
        for removal in &removals {
            if let Some(at) = self.record_at(&removal.object) {
                deed.tried.insert(place(&self.journal.inventory[at]));
            }
        }
        Next::Remove(removals)
    }

    fn parting(&self, at: usize) -> Parting {
        let record = &self.journal.inventory[at];
        let Found::Object(object) = &self.found[at] else {
            return Parting::Unknown;
        };
        let uid = uid_of(object).unwrap_or_default();
        let recorded = record.uid.as_ref().is_none_or(|known| *known == uid);
        if record.ownership == Ownership::Fields {
            return if recorded {
                Parting::Now(Box::new(self.removal(at, uid)))
            } else {
                Parting::Forget
            };
        }
        match self.standing(Some(object)) {
            Ok(Standing::Ours) => Parting::Now(Box::new(self.removal(at, uid))),
            Ok(Standing::Terminating) if record.uid.is_some() && recorded => {
                let stays = record.on_delete == OnDelete::Orphan && self.verb == Verb::Finalize;
                if stays {
                    Parting::Forget
                } else {
                    Parting::Going
                }
            }
            _ => Parting::Forget,
        }
    }

    /// What the server says of children that are to go and that no store shows.
    pub(super) fn found_out(
        &mut self,
        mut deed: Deed,
        objects: &[ObjectRef],
        results: Vec<Result<Looked, WriteError>>,
        now: Time,
    ) -> Step {
        if results.len() != objects.len() {
            return self.cluster_failed("the driver answered another number of objects", None, now);
        }
        for (object, result) in objects.iter().zip(results) {
            let Some(at) = self.record_at(object) else {
                continue;
            };
            match result {
                Ok(Looked {
                    object: Some(found),
                    ..
                }) => self.found[at] = Found::Object(found),
                Ok(_) | Err(WriteError::NotFound) => self.forget(at),
                Err(error) => self.stays(&mut deed, at, object, "read", error),
            }
        }
        self.advance_deed(deed, now)
    }

    fn forget(&mut self, at: usize) {
        self.remove_record(at);
        self.changed_children = true;
    }

    /// A child that could not be read or deleted stays on record, with the reason.
    fn stays(
        &mut self,
        deed: &mut Deed,
        at: usize,
        object: &ObjectRef,
        what: &str,
        error: WriteError,
    ) {
        deed.tried.insert(place(&self.journal.inventory[at]));
        let child = format!("the child {} {}", object.kind.kind, object.name);
        let why = format!("{child} cannot be {what}: {error}");
        if let WriteError::Unavailable { retry_after, .. } = error {
            deed.away = Some((why, retry_after));
            return;
        }
        let cause = Cause::new("Forbidden", why);
        self.journal.inventory[at].error = Some(cause.clone());
        deed.removals.push(Progress::Failed {
            cause,
            invalid: false,
        });
    }

    fn is_doomed(&self, record: &ChildRecord, deed: &Deed) -> bool {
        let wished = deed
            .checked
            .wishes
            .iter()
            .any(|wish| self.is_place_of(wish, record));
        if !deed.teardown {
            return !wished;
        }
        // What the garbage collector takes with its owner needs no help, unless order matters.
        let collected = children::reference_is_legal(self.key.namespace(), &record.namespace)
            && record.on_delete == OnDelete::Delete
            && record.ownership != Ownership::Fields;
        !(collected && !self.exit && !self.in_waves())
    }

    /// What the server answered to each removal.
    pub(super) fn removed(
        &mut self,
        mut deed: Deed,
        removals: &[Removal],
        results: Vec<Result<bool, WriteError>>,
        now: Time,
    ) -> Step {
        if results.len() != removals.len() {
            return self.cluster_failed(
                "the driver answered another number of removals",
                None,
                now,
            );
        }
        for (removal, result) in removals.iter().zip(results) {
            let Some(at) = self.record_at(&removal.object) else {
                continue;
            };
            match result {
                Ok(true) | Err(WriteError::NotFound) => self.gone(&mut deed, at),
                // Another one has its name now, or the server has reasons of its own: only a look can tell.
                Err(error @ (WriteError::Conflict | WriteError::Refused(_))) => {
                    self.doubt(&mut deed, at, &removal.object, error);
                }
                Ok(false) => {
                    self.writes += 1;
                    self.child_writes += 1;
                    deed.removals.push(going(&removal.object));
                }
                Err(error) => self.stays(&mut deed, at, &removal.object, "deleted", error),
            }
        }
        self.advance_deed(deed, now)
    }

    /// A removal that the server would not do is tried once more in this pass, after a look.
    fn doubt(&mut self, deed: &mut Deed, at: usize, object: &ObjectRef, error: WriteError) {
        let place = place(&self.journal.inventory[at]);
        if !deed.doubted.insert(place.clone()) {
            return self.stays(deed, at, object, "deleted", error);
        }
        if self.recreated(deed, at).is_some() {
            return self.gone(deed, at);
        }
        self.found[at] = Found::Absent;
        deed.tried.remove(&place);
        for (index, deletion) in deed.checked.deletions.iter().enumerate() {
            if deletion.object == *object {
                deed.deletions[index] = Progress::Open;
            }
        }
    }

    /// The wish that a child is deleted for, to be made anew.
    fn recreated(&self, deed: &Deed, at: usize) -> Option<usize> {
        let mut wishes = deed.checked.wishes.iter();
        wishes
            .position(|wish| self.is_place_of(wish, &self.journal.inventory[at]))
            .filter(|index| matches!(deed.standing[*index], Progress::Pending(_)))
    }

    /// A child that is gone leaves the record; one that is wished for is made anew.
    fn gone(&mut self, deed: &mut Deed, at: usize) {
        self.writes += 1;
        self.child_writes += 1;
        self.changed_children = true;
        let wished = self.recreated(deed, at);
        match wished {
            Some(index) if !deed.teardown => {
                self.journal.inventory[at].uid = None;
                self.found[at] = Found::Absent;
                deed.standing[index] = Progress::Open;
            }
            _ => self.remove_record(at),
        }
    }

    /// How a child goes: deleted, or, where it is to stay, without our mark.
    pub(super) fn removal(&self, at: usize, uid: String) -> Removal {
        let mut record = self.journal.inventory[at].clone();
        record.uid = Some(uid.clone());
        let leaving = self.verb == Verb::Finalize;
        let way = match (record.ownership, record.on_delete) {
            (Ownership::Fields, _) => Way::LetGo {
                body: children::released_body(&record),
                manager: children::field_manager(&self.terms.mapping.name),
            },
            (_, OnDelete::Orphan) if leaving => Way::Unmark(children::unmark_patch(&uid)),
            _ => Way::Delete,
        };
        Removal {
            effect: record.effect.clone(),
            object: record.reference(),
            uid,
            way,
        }
    }
}

/// A child that is on its way out.
fn going(object: &ObjectRef) -> Progress {
    let why = format!(
        "the child {} {} is being deleted",
        object.kind.kind, object.name
    );
    Progress::Pending(Cause::new("DependencyNotReady", why))
}
