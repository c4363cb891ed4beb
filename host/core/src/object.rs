//! Objects as JSON text: what the host reads of one, without a tree of values.
//!
//! A cluster's objects are kept and handed on as the text the API server sent, so that 64-bit integers, `1.0`, null and
//! absent survive, and so that an object costs its text and little more. Everything here borrows from that text and reads it
//! in one pass. Guarantees: [`compact`] changes nothing but `metadata.managedFields` and the white space beside it, and what
//! it returns is checked UTF-8 and one JSON object; reading never allocates for strings without escapes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

mod key;
mod path;
#[cfg(test)]
mod tests;

pub use key::{ObjectKey, Uid};
pub use path::{BadPath, FieldPath};

/// Text that is not a Kubernetes object, or a field of another type than asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The bytes are not UTF-8.
    #[error("object is not UTF-8 from byte {0} on")]
    NotUtf8(usize),
    /// The text is not JSON, or its metadata is not of the known shape.
    #[error("object is not readable: {0}")]
    Unreadable(String),
    /// A field holds another type than the caller needs.
    #[error("field `{path}` is not {expected}: {found}")]
    WrongType {
        /// The field's path.
        path: String,
        /// What was expected, with its article.
        expected: &'static str,
        /// The value found, cut to 64 bytes.
        found: String,
    },
}

impl ObjectError {
    fn unreadable(error: serde_json::Error) -> Self {
        ObjectError::Unreadable(error.to_string())
    }
}

/// A `resourceVersion` as a number, or `None` where it is not a plain decimal without leading zeros.
///
/// Versions of one resource compare as integers (Kubernetes 1.35 made that part of its API conventions); where one does not
/// parse, nothing may be concluded from order.
pub fn version_number(resource_version: &str) -> Option<u64> {
    let bytes = resource_version.as_bytes();
    match bytes {
        [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => {
            resource_version.parse().ok()
        }
        _ => None,
    }
}

/// The least a store needs of an object; the hot path of every watch event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp<'a> {
    /// `apiVersion`, empty if absent (items of a list of a built-in kind carry none).
    pub api_version: Cow<'a, str>,
    /// `kind`, empty if absent.
    pub kind: Cow<'a, str>,
    /// `metadata.name`.
    pub name: Cow<'a, str>,
    /// `metadata.namespace`, empty for cluster-scoped kinds.
    pub namespace: Cow<'a, str>,
    /// `metadata.uid`.
    pub uid: Cow<'a, str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Cow<'a, str>,
    /// `metadata.generation`, 0 if absent.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    managed: Option<&'a str>,
}

impl<'a> Stamp<'a> {
    /// Reads `raw`, one JSON object, in one pass.
    pub fn parse(raw: &'a str) -> Result<Self, ObjectError> {
        let outline: Outline<'a, StampMeta<'a>> = outline(raw)?;
        let meta = outline.metadata.unwrap_or_default();
        Ok(Self {
            api_version: outline.api_version,
            kind: outline.kind,
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation.unwrap_or(0),
            deleting: meta.deletion_timestamp.is_some(),
            managed: meta.managed_fields.map(RawValue::get),
        })
    }

    /// The resource version as a number; see [`version_number`].
    pub fn version(&self) -> Option<u64> {
        version_number(&self.resource_version)
    }

    /// The two parts of `raw` (the text this was parsed from) that remain when `metadata.managedFields` is left out.
    pub fn without_managed(&self, raw: &'a str) -> (&'a str, &'a str) {
        self.managed
            .and_then(|value| member_range(raw, value))
            .map_or((raw, ""), |(from, to)| (&raw[..from], &raw[to..]))
    }
}

/// What passes, gates and selectors read of an object. Everything borrows from the object's text.
#[derive(Debug, Clone)]
pub struct Head<'a> {
    /// `apiVersion`, empty if absent.
    pub api_version: Cow<'a, str>,
    /// `kind`, empty if absent.
    pub kind: Cow<'a, str>,
    /// `metadata.name`.
    pub name: Cow<'a, str>,
    /// `metadata.namespace`, empty for cluster-scoped kinds.
    pub namespace: Cow<'a, str>,
    /// `metadata.uid`.
    pub uid: Cow<'a, str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Cow<'a, str>,
    /// `metadata.generation`, 0 if absent.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Option<Cow<'a, str>>,
    /// `metadata.deletionTimestamp`: set while the object waits for its finalizers.
    pub deletion_timestamp: Option<Cow<'a, str>>,
    /// `metadata.labels`.
    pub labels: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Cow<'a, str>>,
    /// `metadata.ownerReferences`, unread.
    pub owner_references: Option<&'a RawValue>,
    /// `metadata.managedFields`, unread.
    pub managed_fields: Option<&'a RawValue>,
}

