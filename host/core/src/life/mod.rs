//! The life of a plugin under a mapping: which version serves, how a new one takes over, how the last one comes back, and
//! what the read-only kind `mappings.guesthouse.dev` says of it.
//!
//! Everything here is a value that is told facts and says what is to be done. What it guarantees:
//! - A version that was refused or returned from does not serve until the source brings another one, the mapping changes, or
//!   somebody approves it by its digest ([`choose`]).
//! - While a new version is tried, held or refused, the one before serves on.
//! - What serves is on record with its digest, so a restart and another replica begin from it and not from whatever the source
//!   holds at that moment.
//! - A settled mapping is not written ([`MappingStatus::is_news`]).

mod choice;
mod differences;
mod history;
mod probation;
mod rehearsal;
mod status;
mod tally;

pub use choice::{Choice, Doubt, Facts, Missing, choose};
pub use differences::{Change, changes, said};
pub use history::{History, MOST_PAST, Past};
pub use probation::Probation;
pub use rehearsal::{Answer, Comparison, Rehearsal, Verdict, compare};
pub use status::{
    Counts, LastGood, MappingStatus, Newest, RehearsalReport, ServedKind, Serves, State,
    StatusCondition,
};
pub use tally::Tally;

/// Prefix of the annotation of a mapping's ConfigMap that pins a version: `pin.guesthouse.dev/<mapping>: sha256:…`.
pub const PIN: &str = "pin.guesthouse.dev/";
/// Prefix of the annotation of a mapping's ConfigMap that lets a version in whatever its rehearsal said:
/// `approve.guesthouse.dev/<mapping>: sha256:…`.
pub const APPROVE: &str = "approve.guesthouse.dev/";

/// What people wrote beside a mapping about its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The version that shall serve, whatever the source brings.
    pub pin: Option<String>,
    /// The version that may serve, whatever its rehearsal said.
    pub approve: Option<String>,
}

/// Whether a digest is meant by what somebody wrote: all of it, or as many of its digits as tables show at least.
pub fn is_meant(digest: &str, written: &str) -> bool {
    written.len() >= SHORT && digest.starts_with(written)
}

/// `sha256:` and twelve digits, as tables show them.
const SHORT: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_meant_by_all_of_it_or_by_what_tables_show_and_by_nothing_shorter() {
        let digest = "sha256:0123456789abcdef";
        assert!(is_meant(digest, digest));
        assert!(is_meant(digest, crate::pass::short_digest(digest)));
        assert!(!is_meant(digest, "sha256:0123456789a"));
        assert!(!is_meant(digest, "sha256:0123456789ac"));
        assert!(!is_meant(digest, ""));
    }
}
