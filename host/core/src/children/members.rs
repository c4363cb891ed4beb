//! An object's members one by one, each value as the text it came as.
//!
//! What a plugin asked for is completed, not rewritten: only the members the host adds are printed by it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Serialize,
    de::{Deserializer, MapAccess, Visitor},
    ser::{SerializeMap, Serializer},
};
use serde_json::value::{RawValue, to_raw_value};

use crate::object::ObjectError;

/// Members in their order; of a name that comes twice the last counts, as for the API server.
#[derive(Default)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> Members<'a> {
    /// The members of `raw`; of null there are none.
    pub(super) fn parse(raw: &'a str) -> Result<Self, ObjectError> {
        serde_json::from_str(raw).map_err(|error| ObjectError::Unreadable(error.to_string()))
    }

    /// The text of a member; none if it is not there or null.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.get())
            .filter(|value| *value != "null")
    }

    /// The members of a member.
    pub(super) fn under(&self, name: &str) -> Result<Members<'_>, ObjectError> {
        self.get(name)
            .map_or_else(|| Ok(Members::default()), Members::parse)
    }

    /// Names and texts, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, value.get()))
    }

    /// Takes a member out.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }

    /// Puts a member in, in place of one that has its name.
    pub(super) fn set<T: Serialize + ?Sized>(
        &mut self,
        name: &'a str,
        value: &T,
    ) -> Result<(), ObjectError> {
        let value =
            to_raw_value(value).map_err(|error| ObjectError::Unreadable(error.to_string()))?;
        self.put(Cow::Borrowed(name), Cow::Owned(value));
        Ok(())
    }

    fn put(&mut self, name: Cow<'a, str>, value: Cow<'a, RawValue>) {
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some(place) => place.1 = value,
            None => self.0.push((name, value)),
        }
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, &**value)?;
        }
        map.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Members::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut members = Members::default();
                while let Some(key) = access.next_key::<Key<'de>>()? {
                    let value: &'de RawValue = access.next_value()?;
                    members.put(key.0, Cow::Borrowed(value));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_any(Collect)
    }
}

/// A name, borrowed where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