impl<'a> Head<'a> {
    /// Reads `raw`, one JSON object, in one pass.
    pub fn parse(raw: &'a str) -> Result<Self, ObjectError> {
        let outline: Outline<'a, HeadMeta<'a>> = outline(raw)?;
        let meta = outline.metadata.unwrap_or_default();
        Ok(Self {
            api_version: outline.api_version,
            kind: outline.kind,
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation.unwrap_or(0),
            creation_timestamp: meta.creation_timestamp.map(|text| text.0),
            deletion_timestamp: meta.deletion_timestamp.map(|text| text.0),
            labels: meta.labels.0,
            annotations: meta.annotations.0,
            finalizers: meta
                .finalizers
                .unwrap_or_default()
                .into_iter()
                .map(|text| text.0)
                .collect(),
            owner_references: meta.owner_references,
            managed_fields: meta.managed_fields,
        })
    }

    /// The resource version as a number; see [`version_number`].
    pub fn version(&self) -> Option<u64> {
        version_number(&self.resource_version)
    }

    /// The object's key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// Whether the object waits for its finalizers.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// serde reads a struct from a list too; an object is a map.
fn outline<'a, M: Deserialize<'a>>(raw: &'a str) -> Result<Outline<'a, M>, ObjectError> {
    if !raw.trim_ascii_start().starts_with('{') {
        return Err(ObjectError::Unreadable("not a JSON object".into()));
    }
    serde_json::from_str(raw).map_err(ObjectError::unreadable)
}

/// The text of `raw`, checked once.
pub fn utf8(raw: &[u8]) -> Result<&str, ObjectError> {
    std::str::from_utf8(raw).map_err(|error| ObjectError::NotUtf8(error.valid_up_to()))
}

/// `raw` without `metadata.managedFields`, everything else byte for byte. The result is one readable JSON object.
pub fn compact(raw: &[u8]) -> Result<Box<str>, ObjectError> {
    let text = utf8(raw)?.trim_ascii();
    let (before, after) = Stamp::parse(text)?.without_managed(text);
    Ok(join(&[before, after]))
}

/// The parts as one exactly sized text.
pub fn join(parts: &[&str]) -> Box<str> {
    let mut text = String::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| text.push_str(part));
    text.into_boxed_str()
}

/// The bytes to leave out so that the member with this `value`, a slice of `raw`, is gone: its key, the colon and one comma.
/// `None` (nothing is left out) if the text before the value is not a member's, which a parsed object rules out.
fn member_range(raw: &str, value: &str) -> Option<(usize, usize)> {
    let start = (value.as_ptr() as usize).checked_sub(raw.as_ptr() as usize)?;
    let end = start + value.len();
    // The key cannot hold an escaped quote: it was matched as `managedFields`, whose escapes are all of the form \u0000.
    let key = raw
        .get(..start)?
        .trim_ascii_end()
        .strip_suffix(':')?
        .trim_ascii_end()
        .strip_suffix('"')?
        .rfind('"')?;
    let after = raw.get(end..)?;
    let trimmed = after.trim_ascii_start();
    if trimmed.starts_with(',') {
        return Some((key, raw.len() - trimmed.len() + 1));
    }
    let before = raw[..key].trim_ascii_end();
    Some((before.strip_suffix(',').map_or(key, str::len), end))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "M: Deserialize<'de>"))]
struct Outline<'a, M> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    metadata: Option<M>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StampMeta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    generation: Option<i64>,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    generation: Option<i64>,
    #[serde(borrow)]
    creation_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    labels: TextMap<'a>,
    #[serde(borrow)]
    annotations: TextMap<'a>,
    #[serde(borrow)]
    finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    owner_references: Option<&'a RawValue>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// A string that borrows inside containers too, where serde's own `Cow` would copy.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A map of strings; null is the empty map.
#[derive(Default)]
struct TextMap<'a>(BTreeMap<Cow<'a, str>, Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for TextMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = TextMap<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(TextMap::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut map = BTreeMap::new();
                // A null value is the empty string, as the API server reads it.
                while let Some((key, value)) =
                    access.next_entry::<Text<'de>, Option<Text<'de>>>()?
                {
                    map.insert(key.0, value.map(|text| text.0).unwrap_or_default());
                }
                Ok(TextMap(map))
            }
        }
        deserializer.deserialize_any(Collect)
    }
}
