//! How many objects of a mapping stand how, kept as passes end: nothing is ever counted through.

use std::collections::BTreeMap;

use crate::outcome::Outcome;

/// Objects by their last outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<Outcome, u64>);

impl Tally {
    /// An object went from one outcome to another; none: it was not, or is no more, the mapping's.
    pub fn moved(&mut self, from: Option<Outcome>, to: Option<Outcome>) {
        if let Some(from) = from
            && let Some(count) = self.0.get_mut(&from)
        {
            *count = count.saturating_sub(1);
        }
        if let Some(to) = to {
            *self.0.entry(to).or_default() += 1;
        }
    }

    /// Objects that had a pass.
    pub fn known(&self) -> u64 {
        self.0.values().sum()
    }

    /// Objects that are tried again by themselves.
    pub fn retrying(&self) -> u64 {
        self.of(Outcome::Retrying) + self.of(Outcome::PluginFailed)
    }

    /// Objects that are left alone until something changes.
    pub fn stalled(&self) -> u64 {
        self.of(Outcome::Stalled) + self.of(Outcome::Denied)
    }

    fn of(&self, outcome: Outcome) -> u64 {
        self.0.get(&outcome).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_counted_where_it_stands_and_nowhere_else() {
        let mut tally = Tally::default();
        let path = [
            None,
            Some(Outcome::Applied),
            Some(Outcome::PluginFailed),
            Some(Outcome::Retrying),
            Some(Outcome::Stalled),
            Some(Outcome::Denied),
            None,
        ];
        let seen: Vec<_> = path
            .windows(2)
            .map(|step| {
                tally.moved(step[0], step[1]);
                (tally.known(), tally.retrying(), tally.stalled())
            })
            .collect();
        let wanted = [
            (1, 0, 0),
            (1, 1, 0),
            (1, 1, 0),
            (1, 0, 1),
            (1, 0, 1),
            (0, 0, 0),
        ];
        assert_eq!(seen, wanted);
    }
}
