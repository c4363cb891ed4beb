//! Label selectors as after `kubectl get -l`, read once and matched in the host.
//!
//! The grammar is that of Kubernetes (`k8s.io/apimachinery/pkg/labels`): requirements separated by commas, all of which must
//! hold: `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`, `k>1`, `k<1`. Guarantees: what parses here is taken
//! by the API server with the same meaning, equal meanings written differently print the same where only order, spaces,
//! repetition or the form of an equality differ, and what does not parse is refused with the position.

use std::{fmt, str::FromStr};

use crate::plan::{is_name_part, is_qualified_name};

/// Longest selector, bytes: it is sent in the query of a request.
pub const MAX_SELECTOR: usize = 4096;

/// Requirements on an object's labels; the empty one fits every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Test {
    /// One of these, sorted.
    In(Vec<Box<str>>),
    /// Absent, or none of these.
    NotIn(Vec<Box<str>>),
    Exists,
    Absent,
    /// An integer above this one.
    Above(i64),
    Below(i64),
}

/// Text that is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label selector `{text}`, character {at}: {why}")]
pub struct BadSelector {
    /// The selector, cut to 256 characters.
    pub text: String,
    /// Where, counted in characters from 1.
    pub at: usize,
    /// What was expected.
    pub why: String,
}

impl Selector {
    /// Reads a selector; empty or blank text is the one that fits everything.
    pub fn parse(text: &str) -> Result<Self, BadSelector> {
        let mut parser = Parser { text, at: 0 };
        let parsed = parser.selector();
        parsed.map_err(|(at, why)| BadSelector {
            text: text.chars().take(256).collect(),
            at: text.get(..at).unwrap_or(text).chars().count() + 1,
            why,
        })
    }

    /// Objects whose label `key` is `value`, which both must be valid.
    pub fn label(key: &str, value: &str) -> Result<Self, BadSelector> {
        Self::parse(&format!("{key}={value}"))
    }

    /// Whether it fits every object.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no object can fit both: some key is asked for in two ways that exclude each other. False where that cannot be
    /// told.
    pub fn excludes(&self, other: &Selector) -> bool {
        self.0.iter().any(|mine| {
            let same_key = other.0.iter().filter(|theirs| theirs.key == mine.key);
            same_key
                .into_iter()
                .any(|theirs| mine.test.excludes(&theirs.test) || theirs.test.excludes(&mine.test))
        })
    }

