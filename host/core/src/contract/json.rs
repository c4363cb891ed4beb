//! JSON text that nobody rewrites.
//!
//! Objects cross the host as text: 64-bit integers, `1.0` beside `1`, null beside absent and unknown fields survive because
//! no tree of values is built and printed again. [`Json`] says so in a type: it is valid JSON, byte for byte as it came.

use std::{borrow::Cow, sync::Arc};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, ser::Error as _,
};
use serde_json::value::RawValue;

/// Valid JSON text (RFC 8259, UTF-8). Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

/// Text that is not JSON.
#[derive(Debug, thiserror::Error)]
#[error("not JSON: {0}")]
pub struct JsonError(#[from] serde_json::Error);

impl Json {
    /// Checks that `text` is one JSON value.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, JsonError> {
        let text = text.into();
        serde_json::from_str::<serde::de::IgnoredAny>(&text)?;
        Ok(Self(text))
    }

    /// Text that was checked before: what the API server sent, or what serde printed.
    pub fn trusted(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The JSON text of a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the text as `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        Ok(serde_json::from_str(&self.0)?)
    }
}

impl std::fmt::Debug for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0)
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(
            <Box<RawValue>>::deserialize(deserializer)?.get().into(),
        ))
    }
}

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}
