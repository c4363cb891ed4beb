//! Children: objects that a plugin asks for by `apply`.

use crate::{
    contract::{
        Apply, ChildState, Effect, Generated, Json, Kind, Mode, OnDelete, OnImmutable, Ownership,
    },
    journal::ChildRecord,
    object::{ObjectError, ObjectKey, Uid},
    plan::Rejection,
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
    /// Being deleted.
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
