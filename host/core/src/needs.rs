//! What a plugin needs to read beside its object: checked against the grants, resolved to what the shell reads and watches.

use crate::{
    contract::{Answer, Cause, Kind, Need, View},
    grants::Grants,
    object::ObjectKey,
    plan::Send,
};

/// One thing to read, granted and with its namespaces resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The need's name.
    pub name: String,
    /// What to read.
    pub source: ReadSource,
    /// How much of each object.
    pub view: View,
    /// At most this many objects.
    pub limit: u32,
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadSource {
    /// One object by name.
    Object {
        /// Its kind.
        kind: Kind,
        /// Its namespace; empty: none, or the object has none to inherit.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Objects of a kind by label.
    Selected {
        /// Their kind.
        kind: Kind,
        /// Where.
        namespaces: Namespaces,
        /// A selector as after `kubectl get -l`, checked.
        labels: String,
    },
    /// A GET or HEAD, read again when older than `fresh` seconds.
    Fetch {
        /// The request.
        send: Box<Send>,
        /// How old an answer may be, seconds.
        fresh: u32,
    },
}

/// Where objects are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All, or a cluster-scoped kind.
    All,
    /// Only these.
    These(Vec<String>),
}

/// A need as it is read, or the answer it has without being read (not granted, not valid).
pub fn resolve(
    need: &Need,
    grants: &Grants,
    object: &ObjectKey,
    owner_mark: &str,
) -> Result<Reading, Answer> {
    let _ = (need, grants, object, owner_mark);
    Err(Answer::Unavailable(Cause::new("Denied", "not granted")))
}
