//! A journal that was lost: the inventory is rebuilt from the marks that children carry.
//!
//! Only an object that was passed before can have lost one, so nobody else pays for the search. Nothing is pruned by it: what
//! was found is on record again, and the next complete decision says what stays.

use super::{Found, Pass};
use crate::{
    children::{self, OWNER_LABEL, Standing},
    contract::{Answer, Kind, Mode, OnDelete, Ownership, View},
    journal::ChildRecord,
    needs::{Namespaces, ReadSource, Reading},
    object::{FieldPath, Head},
    plan::MAX_CHILDREN,
};

impl Pass {
    /// What finds our children where the journal is missing that must have been there.
    pub(super) fn lost_children(&self) -> Vec<Reading> {
        let grants = &self.terms.mapping.mapping.grants.apply;
        if self.journaled.is_some() || grants.is_empty() || !self.was_passed() {
            return Vec::new();
        }
        let mark = self.mark();
        let mut readings: Vec<Reading> = Vec::new();
        for grant in grants {
            let namespaces = if grant.namespaces.iter().any(|name| name == "*") {
                Namespaces::All
            } else {
                let own = Some(self.key.namespace()).filter(|own| !own.is_empty());
                let listed = grant.namespaces.iter().map(String::as_str);
                Namespaces::These(own.into_iter().chain(listed).map(str::to_owned).collect())
            };
            readings.push(Reading {
                name: grant.kind.clone(),
                source: ReadSource::Selected {
                    kind: grant.kind(),
                    namespaces,
                    labels: format!("{OWNER_LABEL}={mark}"),
                },
                view: View::Full,
                limit: u32::try_from(MAX_CHILDREN).unwrap_or(u32::MAX),
            });
        }
        readings
    }

    /// Whether an earlier pass left its traces on the object.
    fn was_passed(&self) -> bool {
        let observed = || {
            let raw = self.object.as_ref()?.raw.as_str();
            let path = FieldPath::parse(".status.observedGeneration").ok()?;
            path.i64(raw).ok()?
        };
        self.holds_finalizer() || observed().is_some_and(|generation| generation > 0)
    }

    /// Puts what was found on record.
    pub(super) fn recover(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            let Answer::Objects(objects) = answer else {
                continue;
            };
            for object in objects.items {
                let Ok(Standing::Ours | Standing::Terminating) = self.standing(Some(&object))
                else {
                    continue;
                };
                let Some(record) = self.recovered(object.as_str()) else {
                    continue;
                };
                if self.position(&record).is_none() {
                    self.insert_record(record, Found::Object(object));
                }
            }
        }
    }

    /// The record of a child as far as the child itself tells. One that could have an owner reference and has none was to stay.
    fn recovered(&self, object: &str) -> Option<ChildRecord> {
        let head = Head::parse(object).ok()?;
        let legal = children::reference_is_legal(self.key.namespace(), &head.namespace);
        let owned = head
            .owner_references
            .is_some_and(|list| list.get().contains(self.uid().as_str()));
        Some(ChildRecord {
            effect: head.name.to_string(),
            after: Vec::new(),
            kind: Kind {
                api_version: head.api_version.to_string(),
                kind: head.kind.to_string(),
            },
            namespace: head.namespace.to_string(),
            name: head.name.to_string(),
            uid: Some(head.uid.to_string()),
            asked: String::new(),
            seen: String::new(),
            ownership: Ownership::Owned,
            mode: Mode::Keep,
            on_delete: if legal && !owned {
                OnDelete::Orphan
            } else {
                OnDelete::Delete
            },
            error: None,
        })
    }
}
