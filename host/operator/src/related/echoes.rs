//! What each key knows already, since it wrote or read it at the server itself: the watch's word on it is no news.
//!
//! An echo is told by its version and only to the key that knows it: what one mapping writes is news to another that reads
//! it. In memory and bounded; what is forgotten costs one pass without a call.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use guesthouse_core::{contract::Kind, object::ObjectKey, queue::Key};

/// Objects remembered in each of the two halves.
const HALF: usize = 20_000;
/// Versions remembered of one object.
const VERSIONS: usize = 8;

/// An object as one key knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    key: Key,
    group: Box<str>,
    kind: Box<str>,
    object: ObjectKey,
}

/// Versions by key and object, the newest last.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    young: HashMap<Known, VecDeque<u64>>,
    old: HashMap<Known, VecDeque<u64>>,
}

impl Known {
    fn new(key: &Key, kind: &Kind, object: &ObjectKey) -> Self {
        Self {
            key: key.clone(),
            group: kind.group().into(),
            kind: kind.kind.as_str().into(),
            object: object.clone(),
        }
    }
}

impl Echoes {
    /// The key knows this version of the object.
    pub(super) fn knows(&mut self, key: &Key, kind: &Kind, object: &ObjectKey, version: u64) {
        if version == 0 {
            return;
        }
        let known = Known::new(key, kind, object);
        let mut versions = self.young.remove(&known).unwrap_or_default();
        versions.extend(self.old.remove(&known).unwrap_or_default());
        versions.push_back(version);
        versions.make_contiguous().sort_unstable();
        while versions.len() > VERSIONS {
            versions.pop_front();
        }
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(known, versions);
    }

    /// Whether the key knows this very version.
    pub(super) fn is_echo(&self, key: &Key, kind: &Kind, object: &ObjectKey, version: u64) -> bool {
        version != 0
            && self
                .of(key, kind, object)
                .is_some_and(|versions| versions.contains(&version))
    }

    /// The newest version the key knows.
    pub(super) fn newest(&self, key: &Key, kind: &Kind, object: &ObjectKey) -> Option<u64> {
        self.of(key, kind, object)?.back().copied()
    }

    fn of(&self, key: &Key, kind: &Kind, object: &ObjectKey) -> Option<&VecDeque<u64>> {
        let known = Known::new(key, kind, object);
        self.young.get(&known).or_else(|| self.old.get(&known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_core::queue::MappingId;

    fn key(mapping: u32) -> Key {
        Key {
            mapping: MappingId(mapping),
            object: ObjectKey::new("ns", "parent"),
        }
    }

    fn kind(version: &str) -> Kind {
        Kind {
            api_version: format!("g/{version}"),
            kind: "K".into(),
        }
    }

    #[test]
    fn an_echo_is_one_to_the_key_that_wrote_it_and_in_the_version_it_got_back() {
        let mut echoes = Echoes::default();
        let child = ObjectKey::new("ns", "child");
        echoes.knows(&key(1), &kind("v1"), &child, 7);
        echoes.knows(&key(1), &kind("v1"), &child, 9);
        echoes.knows(&key(1), &kind("v1"), &child, 0);
        for (of, version, want) in [
            (1, 7, true),
            (1, 9, true),
            (1, 8, false),
            (1, 10, false),
            (1, 0, false),
            (2, 9, false),
        ] {
            assert_eq!(
                echoes.is_echo(&key(of), &kind("v1"), &child, version),
                want,
                "{of} {version}"
            );
        }
        assert!(
            echoes.is_echo(&key(1), &kind("v2"), &child, 9),
            "the version of the API does not matter"
        );
        assert!(!echoes.is_echo(&key(1), &kind("v1"), &ObjectKey::new("other", "child"), 9));
        assert_eq!(echoes.newest(&key(1), &kind("v1"), &child), Some(9));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_youngest_stays() {
        let mut echoes = Echoes::default();
        let child = |at: usize| ObjectKey::new("ns", &at.to_string());
        for at in 0..3 * HALF {
            echoes.knows(&key(1), &kind("v1"), &child(at), 1);
        }
        assert!(echoes.young.len() + echoes.old.len() <= 2 * HALF);
        assert!(echoes.is_echo(&key(1), &kind("v1"), &child(2 * HALF), 1));
        for version in 1..100 {
            echoes.knows(&key(1), &kind("v1"), &child(0), version);
        }
        assert!(echoes.of(&key(1), &kind("v1"), &child(0)).unwrap().len() <= VERSIONS);
    }
}
