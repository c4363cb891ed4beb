//! The units that mappings are written in: lengths of time (`1s`, `500ms`, `5m`, `10h`) and sizes (`64Mi`, `1Ki`, `512`).

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A length of time in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A text that is no length of time or no size.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UnitError {
    /// Not a length of time.
    #[error(
        "`{0}` is not a length of time; write a whole number and ms, s, m or h, as in 500ms, 1s, 5m, 10h"
    )]
    Span(String),
    /// Not a size.
    #[error("`{0}` is not a size; write a whole number of bytes, or with Ki, Mi, Gi, as in 64Mi")]
    Bytes(String),
}

impl Span {
    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    /// As std knows it.
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

const SPANS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
const SIZES: [(&str, u64); 4] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10), ("", 1)];

/// The number before the first suffix that fits, times the suffix' factor.
fn scaled(text: &str, suffixes: &[(&str, u64)]) -> Option<u64> {
    let (digits, factor) = suffixes
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// The largest suffix that divides the number.
fn printed(value: u64, suffixes: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut by_factor: Vec<_> = suffixes.to_vec();
    by_factor.sort_by_key(|(_, factor)| std::cmp::Reverse(*factor));
    let fits = |factor: u64| value != 0 && value.is_multiple_of(factor);
    let (suffix, factor) = by_factor
        .iter()
        .find(|(_, factor)| fits(*factor))
        .unwrap_or(&by_factor[by_factor.len() - 1]);
    write!(f, "{}{suffix}", value / factor)
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, &SPANS)
            .map(Self)
            .ok_or_else(|| UnitError::Span(text.to_owned()))
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, &SIZES)
            .map(Self)
            .ok_or_else(|| UnitError::Bytes(text.to_owned()))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        printed(self.0, &SPANS, f)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        printed(self.0, &SIZES, f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(bytes) => Ok(Self(bytes)),
            Either::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$", "description": "A length of time: 500ms, 1s, 5m, 10h."})
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"], "pattern": "^[0-9]+(Ki|Mi|Gi)?$", "description": "A size: 512, 64Ki, 64Mi."})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_read_and_print_the_same() {
        for text in ["0ms", "500ms", "1s", "90s", "5m", "10h"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for text in ["0", "512", "1Ki", "64Mi", "2Gi"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_unit_is_refused_with_a_hint() {
        for text in ["", "s", "1.5s", "-1s", "1d", "+1s", "99999999999999999999h"] {
            assert_eq!(text.parse::<Span>(), Err(UnitError::Span(text.into())));
        }
        for text in ["x", "1MB", "-1", "+5", "99999999999Gi"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
