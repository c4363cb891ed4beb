//! In which order children come and go.

use super::Wish;
use crate::journal::ChildRecord;

/// The wishes whose turn it is: all effects they come after are done (a child is current, a request is answered below 400).
/// Whether one of them needs to be written, or was already, is not asked here.
pub fn next_applies(wishes: &[Wish], is_done: impl Fn(&str) -> bool) -> Vec<&Wish> {
    wishes
        .iter()
        .filter(|wish| wish.after.iter().all(|id| is_done(id)))
        .collect()
}

/// The doomed records whose turn it is: none of the others comes after them. Not empty unless `doomed` is: within one
/// decision `after` has no circle, but records may stem from several, and then all of them go at once.
pub fn next_removals(doomed: &[ChildRecord]) -> Vec<&ChildRecord> {
    let is_free = |record: &&ChildRecord| {
        !doomed
            .iter()
            .any(|other| other.effect != record.effect && other.after.contains(&record.effect))
    };
    let free: Vec<_> = doomed.iter().filter(is_free).collect();
    if free.is_empty() {
        return doomed.iter().collect();
    }
    free
}
