//! First contact with the object of a wish: what is there, whose it is, and so what is to be done.
//!
//! What no store shows, or what was never answered for, is asked of the server: nothing is made or taken over on the word of a
//! cache (kro#957, crossplane#5122).

use super::{
    Found, Looked, Pass, Step, WriteError,
    children::{Deed, Progress, about, failed, refused, uid_of},
};
use crate::{
    children::{self, Parent, Standing, Wish},
    contract::{Cause, Json, Mode, Ownership},
    journal::ChildRecord,
    object::{ObjectError, Uid},
    time::Time,
};

impl Pass {
    /// The object of this pass, whose uid that is, as the parent of children.
    pub(super) fn parent<'a>(&'a self, uid: &'a Uid) -> Parent<'a> {
        let mapping = &self.terms.mapping;
        Parent {
            mapping: &mapping.name,
            kind: &mapping.kind,
            key: &self.key,
            uid,
        }
    }

    /// What children carry as the mark of this object and mapping.
    pub(super) fn mark(&self) -> String {
        children::owner_mark(&self.terms.mapping.name, &self.uid())
    }

    /// How an object that was found stands to the one of this pass.
    pub(super) fn standing(&self, found: Option<&Json>) -> Result<Standing, ObjectError> {
        let uid = self.uid();
        let parent = children::parent_text(&self.parent(&uid));
        children::standing(found, &self.mark(), &parent, &uid)
    }

    /// Says of each open wish what is to be done; returns those that only the server can tell about.
    pub(super) fn classify(&mut self, deed: &mut Deed) -> Vec<usize> {
        let mut unknown = Vec::new();
        for index in 0..deed.standing.len() {
            if deed.standing[index] != Progress::Open {
                continue;
            }
            let wish = &deed.checked.wishes[index];
            let Some(at) = self.record_of(wish) else {
                unknown.push(index);
                continue;
            };
            let record = &self.journal.inventory[at];
            let made = wish.mode == Mode::Once && !record.asked.is_empty();
            let progress = match &self.found[at] {
                _ if made => Progress::Done,
                // What is in no store, or was never answered for, is asked of the server: never POST on the word of a cache.
                Found::Absent | Found::Unknown(_) => {
                    unknown.push(index);
                    continue;
                }
                Found::Object(_) if record.uid.is_none() => {
                    unknown.push(index);
                    continue;
                }
                Found::Object(object) => {
                    let namespace = record.namespace.clone();
                    self.judge(wish, Some(record), &namespace, Some(object))
                }
            };
            if progress == Progress::Done {
                let wish = wish.clone();
                self.note_kept(at, &wish);
            }
            deed.standing[index] = progress;
        }
        unknown
    }

    /// What is to be done about a wish, from what is known of its object.
    pub(super) fn judge(
        &self,
        wish: &Wish,
        record: Option<&ChildRecord>,
        namespace: &str,
        found: Option<&Json>,
    ) -> Progress {
        let found_uid = found.and_then(uid_of);
        let standing = match self.standing(found) {
            Ok(standing) => standing,
            Err(error) => return failed(Cause::new("Unreadable", error.to_string()), wish),
        };
        let claim = children::claim(&standing, wish, record, found_uid.as_deref().unwrap_or(""));
        match (claim, standing) {
            (Err(cause), Standing::Foreign(_) | Standing::Free) => {
                Progress::Denied(about(wish, cause))
            }
            (Err(cause), _) => Progress::Pending(about(wish, cause)),
            (Ok(()), _) => {
                let drifted = match (record, found) {
                    (Some(record), Some(object)) => {
                        children::drifted(record, wish, object.as_str())
                    }
                    _ => true,
                };
                if drifted {
                    Progress::Apply {
                        namespace: namespace.to_owned(),
                        uid: found_uid,
                    }
                } else {
                    Progress::Done
                }
            }
        }
    }

    /// What the server said of the wishes that were not known.
    pub(super) fn looked(
        &mut self,
        mut deed: Deed,
        results: Vec<Result<Looked, WriteError>>,
        now: Time,
    ) -> Step {
        let unknown = self.classify(&mut deed);
        if unknown.len() != results.len() {
            return self.cluster_failed("the driver answered another number of objects", None, now);
        }
        for (index, result) in unknown.into_iter().zip(results) {
            let wish = deed.checked.wishes[index].clone();
            let mut namespace = None;
            let progress = match result {
                Ok(looked) => {
                    namespace = Some(self.place_for(&wish, looked.namespaced).to_owned());
                    self.contacted(&wish, looked)
                }
                Err(error) => refused(&mut deed, &wish, error),
            };
            if matches!(progress, Progress::Failed { .. } | Progress::Denied(_)) {
                self.note_trouble(&wish, &progress, namespace.as_deref());
            }
            deed.standing[index] = progress;
        }
        self.advance_deed(deed, now)
    }

    /// Where a wish's object lies: as written, else where the reconciled object does, and nowhere for cluster-scoped kinds.
    pub(super) fn place_for<'a>(&'a self, wish: &'a Wish, namespaced: bool) -> &'a str {
        if namespaced {
            wish.namespace.as_deref().unwrap_or(self.key.namespace())
        } else {
            ""
        }
    }

    /// First contact: what was found decides whether it may be made, taken over or left alone.
    pub(super) fn contacted(&mut self, wish: &Wish, looked: Looked) -> Progress {
        let namespace = self.place_for(wish, looked.namespaced).to_owned();
        let wrong = match (looked.namespaced, namespace.is_empty(), &wish.namespace) {
            (true, true, _) => Some((
                "NamespaceMissing",
                "it lives in a namespace, and the reconciled object has none to inherit; name one in metadata.namespace",
            )),
            (false, _, Some(_)) => Some((
                "NamespaceGiven",
                "it lives in no namespace; leave metadata.namespace out",
            )),
            _ => None,
        };
        if let Some((reason, why)) = wrong {
            return Progress::Failed {
                cause: about(wish, Cause::new(reason, why)),
                invalid: true,
            };
        }
        let at = self.record_of(wish);
        if let Some(at) = at {
            // Trouble may have put it on record before anybody knew where it lives.
            let record = &mut self.journal.inventory[at];
            if record.uid.is_none() {
                record.namespace.clone_from(&namespace);
            }
        }
        let record = at.map(|at| self.journal.inventory[at].clone());
        let progress = self.judge(wish, record.as_ref(), &namespace, looked.object.as_ref());
        let (Some(at), Some(object)) = (at, looked.object) else {
            return progress;
        };
        // Made by a pass that did not live to say so: once is once.
        let unsaid = matches!(progress, Progress::Apply { uid: Some(_), .. })
            && wish.mode == Mode::Once
            && wish.ownership == Ownership::Owned;
        self.found[at] = Found::Object(object.clone());
        if unsaid {
            self.note_applied(at, wish, object);
            self.changed_children = true;
            return Progress::Done;
        }
        if progress == Progress::Done {
            self.note_kept(at, wish);
        }
        progress
    }
}
