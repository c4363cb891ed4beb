//! Carrying out what a decision says of children, wave by wave: look, put on record, apply, delete, prune.
//!
//! A [`Deed`] is a decision on its way. It is advanced until nothing of it can be done in this pass; each turn asks for one
//! batch of requests that are independent of each other. One effect that fails does not stop those that do not come after it.

use std::collections::BTreeSet;

use super::{
    ChildWrite, Finale, Found, Pass, Stage, Step, StepAction, Verb, WriteError,
    inventory::{Place, new_record, place, reference},
    removals::Next,
};
use crate::{
    children::{self, Wish},
    contract::{Cause, Json, ObjectRef, OnDelete, OnImmutable, Ownership},
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
            return self.put_finalizer();
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
        let (parent_uid, version) = (self.uid(), &mapping.kind.api_version);
        let body = children::body(wish, &self.parent(&parent_uid), version, namespace, uid)
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
                    // To make what was asked for is no sign of a plugin that never settles.
                    let first = self.journal.inventory[at].asked.is_empty();
                    self.note_applied(at, &wish, object);
                    self.writes += 1;
                    self.child_writes += u32::from(!first);
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
}

/// A cause that names its child.
pub(super) fn about(wish: &Wish, cause: Cause) -> Cause {
    let message = format!(
        "the child {} {} (effect `{}`): {}",
        wish.kind.kind, wish.name, wish.effect, cause.message
    );
    Cause::new(cause.reason, message)
}

pub(super) fn failed(cause: Cause, wish: &Wish) -> Progress {
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
pub(super) fn refused(deed: &mut Deed, wish: &Wish, error: WriteError) -> Progress {
    match error {
        WriteError::Unavailable {
            message,
            retry_after,
        } => {
            let cause = about(wish, Cause::new("Unavailable", message));
            deed.away = Some((cause.message.clone(), retry_after));
            Progress::Pending(cause)
        }
        // A policy's 422 is a no of people, who may take it back.
        WriteError::Invalid(message) if is_admission(&message) => {
            failed(Cause::new("Forbidden", message), wish)
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

/// Whether admission said no: policies and webhooks may do so with 422 too (apiserver `plugin/policy/validating`, webhook
/// `errors.ToStatusErr`).
pub(super) fn is_admission(message: &str) -> bool {
    message.contains(" denied request") || message.contains(" denied the request")
}
