//! Children: objects that a plugin asks for by `apply`.
//!
//! What is decided about a child is decided here, from text alone: whether the wish has the right shape ([`check_apply`]),
//! what is sent ([`body`]), whose an object is that is there already ([`standing`], [`claim`]), whether it must be written
//! again ([`drifted`]), how far it is ([`ready`]) and in which order children come and go ([`next_applies`],
//! [`next_removals`]). The pass takes its steps from that, a driver makes the requests.
//!
//! Guarantees: what the plugin wrote reaches the server with its values untouched; nothing is written to or deleted from an
//! object of somebody else; an owner reference is only written where the garbage collector honours it.

mod body;
mod check;
mod fingerprint;
mod immutable;
mod members;
mod ready;
mod seen;
mod standing;
mod waves;

pub use body::{
    body, field_manager, owner_mark, parent_text, reference_is_legal, released_body, unmark_patch,
};
pub use check::{check_apply, check_wishes};
pub(crate) use check::{check_kind_names, is_object_name};
pub use fingerprint::{drifted, fingerprint};
pub use immutable::is_immutable;
pub use ready::ready;
pub use seen::child;
pub use standing::{claim, standing};
pub use waves::{next_applies, next_removals};

use crate::{
    contract::{ChildState, Generated, Json, Kind, Mode, OnDelete, OnImmutable, Ownership},
    object::{ObjectKey, Uid},
};

/// Label of a child with [`owner_mark`].
pub const OWNER_LABEL: &str = "guesthouse.dev/owner";
/// Annotation of a child with its parent in readable form: `mapping group/kind namespace/name`.
pub const PARENT_ANNOTATION: &str = "guesthouse.dev/parent";

/// One `apply` that passed its check.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// Id of the effect.
    pub effect: String,
    /// Effects it comes after.
    pub after: Vec<String>,
    /// Its kind.
    pub kind: Kind,
    /// Its namespace as written; none: the parent's, or none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The object as asked for.
    pub object: Json,
    /// Whose it is.
    pub ownership: Ownership,
    /// Kept or made once.
    pub mode: Mode,
    /// When a field cannot be changed.
    pub on_immutable: OnImmutable,
    /// When the parent is deleted.
    pub on_delete: OnDelete,
    /// Values the driver makes.
    pub generate: Vec<Generated>,
    /// Hash of all that is asked for: object, ownership, deletion policy, generated keys.
    pub asked: String,
}

/// Whose children they are.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// The mapping.
    pub mapping: &'a str,
    /// Kind of the reconciled object.
    pub kind: &'a Kind,
    /// The reconciled object.
    pub key: &'a ObjectKey,
    /// Its uid.
    pub uid: &'a Uid,
}

impl Parent<'_> {
    /// The namespace an object of unsaid namespace lies in: the parent's.
    fn namespace_of<'s>(&'s self, namespace: Option<&'s str>) -> &'s str {
        namespace.unwrap_or(self.key.namespace())
    }

    /// Whether these words name the reconciled object itself; the version of a kind does not count.
    pub fn is(&self, kind: &Kind, namespace: Option<&str>, name: &str) -> bool {
        kind.same(self.kind)
            && name == self.key.name()
            && self.namespace_of(namespace) == self.key.namespace()
    }
}

/// How an object that was found stands to its would-be parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not there.
    Absent,
    /// Carries our mark, and is the one on record or none is.
    Ours,
    /// Nobody's: no mark and no controller.
    Free,
    /// Somebody else's, in words.
    Foreign(String),
    /// Being deleted, and nobody else's.
    Terminating,
}

/// How far a child is, as `kubectl wait` and Flux would say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// How far.
    pub state: ChildState,
    /// Why it is not current; else empty.
    pub message: String,
}
