//! Rules about who passed what, when.

use crate::report::{History, Passing};
use std::collections::BTreeMap;

/// Under one term passes of a key follow each other, on one replica; and none of an older term begins after one of a newer.
///
/// Passes of a replica that was frozen end late, and those of one that was killed never do: both under a term that is over.
pub(super) fn passes_of_a_key_do_not_overlap(history: &History) -> Vec<String> {
    let mut passes: Vec<&Passing> = history.passes.iter().collect();
    passes.sort();
    let mut newest: BTreeMap<(&str, &str), &Passing> = BTreeMap::new();
    // Of the newest term of each key: the pass that runs.
    let mut open: BTreeMap<(&str, &str), &Passing> = BTreeMap::new();
    let mut findings = Vec::new();
    for passing in passes {
        let key = (passing.mapping.as_str(), passing.object.as_str());
        let of_newest = newest.get(&key).is_some_and(|n| n.term == passing.term);
        if passing.ends {
            if of_newest && open.remove(&key).is_none() {
                findings.push(format!("a pass ended that had not begun: {passing:?}"));
            }
            continue;
        }
        if let Some(before) = newest.get(&key) {
            if before.term > passing.term {
                findings.push(format!(
                    "an older term began a pass: {passing:?} after {before:?}"
                ));
                continue;
            }
            if of_newest && before.replica != passing.replica {
                findings.push(format!(
                    "one term on two replicas: {passing:?} after {before:?}"
                ));
            }
        }
        if let Some(other) = open.insert(key, passing).filter(|_| of_newest) {
            findings.push(format!(
                "two passes at once: {passing:?} while {other:?} ran"
            ));
        }
        newest.insert(key, passing);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(passes: &[(bool, u64, &str)]) -> usize {
        let passing = |(at, (ends, term, replica)): (usize, &(bool, u64, &str))| Passing {
            at: format!("{at:03}"),
            ends: *ends,
            mapping: "m".to_owned(),
            object: "o".to_owned(),
            term: *term,
            replica: (*replica).to_owned(),
        };
        let history = History {
            passes: passes.iter().enumerate().map(passing).collect(),
            ..History::default()
        };
        passes_of_a_key_do_not_overlap(&history).len()
    }

    #[test]
    fn passes_overlap_within_a_term_and_terms_do_not_come_back() {
        let (begin, end) = (false, true);
        let follows = [
            (begin, 1, "a"),
            (end, 1, "a"),
            (begin, 1, "a"),
            (end, 1, "a"),
        ];
        assert_eq!(judged(&follows), 0);
        // Killed, or frozen and thawed: the next term begins meanwhile.
        let killed = [(begin, 1, "a"), (begin, 2, "b"), (end, 2, "b")];
        assert_eq!(judged(&killed), 0);
        let frozen = [
            (begin, 1, "a"),
            (begin, 2, "b"),
            (end, 1, "a"),
            (end, 2, "b"),
        ];
        assert_eq!(judged(&frozen), 0);
        assert_eq!(judged(&[(begin, 1, "a"), (begin, 1, "a")]), 1);
        assert_eq!(
            judged(&[(begin, 1, "a"), (end, 1, "a"), (begin, 1, "b")]),
            1
        );
        assert_eq!(
            judged(&[(begin, 2, "b"), (end, 2, "b"), (begin, 1, "a")]),
            1
        );
        assert_eq!(judged(&[(begin, 1, "a"), (end, 1, "a"), (end, 1, "a")]), 1);
    }
}
