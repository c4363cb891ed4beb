//! What a pass asks of its driver, and what it is told.

use serde::Serialize;
use serde_json::Value;

use crate::{
    contract::{
        Answer, Cause, EventType, Generated, Json, Kind, Need, ObjectRef, Observation, Reply,
        Response, Verb,
    },
    identity::Identity,
    journal::{Journal, ReceiptRecord},
    needs::Reading,
    outcome::Outcome,
    plan::{MetaPatch, Send},
    refusal::Refusal,
    time::Time,
    units::Span,
};

/// The next thing to do, and as whom.
#[derive(Clone, Debug)]
pub struct Step {
    /// Whose credentials it is made with.
    pub identity: Identity,
    /// What it is.
    pub action: StepAction,
}

/// What a driver can be asked to do.
#[derive(Clone, Debug)]
pub enum StepAction {
    /// GET the object from the server. Told by [`Told::Object`].
    Read,
    /// Read what stands beside the object, from what is watched; whatever is not watched yet is watched from now on. Told by
    /// [`Told::Gathered`].
    Gather(Box<Gather>),
    /// GET objects from the server, as it stands now: the first contact with children. Told by [`Told::Looked`].
    Look(Vec<ObjectRef>),
    /// Call the plugin. Told by [`Told::Reply`].
    Call(Verb, Box<Observation>),
    /// Create (no version) or replace the journal. Told by [`Told::Journaled`].
    Journal(Box<JournalWrite>),
    /// Delete a journal whose object is no more. Told by [`Told::Journaled`].
    DropJournal {
        /// Its name.
        name: String,
        /// The version read; another one stays.
        version: String,
    },
    /// Send requests that are independent of each other. Told by [`Told::Sent`], one result each, in order.
    Send(Vec<Send>),
    /// Server-side apply of children that are independent of each other. Told by [`Told::Applied`].
    Apply(Vec<ChildWrite>),
    /// Delete children or let them go, each only under its uid. Told by [`Told::Removed`].
    Remove(Vec<Removal>),
    /// Put our finalizer on the object or take it off, by JSON patch. Told by [`Told::Written`].
    Finalizer(FinalizerWrite),
    /// Delete the object itself, as its plugin asked. Told by [`Told::Removed`], with one result.
    DeleteSelf {
        /// Only the one of this uid.
        uid: String,
    },
    /// Merge-patch labels and annotations, at the version named. Told by [`Told::Written`].
    Patch(ObjectWrite<MetaPatch>),
    /// PUT the status, at the uid and version named. Told by [`Told::Written`].
    Status(ObjectWrite<Value>),
    /// Tell Events about the object; nothing depends on it. Told by [`Told::Done`].
    Tell(Vec<Note>),
    /// The pass is over.
    End(Box<End>),
}

impl StepAction {
    /// A name for logs and traces.
    pub fn name(&self) -> &'static str {
        match self {
            StepAction::Read => "read",
            StepAction::Gather(_) => "gather",
            StepAction::Look(_) => "look",
            StepAction::Call(..) => "call",
            StepAction::Journal(_) => "journal",
            StepAction::DropJournal { .. } => "drop-journal",
            StepAction::Send(_) => "send",
            StepAction::Apply(_) => "apply",
            StepAction::Remove(_) => "remove",
            StepAction::Finalizer(_) => "finalizer",
            StepAction::DeleteSelf { .. } => "delete-self",
            StepAction::Patch(_) => "patch",
            StepAction::Status(_) => "status",
            StepAction::Tell(_) => "tell",
            StepAction::End(_) => "end",
        }
    }
}

/// A journal to write.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalWrite {
    /// Its name in the host's namespace.
    pub name: String,
    /// The version it replaces; none creates it.
    pub version: Option<String>,
    /// What it shall say.
    pub journal: Journal,
}

/// A write to the reconciled object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectWrite<T> {
    /// Only the object of this uid.
    pub uid: String,
    /// Only at this version.
    pub version: String,
    /// What to write.
    pub body: T,
}

/// What to read beside the object. Both lists are answered in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gather {
    /// What the plugin needs.
    pub readings: Vec<Reading>,
    /// Children on record.
    pub children: Vec<ChildRef>,
}

/// A child to read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it carries our owner mark: then one watch over all marked objects of the kind serves it.
    pub marked: bool,
}

/// What was read, as it is in the stores: it may lag behind the server, never behind the host's own writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// One answer for each reading.
    pub answers: Vec<Answer>,
    /// One for each child.
    pub children: Vec<Found>,
}

/// What was found of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The object, without managedFields.
    Object(Json),
    /// It is not there.
    Absent,
    /// There is no answer: `Denied`, `NoSuchKind`, `Failed`.
    Unknown(Cause),
}

/// What the server says of an object at the first contact.
#[derive(Clone, Debug, PartialEq)]
pub struct Looked {
    /// Whether its kind lives in namespaces.
    pub namespaced: bool,
    /// The object; none if it is not there.
    pub object: Option<Json>,
}

/// A child to apply.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildWrite {
    /// Id of the effect.
    pub effect: String,
    /// Which object; the namespace is resolved.
    pub object: ObjectRef,
    /// The whole body: what the plugin asked for with our mark, owner reference and uid.
    pub body: Json,
    /// Field manager.
    pub manager: String,
    /// Take fields over from other managers.
    pub force: bool,
    /// Values of a Secret that the driver makes where the key is not there yet, and keeps where it is. Never shown.
    pub generate: Vec<Generated>,
}

/// A child to delete or to let go.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// Id of the effect that asked for it.
    pub effect: String,
    /// Which object.
    pub object: ObjectRef,
    /// Only the one of this uid.
    pub uid: String,
    /// How it goes.
    pub way: Way,
}

