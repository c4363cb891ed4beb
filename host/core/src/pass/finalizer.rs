//! Our finalizer on the object: put on before the first effect, taken off as the last request.
//!
//! It is put on and taken off by JSON patch with tests, since an apply takes nothing off that another manager holds
//! (kro#1260). What stands in the list beside it is never touched (kopf#309).

use serde_json::{Value, json};

use super::{Finale, FinalizerWrite, Pass, Stage, Step, StepAction, Then, Verb, WriteError};
use crate::{contract::Json, journal::FinalizerRecord, outcome::Outcome, time::Time};

/// Conflicts over one removal before the pass is begun again.
const MAX_CONFLICTS: u32 = 3;

impl Pass {
    /// Whether our finalizer is on the object, under its name or one it had before.
    pub(super) fn holds_finalizer(&self) -> bool {
        self.finalizer_on().is_some()
    }

    /// The name of ours that is on the object; today's first.
    fn finalizer_on(&self) -> Option<&str> {
        let record = self.journal.finalizer.as_ref();
        let recorded = record.into_iter().flat_map(FinalizerRecord::names);
        std::iter::once(self.terms.mapping.finalizer.as_str())
            .chain(recorded)
            .find(|name| self.place_on_object(name).is_some())
    }

    /// Where a finalizer stands in the object's list.
    fn place_on_object(&self, name: &str) -> Option<usize> {
        let finalizers = &self.object.as_ref()?.finalizers;
        finalizers.iter().position(|finalizer| finalizer == name)
    }

    /// Whether the finalizer that is on the object, or its record, says what the mapping no longer says.
    pub(super) fn is_outdated(&self) -> bool {
        let mapping = &self.terms.mapping;
        let renamed = self
            .finalizer_on()
            .is_some_and(|name| name != mapping.finalizer);
        let record = self.journal.finalizer.as_ref();
        renamed || record.is_some_and(|record| record.on_remove != mapping.mapping.on_remove)
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
        let record = self.holds_finalizer().then(|| {
            let before = (self.old_name()).filter(|name| self.place_on_object(name).is_some());
            self.finalizer_record(before.map(str::to_owned))
        });
        self.journal.finalizer = record;
    }

    /// On record first: whoever drains or sweeps finds it there, also after a crash between the two.
    pub(super) fn put_finalizer(&mut self) -> Step {
        let record = self.finalizer_record(self.old_name().map(str::to_owned));
        if self.journal.finalizer.as_ref() == Some(&record) {
            return self.put_marked();
        }
        self.journal.finalizer = Some(record);
        self.stage = Stage::Marking;
        self.write_journal()
    }

    pub(super) fn put_marked(&mut self) -> Step {
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        let name = self.terms.mapping.finalizer.clone();
        let on = self.finalizer_on();
        if on.is_some_and(|on| on == name) {
            // Only the record was outdated.
            return self.end_again(Outcome::Applied);
        }
        let old = on.and_then(|on| self.place_on_object(on));
        // The version is tested, so the place is the right one.
        let put = match old {
            Some(at) => {
                json!({"op": "replace", "path": format!("/metadata/finalizers/{at}"), "value": name})
            }
            None if object.finalizers.is_empty() => {
                json!({"op": "add", "path": "/metadata/finalizers", "value": [name]})
            }
            None => json!({"op": "add", "path": "/metadata/finalizers/-", "value": name}),
        };
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": object.uid.as_str()},
            {"op": "test", "path": "/metadata/resourceVersion", "value": object.version},
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
    pub(super) fn release(&mut self, finale: Finale) -> Step {
        let Some(object) = &self.object else {
            return self.end(Outcome::Gone, None, None);
        };
        let removal = self.finalizer_on().and_then(|name| {
            let patch = removal_patch(object.uid.as_str(), &object.finalizers, name)?;
            Some((name.to_owned(), patch))
        });
        let Some((name, patch)) = removal else {
            return self.released(finale);
        };
        self.stage = Stage::Releasing(Box::new(finale));
        self.as_host(StepAction::Finalizer(FinalizerWrite {
            name,
            put: false,
            patch,
        }))
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
        match self.found_again(found, now) {
            Ok(fresh) => {
                self.object = Some(fresh);
                self.release_again(finale, now)
            }
            Err(step) => *step,
        }
    }

    fn release_again(&mut self, finale: Finale, now: Time) -> Step {
        if self.conflicts > MAX_CONFLICTS {
            let why = "others keep writing the finalizers; it is tried again";
            return self.cluster_failed(why, None, now);
        }
        self.release(finale)
    }

    /// Nothing of ours holds the object any more. What is being deleted is gone with that: nothing is written after it.
    fn released(&mut self, finale: Finale) -> Step {
        if self.verb == Verb::Finalize && !self.exit {
            let mut end = self.ending(Outcome::Applied, None, None);
            end.reads = None;
            return self.end_with(end, self.notes(&finale));
        }
        self.conclude(Finale {
            then: Then::Nothing,
            ..finale
        })
    }
}

/// The patch that takes a finalizer off an object with this uid and these finalizers, held to both; none if it is not on it.
pub fn removal_patch<S: AsRef<str>>(uid: &str, finalizers: &[S], name: &str) -> Option<Value> {
    let index = finalizers.iter().position(|on| on.as_ref() == name)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": path, "value": name},
        {"op": "remove", "path": path},
    ]))
}
