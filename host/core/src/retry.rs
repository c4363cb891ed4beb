//! Backoff: base, twice that, four times … up to a cap, ± 10 % by a hash.
//!
//! The jitter is a hash of the object and the attempt and not a draw: the same history has the same delays, on every replica
//! and after every restart.

use crate::{keys::Hash, object::Uid, units::Span};

/// Delay before attempt `attempt + 1`, after `attempt` (≥ 1) failed ones.
pub fn delay(base: Span, max: Span, attempt: u32, uid: &Uid, purpose: &str) -> Span {
    let doubled = base.0.saturating_mul(
        1u64.checked_shl(attempt.saturating_sub(1))
            .unwrap_or(u64::MAX),
    );
    jittered(Span(doubled.min(max.0)), attempt, uid, purpose)
}

/// `span` ± 10 %.
fn jittered(span: Span, attempt: u32, uid: &Uid, purpose: &str) -> Span {
    let hash = Hash::of("jitter")
        .part(purpose)
        .part(uid.as_str())
        .part(attempt.to_le_bytes())
        .number();
    // Per mille from 900 to 1100.
    let share = u128::from(900 + hash % 201);
    Span(u64::try_from(u128::from(span.0) * share / 1000).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delays_double_from_the_base_within_ten_per_cent_and_are_always_the_same() {
        let (base, max) = (Span::from_secs(1), Span::from_secs(300));
        for (attempt, seconds) in [
            (1, 1),
            (2, 2),
            (3, 4),
            (4, 8),
            (5, 16),
            (9, 256),
            (10, 300),
            (64, 300),
            (u32::MAX, 300),
        ] {
            let uid = Uid::new("a");
            let found = delay(base, max, attempt, &uid, "send");
            assert!(
                (seconds * 900..=seconds * 1100).contains(&found.0),
                "attempt {attempt}: {found}"
            );
            assert_eq!(found, delay(base, max, attempt, &uid, "send"));
        }
    }

    proptest! {
        #[test]
        fn a_delay_is_never_zero_nor_more_than_ten_per_cent_over_the_cap(attempt in 1u32.., base in 10u64..10_000, uid in "[a-z]{1,8}") {
            let found = delay(Span(base), Span(60_000), attempt, &Uid::new(&uid), "retry");
            prop_assert!(found.0 > 0 && found.0 <= 66_000);
        }
    }
}
