//! What the queue is told and what it says.

use crate::{object::ObjectKey, time::Time};

/// Which mapping; a number the shell gives, since names are long and compared often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(pub u32);

/// One object under one mapping.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The mapping.
    pub mapping: MappingId,
    /// The object.
    pub object: ObjectKey,
}

/// Why a key is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Something the pass sees changed.
    Event,
    /// The object was there when the watch began.
    Initial,
    /// Everything is looked at again from time to time.
    Resync,
    /// Another plugin or mapping.
    Swap,
    /// The time a pass asked for, or a backoff, has come.
    Wake,
}

impl Why {
    /// Whether the pass must call the plugin whatever the memo says.
    pub fn is_forced(self) -> bool {
        matches!(self, Why::Resync | Why::Wake)
    }

    pub(super) fn is_background(self) -> bool {
        matches!(self, Why::Initial | Why::Resync | Why::Swap)
    }

    /// Whether it says that the object may have changed: only then can it be an echo, and only then does backoff hold it.
    pub(super) fn is_about_the_object(self) -> bool {
        matches!(self, Why::Event | Why::Initial)
    }
}

/// A request to pass a key.
#[derive(Clone, Copy, Debug)]
pub struct Push {
    /// Why.
    pub why: Why,
    /// Version of the object that brought it, where there is one: lets an echo be told from news.
    pub version: Option<u64>,
    /// Higher goes first.
    pub priority: i64,
    /// Not before this.
    pub not_before: Option<Time>,
}

/// A key that shall be passed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which.
    pub key: Key,
    /// Whether the memo does not count.
    pub forced: bool,
    /// Since when it could have run.
    pub ready_since: Time,
}

/// How a pass left its key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finish {
    /// Version of the object that the pass knew last.
    pub version: Option<u64>,
    /// Once more, at once.
    pub again: bool,
    /// Once more, at the latest then.
    pub wake: Option<Time>,
    /// The wake is a backoff.
    pub backoff: bool,
}

/// How many keys of a mapping are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// May run now.
    pub ready: usize,
    /// Wait for a time.
    pub scheduled: usize,
    /// Run.
    pub running: usize,
}
