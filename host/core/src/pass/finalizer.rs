//! Our finalizer on the object: put on before the first effect, taken off as the last request.
//!
//! It is put on and taken off by JSON patch with tests, since an apply takes nothing off that another manager holds
//! (kro#1260). What stands in the list beside it is never touched (kopf#309).

use serde_json::{Value, json};

use super::{
    Finale, FinalizerWrite, Object, Pass, Stage, Step, StepAction, Then, Verb, WriteError,
};
use crate::{contract::Json, journal::FinalizerRecord, object::Head, outcome::Outcome, time::Time};

/// Conflicts over one removal before the pass is begun again.
const MAX_CONFLICTS: u32 = 3;

impl Pass {
    /// Whether our finalizer is on the object, under its name or one it had before.
    pub(super) fn is_on(&self, head: &Head<'_>) -> bool {
        self.finalizer_on(head).is_some()
    }

    /// The name of ours that is on the object; today's first.
    fn finalizer_on(&self, head: &Head<'_>) -> Option<&str> {
        let record = self.journal.finalizer.as_ref();
        let recorded = record.into_iter().flat_map(FinalizerRecord::names);
        std::iter::once(self.terms.mapping.finalizer.as_str())
            .chain(recorded)
            .find(|name| head.finalizers.iter().any(|finalizer| finalizer == name))
    }

    /// Whether the finalizer that is on the object, or its record, says what the mapping no longer says.
    pub(super) fn is_outdated(&self, head: &Head<'_>) -> bool {
        let mapping = &self.terms.mapping;
        let renamed = self
            .finalizer_on(head)
            .is_some_and(|name| name != mapping.finalizer);
        let record = self.journal.finalizer.as_ref();
        renamed || record.is_some_and(|record| record.on_remove != mapping.mapping.on_remove)
    }

    /// The same of the object as it was read last.
    pub(super) fn holds_finalizer(&self) -> bool {
        let object = self.object.as_ref();
        object
            .and_then(|object| Head::parse(object.raw.as_str()).ok())
            .is_some_and(|head| self.is_on(&head))
    }

    /// `before`: the name it had before, where the object may still have it.
    fn finalizer_record(&self, before: Option<String>) -> FinalizerRecord {
        FinalizerRecord {
            name: self.terms.mapping.finalizer.clone(),
            on_remove: self.terms.mapping.mapping.on_remove,
            before,
        }
    }

    /// A name on record that is not today's.
    fn old_name(&self) -> Option<&str> {
        let record = self.journal.finalizer.as_ref()?;
        record
            .names()
            .find(|name| *name != self.terms.mapping.finalizer)
    }

    /// The record follows the object: a pass may have stopped between the two, and a journal may have been lost.
    pub(super) fn note_finalizer(&mut self) {
        let object = self.object.as_ref();
        let head = object.and_then(|object| Head::parse(object.raw.as_str()).ok());
        let is_on = |name: &str| {
            let on = head.as_ref().map(|head| &head.finalizers);
            on.is_some_and(|on| on.iter().any(|finalizer| finalizer == name))
        };
        let before = self.old_name().filter(|name| is_on(name));
        let record = self.finalizer_record(before.map(str::to_owned));
        self.journal.finalizer = self.holds_finalizer().then_some(record);
    }

    /// On record first: whoever drains or sweeps finds it there, also after a crash between the two.
    pub(super) fn put_finalizer(&mut self, now: Time) -> Step {
        let record = self.finalizer_record(self.old_name().map(str::to_owned));
        if self.journal.finalizer.as_ref() == Some(&record) {
            return self.put_marked(now);
        }
        self.journal.finalizer = Some(record);
        self.stage = Stage::Marking;
        self.write_journal()
    }

