//! One field of an object, by its path, read out of the text.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ObjectError;

/// A path to a field, as in `.spec.priority`. A dot inside a key is written `\.`; lists have no steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    steps: Box<[Box<str>]>,
}

/// Text that is not a field path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field path `{0}` is not of the form `.spec.field` (a dot inside a key is written `\\.`)")]
pub struct BadPath(String);

impl FieldPath {
    /// Reads `.spec.priority`; the leading dot is required, empty steps, brackets and other escapes are refused.
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        let bad = || BadPath(text.to_owned());
        let mut steps = Vec::new();
        let mut step = String::new();
        let mut chars = text.strip_prefix('.').ok_or_else(bad)?.chars();
        loop {
            match chars.next() {
                Some('\\') => match chars.next() {
                    Some('.') => step.push('.'),
                    _ => return Err(bad()),
                },
                Some('[' | ']') => return Err(bad()),
                Some(other) if other != '.' => step.push(other),
                end => {
                    if step.is_empty() {
                        return Err(bad());
                    }
                    steps.push(std::mem::take(&mut step).into_boxed_str());
                    if end.is_none() {
                        return Ok(Self {
                            steps: steps.into(),
                        });
                    }
                }
            }
        }
    }

    /// The steps, outermost first.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| &**step)
    }

    /// The value's JSON text, or `None` if it, or a map on the way to it, is absent or null.
    pub fn raw<'a>(&self, object: &'a str) -> Result<Option<&'a str>, ObjectError> {
        let mut deserializer = serde_json::Deserializer::from_str(object);
        let found = Step(&self.steps)
            .deserialize(&mut deserializer)
            .map_err(ObjectError::unreadable)?;
        Ok(found.map(RawValue::get).filter(|text| *text != "null"))
    }

    /// The value as an integer. `1.0` is 1, as for the API server; a fraction, another type or an overflow is an error.
    pub fn i64(&self, object: &str) -> Result<Option<i64>, ObjectError> {
        let Some(text) = self.raw(object)? else {
            return Ok(None);
        };
        if let Ok(number) = text.parse::<i64>() {
            return Ok(Some(number));
        }
        // 2^53: up to here every integer has its own float.
        match serde_json::from_str::<f64>(text) {
            Ok(number) if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 => {
                Ok(Some(number as i64))
            }
            _ => Err(self.wrong("an integer", text)),
        }
    }

    /// The value as a string; another type is an error.
    pub fn str<'a>(&self, object: &'a str) -> Result<Option<Cow<'a, str>>, ObjectError> {
        let Some(text) = self.raw(object)? else {
            return Ok(None);
        };
        match serde_json::from_str::<super::Text<'a>>(text) {
            Ok(text) => Ok(Some(text.0)),
            Err(_) => Err(self.wrong("a string", text)),
        }
    }

    fn wrong(&self, expected: &'static str, found: &str) -> ObjectError {
        let end = (0..=found.len().min(64))
            .rev()
            .find(|at| found.is_char_boundary(*at))
            .unwrap_or(0);
        ObjectError::WrongType {
            path: self.to_string(),
            expected,
            found: found[..end].to_owned(),
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps
            .iter()
            .try_for_each(|step| write!(f, ".{}", step.replace('.', "\\.")))
    }
}

/// Walks the remaining steps; skips everything that is not on the path. A value that is not a map ends the walk with `None`.
struct Step<'p>(&'p [Box<str>]);

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return <&'de RawValue>::deserialize(deserializer).map(Some);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let Some((first, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        let mut found = None;
        while let Some(wanted) = access.next_key_seed(Is(first))? {
            // A repeated key counts as its last value, as in the API server's own decoder.
            if wanted {
                found = access.next_value_seed(Step(rest))?;
            } else {
                access.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(
        self,
        mut access: A,
    ) -> Result<Self::Value, A::Error> {
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Whether a key is the wanted one, without keeping it.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}
