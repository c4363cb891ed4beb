//! Rust files as rules read them: without comments and literals, each line known as production code or test.

use super::modules;
use super::tree::Tree;
use std::collections::BTreeMap;
use std::ops::Range;

/// Every Rust file that some target is made of, by path.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, Source>);

impl Sources {
    /// Follows the modules of every target.
    pub(super) fn of(tree: &Tree) -> Self {
        let mut all = BTreeMap::new();
        let targets = tree.packages.iter().flat_map(|package| &package.targets);
        for target in targets {
            let is_test = matches!(target.kind.as_str(), "test" | "bench" | "example");
            modules::follow(tree, &target.root, true, is_test, &mut all);
        }
        Self(all)
    }

    pub(super) fn find(&self, path: &str) -> Option<&Source> {
        self.0.get(path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.values()
    }
}

/// One Rust file.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: String,
    /// The text with comments and the inside of literals replaced by spaces; every byte stands where it stood.
    pub(super) code: String,
    /// Only for tests, benchmarks or examples, as a whole.
    pub(super) is_test: bool,
    /// Items under `#[cfg(test)]`, in bytes.
    tests: Vec<Range<usize>>,
}

impl Source {
    pub(super) fn new(path: &str, text: &str, is_test: bool) -> Self {
        let code = blank(text);
        let tests = test_items(&code);
        Self {
            path: path.to_owned(),
            code,
            is_test,
            tests,
        }
    }

    /// Whether what stands at that byte is only for tests.
    pub(super) fn is_test_at(&self, at: usize) -> bool {
        self.is_test || self.tests.iter().any(|range| range.contains(&at))
    }

    /// The line of a byte, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.code.as_bytes()[..at]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1
    }

    /// Lines that hold production code.
    pub(super) fn production_lines(&self) -> usize {
        let mut at = 0;
        let lines = self.code.split_inclusive('\n');
        let is_code = |line: &str| {
            let begin = at;
            at += line.len();
            !line.trim().is_empty()
                && !self.is_test_at(begin + (line.len() - line.trim_start().len()))
        };
        lines.map(is_code).filter(|is_code| *is_code).count()
    }

    /// Every place of a word (an identifier, or a path of some) in production code.
    pub(super) fn production_words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> {
        words(&self.code, word).filter(|at| !self.is_test_at(*at))
    }
}

/// Every place where `word` stands, and not as a part of a longer identifier.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> {
    let bytes = code.as_bytes();
    let is_part = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| !is_part(at.checked_sub(1)) && !is_part(Some(at + word.len())))
}

/// Replaces comments and the inside of string and character literals by spaces. Lines and positions stay.
pub(super) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let skipped = if rest.starts_with(b"//") {
            rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            block_comment(rest)
        } else {
            let before = at.checked_sub(1).map(|i| bytes[i]);
            let literal = literal(&text[at..], before);
            if let Some(literal) = literal {
                // The quotes stay, so that a line with nothing but a literal still counts as code.
                out.push(b'"');
                hide(&rest[1..literal - 1], &mut out);
                out.push(b'"');
                at += literal;
                continue;
            }
            0
        };
        if skipped == 0 {
            // Whole characters, so that the text stays valid.
            let len = text[at..].chars().next().map_or(1, char::len_utf8);
            out.extend_from_slice(&bytes[at..at + len]);
            at += len;
        } else {
            hide(&rest[..skipped], &mut out);
            at += skipped;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hide(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }));
}

/// Length of the block comment at the beginning; they nest.
fn block_comment(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if bytes[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Length of the string or character literal at the beginning, if there is one.
fn literal(text: &str, before: Option<u8>) -> Option<usize> {
    let bytes = text.as_bytes();
    let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    match bytes[0] {
        b'"' => Some(quoted(bytes, b'"')),
        b'r' if !in_word => raw_string(bytes, 1),
        b'b' | b'c' if !in_word && bytes.get(1) == Some(&b'r') => raw_string(bytes, 2),
        b'\'' => {
            let mut chars = text[1..].chars();
            match (chars.next()?, chars.next()) {
                ('\\', _) => Some(quoted(bytes, b'\'')),
                (one, Some('\'')) => Some(2 + one.len_utf8()),
                // A lifetime.
                _ => None,
            }
        }
        _ => None,
    }
}

/// Length of a literal with escapes, quotes included.
fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Length of a raw string whose `r` ends before `from`.
fn raw_string(bytes: &[u8], from: usize) -> Option<usize> {
    let hashes = bytes[from..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(from + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let inside = from + hashes + 1;
    let found = bytes[inside..]
        .windows(end.len())
        .position(|window| window == end);
    Some(found.map_or(bytes.len(), |at| inside + at + end.len()))
}

/// The items under `#[cfg(test)]`, attribute included.
fn test_items(code: &str) -> Vec<Range<usize>> {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let begins = code.match_indices(ATTRIBUTE);
    begins
        .map(|(at, _)| at..item_end(code, at + ATTRIBUTE.len()))
        .collect()
}

/// Where the item that begins at `from` ends: after its `;`, or after its braces.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    let mut braces = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' => braces += 1,
            b'}' if braces <= 1 => return at + 1,
            b'}' => braces -= 1,
            b';' if depth == 0 && braces == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_positions_stay() {
        let text = "let a = \"tokio \\\" // é\"; // tokio\n/* tokio /* */ tokio */ let b = '\"'; r#\"tokio\"# 'x: loop {}";
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(words(&code, "tokio").count(), 0, "{code}");
        assert_eq!(code.find("loop"), text.find("loop"));
        assert!(code.contains("let b") && code.contains("'x:"), "{code}");
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_one() {
        let code = "HashMap MyHashMap HashMaps a::HashMap<";
        assert_eq!(words(code, "HashMap").collect::<Vec<_>>(), [0, 30]);
    }

    #[test]
    fn what_is_under_cfg_test_is_no_production_code() {
        let text = "fn a() {}\n\n// a comment\n#[cfg(test)]\n#[path = \"x\"]\nmod tests {\n    fn b() { if true {} }\n}\nfn c() {}\n#[cfg(test)]\nuse d;\nfn e() {\n}\n";
        let source = Source::new("a.rs", text, false);
        let found = |word: &str| source.production_words(word).count();
        assert_eq!(
            (found("a"), found("b"), found("c"), found("d"), found("e")),
            (1, 0, 1, 0, 1)
        );
        assert_eq!(source.production_lines(), 4);
        assert_eq!(source.line(text.find("fn c").unwrap()), 9);
        assert_eq!(Source::new("a.rs", text, true).production_lines(), 0);
    }
}
