//! Carrying out what a decision says of children, wave by wave: look, put on record, apply, delete, prune.
//!
//! A [`Deed`] is a decision on its way. It is advanced until nothing of it can be done in this pass; each turn asks for one
//! batch of requests that are independent of each other. One effect that fails does not stop those that do not come after it.

use std::collections::BTreeSet;

use super::{
    ChildWrite, Finale, Found, Looked, Pass, Stage, Step, StepAction, Verb, WriteError,
    removals::Next,
};
use crate::{
    children::{self, Parent, Standing, Wish},
    contract::{Cause, ChildState, Json, Kind, Mode, ObjectRef, OnDelete, OnImmutable, Ownership},
    journal::ChildRecord,
    object::Head,
    plan::Checked,
    time::Time,
    units::Span,
};

/// A decision on its way.
#[derive(Clone, Debug)]
pub(super) struct Deed {
    pub(super) finale: Finale,
    pub(super) checked: Checked,
    /// How far each wish is.
    pub(super) standing: Vec<Progress>,
    /// How far each deletion is.
    pub(super) deletions: Vec<Progress>,
    /// Everything that is not wished for goes.
    pub(super) complete: bool,
    /// The plugin has nothing left to clean up.
    pub(super) finalized: bool,
    /// The object goes, and its children with it as they were asked to.
    pub(super) teardown: bool,
    /// Removals that were tried in this pass.
    pub(super) tried: BTreeSet<Place>,
    /// Removals the server would not do, and that were looked at again.
    pub(super) doubted: BTreeSet<Place>,
    /// Why removals did not succeed, or are not over yet.
    pub(super) removals: Vec<Progress>,
    /// The API server did not answer to one of the requests.
    pub(super) away: Option<(String, Option<Span>)>,
}

/// Which object: group, kind, namespace, name.
pub(super) type Place = (String, String, String, String);

/// How far a wish or a deletion is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Progress {
    /// Not looked at.
    Open,
    /// To be applied there, under this uid if it exists.
    Apply {
        namespace: String,
        uid: Option<String>,
    },
    /// As asked for.
    Done,
    /// Cannot be done in this pass, and nobody is to blame.
    Pending(Cause),
    /// Refused.
    Failed { cause: Cause, invalid: bool },
    /// Somebody else's.
    Denied(Cause),
}

impl Deed {
    pub(super) fn new(finale: Finale, checked: Checked) -> Self {
        Self {
            standing: vec![Progress::Open; checked.wishes.len()],
            deletions: vec![Progress::Open; checked.deletions.len()],
            finale,
            checked,
            complete: false,
            finalized: false,
            teardown: false,
            tried: BTreeSet::new(),
            doubted: BTreeSet::new(),
            removals: Vec::new(),
            away: None,
        }
    }

    /// Everything that did not come to its end, in the order of the effects.
    pub(super) fn left(&self) -> impl Iterator<Item = &Progress> {
        let all = self.standing.iter().chain(&self.deletions);
        all.chain(&self.removals)
            .filter(|progress| **progress != Progress::Done)
    }
}

impl Pass {
    /// Advances a deed by one batch, or ends it.
    pub(super) fn advance_deed(&mut self, mut deed: Deed, now: Time) -> Step {
        if let Some((why, retry_after)) = deed.away.take() {
            return self.cluster_failed(&why, retry_after, now);
        }
        let unknown = self.classify(&mut deed);
        if !unknown.is_empty() {
            let objects = unknown
                .iter()
                .map(|index| reference(&deed.checked.wishes[*index]));
            let step = self.as_account(StepAction::Look(objects.collect()));
            self.stage = Stage::Looking(Box::new(deed));
            return step;
        }
        if self.verb == Verb::Reconcile && !self.holds_finalizer() && self.wants_finalizer(&deed) {
            return self.put_finalizer(now);
        }
        let wave = self.next_wave(&deed);
        if !wave.is_empty() {
            return self.apply(deed, wave, now);
        }
        match self.next_removals(&mut deed) {
            Next::Look(objects) => {
                let step = self.as_account(StepAction::Look(objects.clone()));
                self.stage = Stage::Finding(Box::new(deed), objects);
                step
            }
            Next::Remove(removals) => {
                let step = self.as_account(StepAction::Remove(removals.clone()));
                self.stage = Stage::Removing(Box::new(deed), removals);
                step
            }
            Next::Nothing => self.deed_done(deed, now),
        }
    }

