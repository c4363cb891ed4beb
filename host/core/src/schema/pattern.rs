//! Patterns of a schema are Go's regular expressions; Rust's are almost the same. The difference is bridged here, so that a
//! pattern never says something else than it does at the server.

use regex::Regex;

/// Compiles a pattern as Go reads it: `\d`, `\s`, `\w` and `\b` are ASCII, `\Q…\E` quotes, and in brackets `[`, `&&`, `--`
/// and `~~` are plain (<https://github.com/google/re2/wiki/Syntax>).
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern);
    // regex says what is wrong over several lines, with a picture.
    Regex::new(&translated).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        last.strip_prefix("error: ").unwrap_or(last).to_owned()
    })
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class = Class::Outside;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '\\' {
            rest = escape(&mut out, rest, class != Class::Outside);
            class = class.inside();
            continue;
        }
        match (class, c) {
            (Class::Outside, '[') => {
                class = Class::Begins;
                out.push('[');
                if let Some(after) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = after;
                }
            }
            (Class::Outside, _) => out.push(c),
            // A bracket that closes at once is one of the characters.
            (Class::Begins, ']') => {
                out.push_str(r"\]");
                class = Class::Inside;
            }
            (_, ']') => {
                out.push(']');
                class = Class::Outside;
            }
            (_, '[') if rest.starts_with(':') && rest.contains(":]") => {
                let end = rest.find(":]").map_or(0, |at| at + 2);
                out.push('[');
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                class = Class::Inside;
            }
            (_, '[') => {
                out.push_str(r"\[");
                class = Class::Inside;
            }
            (_, '&' | '~') => {
                out.push('\\');
                out.push(c);
                class = Class::Inside;
            }
            _ => {
                out.push(c);
                class = Class::Inside;
            }
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Outside,
    Begins,
    Inside,
}

impl Class {
    fn inside(self) -> Self {
        match self {
            Self::Outside => Self::Outside,
            Self::Begins | Self::Inside => Self::Inside,
        }
    }
}

/// Writes what a backslash begins; returns what is left.
fn escape<'a>(out: &mut String, rest: &'a str, in_class: bool) -> &'a str {
    let Some(c) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let after = &rest[c.len_utf8()..];
    if c == 'Q' {
        let (quoted, after) = after.split_once(r"\E").unwrap_or((after, ""));
        out.push_str(&regex::escape(quoted));
        return after;
    }
    let written = match (c, in_class) {
        ('d', false) => "[0-9]",
        ('d', true) => "0-9",
        ('D', _) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('w', true) => "0-9A-Za-z_",
        ('W', _) => "[^0-9A-Za-z_]",
        ('s', false) => r"[\t\n\f\r ]",
        ('s', true) => r"\t\n\f\r ",
        ('S', _) => r"[^\t\n\f\r ]",
        ('b', false) => r"(?-u:\b)",
        ('B', false) => r"(?-u:\B)",
        _ => {
            out.push('\\');
            out.push(c);
            return after;
        }
    };
    out.push_str(written);
    // `[\w-.]`: no range begins at a class.
    match after.strip_prefix('-') {
        Some(after) if in_class => {
            out.push_str(r"\-");
            after
        }
        _ => after,
    }
}
