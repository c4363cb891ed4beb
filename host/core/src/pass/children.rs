//! Carrying out what a decision says of children, wave by wave: look, put on record, apply, delete, prune.
//!
//! A [`Deed`] is a decision on its way. It is advanced until nothing of it can be done in this pass; each turn asks for one
//! batch of requests that are independent of each other. One effect that fails does not stop those that do not come after it.

use std::collections::BTreeSet;

use super::{
    ChildWrite, Finale, Found, Looked, Pass, Removal, Stage, Step, StepAction, Verb, Way,
    WriteError,
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
    tried: BTreeSet<Place>,
    /// Why removals did not succeed, or are not over yet.
    pub(super) removals: Vec<Progress>,
    /// The API server did not answer to one of the requests.
    away: Option<(String, Option<Span>)>,
}

/// Which object: group, kind, namespace, name.
type Place = (String, String, String, String);

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
        let removals = self.next_removals(&mut deed);
        if !removals.is_empty() {
            let step = self.as_account(StepAction::Remove(removals.clone()));
            self.stage = Stage::Removing(Box::new(deed), removals);
            return step;
        }
        self.deed_done(deed, now)
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
            let progress = match result {
                Ok(looked) => self.contacted(&wish, looked),
                Err(error) => refused(&mut deed, &wish, error),
            };
            if matches!(progress, Progress::Failed { .. } | Progress::Denied(_)) {
                self.note_trouble(&wish, &progress);
            }
            deed.standing[index] = progress;
        }
        self.advance_deed(deed, now)
    }

    /// First contact: what was found decides whether it may be made, taken over or left alone.
    fn contacted(&mut self, wish: &Wish, looked: Looked) -> Progress {
        if looked.namespaced && looked.namespace.is_empty() {
            let why = "it lives in a namespace, and the reconciled object has none to inherit; name one in metadata.namespace";
            return Progress::Failed {
                cause: about(wish, Cause::new("NamespaceMissing", why)),
                invalid: true,
            };
        }
        let at = self.record_of(wish);
        let record = at.map(|at| self.journal.inventory[at].clone());
        let progress = self.judge(
            wish,
            record.as_ref(),
            &looked.namespace,
            looked.object.as_ref(),
        );
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
            return Progress::Done;
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
            if self.record_of(wish).is_none() {
                self.insert_record(new_record(wish, namespace), Found::Absent);
                new = true;
            }
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
                Err(WriteError::Invalid(message))
                    if wish.on_immutable == OnImmutable::Recreate
                        && children::is_immutable(&message)
                        && self.journal.inventory[at].uid.is_some() =>
                {
                    recreate.push(self.removal(at));
                    let why = "a field of it cannot be changed; it is deleted and made again";
                    Progress::Pending(about(&wish, Cause::new("Recreating", why)))
                }
                Err(error) => refused(&mut deed, &wish, error),
            };
            self.note_trouble(&wish, &progress);
            deed.standing[*index] = progress;
        }
        if recreate.is_empty() || deed.away.is_some() {
            return self.advance_deed(deed, now);
        }
        let step = self.as_account(StepAction::Remove(recreate.clone()));
        self.stage = Stage::Removing(Box::new(deed), recreate);
        step
    }

    /// Deletions that can be made now: those the plugin asks for, then what is not wished for any more.
    fn next_removals(&mut self, deed: &mut Deed) -> Vec<Removal> {
        let mut removals = Vec::new();
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
            let meant = deletion.uid.is_none() || deletion.uid == record.uid;
            if meant && record.uid.is_some() && deed.tried.insert(place(record)) {
                removals.push(self.removal(at));
            }
        }
        if removals.is_empty() {
            removals = self.next_doomed(deed);
        }
        removals
    }

    /// What goes because nobody wishes for it, those first that nothing doomed came after: deletion in reverse.
    fn next_doomed(&mut self, deed: &mut Deed) -> Vec<Removal> {
        let all_applied = deed.standing.iter().all(|p| *p == Progress::Done);
        if !(deed.teardown || deed.complete && all_applied) {
            return Vec::new();
        }
        let doomed: Vec<ChildRecord> = self
            .journal
            .inventory
            .iter()
            .filter(|record| self.is_doomed(record, deed))
            .cloned()
            .collect();
        let mut removals = Vec::new();
        for record in children::next_removals(&doomed) {
            let Some(at) = self.position(record) else {
                continue;
            };
            if !deed.tried.insert(place(record)) {
                continue;
            }
            if record.uid.is_none() && !matches!(self.found[at], Found::Object(_)) {
                // Never answered for, and not there: it was never made, or is not ours to know of.
                self.remove_record(at);
                continue;
            }
            removals.push(self.removal(at));
        }
        removals
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

    /// Whether children were made in an order, so that they go in reverse.
    fn in_waves(&self) -> bool {
        let inventory = &self.journal.inventory;
        inventory.iter().any(|record| {
            record
                .after
                .iter()
                .any(|id| inventory.iter().any(|other| other.effect == *id))
        })
    }

    /// Whether children of this deed will need a pass of their own when the object is deleted.
    fn wants_finalizer(&self, deed: &Deed) -> bool {
        let outside =
            |namespace: &str| !children::reference_is_legal(self.key.namespace(), namespace);
        let wishes = &deed.checked.wishes;
        let child_ids: BTreeSet<&str> = wishes.iter().map(|wish| wish.effect.as_str()).collect();
        let needs = |index: usize| {
            let wish = &wishes[index];
            let ordered = wish.after.iter().any(|id| child_ids.contains(id.as_str()));
            let beyond = match &deed.standing[index] {
                Progress::Apply { namespace, .. } => outside(namespace),
                Progress::Done => {
                    let record = self.record_of(wish);
                    record.is_some_and(|at| outside(&self.journal.inventory[at].namespace))
                }
                _ => false,
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
            let what = format!("{} {}", removal.object.kind.kind, removal.object.name);
            match result {
                // Gone; or another one has its name, which is not ours.
                Ok(true)
                | Err(WriteError::NotFound | WriteError::Conflict | WriteError::Refused(_)) => {
                    self.gone(&mut deed, at);
                }
                Ok(false) => {
                    self.writes += 1;
                    self.child_writes += 1;
                    let why = format!("the child {what} is being deleted");
                    deed.removals
                        .push(Progress::Pending(Cause::new("DependencyNotReady", why)));
                }
                Err(WriteError::Unavailable {
                    message,
                    retry_after,
                }) => {
                    deed.away = Some((format!("deleting the child {what}: {message}"), retry_after))
                }
                Err(
                    WriteError::Invalid(message)
                    | WriteError::Forbidden(message)
                    | WriteError::NoSuchKind(message),
                ) => {
                    let why = format!("the child {what} cannot be deleted: {message}");
                    let cause = Cause::new("Forbidden", why);
                    self.journal.inventory[at].error = Some(cause.clone());
                    deed.removals.push(Progress::Failed {
                        cause,
                        invalid: false,
                    });
                }
            }
        }
        self.advance_deed(deed, now)
    }

    /// A child that is gone leaves the record; one that is wished for is made anew.
    fn gone(&mut self, deed: &mut Deed, at: usize) {
        self.writes += 1;
        self.child_writes += 1;
        self.changed_children = true;
        let wished = deed
            .checked
            .wishes
            .iter()
            .position(|wish| self.is_place_of(wish, &self.journal.inventory[at]))
            .filter(|index| matches!(deed.standing[*index], Progress::Pending(_)));
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
    fn removal(&self, at: usize) -> Removal {
        let record = &self.journal.inventory[at];
        let found_uid = match &self.found[at] {
            Found::Object(object) => uid_of(object),
            Found::Absent | Found::Unknown(_) => None,
        };
        let uid = record.uid.clone().or(found_uid).unwrap_or_default();
        let leaving = self.verb == Verb::Finalize;
        let way = match (record.ownership, record.on_delete) {
            (Ownership::Fields, _) => Way::LetGo {
                body: children::released_body(record),
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

    fn note_applied(&mut self, at: usize, wish: &Wish, object: Json) {
        let head_uid = uid_of(&object);
        let seen = children::fingerprint(object.as_str(), &wish.object).unwrap_or_default();
        let record = &mut self.journal.inventory[at];
        record.uid = head_uid;
        record.asked.clone_from(&wish.asked);
        record.seen = seen;
        record.error = None;
        record.effect.clone_from(&wish.effect);
        record.after.clone_from(&wish.after);
        (record.ownership, record.mode, record.on_delete) =
            (wish.ownership, wish.mode, wish.on_delete);
        self.found[at] = Found::Object(object);
    }

    /// Trouble stands on record, to be shown to the next call; one that never got a record gets one for it.
    fn note_trouble(&mut self, wish: &Wish, progress: &Progress) {
        let cause = match progress {
            Progress::Failed { cause, .. } | Progress::Denied(cause) | Progress::Pending(cause) => {
                cause
            }
            _ => return,
        };
        let at = match self.record_of(wish) {
            Some(at) => at,
            None => {
                let namespace = wish.namespace.as_deref().unwrap_or(self.key.namespace());
                let record = new_record(wish, namespace);
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

    fn remove_record(&mut self, at: usize) {
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

    fn is_place_of(&self, wish: &Wish, record: &ChildRecord) -> bool {
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

    fn position(&self, record: &ChildRecord) -> Option<usize> {
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

fn same_kind(a: &Kind, b: &Kind) -> bool {
    a.group() == b.group() && a.kind == b.kind
}

fn place(record: &ChildRecord) -> Place {
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

fn uid_of(object: &Json) -> Option<String> {
    let head = Head::parse(object.as_str()).ok()?;
    Some(head.uid.to_string())
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
