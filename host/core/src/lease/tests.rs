//! The rules one by one, and all of them together in a simulated world.

mod rules;
mod world;

use super::*;
use crate::units::Span;

/// What the tests use: a short Lease, so that much happens in little time.
const SETTINGS: Settings = Settings::of(Span::from_secs(15));

fn holder(name: &str) -> Holder {
    Holder {
        name: name.to_owned(),
        instance: "1".to_owned(),
    }
}

fn names(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("m{number}")).collect()
}
