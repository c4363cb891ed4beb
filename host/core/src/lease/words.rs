//! What the leases are told and what they say.

use std::fmt;

use crate::units::Span;

/// Milliseconds on a clock of this machine that never jumps and runs on while the machine sleeps (`CLOCK_BOOTTIME`). Means
/// nothing to another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(pub u64);

impl Boot {
    /// Later than everything.
    pub const NEVER: Boot = Boot(u64::MAX);

    /// This much later.
    #[must_use]
    pub fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This much earlier.
    #[must_use]
    pub fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// How long until `later`; nothing if that has passed.
    pub fn until(self, later: Boot) -> Span {
        Span(later.0.saturating_sub(self.0))
    }
}

/// A replica's name: what its Lease is named by, and a letter of its own for this one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// Unique among the replicas that run at the same time.
    pub name: String,
    /// Another one for every process, so that a successor of the same name is told from its predecessor.
    pub instance: String,
}

impl Holder {
    /// Reads what [`fmt::Display`] wrote. Text without an instance is a holder all the same: somebody else's.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, instance) = text.rsplit_once('_').unwrap_or((text, ""));
        (!text.is_empty()).then(|| Self {
            name: name.to_owned(),
            instance: instance.to_owned(),
        })
    }
}

/// `name_instance`: names cannot hold an underscore.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.name, self.instance)
    }
}

/// Which Lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseOf {
    /// That of the replica with this name.
    Replica(String),
    /// The claim to the mapping with this name.
    Claim(String),
}

/// Which state of which object: a write names it, and is refused where the object has moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The uid.
    pub uid: String,
    /// The resource version.
    pub version: String,
}

/// What a Lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which one it is.
    pub of: LeaseOf,
    /// Who has it; none: it was given up, or taken from one who let it run out.
    pub holder: Option<Holder>,
    /// `leaseTransitions`: grows with every hand-over.
    pub term: u64,
    /// The replica takes nothing more.
    pub leaving: bool,
    /// How long a replica's Lease lasts after a renewal. Of a claim: nothing.
    pub duration: Span,
}

/// A Lease as it stands in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The state that was read.
    pub base: Base,
    /// What it says.
    pub record: Record,
}

/// What shall be asked of the API server. Each is answered once, by [`super::Leases::told`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names the answer.
    pub id: u64,
    /// What shall be done.
    pub action: Action,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// GET, from the most recent state.
    Read(LeaseOf),
    /// Create it (no base), or replace that state of it and no other.
    Write(Option<Base>, Record),
    /// Delete that state of it and no other.
    Delete(LeaseOf, Base),
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done: the Lease as it stands now, none if it is not there.
    Done(Option<Stored>),
    /// Another state than the one named, or it exists already: nothing was done.
    Conflict,
    /// 401 or 403, with the server's words: nothing was done.
    Forbidden(String),
    /// No answer, or one that says nothing: it may have been done.
    Lost(String),
}

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What a renewal is good for, from before it was sent. Whole seconds.
    pub duration: Span,
    /// How often it is renewed.
    pub renew: Span,
    /// How long before its end effects stop. Makes room for clocks that do not run alike, and for what is on its way.
    pub margin: Span,
    /// When a request without an answer is given up: well before the end of what it shall renew.
    pub timeout: Span,
    /// When a request that failed is made again.
    pub retry: Span,
    /// Mappings that may be on their way to another replica at once; more where there are very many.
    pub moves: usize,
}

impl Settings {
    /// The usual proportions: renewed three times within its duration, effects stop a fifth before its end.
    pub const fn of(duration: Span) -> Self {
        Self {
            duration,
            renew: Span(duration.0 / 3),
            margin: Span(duration.0 / 5),
            timeout: Span(duration.0 / 5 * 2),
            retry: Span(duration.0 / 10),
            moves: 4,
        }
    }
}

/// A claim this replica has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The claim's term. The same mapping under another term is another hold of it.
    pub term: u64,
    /// When it was first seen that nobody else had it: what the last owner wrote was written before.
    pub free_since: Boot,
    /// No new passes; [`super::Leases::drained`] is awaited.
    pub draining: bool,
}

/// How this replica stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has no Lease yet, or not any more, and contends for it. With the last trouble.
    Contending(String),
    /// It may not have one, with the server's words.
    Forbidden(String),
    /// It has its Lease.
    Holding,
    /// It gives up what it has.
    Leaving,
    /// It has nothing any more.
    Left,
}
