//! JSON kept as text, and where in a text an error lies.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Any JSON value, kept as the text it came as: `1.0`, 64-bit integers and the order of members survive.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// A value from its text; an error if that is not one JSON value.
    pub fn from_text(text: impl Into<String>) -> Result<Raw, serde_json::Error> {
        RawValue::from_string(text.into()).map(Raw)
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Raw) -> bool {
        self.text() == other.text()
    }
}

/// Any JSON value that the plugin does not look at: in the schema it is free, and parsing skips it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread;

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Unread, D::Error> {
        IgnoredAny::deserialize(from).map(|_| Unread)
    }
}

/// A value whose schema is "any JSON, and keep it".
macro_rules! free_schema {
    ($($ty:ty),*) => {$(
        impl JsonSchema for $ty {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($ty).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"x-kubernetes-preserve-unknown-fields": true})
            }
        }
    )*};
}
free_schema!(Raw, Unread);

/// A string that borrows from the text where no escape stands in it.
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The member `key` of an object of strings, found without building a map.
pub(crate) fn member<'a>(object: &'a RawValue, key: &str) -> Option<Cow<'a, str>> {
    struct Find<'k>(&'k str);
    impl<'de> Visitor<'de> for Find<'_> {
        type Value = Option<Cow<'de, str>>;
        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object of strings")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(Text(name)) = map.next_key()? {
                if found.is_none() && name == self.0 {
                    found = Some(map.next_value::<Text<'de>>()?.0);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(object.get())
        .deserialize_map(Find(key))
        .ok()
        .flatten()
}

/// What serde_json says of `text`, with the path of the value concerned: `spec.priority: invalid type: …`.
///
/// Only on the way of errors, so parsing itself pays nothing for it.
pub(crate) fn explain(text: &str, error: &serde_json::Error) -> String {
    let line_start = match error.line() {
        0 | 1 => 0,
        line => text
            .match_indices('\n')
            .nth(line - 2)
            .map_or(0, |(at, _)| at + 1),
    };
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    let end = (line_start + error.column()).min(text.len());
    match path_at(&text.as_bytes()[..end], said.starts_with("missing field")) {
        path if path.is_empty() => said.into(),
        path => format!("{path}: {said}"),
    }
}

/// The path of the value that a reader of `text` was in at its end; with `container`, of the object that ends there.
fn path_at(text: &[u8], container: bool) -> String {
    // One entry for each open object or array: the member's name or the index being read.
    let (mut open, mut last_string, mut at) =
        (Vec::<Result<String, usize>>::new(), String::new(), 0);
    let end = if container {
        text.len().saturating_sub(1)
    } else {
        text.len()
    };
    while at < end {
        match text[at] {
            b'"' => {
                let start = at + 1;
                at = start;
                while at < end && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                last_string = String::from_utf8_lossy(&text[start..at.min(end)]).into_owned();
            }
            b':' => {
                if let Some(Ok(name)) = open.last_mut() {
                    *name = std::mem::take(&mut last_string);
                }
            }
            b',' => match open.last_mut() {
                Some(Err(index)) => *index += 1,
                Some(Ok(name)) => name.clear(),
                None => {}
            },
            b'{' => open.push(Ok(String::new())),
            b'[' => open.push(Err(0)),
            // An error at a bracket concerns what it closes.
            b'}' | b']' if container || at + 1 < end => {
                open.pop();
            }
            _ => {}
        }
        at += 1;
    }
    if let (true, Some(Ok(name))) = (container, open.last_mut()) {
        name.clear();
    }
    let mut path = String::new();
    for part in &open {
        match part {
            Err(index) => path.push_str(&format!("[{index}]")),
            Ok(name) if name.is_empty() => break,
            Ok(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Outer {
        a: Inner,
        list: Option<Vec<Inner>>,
    }
    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Inner {
        n: i64,
        on: Option<bool>,
    }

    #[test]
    fn an_error_names_the_path_of_the_value_that_does_not_fit() {
        for (text, wanted) in [
            (
                r#"{"a":{"n":"x"}}"#,
                r#"a.n: invalid type: string "x", expected i64"#,
            ),
            (
                r#"{"a": {"on": true, "n": 1.5 }}"#,
                "a.n: invalid type: floating point `1.5`, expected i64",
            ),
            (
                r#"{"z":{"q":[1,{}]},"a":{"on":true}}"#,
                "a: missing field `n`",
            ),
            (
                "{\"a\":\n {\"n\":1},\n\"list\":[{\"n\":1},{\"n\":true}]}",
                "list[1].n: invalid type: boolean `true`, expected i64",
            ),
            (r#"{"list":[]}"#, "missing field `a`"),
            (
                r#"{"a":{"n":1,"on":{"k":1}}}"#,
                "a.on: invalid type: map, expected a boolean",
            ),
        ] {
            let error = serde_json::from_str::<Outer>(text).unwrap_err();
            assert_eq!(explain(text, &error), wanted, "in {text}");
        }
    }

    #[test]
    fn a_member_is_found_by_its_decoded_name() {
        let object: Box<RawValue> =
            serde_json::from_str(r#"{"a":"1","b\/c":"x\ny","d":"2"}"#).unwrap();
        assert_eq!(member(&object, "b/c").as_deref(), Some("x\ny"));
        assert_eq!(member(&object, "d").as_deref(), Some("2"));
        assert_eq!(member(&object, "e"), None);
    }
}