/// How a child goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// It is deleted, with what it owns.
    Delete,
    /// It stays, without our mark: this merge patch takes it off.
    Unmark(Value),
    /// It was never ours: an apply of this body lets our fields go.
    LetGo {
        /// Identity alone.
        body: Json,
        /// Field manager.
        manager: String,
    },
}

/// A JSON patch of `metadata.finalizers`.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalizerWrite {
    /// The finalizer.
    pub name: String,
    /// Put on, or taken off.
    pub put: bool,
    /// The patch; its tests hold it to the object and the list that were read.
    pub patch: Value,
}

/// An Event about the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// Normal or warning.
    #[serde(rename = "type")]
    pub type_: EventType,
    /// CamelCase.
    pub reason: String,
    /// At most 1,024 bytes.
    pub note: String,
}

/// What the driver tells of the step it was asked for.
#[derive(Clone, Debug)]
pub enum Told {
    /// The object as the server has it; none if it is not there.
    Object(Result<Option<Json>, WriteError>),
    /// What the plugin said, or why it was refused.
    Reply(Result<Reply, Refusal>),
    /// The journal's new version.
    Journaled(Result<String, WriteError>),
    /// One result for each request.
    Sent(Vec<Sent>),
    /// The whole object as the server wrote it.
    Written(Result<Json, WriteError>),
    /// What stands beside the object.
    Gathered(Gathered),
    /// One result for each object looked for.
    Looked(Vec<Result<Looked, WriteError>>),
    /// One result for each child: the whole object as the server wrote it.
    Applied(Vec<Result<Json, WriteError>>),
    /// One result for each object: whether it is gone, or still there on its way out.
    Removed(Vec<Result<bool, WriteError>>),
    /// Nothing to say.
    Done,
}

impl Told {
    /// A name for messages: what is told may be a whole object, which belongs into none.
    pub fn name(&self) -> &'static str {
        match self {
            Told::Object(_) => "object",
            Told::Reply(_) => "reply",
            Told::Journaled(_) => "journaled",
            Told::Sent(_) => "sent",
            Told::Written(_) => "written",
            Told::Gathered(_) => "gathered",
            Told::Looked(_) => "looked",
            Told::Applied(_) => "applied",
            Told::Removed(_) => "removed",
            Told::Done => "done",
        }
    }
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// An answer was read to its end, whatever its code.
    Answered {
        /// The answer, already cut by the grant.
        response: Response,
        /// Its `Retry-After`.
        retry_after: Option<Span>,
    },
    /// No complete answer. `Unreachable` or `Timeout`.
    Lost(Cause),
    /// Refused before a byte was sent: it has not happened.
    NotSent(Cause),
}

/// Why a read or a write did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// 409: the version is not the current one, or it exists already.
    Conflict,
    /// 404: the object is not there.
    NotFound,
    /// 422 or 400: the server will not have it.
    Invalid(String),
    /// 409 to a server-side apply: another manager holds a field, or the object is another one.
    Refused(String),
    /// The API server serves no such kind.
    NoSuchKind(String),
    /// 401 or 403, also of quota, policy and webhooks.
    Forbidden(String),
    /// 429, 5xx, unreachable.
    Unavailable {
        /// What happened.
        message: String,
        /// The server's `Retry-After`.
        retry_after: Option<Span>,
    },
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WriteError::Conflict => "it was changed meanwhile",
            WriteError::NotFound => "it is not there",
            WriteError::Invalid(message)
            | WriteError::Refused(message)
            | WriteError::NoSuchKind(message)
            | WriteError::Forbidden(message)
            | WriteError::Unavailable { message, .. } => message,
        })
    }
}

/// How a pass ended, and what its key is queued for.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Why, where there is something to say.
    pub cause: Option<Cause>,
    /// The next pass at the latest.
    pub wake: Option<Time>,
    /// The wake is a backoff: early events are held to one in `retry.base`.
    pub backoff: bool,
    /// Again at once.
    pub again: bool,
    /// Version of the object the pass knows of: older events bring nothing new.
    pub version: Option<u64>,
    /// To be handed to the next pass of this key.
    pub carry: Carry,
    /// Calls that were made.
    pub calls: u32,
    /// Writes that were made.
    pub writes: u32,
    /// Status fields that the schema does not know.
    pub dropped: Vec<String>,
    /// What the key wants to be woken by from now on; none: as before.
    pub reads: Option<Gather>,
}

/// What one pass hands to the next one of its key. In memory only: losing it costs calls and reads, never correctness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carry {
    /// What a settled pass covered, and when it wants to be woken.
    pub memo: Option<Memo>,
    /// The last outcome.
    pub last: Option<Outcome>,
    /// Passes in a row that were discarded for a newer generation.
    pub discarded: u32,
    /// Passes in a row that ended cluster-failed.
    pub cluster_failures: u32,
    /// What became of sends whose journal could not be written: journaled before anything else, so that an API server that is
    /// away does not make the host send again what was answered.
    pub unfiled: Option<Unfiled>,
    /// What the last settled decision needed beside the descriptor's needs: read before the first call.
    pub needs: Vec<Need>,
    /// Own writes of late, for the breaker.
    pub pace: Pace,
}

/// Own writes for one object of late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The generation they were for.
    pub generation: i64,
    /// When; the oldest first, no more than the breaker counts.
    pub writes: std::collections::VecDeque<Time>,
    /// Stopped: the next probe.
    pub probe: Option<Time>,
}

/// Receipts that are not journaled yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfiled {
    /// Uid of the object they are about.
    pub uid: String,
    /// The receipts.
    pub receipts: Vec<ReceiptRecord>,
}

/// What a settled pass covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memo {
    /// Hash of everything the decision depends on.
    pub covers: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The wake it asked for.
    pub wake: Option<Time>,
}