    /// Says of each open wish what is to be done; returns those that only the server can tell about.
    fn classify(&mut self, deed: &mut Deed) -> Vec<usize> {
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
    fn judge(
        &self,
        wish: &Wish,
        record: Option<&ChildRecord>,
        namespace: &str,
        found: Option<&Json>,
    ) -> Progress {
        let uid = self.uid();
        let mark = children::owner_mark(&self.terms.mapping.name, &uid);
        let read = children::standing(found, &mark, &uid);
        let found_uid = found.and_then(uid_of);
        let standing = match read {
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
    fn place_for<'a>(&'a self, wish: &'a Wish, namespaced: bool) -> &'a str {
        if namespaced {
            wish.namespace.as_deref().unwrap_or(self.key.namespace())
        } else {
            ""
        }
    }

    /// First contact: what was found decides whether it may be made, taken over or left alone.
    fn contacted(&mut self, wish: &Wish, looked: Looked) -> Progress {
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

    /// Wishes that can be applied now: everything they come after is done.
    fn next_wave(&self, deed: &Deed) -> Vec<usize> {
        let free = |index: &usize| {
            let wish = &deed.checked.wishes[*index];
            let to_apply = matches!(deed.standing[*index], Progress::Apply { .. });
            to_apply && wish.after.iter().all(|id| self.is_done(id, &deed.checked))
        };
        (0..deed.standing.len()).filter(free).collect()
    }

    /// What is new is put on record first, so that no child is ever made that nobody knows of.
    fn apply(&mut self, deed: Deed, wave: Vec<usize>, now: Time) -> Step {
        let mut new = false;
        for index in &wave {
            let wish = &deed.checked.wishes[*index];
            let Progress::Apply { namespace, .. } = &deed.standing[*index] else {
                continue;
            };
            let at = match self.record_of(wish) {
                Some(at) => at,
                None => self.insert_record(new_record(wish, namespace), Found::Absent),
            };
            new |= !self.is_journaled(&self.journal.inventory[at]);
        }
        if new {
            self.stage = Stage::Listing(Box::new(deed));
            return self.write_journal();
        }
        let writes: Result<Vec<ChildWrite>, String> = wave
            .iter()
            .map(|index| self.child_write(&deed.checked.wishes[*index], &deed.standing[*index]))
            .collect();
        match writes {
            Ok(writes) => {
                self.stage = Stage::Applying(Box::new(deed), wave);
                self.as_account(StepAction::Apply(writes))
            }
            Err(error) => self.plugin_failed(Cause::new("BadOutput", error), now),
        }
    }

    /// Whether the journal, as it stands in the cluster, knows of a child.
    fn is_journaled(&self, record: &ChildRecord) -> bool {
        let journaled = self.journaled.iter().flat_map(|known| &known.inventory);
        journaled
            .into_iter()
            .any(|known| place(known) == place(record))
    }

    fn child_write(&self, wish: &Wish, progress: &Progress) -> Result<ChildWrite, String> {
        let (namespace, uid) = match progress {
            Progress::Apply { namespace, uid } => (namespace.as_str(), uid.as_deref()),
            _ => ("", None),
        };
        let mapping = &self.terms.mapping;
        let object_uid = self.uid();
        let parent = Parent {
            mapping: &mapping.name,
            kind: &mapping.kind,
            key: &self.key,
            uid: &object_uid,
        };
        let version = &mapping.kind.api_version;
        let body = children::body(wish, &parent, version, namespace, uid)
            .map_err(|error| format!("effect `{}`: {error}", wish.effect))?;
        Ok(ChildWrite {
            effect: wish.effect.clone(),
            object: ObjectRef {
                namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
                ..reference(wish)
            },
            body,
            manager: children::field_manager(&mapping.name),
            force: wish.ownership != Ownership::Fields,
            generate: wish.generate.clone(),
        })
    }

    /// What the server answered to each apply.
    pub(super) fn applied(
        &mut self,
        mut deed: Deed,
        wave: &[usize],
        results: Vec<Result<Json, WriteError>>,
        now: Time,
    ) -> Step {
        if results.len() != wave.len() {
            return self.cluster_failed("the driver answered another number of applies", None, now);
        }
        let mut recreate = Vec::new();
        for (index, result) in wave.iter().zip(results) {
            let wish = deed.checked.wishes[*index].clone();
            let Some(at) = self.record_of(&wish) else {
                continue;
            };
            let progress = match result {
                Ok(object) => {
                    self.note_applied(at, &wish, object);
                    self.writes += 1;
                    self.child_writes += 1;
                    self.changed_children = true;
                    Progress::Done
                }
                Err(WriteError::Invalid(message)) if recreates(&wish, &message) => {
                    // Once in a pass: a server that says no to the new one too is not asked in a circle.
                    let first = deed.tried.insert(place(&self.journal.inventory[at]));
                    match &deed.standing[*index] {
                        Progress::Apply { uid: Some(uid), .. } if first => {
                            recreate.push(self.removal(at, uid.clone()));
                            let why =
                                "a field of it cannot be changed; it is deleted and made again";
                            Progress::Pending(about(&wish, Cause::new("Recreating", why)))
                        }
                        _ => refused(&mut deed, &wish, WriteError::Invalid(message)),
                    }
                }
                Err(error) => refused(&mut deed, &wish, error),
            };
            self.note_trouble(&wish, &progress, None);
            deed.standing[*index] = progress;
        }
        if recreate.is_empty() || deed.away.is_some() {
            return self.advance_deed(deed, now);
        }
        let step = self.as_account(StepAction::Remove(recreate.clone()));
        self.stage = Stage::Removing(Box::new(deed), recreate);
        step
    }

    /// Whether children were made in an order, so that they go in reverse.
    pub(super) fn in_waves(&self) -> bool {
        let inventory = &self.journal.inventory;
        inventory.iter().any(|record| {
            record
                .after
                .iter()
                .any(|id| inventory.iter().any(|other| other.effect == *id))
        })
    }

    /// Whether children of this deed will need a pass of their own when the object is deleted.
    pub(super) fn wants_finalizer(&self, deed: &Deed) -> bool {
        let outside =
            |namespace: &str| !children::reference_is_legal(self.key.namespace(), namespace);
        let wishes = &deed.checked.wishes;
        let child_ids: BTreeSet<&str> = wishes.iter().map(|wish| wish.effect.as_str()).collect();
        let needs = |index: usize| {
            let wish = &wishes[index];
            let ordered = wish.after.iter().any(|id| child_ids.contains(id.as_str()));
            // As long as nobody asked the server, only what is on record is known.
            let record = self.record_of(wish);
            let beyond = match &deed.standing[index] {
                Progress::Apply { namespace, .. } => outside(namespace),
                _ => record.is_some_and(|at| outside(&self.journal.inventory[at].namespace)),
            };
            wish.on_delete == OnDelete::Delete
                && wish.ownership != Ownership::Fields
                && (ordered || beyond)
                // An orphan outside keeps our mark until somebody takes it off.
                || wish.on_delete == OnDelete::Orphan
        };
        (0..wishes.len()).any(needs)
    }

    /// The same of what is on record: whether the finalizer that is on must stay.
    pub(super) fn keeps_finalizer(&self) -> bool {
        let stays = |record: &ChildRecord| {
            record.on_delete == OnDelete::Orphan
                || record.ownership != Ownership::Fields
                    && !children::reference_is_legal(self.key.namespace(), &record.namespace)
        };
        self.terms.plugin.finalizes || self.in_waves() || self.journal.inventory.iter().any(stays)
    }

    fn note_applied(&mut self, at: usize, wish: &Wish, object: Json) {
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
    fn note_kept(&mut self, at: usize, wish: &Wish) {
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
    fn note_trouble(&mut self, wish: &Wish, progress: &Progress, namespace: Option<&str>) {
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

    fn insert_record(&mut self, record: ChildRecord, found: Found) -> usize {
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
        let namespace = match &wish.namespace {
            Some(namespace) => *namespace == record.namespace,
            None => record.namespace.is_empty() || record.namespace == self.key.namespace(),
        };
        namespace && same_kind(&wish.kind, &record.kind) && wish.name == record.name
    }

    pub(super) fn record_at(&self, object: &ObjectRef) -> Option<usize> {
        let is = |record: &ChildRecord| {
            let namespace = match &object.namespace {
                Some(namespace) => *namespace == record.namespace,
                None => record.namespace.is_empty() || record.namespace == self.key.namespace(),
            };
            namespace && same_kind(&object.kind, &record.kind) && object.name == record.name
        };
        self.journal.inventory.iter().position(is)
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

fn new_record(wish: &Wish, namespace: &str) -> ChildRecord {
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
fn settle(record: &mut ChildRecord, wish: &Wish) {
    record.error = None;
    record.effect.clone_from(&wish.effect);
    record.after.clone_from(&wish.after);
    (record.ownership, record.mode, record.on_delete) = (wish.ownership, wish.mode, wish.on_delete);
}

fn same_kind(a: &Kind, b: &Kind) -> bool {
    a.group() == b.group() && a.kind == b.kind
}

pub(super) fn place(record: &ChildRecord) -> Place {
    (
        record.kind.group().to_owned(),
        record.kind.kind.clone(),
        record.namespace.clone(),
        record.name.clone(),
    )
}

fn reference(wish: &Wish) -> ObjectRef {
    ObjectRef {
        kind: wish.kind.clone(),
        namespace: wish.namespace.clone(),
        name: wish.name.clone(),
    }
}

/// A cause that names its child.
fn about(wish: &Wish, cause: Cause) -> Cause {
    let message = format!(
        "the child {} {} (effect `{}`): {}",
        wish.kind.kind, wish.name, wish.effect, cause.message
    );
    Cause::new(cause.reason, message)
}

fn failed(cause: Cause, wish: &Wish) -> Progress {
    Progress::Failed {
        cause: about(wish, cause),
        invalid: false,
    }
}

pub(super) fn uid_of(object: &Json) -> Option<String> {
    let head = Head::parse(object.as_str()).ok()?;
    Some(head.uid.to_string())
}

fn recreates(wish: &Wish, message: &str) -> bool {
    wish.on_immutable == OnImmutable::Recreate && children::is_immutable(message)
}

/// A request about one child that the server did not do.
fn refused(deed: &mut Deed, wish: &Wish, error: WriteError) -> Progress {
    match error {
        WriteError::Unavailable {
            message,
            retry_after,
        } => {
            let cause = about(wish, Cause::new("Unavailable", message));
            deed.away = Some((cause.message.clone(), retry_after));
            Progress::Pending(cause)
        }
        WriteError::Invalid(message) => Progress::Failed {
            cause: about(wish, Cause::new("Invalid", message)),
            invalid: true,
        },
        WriteError::Forbidden(message) => failed(Cause::new("Forbidden", message), wish),
        WriteError::Refused(message) => failed(Cause::new("Conflict", message), wish),
        WriteError::NoSuchKind(message) => failed(Cause::new("NoSuchKind", message), wish),
        WriteError::NotFound => failed(Cause::new("NotFound", "its namespace is not there"), wish),
        WriteError::Conflict => failed(Cause::new("Conflict", "it was changed meanwhile"), wish),
    }
}
