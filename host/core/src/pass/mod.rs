//! One pass of one object, as a state machine without I/O.
//!
//! A pass is a value: given what happened so far it names the next [`Step`] and takes what the driver tells of it. The operator
//! carries the steps out on a cluster, `guesthouse render` prints them, tests drive them by hand and stop after any of them:
//! one logic, several drivers. The order of the steps is the order of the guarantees:
//!
//! `gate → finalizer on → gather → (call → check → gather | send → journal)* → look → journal the inventory → apply → delete →
//! journal → labels → status → finalizer off → journal how it ended → events → end`
//!
//! - What will need cleaning up is on record before it is made: the finalizer before the first effect, a child before its
//!   first apply.
//! - A child is written only when it differs from what was asked for, pruned only after a complete decision whose applies all
//!   succeeded, and deleted only under the uid of what is on record as ours.
//! - A failed pass is counted in the journal before anybody sees it. That an object is settled or given up is journaled last:
//!   a crash before it costs a call that says the same again, a crash after it finds everything done, so a journal that says
//!   `stalled` is enough to leave the object alone.
//! - A receipt is journaled before anything is built on it; an at-most-once intent before its request.
//! - The whole decision is checked before any write; one bad part, and nothing is done.
//! - Status is the acknowledgement: it is written last, once, and only when it differs.
//! - Every step is total: told something it did not ask for, a pass ends `cluster-failed` and is begun again.

mod breaker;
mod children;
mod contact;
mod ending;
mod finale;
mod finalizer;
mod gate;
mod inventory;
mod machine;
mod observe;
mod reading;
mod recovery;
mod removals;
mod sends;
mod step;
mod teardown;

use std::{collections::BTreeSet, sync::Arc};

pub use ending::short_digest;
pub use finalizer::removal_patch;
pub use gate::{PAUSED, RECONCILE};
pub use step::*;

pub use crate::contract::Verb;

use children::Deed;

use crate::{
    contract::{Answer, Condition, Event, Json, Need, Status},
    identity::Identity,
    journal::{Journal, ReceiptRecord, Subject},
    keys::Hash,
    mapping::CheckedMapping,
    object::{Head, ObjectKey, Uid},
    outcome::Outcome,
    plan::Send,
    schema::StatusSchema,
    time::Time,
};

/// What is the same for all passes of a mapping at one plugin version. A pass holds one of these from its first to its last
/// call, so a swap never shows inside it.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The mapping.
    pub mapping: Arc<CheckedMapping>,
    /// Digest of the plugin's bytes.
    pub digest: String,
    /// What is known of the kind.
    pub kind: KindFacts,
    /// What is known of the plugin.
    pub plugin: PluginFacts,
}

/// What the rules need to know of a plugin.
#[derive(Clone, Debug, Default)]
pub struct PluginFacts {
    /// Whether deletion passes through it.
    pub finalizes: bool,
    /// What every pass reads.
    pub needs: Vec<Need>,
    /// Why there is none that could be called. Then only deletion is seen to, as the mapping's `onBroken` says.
    pub broken: Option<String>,
}

/// What the rules need to know of a kind.
#[derive(Clone, Debug)]
pub struct KindFacts {
    /// Whether the plugin may write its status, or why not.
    pub takes_status: Result<(), String>,
    /// Schema of the status.
    pub schema: StatusSchema,
    /// Changes when the kind was recreated or its schema changed.
    pub fingerprint: String,
}

/// A journal as it stands in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredJournal {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it says.
    pub journal: Journal,
}

/// What a pass starts from.
#[derive(Clone, Debug)]
pub struct Begin {
    /// Which object.
    pub key: ObjectKey,
    /// The object; none if it is not there.
    pub object: Option<Json>,
    /// The journals on record for this key and mapping, of whatever uid.
    pub journals: Vec<StoredJournal>,
    /// What the last pass handed on.
    pub carry: Carry,
    /// Resync, wake or reconcile-now: the memo does not count.
    pub forced: bool,
}

/// One pass.
#[derive(Debug)]
pub struct Pass {
    terms: Arc<Terms>,
    key: ObjectKey,
    began: Time,
    forced: bool,
    carry: Carry,
    object: Option<Object>,
    journal: Journal,
    journal_version: Option<String>,
    /// What stands in the cluster, to tell whether the journal must be written.
    journaled: Option<Journal>,
    /// Journals of objects that had this name before.
    left: Vec<StoredJournal>,
    stage: Stage,
    verb: Verb,
    /// The object left the selector; it is not being deleted.
    exit: bool,
    /// The plugin has no say any more: children and finalizer go.
    let_go: bool,
    /// Token of the annotation that asks for a pass, if it is a new one.
    token: Option<String>,
    /// What was read beside the object, by need.
    known: Vec<(Need, Answer)>,
    /// Answers of the next gathering that are about children whose record was lost.
    recovering: usize,
    /// What was found of the children on record, in the inventory's order.
    found: Vec<Found>,
    /// Children were changed since the plugin saw them.
    changed_children: bool,
    /// What every pass reads was read.
    has_read: bool,
    round: u32,
    tried: BTreeSet<(String, Option<String>)>,
    new_receipt: bool,
    conflicts: u32,
    /// The server refused a write of this pass; what it said is written instead, once.
    refused: bool,
    /// The object was changed by others since the plugin saw it, and read again.
    unseen: bool,
    calls: u32,
    writes: u32,
    /// Of those, the ones that gave the object a new version.
    object_writes: u32,
    /// Of those, the ones to children.
    child_writes: u32,
    /// The trouble that was on record when the pass began: telling it again would be noise.
    told: Option<(Outcome, String)>,
    /// The journal has receipts that do not stand in the cluster.
    has_unfiled: bool,
    dropped: Vec<String>,
}

