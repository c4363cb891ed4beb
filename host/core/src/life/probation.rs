//! The time after a swap in which the version before may come back by itself.

use crate::{mapping::ReturnAfter, outcome::Outcome, time::Time};

/// Passes of a version since it took over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probation {
    /// The version.
    pub digest: String,
    since: Time,
    passes: u32,
    failures: u32,
}

impl Probation {
    /// Begins with the swap.
    pub fn begin(digest: &str, now: Time) -> Self {
        Self {
            digest: digest.to_owned(),
            since: now,
            passes: 0,
            failures: 0,
        }
    }

    /// Whether it is over: the version has stood it.
    pub fn is_over(&self, bound: &ReturnAfter, now: Time) -> bool {
        self.since.after(bound.within) <= now
    }

    /// A pass that called the plugin of this digest ended; why the version before is to come back, if it is.
    pub fn ended(&mut self, outcome: Outcome, bound: &ReturnAfter, now: Time) -> Option<String> {
        if self.is_over(bound, now) || bound.failures == 0 {
            return None;
        }
        self.passes = self.passes.saturating_add(1);
        // What is not granted is asked for by the version, and a rehearsal counts it, too.
        if !matches!(outcome, Outcome::PluginFailed | Outcome::Denied) {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let share =
            u64::from(self.failures) * 100 > u64::from(bound.percent) * u64::from(self.passes);
        (self.failures >= bound.failures && share).then(|| {
            format!(
                "{} of {} passes since the swap failed (rollout.returnAfter)",
                self.failures, self.passes
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    const BOUND: ReturnAfter = ReturnAfter {
        failures: 5,
        percent: 50,
        within: Span::from_secs(600),
    };

    /// After how many of these passes the version before comes back.
    fn returns(outcomes: &[Outcome], bound: &ReturnAfter, every: Span) -> Option<usize> {
        let mut probation = Probation::begin("d", Time(0));
        let mut now = Time(0);
        outcomes.iter().position(|outcome| {
            now = now.after(every);
            probation.ended(*outcome, bound, now).is_some()
        })
    }

    #[test]
    fn a_version_returns_once_it_failed_often_enough_and_more_often_than_not() {
        use Outcome::{Applied, Denied, PluginFailed, Retrying, Unchanged};
        let second = Span::from_secs(1);
        assert_eq!(returns(&[PluginFailed; 9], &BOUND, second), Some(4));
        assert_eq!(returns(&[Denied; 9], &BOUND, second), Some(4));
        assert_eq!(returns(&[Applied; 99], &BOUND, second), None);
        // Half of them is not more than half.
        let even: Vec<_> = [Unchanged, PluginFailed].repeat(50);
        assert_eq!(returns(&even, &BOUND, second), None);
        let worse: Vec<_> = [Unchanged, PluginFailed, PluginFailed].repeat(3);
        assert_eq!(returns(&worse, &BOUND, second), Some(7));
        // What the plugin itself says, in its own words, is no failure of the plugin.
        assert_eq!(returns(&[Retrying; 99], &BOUND, second), None);
    }

    #[test]
    fn what_stood_its_time_stays_and_no_failures_means_never() {
        let slow = Span::from_secs(150);
        assert_eq!(returns(&[Outcome::PluginFailed; 9], &BOUND, slow), None);
        let never = ReturnAfter {
            failures: 0,
            ..BOUND
        };
        let second = Span::from_secs(1);
        assert_eq!(returns(&[Outcome::PluginFailed; 99], &never, second), None);
    }
}
