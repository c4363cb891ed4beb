//! Points in time as plain numbers. The clock is the driver's: whatever in this crate needs to know the time is told.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::units::Span;

/// Milliseconds since 1970-01-01T00:00:00Z, by the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// The last second of RFC 3339.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// A text that is no point in time.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a point in time; write RFC 3339, as in 2026-11-29T21:53:00Z")]
pub struct TimeError(pub String);

impl Time {
    /// Later than every deadline that is ever set. A far-future requeue is clamped to it (kube-rs#1772).
    pub const NEVER: Time = Time(i64::MAX / 4);

    /// Reads RFC 3339 with any offset.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        // What people write for "never", and what is printed for it; beyond the range of the library.
        if text == NEVER {
            return Ok(Self::NEVER);
        }
        let at: jiff::Timestamp = text.parse().map_err(|_| TimeError(text.to_owned()))?;
        Ok(Self(at.as_millisecond()))
    }

    /// Cut to whole seconds.
    pub fn whole_seconds(self) -> Self {
        Self(self.0.div_euclid(1000) * 1000)
    }

    /// Up to the next whole second.
    pub fn seconds_up(self) -> Self {
        Self(self.0.saturating_add(999)).whole_seconds()
    }

    /// RFC 3339 in UTC, cut to whole seconds: Kubernetes' own form.
    pub fn seconds(self) -> String {
        self.whole_seconds().to_string()
    }

    /// This much later; clamped to [`Time::NEVER`].
    pub fn after(self, span: Span) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX))
                .min(Self::NEVER.0),
        )
    }

    /// How long until `later`; nothing if that has passed.
    pub fn until(self, later: Time) -> Span {
        Span(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC, with milliseconds only where there are some.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at}"),
            Err(_) => f.write_str(NEVER),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Time::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_form_has_whole_seconds_and_the_journal_keeps_milliseconds() {
        let at = Time::parse("2026-11-29T23:53:00.250+02:00").unwrap();
        assert_eq!(at.seconds(), "2026-11-29T21:53:00Z");
        assert_eq!(at.to_string(), "2026-11-29T21:53:00.25Z");
        assert_eq!(at.seconds_up().seconds(), "2026-11-29T21:53:01Z");
        assert_eq!(Time::parse(&at.to_string()), Ok(at));
    }

    #[test]
    fn a_deadline_beyond_all_times_is_clamped() {
        assert_eq!(Time(0).after(Span(u64::MAX)), Time::NEVER);
        assert_eq!(Time::NEVER.to_string(), "9999-12-31T23:59:59Z");
        assert_eq!(
            Time::parse("9999-12-31T23:59:59Z"),
            Ok(Time::NEVER),
            "what is printed can be read back"
        );
    }
}
