//! Whose an object is that is there already.
//!
//! Ours is what carries our mark. Labels are copied, though: the server's own controllers put those of a Service on its
//! EndpointSlices, people copy manifests. So an object with another controller is never ours, whatever its labels say.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{OWNER_LABEL, PARENT_ANNOTATION, Standing, Wish};
use crate::{
    contract::{Cause, Json, Ownership},
    journal::ChildRecord,
    object::{Head, ObjectError, Uid},
};

/// One entry of `metadata.ownerReferences`.
#[derive(Deserialize)]
pub(super) struct Owner<'a> {
    #[serde(borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) uid: Cow<'a, str>,
    #[serde(default)]
    pub(super) controller: Option<bool>,
}

/// The entries of `metadata.ownerReferences`.
pub(super) fn owners<'a>(list: Option<&'a RawValue>) -> Result<Vec<Owner<'a>>, ObjectError> {
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    serde_json::from_str::<Option<Vec<Owner<'a>>>>(list.get())
        .map(Option::unwrap_or_default)
        .map_err(|error| ObjectError::Unreadable(format!("ownerReferences: {error}")))
}

/// How what was `found` stands to its would-be parent, whose children carry `mark` and name it as `parent`. Only the server's
/// own word on the object counts, so a lost journal changes nothing: with our mark and the parent's name it is ours, also under
/// another uid than the record's (it was deleted, and made again by a pass whose journal was lost). The label alone is not
/// enough: labels are copied.
pub fn standing(
    found: Option<&Json>,
    mark: &str,
    parent: &str,
    uid_of_parent: &Uid,
) -> Result<Standing, ObjectError> {
    let Some(found) = found else {
        return Ok(Standing::Absent);
    };
    let head = Head::parse(found.as_str())?;
    let owners = owners(head.owner_references)?;
    let controller = owners
        .iter()
        .find(|owner| owner.controller == Some(true) && owner.uid != uid_of_parent.as_str());
    if let Some(owner) = controller {
        return Ok(Standing::Foreign(format!(
            "controlled by {} {}",
            owner.kind, owner.name
        )));
    }
    let found_mark = head.labels.get(OWNER_LABEL).map(|mark| &**mark);
    Ok(match found_mark {
        Some(other) if other != mark => {
            let parent = head.annotations.get(PARENT_ANNOTATION);
            Standing::Foreign(parent.map_or_else(
                || format!("marked {OWNER_LABEL}={other}"),
                |parent| format!("a child of {parent}"),
            ))
        }
        _ if head.is_deleting() => Standing::Terminating,
        Some(_)
            if head
                .annotations
                .get(PARENT_ANNOTATION)
                .is_some_and(|name| name == parent) =>
        {
            Standing::Ours
        }
        _ => Standing::Free,
    })
}

/// Whether a wish may be applied to what was found, else why not: `NotOwned`, `Terminating`, `NotFound`. An object on record
/// that only lost its mark gets it back: the journal is the host's own and names its uid.
pub fn claim(
    standing: &Standing,
    wish: &Wish,
    record: Option<&ChildRecord>,
    found_uid: &str,
) -> Result<(), Cause> {
    let whose = format!("{} {}", wish.kind, wish.name);
    let fields = wish.ownership == Ownership::Fields;
    match standing {
        Standing::Absent if fields => Err(Cause::new(
            "NotFound",
            format!("{whose} is not there, and `ownership: fields` makes none"),
        )),
        Standing::Terminating => Err(Cause::new(
            "Terminating",
            format!("{whose} is being deleted; it is made again when it is gone"),
        )),
        _ if fields => Ok(()),
        Standing::Absent | Standing::Ours => Ok(()),
        Standing::Foreign(by) => Err(Cause::new(
            "NotOwned",
            format!(
                "{whose} is there already and {by}; take another name, or ask for parts of it with `ownership: fields`"
            ),
        )),
        Standing::Free if wish.ownership == Ownership::Adopt => Ok(()),
        Standing::Free => {
            let recorded = record.and_then(|record| record.uid.as_deref());
            if recorded.is_some_and(|uid| uid == found_uid) {
                return Ok(());
            }
            Err(Cause::new(
                "NotOwned",
                format!(
                    "{whose} is there already and was not made by this object; take another name, or take it over with `ownership: adopt`"
                ),
            ))
        }
    }
}