    pub(super) fn put_marked(&mut self, now: Time) -> Step {
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        let head = match Head::parse(object.raw.as_str()) {
            Ok(head) => head,
            Err(error) => return self.cluster_failed(&error.to_string(), None, now),
        };
        let name = self.terms.mapping.finalizer.clone();
        let on = self.finalizer_on(&head);
        if on.is_some_and(|on| on == name) {
            // Only the record was outdated.
            return self.end_again(Outcome::Applied);
        }
        let old = on.and_then(|on| head.finalizers.iter().position(|finalizer| finalizer == on));
        // The version is tested, so the place is the right one.
        let put = match old {
            Some(at) => {
                json!({"op": "replace", "path": format!("/metadata/finalizers/{at}"), "value": name})
            }
            None if head.finalizers.is_empty() => {
                json!({"op": "add", "path": "/metadata/finalizers", "value": [name]})
            }
            None => json!({"op": "add", "path": "/metadata/finalizers/-", "value": name}),
        };
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": head.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": head.resource_version},
            put,
        ]);
        self.stage = Stage::Putting;
        self.as_account(StepAction::Finalizer(FinalizerWrite {
            name,
            put: true,
            patch,
        }))
    }

    /// The write ends the pass; the next one starts from what it made.
    pub(super) fn finalizer_put(&mut self, result: Result<Json, WriteError>, now: Time) -> Step {
        match result {
            Ok(json) => match self.adopt(json) {
                Ok(()) => self.end_again(Outcome::Applied),
                Err(error) => self.cluster_failed(&error, None, now),
            },
            Err(WriteError::NotFound) => self.went_away(now),
            // The test did not hold: somebody else was faster, or the object is on its way out and takes no finalizer any more.
            Err(WriteError::Conflict | WriteError::Invalid(_) | WriteError::Refused(_)) => self
                .cluster_failed(
                    "the object changed while its finalizer was put on",
                    None,
                    now,
                ),
            Err(error @ WriteError::Forbidden(_)) => {
                self.object_write_failed("putting the finalizer on", error, now)
            }
            Err(error) => self.write_failed("putting the finalizer on", error, now),
        }
    }

    /// Takes our finalizer off, after everything else; one that is not there is off already.
    pub(super) fn release(&mut self, finale: Finale, now: Time) -> Step {
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        let name = Head::parse(object.raw.as_str())
            .ok()
            .and_then(|head| self.finalizer_on(&head).map(str::to_owned))
            .unwrap_or_else(|| self.terms.mapping.finalizer.clone());
        match removal_patch(object.raw.as_str(), &name) {
            Ok(None) => self.released(finale),
            Ok(Some(patch)) => {
                self.stage = Stage::Releasing(Box::new(finale));
                self.as_host(StepAction::Finalizer(FinalizerWrite {
                    name,
                    put: false,
                    patch,
                }))
            }
            Err(error) => self.cluster_failed(&error, None, now),
        }
    }

    pub(super) fn finalizer_off(
        &mut self,
        finale: Finale,
        result: Result<Json, WriteError>,
        now: Time,
    ) -> Step {
        match result {
            Ok(json) => match self.adopt(json) {
                // One under a name it had before goes too.
                Ok(()) if self.holds_finalizer() => {
                    self.conflicts += 1;
                    self.release_again(finale, now)
                }
                Ok(()) => self.released(finale),
                Err(error) => self.cluster_failed(&error, None, now),
            },
            // Gone is what it was for.
            Err(WriteError::NotFound) => self.went_away(now),
            // The list changed (kopf#309, achilles-sdk#129).
            Err(WriteError::Conflict | WriteError::Invalid(_) | WriteError::Refused(_)) => {
                self.conflicts += 1;
                self.stage = Stage::RereadingFinalizer(Box::new(finale));
                self.as_host(StepAction::Read)
            }
            Err(error) => self.write_failed("taking the finalizer off", error, now),
        }
    }

    /// What the server says after a conflict over the finalizer.
    pub(super) fn reread_finalizer(
        &mut self,
        finale: Finale,
        found: Result<Option<Json>, WriteError>,
        now: Time,
    ) -> Step {
        let json = match found {
            Ok(Some(json)) => json,
            Ok(None) | Err(WriteError::NotFound) => return self.went_away(now),
            Err(error) => return self.write_failed("reading the object again", error, now),
        };
        let fresh = match Object::parse(json) {
            Ok(fresh) => fresh,
            Err(error) => return self.cluster_failed(&error.to_string(), None, now),
        };
        if fresh.uid != self.uid() {
            return self.went_away(now);
        }
        self.object = Some(fresh);
        self.release_again(finale, now)
    }

    fn release_again(&mut self, finale: Finale, now: Time) -> Step {
        if self.conflicts > MAX_CONFLICTS {
            let why = "others keep writing the finalizers; it is tried again";
            return self.cluster_failed(why, None, now);
        }
        self.release(finale, now)
    }

    /// Nothing of ours holds the object any more. What is being deleted is gone with that: nothing is written after it.
    fn released(&mut self, finale: Finale) -> Step {
        if self.verb == Verb::Finalize && !self.exit {
            let mut end = self.ending(Outcome::Applied, None, None);
            end.reads = None;
            return self.tell_and_end(&finale, end);
        }
        self.conclude(Finale {
            then: Then::Nothing,
            ..finale
        })
    }
}

/// The patch that takes a finalizer off an object, held to its uid and place; none if it is not on it.
pub fn removal_patch(object: &str, name: &str) -> Result<Option<Value>, String> {
    let head =
        Head::parse(object).map_err(|error| format!("the object cannot be read: {error}"))?;
    let Some(index) = head
        .finalizers
        .iter()
        .position(|finalizer| finalizer == name)
    else {
        return Ok(None);
    };
    let path = format!("/metadata/finalizers/{index}");
    Ok(Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": head.uid},
        {"op": "test", "path": path, "value": name},
        {"op": "remove", "path": path},
    ])))
}
