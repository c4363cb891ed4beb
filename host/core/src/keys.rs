//! Names and keys made by hashing: idempotency keys, journal names, memos.
//!
//! All are BLAKE3 over length-prefixed parts, never over joined strings: `("ab", "c")` and `("a", "bc")` differ. What is
//! hashed for one purpose starts with that purpose's name, so no key can be mistaken for one of another kind.

use crate::{
    contract::{Http, Kind},
    object::Uid,
};

/// Hashes parts in order.
pub struct Hash(blake3::Hasher);

impl Hash {
    /// A hash for one purpose.
    pub fn of(purpose: &str) -> Self {
        Self(blake3::Hasher::new()).part(purpose)
    }

    /// Adds one part.
    #[must_use]
    pub fn part(mut self, part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref();
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// Adds a part that may be absent; absent differs from empty.
    #[must_use]
    pub fn maybe(self, part: Option<&str>) -> Self {
        match part {
            Some(part) => self.part([1]).part(part),
            None => self.part([0]),
        }
    }

    /// 40 hexadecimal digits: a valid object name, label value and header value.
    pub fn hex(self) -> String {
        self.0.finalize().to_hex()[..40].to_owned()
    }

    /// 64 bits, for memos and jitter.
    pub fn number(self) -> u64 {
        let mut bytes = [0; 8];
        self.0.finalize_xof().fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Name of the journal of one object under one mapping. Group and kind identify, the version does not.
pub fn journal_name(mapping: &str, kind: &Kind, uid: &Uid) -> String {
    Hash::of("journal")
        .part(mapping)
        .part(kind.group())
        .part(&kind.kind)
        .part(uid.as_str())
        .hex()
}

/// The idempotency key of an http effect: stable over retries, restarts, swaps and renamed mappings, so it holds neither
/// mapping nor generation, digest or attempt.
pub fn idempotency_key(uid: &Uid, effect: &str, key: Option<&str>) -> String {
    Hash::of("idempotency")
        .part(uid.as_str())
        .part(effect)
        .maybe(key)
        .hex()
}

/// What makes one request another: the same id and key with another fingerprint is an error of the plugin.
pub fn request_fingerprint(http: &Http) -> String {
    let request = &http.request;
    let mut hash = Hash::of("request").part(&request.method).part(&request.url);
    for (name, value) in &request.headers {
        hash = hash.part(name.to_ascii_lowercase()).part(value);
    }
    hash.part([request.headers.len() as u8])
        .part(request.body.as_bytes())
        .maybe(request.credential.as_deref())
        .maybe(http.literal_key.as_deref())
        .hex()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_length_prefixed_and_absent_is_not_empty() {
        assert_ne!(
            Hash::of("t").part("ab").part("c").hex(),
            Hash::of("t").part("a").part("bc").hex()
        );
        assert_ne!(
            Hash::of("t").maybe(None).hex(),
            Hash::of("t").maybe(Some("")).hex()
        );
    }

    #[test]
    fn a_journals_name_does_not_depend_on_the_version_of_its_kind() {
        let kind = |v: &str| Kind {
            api_version: format!("batch.acme.io/{v}"),
            kind: "ReportJob".into(),
        };
        let uid = Uid::new("u");
        assert_eq!(
            journal_name("m", &kind("v1"), &uid),
            journal_name("m", &kind("v2"), &uid)
        );
        assert_ne!(
            journal_name("m", &kind("v1"), &uid),
            journal_name("n", &kind("v1"), &uid)
        );
    }

    #[test]
    fn the_idempotency_key_is_pinned_since_a_changed_one_would_send_everything_again() {
        assert_eq!(
            idempotency_key(&Uid::new("u"), "export", None),
            "b59eb1b3bf35f579b7635a4aa5891eb143791cb2"
        );
    }
}
