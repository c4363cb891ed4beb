//! Rules about the code itself.

use super::Finding;
use super::source::{Source, Sources, words};
use super::tree::Tree;

/// Lines of production code in one file, comments and tests not counted.
const LONGEST: usize = 400;
/// What a longer file carries, with its reason behind it.
const LONG_FILE: &str = "// tidy: long file:";

/// Words that bring the world, or an order that differs from run to run, into what must be pure.
const IMPURE: &[(&str, &str)] = &[
    ("tokio", "leave waiting to the operator"),
    ("kube", "leave the cluster to the operator"),
    ("k8s_openapi", "leave the cluster to the operator"),
    ("hyper", "leave requests to the operator"),
    ("reqwest", "leave requests to the operator"),
    ("wasmtime", "leave plugins to the sandbox"),
    ("SystemTime", "take the time as an argument"),
    ("Instant", "take the time as an argument"),
    ("Timestamp::now", "take the time as an argument"),
    ("Zoned::now", "take the time as an argument"),
    (
        "HashMap",
        "use BTreeMap: its order is the same in every run",
    ),
    (
        "HashSet",
        "use BTreeSet: its order is the same in every run",
    ),
];
/// Modules of `std` that do the same.
const IMPURE_STD: &[&str] = &["env", "fs", "net", "process", "thread"];

/// `guesthouse-core` has no I/O, no clock, no runtime, and no order by chance (ARCHITECTURE.md).
pub(super) fn core_is_pure(_: &Tree, sources: &Sources) -> Vec<Finding> {
    let core = sources
        .iter()
        .filter(|source| source.path.starts_with("host/core/src/"));
    core.flat_map(impurities).collect()
}

fn impurities(source: &Source) -> Vec<Finding> {
    let finding = |at: usize, what: &str, todo: &str| {
        let what = format!("the pure core names `{what}`");
        Finding::new(&source.path, source.line(at), what, todo)
    };
    let mut findings = Vec::new();
    for (word, todo) in IMPURE {
        findings.extend(
            source
                .production_words(word)
                .map(|at| finding(at, word, todo)),
        );
    }
    for at in source.production_words("std") {
        let Some(after) = source.code[at..].strip_prefix("std::") else {
            continue;
        };
        // One name, or a group of them up to the end of the `use`.
        let names = if after.starts_with('{') {
            &after[..after.find(';').unwrap_or(after.len())]
        } else {
            let is_ident = |c: char| c.is_alphanumeric() || c == '_';
            &after[..after.find(|c| !is_ident(c)).unwrap_or(after.len())]
        };
        for module in IMPURE_STD {
            // In a group, `str::fs` would be something else; none of these is the name of anything below `std`.
            findings.extend(words(names, module).map(|within| {
                let within = at + "std::".len() + within;
                finding(
                    within,
                    &format!("std::{module}"),
                    "do that in the operator and pass in what came of it",
                )
            }));
        }
    }
    findings
}

/// A file that cannot be seen at once hides more than one idea.
pub(super) fn files_are_short(tree: &Tree, sources: &Sources) -> Vec<Finding> {
    let long = |source: &Source| {
        let lines = source.production_lines();
        let text = tree.files.get(&source.path)?;
        let reason = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(LONG_FILE));
        if lines <= LONGEST || reason.is_some_and(|reason| !reason.trim().is_empty()) {
            return None;
        }
        Some(Finding::new(
            &source.path,
            1,
            format!("{lines} lines of production code, {LONGEST} are allowed"),
            format!("split it by idea, or say why it is one in a line `{LONG_FILE} REASON`"),
        ))
    };
    sources.iter().filter_map(long).collect()
}

/// Whoever opens a crate must find there what it is for.
pub(super) fn crate_roots_have_docs(tree: &Tree, _: &Sources) -> Vec<Finding> {
    let targets = tree.packages.iter().flat_map(|package| &package.targets);
    let bare = targets.filter(|target| {
        let text = tree.files.get(&target.root);
        target.kind != "custom-build" && text.is_some_and(|text| !begins_with_docs(text))
    });
    bare.map(|target| {
        Finding::new(
            &target.root,
            1,
            "a crate's root without `//!` docs",
            "say what the crate is for and what it guarantees",
        )
    })
    .collect()
}

fn begins_with_docs(text: &str) -> bool {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("#!["));
    first.is_some_and(|line| line.starts_with("//!") && line.len() > 3)
}

