//! Random values of a Secret: made by the host once, kept, and never shown to a plugin, a log or a trace.

use base64::{Engine, prelude::BASE64_STANDARD};
use guesthouse_core::contract::Generated;
use serde_json::{Map, Value};

/// What values are made of where the plugin says nothing.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Why a value cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GenerateError {
    /// The body or the Secret is none.
    #[error("the Secret cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The system gives no randomness.
    #[error("the system gives no random bytes")]
    NoRandomness,
}

/// The body with every generated key under `data`: as it is in the current Secret, else made now. An apply that left one out
/// would delete it.
pub(crate) fn fill(
    body: &str,
    wanted: &[Generated],
    current: Option<&str>,
) -> Result<String, GenerateError> {
    let mut body: Map<String, Value> = serde_json::from_str(body)?;
    let current: Value = current.map_or(Ok(Value::Null), serde_json::from_str)?;
    let data = body
        .entry("data")
        .or_insert_with(|| Value::Object(Map::new()));
    for value in wanted {
        let kept = current.get("data").and_then(|data| data.get(&value.key));
        let text = match kept.and_then(Value::as_str) {
            Some(kept) => kept.to_owned(),
            None => BASE64_STANDARD.encode(random(value)?),
        };
        if let Value::Object(data) = data {
            data.insert(value.key.clone(), text.into());
        }
    }
    Ok(serde_json::to_string(&body)?)
}

/// Characters of the alphabet, each as likely as the others: bytes that would favour the first ones are thrown away.
fn random(value: &Generated) -> Result<String, GenerateError> {
    let alphabet: Vec<char> = value
        .alphabet
        .as_deref()
        .unwrap_or(LETTERS)
        .chars()
        .collect();
    let many = u16::try_from(alphabet.len().max(1)).unwrap_or(256).min(256);
    let fair = 256 - 256 % many;
    let length = usize::try_from(value.length).unwrap_or(0);
    let source = rustls::crypto::ring::default_provider().secure_random;
    let (mut text, mut bytes) = (String::new(), [0_u8; 64]);
    let mut made = 0;
    while made < length {
        source
            .fill(&mut bytes)
            .map_err(|_| GenerateError::NoRandomness)?;
        for byte in bytes {
            if u16::from(byte) < fair && made < length {
                text.extend(alphabet.get(usize::from(u16::from(byte) % many)));
                made += 1;
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(alphabet: Option<&str>) -> [Generated; 1] {
        [Generated {
            key: "password".into(),
            length: 200,
            alphabet: alphabet.map(Into::into),
        }]
    }

    fn password(text: &str) -> String {
        let secret: Value = serde_json::from_str(text).unwrap();
        let value = secret["data"]["password"].as_str().unwrap().to_owned();
        String::from_utf8(BASE64_STANDARD.decode(value).unwrap()).unwrap()
    }

    #[test]
    fn a_value_is_made_once_and_then_kept() {
        let body = r#"{"kind":"Secret","data":{"user":"YQ=="}}"#;
        let first = fill(body, &wanted(None), None).unwrap();
        let second = fill(body, &wanted(None), Some(&first)).unwrap();
        assert_eq!(first, second);
        assert_ne!(first, fill(body, &wanted(None), None).unwrap());
        assert!(first.contains("YQ=="), "what the plugin set stays: {first}");
        assert_eq!(password(&first).len(), 200);
    }

    #[test]
    fn every_character_of_the_alphabet_comes_and_no_other() {
        let made = password(&fill("{}", &wanted(Some("xyz")), None).unwrap());
        for letter in ['x', 'y', 'z'] {
            assert!(made.contains(letter), "{letter} never came in {made}");
        }
        assert!(made.chars().all(|c| "xyz".contains(c)), "{made}");
    }
}