/// The object as this pass knows it.
#[derive(Clone, Debug)]
struct Object {
    raw: Json,
    uid: Uid,
    version: String,
    /// Of the version the plugin saw; a newer one does not move it.
    generation: i64,
    finalizers: Vec<String>,
}

impl Object {
    fn parse(raw: Json) -> Result<Self, crate::object::ObjectError> {
        let head = Head::parse(raw.as_str())?;
        let (uid, version) = (Uid::new(&head.uid), head.resource_version.to_string());
        let generation = head.generation;
        let finalizers = head.finalizers.iter().map(ToString::to_string).collect();
        Ok(Self {
            uid,
            version,
            generation,
            finalizers,
            raw,
        })
    }
}

/// What the pass waits to be told.
#[derive(Clone, Debug)]
enum Stage {
    /// Whether the object is really gone.
    Sweeping,
    /// That the journal at the head of `left` is gone.
    Dropping,
    /// The plugin's reply.
    Calling,
    /// That the intents are journaled.
    Intending(Vec<Send>),
    /// The answers.
    Sending(Vec<Send>),
    /// That the receipts are journaled.
    Filing,
    /// That the receipts of an earlier pass are journaled.
    Refiling,
    /// That the finalizer is on record.
    Marking,
    /// That the finalizer is on the object.
    Putting,
    /// What stands beside the object; then the gate goes on, or the next round does.
    Gathering(Vec<Need>),
    /// What the server says of children that were never answered for.
    Looking(Box<Deed>),
    /// That the inventory stands.
    Listing(Box<Deed>),
    /// That children were applied.
    Applying(Box<Deed>, Vec<usize>),
    /// What the server says of children that are to go and that no store shows.
    Finding(Box<Deed>, Vec<crate::contract::ObjectRef>),
    /// That children were deleted or let go.
    Removing(Box<Deed>, Vec<Removal>),
    /// That the finalizer is off the object.
    Releasing(Box<Finale>),
    /// The object after a conflict over the finalizer.
    RereadingFinalizer(Box<Finale>),
    /// That the object itself is deleted.
    DeletingSelf(Box<Finale>),
    /// That the journal stands.
    Recording(Box<Finale>),
    /// That labels and annotations stand.
    Patching(Box<Finale>),
    /// That the status stands.
    Writing(Box<Finale>),
    /// The object after a conflict.
    Rereading(Box<Finale>),
    /// That the journal says how it ended.
    Closing(Box<Finale>),
    /// That Events were told.
    Telling(Box<End>),
    /// Nothing more.
    Ended,
}

impl Stage {
    /// Whether a write of this object's own journal is what it waits for.
    fn waits_for_journal(&self) -> bool {
        matches!(
            self,
            Stage::Marking
                | Stage::Refiling
                | Stage::Intending(_)
                | Stage::Filing
                | Stage::Listing(_)
                | Stage::Recording(_)
                | Stage::Closing(_)
        )
    }
}

/// How the pass is to end: what the last reply leads to.
#[derive(Clone, Debug)]
struct Finale {
    outcome: Outcome,
    cause: Option<crate::contract::Cause>,
    /// The deadline of a backoff.
    retry_at: Option<Time>,
    /// The wake the plugin asked for.
    wake: Option<Time>,
    /// A decision was carried out: the failures before it no longer count.
    handled: bool,
    labels: std::collections::BTreeMap<String, Option<String>>,
    annotations: std::collections::BTreeMap<String, Option<String>>,
    status: Option<Status>,
    conditions: Vec<Condition>,
    events: Vec<Event>,
    /// Whether this trouble is new, to be told as an Event.
    new_trouble: bool,
    /// What comes after the status.
    then: Then,
}

/// What comes after the status, as the last request about the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    /// Our finalizer is taken off.
    Release,
    /// The object is deleted, as its plugin asked.
    DeleteSelf,
}

