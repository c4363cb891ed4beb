//! Whether a child is still as it was left.
//!
//! An apply that changes nothing still costs a request, and one that looks different each time never ends: servers default,
//! drop and convert what is sent (JOSDK#2290, kubernetes#124605). So nothing that was asked for is compared with what is
//! there; remembered is the hash of what was asked for, and a fingerprint of what the server answered to it.

use super::{OWNER_LABEL, PARENT_ANNOTATION, Wish, members::Members, standing::owners};
use crate::{
    contract::{Json, Mode},
    journal::ChildRecord,
    keys::Hash,
    object::{Head, ObjectError},
};

/// What changes when somebody changes what we `asked` for: uid; labels and annotations, as far as they are ours; owner
/// references; and the generation, or where the kind counts none, everything but metadata and status (their version would
/// move with the status of a Pod, and with every renewal of a lock in an annotation). A Secret's values do not go into a
/// hash that is kept, not even so: there it is the version.
///
/// Labels and annotations that we did not ask for do not count: a Deployment's controller writes
/// `deployment.kubernetes.io/revision` on it.
pub fn fingerprint(object: &str, asked: &Json) -> Result<String, ObjectError> {
    let head = Head::parse(object)?;
    let wish = Head::parse(asked.as_str())?;
    let mut hash = Hash::of("fingerprint").part(&*head.uid);
    for (found, wished, ours) in [
        (&head.labels, &wish.labels, OWNER_LABEL),
        (&head.annotations, &wish.annotations, PARENT_ANNOTATION),
    ] {
        let keys = wished.keys().map(|key| &**key).chain([ours]);
        hash = keys.fold(hash, |hash, key| {
            hash.part(key).maybe(found.get(key).map(|value| &**value))
        });
    }
    let mut references: Vec<_> = owners(head.owner_references)?
        .into_iter()
        .map(|owner| (owner.uid, owner.controller == Some(true)))
        .collect();
    references.sort();
    hash = hash.part(references.len().to_le_bytes());
    for (uid, controller) in &references {
        hash = hash.part(&**uid).part([u8::from(*controller)]);
    }
    if head.generation > 0 {
        return Ok(hash
            .part("generation")
            .part(head.generation.to_le_bytes())
            .hex());
    }
    if wish.api_version == "v1" && wish.kind == "Secret" {
        return Ok(hash.part("version").part(&*head.resource_version).hex());
    }
    content(hash.part("content"), object).map(Hash::hex)
}

fn content(hash: Hash, object: &str) -> Result<Hash, ObjectError> {
    // In lists and watches of built-in kinds, apiVersion and kind may be missing.
    let skipped = ["apiVersion", "kind", "metadata", "status"];
    Ok(Members::parse(object)?
        .iter()
        .filter(|(name, _)| !skipped.contains(name))
        .fold(hash, |hash, (name, text)| hash.part(name).part(text)))
}

/// Whether a wish must be applied: it is another one, was never applied, or what is there is not what was left. With
/// `mode: once` never after the first time. What cannot be read is applied: the server knows better.
pub fn drifted(record: &ChildRecord, wish: &Wish, found: &str) -> bool {
    let applied = !record.asked.is_empty() && !record.seen.is_empty();
    if wish.mode == Mode::Once && applied {
        return false;
    }
    !applied
        || record.asked != wish.asked
        || fingerprint(found, &wish.object).map_or(true, |seen| seen != record.seen)
}