    /// Whether an object fits whose labels are found by `label`.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let found = label(&requirement.key);
            let number = || found.and_then(|value| value.parse::<i64>().ok());
            match &requirement.test {
                Test::In(values) => found.is_some_and(|v| values.iter().any(|value| **value == *v)),
                Test::NotIn(values) => {
                    found.is_none_or(|v| values.iter().all(|value| **value != *v))
                }
                Test::Exists => found.is_some(),
                Test::Absent => found.is_none(),
                Test::Above(bound) => number().is_some_and(|number| number > *bound),
                Test::Below(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

impl Test {
    fn excludes(&self, other: &Test) -> bool {
        match (self, other) {
            (Test::In(mine), Test::In(theirs)) => mine.iter().all(|value| !theirs.contains(value)),
            (Test::In(mine), Test::NotIn(theirs)) => {
                mine.iter().all(|value| theirs.contains(value))
            }
            (Test::In(_) | Test::Exists | Test::Above(_) | Test::Below(_), Test::Absent) => true,
            (Test::Above(low), Test::Below(high)) => low.saturating_add(1) >= *high,
            _ => false,
        }
    }
}

impl FromStr for Selector {
    type Err = BadSelector;
    fn from_str(text: &str) -> Result<Self, BadSelector> {
        Self::parse(text)
    }
}

/// The canonical text, fit for the query of a request.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, test }) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", values[0])?,
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Exists => f.write_str(key)?,
                Test::Absent => write!(f, "!{key}")?,
                Test::Above(bound) => write!(f, "{key}>{bound}")?,
                Test::Below(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

/// A byte position and what is wrong there.
type Wrong = (usize, String);

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Selector, Wrong> {
        if self.text.len() > MAX_SELECTOR {
            return Err((MAX_SELECTOR, format!("longer than {MAX_SELECTOR} bytes")));
        }
        let mut requirements = Vec::new();
        self.skip_blanks();
        while self.at < self.text.len() {
            requirements.push(self.requirement()?);
            self.skip_blanks();
            if self.at == self.text.len() {
                break;
            }
            if !self.take(",") {
                return Err(self.expected("`,` or the end"));
            }
            self.skip_blanks();
            if self.at == self.text.len() {
                return Err(self.expected("a label key after `,`"));
            }
        }
        requirements.sort();
        requirements.dedup();
        Ok(Selector(requirements))
    }

    fn requirement(&mut self) -> Result<Requirement, Wrong> {
        let absent = self.take("!");
        self.skip_blanks();
        let key = self.key()?;
        self.skip_blanks();
        let test = if absent { Test::Absent } else { self.test()? };
        Ok(Requirement { key, test })
    }

    fn test(&mut self) -> Result<Test, Wrong> {
        if self.at == self.text.len() || self.rest().starts_with(',') {
            return Ok(Test::Exists);
        }
        if self.take("!=") {
            return Ok(Test::NotIn(vec![self.exact()?]));
        }
        if self.take("==") || self.take("=") {
            return Ok(Test::In(vec![self.exact()?]));
        }
        if self.take(">") {
            return Ok(Test::Above(self.number()?));
        }
        if self.take("<") {
            return Ok(Test::Below(self.number()?));
        }
        let at = self.at;
        match self.word() {
            "in" => Ok(Test::In(self.values()?)),
            "notin" => Ok(Test::NotIn(self.values()?)),
            _ => {
                self.at = at;
                Err(self.expected("one of `=`, `==`, `!=`, `in`, `notin`, `>`, `<`, `,`"))
            }
        }
    }

    fn key(&mut self) -> Result<Box<str>, Wrong> {
        let at = self.at;
        let key = self.word();
        if key.is_empty() {
            return Err(self.expected("a label key"));
        }
        if !is_qualified_name(key) {
            return Err((
                at,
                format!(
                    "`{key}` is no label key; write at most 63 letters, digits, `-`, `_`, `.`, with a DNS name and `/` before them"
                ),
            ));
        }
        Ok(key.into())
    }

    /// What stands after an equality; nothing is the empty value.
    fn exact(&mut self) -> Result<Box<str>, Wrong> {
        self.skip_blanks();
        self.value()
    }

    fn value(&mut self) -> Result<Box<str>, Wrong> {
        let at = self.at;
        let value = self.word();
        if !value.is_empty() && !is_name_part(value) {
            return Err((
                at,
                format!(
                    "`{value}` is no label value; write at most 63 letters, digits, `-`, `_`, `.`"
                ),
            ));
        }
        Ok(value.into())
    }

    fn number(&mut self) -> Result<i64, Wrong> {
        self.skip_blanks();
        let at = self.at;
        // A bound must be a label value too, so it has no sign.
        let value = self.value()?;
        let digits = value.bytes().all(|b| b.is_ascii_digit());
        match value.parse() {
            Ok(number) if digits => Ok(number),
            _ => Err((at, format!("`{value}` is no integer"))),
        }
    }

    /// `(a, b)`. An empty place between commas is the empty value.
    fn values(&mut self) -> Result<Vec<Box<str>>, Wrong> {
        self.skip_blanks();
        if !self.take("(") {
            return Err(self.expected("`(`"));
        }
        let mut values = Vec::new();
        loop {
            self.skip_blanks();
            values.push(self.value()?);
            self.skip_blanks();
            if self.take(")") {
                break;
            }
            if !self.take(",") {
                return Err(self.expected("`,` or `)`"));
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }

    /// Everything up to a blank or a special character.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest
            .find(|c: char| is_blank(c) || "=!(),<>".contains(c))
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(is_blank).len();
    }

    fn expected(&self, what: &str) -> Wrong {
        let found = match self.rest().chars().next() {
            Some(found) => format!("`{found}`"),
            None => "the end".to_owned(),
        };
        (self.at, format!("expected {what}, found {found}"))
    }
}

/// The white space of Kubernetes' lexer.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests;