impl Pass {
    /// A pass and its first step.
    pub fn start(terms: Arc<Terms>, begin: Begin, now: Time) -> (Self, Step) {
        let mut pass = Self::blank(terms, begin.key, begin.carry, now);
        pass.forced = begin.forced;
        match begin.object.map(Object::parse).transpose() {
            Ok(object) => pass.object = object,
            Err(error) => {
                let step =
                    pass.cluster_failed(&format!("the object cannot be read: {error}"), None, now);
                return (pass, step);
            }
        }
        let uid = pass.uid();
        pass.journal.object.uid = uid.as_str().to_owned();
        for stored in begin.journals {
            if stored.journal.object.uid == uid.as_str() {
                pass.told = Some((stored.journal.outcome, stored.journal.message.clone()));
                pass.journal = stored.journal.clone();
                pass.journaled = Some(stored.journal);
                pass.journal_version = Some(stored.version);
            } else {
                pass.left.push(stored);
            }
        }
        pass.journal.lose_intents();
        pass.take_unfiled();
        let step = pass.gate(now);
        (pass, step)
    }

    /// Takes what the driver tells of the last step; names the next one.
    pub fn resume(&mut self, told: Told, now: Time) -> Step {
        self.advance(told, now)
    }

    /// The generation that the plugin sees.
    pub fn generation(&self) -> i64 {
        self.object.as_ref().map_or(0, |object| object.generation)
    }

    fn blank(terms: Arc<Terms>, key: ObjectKey, carry: Carry, now: Time) -> Self {
        let subject = Subject::new(
            &terms.mapping.kind,
            key.namespace(),
            key.name(),
            &Uid::new(""),
        );
        Self {
            journal: Journal::new(subject, &terms.mapping.name),
            journal_version: None,
            journaled: None,
            terms,
            key,
            began: now,
            forced: false,
            carry,
            object: None,
            left: Vec::new(),
            stage: Stage::Ended,
            verb: Verb::Reconcile,
            exit: false,
            let_go: false,
            token: None,
            known: Vec::new(),
            recovering: 0,
            found: Vec::new(),
            changed_children: false,
            has_read: false,
            round: 0,
            tried: BTreeSet::new(),
            new_receipt: false,
            conflicts: 0,
            refused: false,
            unseen: false,
            calls: 0,
            writes: 0,
            object_writes: 0,
            child_writes: 0,
            told: None,
            has_unfiled: false,
            dropped: Vec::new(),
        }
    }

    /// What an earlier pass was told and could not journal. What is final on record stays.
    fn take_unfiled(&mut self) {
        let unfiled = self.carry.unfiled.take();
        let Some(unfiled) = unfiled.filter(|unfiled| unfiled.uid == self.journal.object.uid) else {
            return;
        };
        for record in unfiled.receipts {
            let known = self.journal.receipt(&record.effect, record.key.as_deref());
            let journaled = self.journaled.as_ref();
            let settled = journaled.and_then(|j| j.receipt(&record.effect, record.key.as_deref()));
            let final_there = settled.is_some_and(ReceiptRecord::is_final);
            if !final_there && known != Some(&record) {
                self.journal.file(record);
                self.has_unfiled = true;
            }
        }
    }

    /// Uid of the object; empty where there is none.
    fn uid(&self) -> Uid {
        let object = self.object.as_ref();
        object.map_or_else(|| Uid::new(""), |object| object.uid.clone())
    }

    fn as_host(&self, action: StepAction) -> Step {
        Step {
            identity: Identity::Host,
            action,
        }
    }

    fn as_account(&self, action: StepAction) -> Step {
        Step {
            identity: Identity::Account(self.terms.mapping.account.clone()),
            action,
        }
    }

    /// Another plugin, mapping or generation: what was given up is taken up again.
    fn basis(&self) -> String {
        // A kind without generations has only its version to tell a new wish by.
        let unnumbered = self
            .object
            .as_ref()
            .filter(|object| object.generation == 0)
            .map(|object| object.version.as_str());
        // Cleaning up is another matter than what was given up before it, also where the generation is the same.
        let ending = (self.verb == Verb::Finalize).then_some("finalize");
        let hash = ending.map_or(Hash::of("retry"), |verb| Hash::of("retry").part(verb));
        hash.part(self.generation().to_le_bytes())
            .maybe(unnumbered)
            .part(&self.terms.digest)
            .part(&self.terms.mapping.basis)
            .hex()
    }

    /// Everything a decision depends on but the time. An empty set of receipts is no receipt record at all.
    fn covers(&self) -> u64 {
        let version = self.object.as_ref().map_or("", |object| &object.version);
        let receipts = Json::of(&self.journal.receipts).unwrap_or_else(|_| Json::empty_object());
        Hash::of("memo")
            .part(&self.terms.digest)
            .part(&self.terms.mapping.basis)
            .part(&self.terms.kind.fingerprint)
            .part([u8::from(self.releases_broken())])
            .part(version)
            .part(receipts.as_str())
            .part(self.covers_reads().to_le_bytes())
            .number()
    }
}

#[cfg(test)]
mod tests;
