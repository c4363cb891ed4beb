//! A child as the plugin sees it.

use super::ready::ready;
use crate::{
    contract::{Cause, Child, ChildState, Ownership},
    journal::ChildRecord,
    object::Stamp,
    pass::Found,
};

/// A child on record for the observation. Only the object on record counts: another one under its name is not the child.
pub fn child(record: &ChildRecord, found: &Found) -> Child {
    let mut error = record.error.clone();
    let (state, message) = match found {
        Found::Absent => (ChildState::Absent, String::new()),
        Found::Unknown(cause) => {
            // No answer is not "absent": a plugin that saw the child before must not take it for gone.
            let state = match record.uid {
                Some(_) => ChildState::InProgress,
                None => ChildState::Absent,
            };
            error.get_or_insert_with(|| cause.clone());
            (state, cause.message.clone())
        }
        Found::Object(object) => match Stamp::parse(object.as_str()) {
            Ok(stamp) if is_recorded(record, &stamp.uid) => match ready(object.as_str()) {
                Ok(readiness) => (readiness.state, readiness.message),
                Err(wrong) => (ChildState::InProgress, wrong.to_string()),
            },
            Ok(_) => (ChildState::Absent, "another object has its name".to_owned()),
            Err(wrong) => {
                error.get_or_insert_with(|| Cause::new("Unreadable", wrong.to_string()));
                (ChildState::InProgress, wrong.to_string())
            }
        },
    };
    Child {
        effect: record.effect.clone(),
        object: record.reference(),
        uid: record.uid.clone(),
        state,
        message,
        error,
    }
}

fn is_recorded(record: &ChildRecord, uid: &str) -> bool {
    match &record.uid {
        Some(recorded) => recorded == uid,
        None => record.ownership == Ownership::Fields,
    }
}