/// Nothing that waits to be finished, and no test switched off without a word. (clippy sees neither the code of other
/// targets and platforms, nor what is under an `allow`.)
pub(super) fn nothing_is_left_open(_: &Tree, sources: &Sources) -> Vec<Finding> {
    const LEFT_OPEN: &[(&str, &str, &str)] = &[
        (
            "todo",
            "!",
            "write it, or return an error that says what is not built yet",
        ),
        (
            "unimplemented",
            "!",
            "write it, or return an error that says what is not built yet",
        ),
        ("dbg", "!", "remove it, or log through tracing"),
        (
            "ignore",
            "]",
            "give the reason, `#[ignore = \"...\"]`, or make the test run",
        ),
    ];
    let mut findings = Vec::new();
    for source in sources.iter() {
        for (word, next, todo) in LEFT_OPEN {
            let found = words(&source.code, word).filter(|at| {
                source.code[at + word.len()..].starts_with(next)
                    && (*next == "!" || source.code[..*at].ends_with("#["))
            });
            findings.extend(found.map(|at| {
                let what = format!("`{word}{next}` in the code");
                Finding::new(&source.path, source.line(at), what, *todo)
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixtures::core;
    use super::*;

    /// The lines that a rule finds in `lib.rs` of the core.
    fn lines(rule: fn(&Tree, &Sources) -> Vec<Finding>, text: &str) -> Vec<usize> {
        let tree = core(&[("lib.rs", text)]);
        let mut lines: Vec<_> = rule(&tree, &Sources::of(&tree))
            .iter()
            .map(|f| f.line)
            .collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn a_core_that_names_the_world_is_found_and_its_tests_may() {
        let text = "\
use std::{collections::HashMap, fs};
use tokio::time::sleep;
fn a() -> std::time::Instant { std::thread::yield_now(); }
use std::{collections::BTreeMap, fmt, time::Duration};
/// HashMap, std::fs and tokio in words are no use of them.
fn b(environment: &str) { let fs = 1; let _ = \"std::fs\"; }
#[cfg(test)]
mod tests { use std::collections::HashMap; use std::fs; }
";
        assert_eq!(lines(core_is_pure, text), [1, 1, 2, 3, 3]);
    }

    #[test]
    fn only_the_core_must_be_pure() {
        let mut tree = core(&[("lib.rs", "use std::fs;")]);
        tree.packages[0] =
            super::super::tree::fixtures::package("guesthouse-operator", "host/operator", &[]);
        tree.files = tree
            .files
            .into_iter()
            .map(|(path, text)| (path.replace("core", "operator"), text))
            .collect();
        assert_eq!(core_is_pure(&tree, &Sources::of(&tree)), []);
    }

    #[test]
    fn a_long_file_needs_a_reason_and_comments_and_tests_do_not_count() {
        let just = format!(
            "{}// a comment\n\n#[cfg(test)]\nmod tests {{\n fn a() {{}}\n}}\n",
            "fn a() {}\n".repeat(LONGEST)
        );
        let long = format!("{just}fn one_more() {{}}\n");
        assert!(lines(files_are_short, &just).is_empty());
        assert_eq!(lines(files_are_short, &long), [1]);
        assert!(lines(files_are_short, &format!("{LONG_FILE} one table\n{long}")).is_empty());
        assert_eq!(lines(files_are_short, &format!("{LONG_FILE}\n{long}")), [1]);
    }

    #[test]
    fn a_crate_without_docs_at_its_root_is_found() {
        assert!(lines(crate_roots_have_docs, "#![no_std]\n\n//! What for.\n").is_empty());
        assert_eq!(lines(crate_roots_have_docs, "//!\nmod a;\n"), [1]);
        assert_eq!(lines(crate_roots_have_docs, "mod a;\n//! Too late.\n"), [1]);
    }

    #[test]
    fn what_is_left_open_is_found_in_tests_too() {
        let text = "\
fn a() { todo!() }
// todo!() in a comment
#[cfg(test)]
mod tests {
    fn b() { dbg!(1); std::unimplemented!() }
    #[ignore]
    fn c() {}
    #[ignore = \"needs a kernel of its own\"]
    fn todo() { ignore[0] }
}
";
        assert_eq!(lines(nothing_is_left_open, text), [1, 5, 5, 6]);
    }
}
