//! From body frames to events: lines over a reused buffer, and the object inside a line without reading it twice.

use guesthouse_core::object::{ObjectError, utf8};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A line longer than the cap.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("event longer than {0} bytes")]
pub(super) struct TooLong(pub(super) usize);

/// Splits a stream of bytes into lines. A line inside one frame is not copied.
#[derive(Debug)]
pub(super) struct Lines {
    rest: Vec<u8>,
    cap: usize,
}

/// What a buffer keeps after a long line.
const KEEP: usize = 256 << 10;

impl Lines {
    pub(super) fn new(cap: usize) -> Self {
        Self {
            rest: Vec::new(),
            cap,
        }
    }

    /// Hands each line that `data` completes to `take`, without its newline; empty lines are skipped. Stops at the first error.
    pub(super) fn push<E: From<TooLong>>(
        &mut self,
        mut data: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr::memchr(b'\n', data) {
            let (line, tail) = (&data[..end], &data[end + 1..]);
            if self.rest.len() + line.len() > self.cap {
                return Err(TooLong(self.cap).into());
            }
            if self.rest.is_empty() {
                if !line.is_empty() {
                    take(line)?;
                }
            } else {
                self.rest.extend_from_slice(line);
                let result = take(&self.rest);
                self.rest.clear();
                self.rest.shrink_to(KEEP);
                result?;
            }
            data = tail;
        }
        if self.rest.len() + data.len() > self.cap {
            return Err(TooLong(self.cap).into());
        }
        self.rest.extend_from_slice(data);
        Ok(())
    }

    /// Whether the stream ended in the middle of a line.
    pub(super) fn is_cut(&self) -> bool {
        !self.rest.is_empty()
    }
}

/// An event's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ADDED" => Kind::Added,
            "MODIFIED" => Kind::Modified,
            "DELETED" => Kind::Deleted,
            "BOOKMARK" => Kind::Bookmark,
            "ERROR" => Kind::Error,
            _ => return None,
        })
    }
}

/// The event on a line: its type and its object's text, checked as UTF-8 and otherwise unread.
///
/// The API server writes `{"type":"ADDED","object":{…}}`. That form is cut apart without parsing; the text cut out is then
/// only JSON if the line was of exactly this form, which the reader of the object finds out. Any other form is parsed.
pub(super) fn event(line: &[u8]) -> Result<(Kind, &str), ObjectError> {
    let text = utf8(line)?.trim_ascii();
    quick(text).map_or_else(|| careful(text), Ok)
}

/// The same by parsing the line, for when the object cut out quickly proved unreadable.
pub(super) fn careful(text: &str) -> Result<(Kind, &str), ObjectError> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        r#type: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let line: Line<'_> = serde_json::from_str(text)
        .map_err(|error| ObjectError::Unreadable(format!("event: {error}")))?;
    let kind = Kind::parse(&line.r#type)
        .ok_or_else(|| ObjectError::Unreadable(format!("event: unknown type `{}`", line.r#type)))?;
    Ok((kind, line.object.get()))
}

fn quick(text: &str) -> Option<(Kind, &str)> {
    let (kind, rest) = text.strip_prefix("{\"type\":\"")?.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.strip_suffix('}')?;
    Some((Kind::parse(kind)?, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"\u{e9}\"}}}\n",
        "\n",
        "{\"type\":\"BOOKMARK\",\"object\":{}}\n",
        "{\"type\":\"DELETED\",\"object\":{\"a\":\"}\\n\"}}\n",
    );

    fn lines(parts: &[&[u8]], cap: usize) -> (Result<(), TooLong>, Vec<String>, bool) {
        let (mut lines, mut out) = (Lines::new(cap), Vec::new());
        let result = parts.iter().try_for_each(|part| {
            lines.push(part, |line| {
                out.push(String::from_utf8(line.to_vec()).unwrap());
                Ok(())
            })
        });
        (result, out, lines.is_cut())
    }

    #[test]
    fn frames_cut_anywhere_give_the_same_lines() {
        let bytes = STREAM.as_bytes();
        let want: Vec<&str> = STREAM.lines().filter(|line| !line.is_empty()).collect();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let (result, got, cut) = lines(
                    &[&bytes[..first], &bytes[first..second], &bytes[second..]],
                    1000,
                );
                assert_eq!((result, cut), (Ok(()), false));
                assert_eq!(got, want, "cut at {first} and {second}");
            }
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(lines(&single, 1000).1, want);
    }

    #[test]
    fn a_stream_that_ends_inside_a_line_is_cut() {
        for end in 1..STREAM.find('\n').unwrap() {
            assert!(lines(&[&STREAM.as_bytes()[..end]], 1000).2, "{end}");
        }
        assert!(!lines(&[], 1000).2);
    }

    #[test]
    fn a_line_at_the_cap_passes_and_a_longer_one_is_refused_however_it_comes() {
        for parts in [
            vec![&b"12345678\n"[..]],
            vec![&b"1234"[..], &b"5678"[..], &b"\n"[..]],
        ] {
            assert_eq!(lines(&parts, 8).0, Ok(()));
            assert_eq!(
                lines(&parts, 7),
                (Err(TooLong(7)), vec![], lines(&parts, 7).2)
            );
        }
        assert_eq!(
            lines(&[b"12345678"], 7).0,
            Err(TooLong(7)),
            "without waiting for its end"
        );
    }

    #[test]
    fn an_event_is_cut_apart_in_the_servers_form_and_parsed_in_any_other() {
        let object = r#"{"a":"}","b":1.0}"#;
        for line in [
            format!(r#"{{"type":"ADDED","object":{object}}}"#),
            format!(r#" {{ "type" : "ADDED", "object":  {object} }} "#),
            format!(r#"{{"object":{object},"type":"ADDED"}}"#),
            format!(r#"{{"object":{object},"more":[],"type":"\u0041DDED"}}"#),
        ] {
            assert_eq!(event(line.as_bytes()), Ok((Kind::Added, object)), "{line}");
        }
        let odd = format!(r#"{{"type":"ADDED","object":{object},"more":1}}"#);
        assert_eq!(careful(&odd), Ok((Kind::Added, object)));
        for bad in [
            r#"{"type":"NEW","object":{}}"#,
            r#"{"type":"ADDED"}"#,
            "[]",
            "x",
            r#"{"object":{}}"#,
        ] {
            assert!(event(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(event(b"{\"type\":\"\xff"), Err(ObjectError::NotUtf8(9)));
    }
}
