//! Modules: which files a target is made of, and which files no target knows.

use super::Finding;
use super::source::{Source, Sources, words};
use super::tree::Tree;
use std::collections::BTreeMap;
use std::ops::Range;

/// A Rust file that no `mod` leads to is neither built nor tested, and rots.
pub(super) fn no_file_is_an_orphan(tree: &Tree, sources: &Sources) -> Vec<Finding> {
    let orphans = tree
        .files
        .keys()
        .filter(|path| path.ends_with(".rs") && sources.find(path).is_none());
    orphans
        .map(|path| {
            Finding::new(
                path,
                1,
                "no module leads to this file",
                "declare it with `mod`, or remove it",
            )
        })
        .collect()
}

/// Adds the file at `path` and all that its modules lead to. `is_root`: it is a target's, so its modules lie beside it.
pub(super) fn follow(
    tree: &Tree,
    path: &str,
    is_root: bool,
    is_test: bool,
    found: &mut BTreeMap<String, Source>,
) {
    let Some(text) = tree.files.get(path) else {
        return;
    };
    // A file that a test and the production code share is production code.
    if found
        .get(path)
        .is_some_and(|known| is_test || !known.is_test)
    {
        return;
    }
    let source = Source::new(path, text, is_test);
    let modules = declared(&source, text);
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let beside = is_root || file == "mod.rs";
    let base = match beside {
        true => folder.to_owned(),
        false => join(folder, file.trim_end_matches(".rs")),
    };
    found.insert(path.to_owned(), source);
    for module in modules {
        let places = match &module.path {
            Some(named) => vec![join(folder, named)],
            None => {
                let name = join(&base, &module.name);
                vec![format!("{name}.rs"), format!("{name}/mod.rs")]
            }
        };
        for place in places {
            follow(tree, &place, false, module.is_test, found);
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// A module in a file of its own.
struct Declared {
    /// With the modules around it, `a/b`.
    name: String,
    /// `#[path = "..."]`.
    path: Option<String>,
    is_test: bool,
}

fn declared(source: &Source, text: &str) -> Vec<Declared> {
    let code = &source.code;
    let mut inline: Vec<(String, Range<usize>)> = Vec::new();
    let mut declared = Vec::new();
    for at in words(code, "mod") {
        let rest = code[at + 3..].trim_start();
        let begin = code.len() - rest.len();
        let is_ident = |c: char| c.is_alphanumeric() || c == '_';
        let len = rest.find(|c| !is_ident(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(len);
        match after.trim_start().chars().next() {
            Some('{') => {
                let open = begin + len + (after.len() - after.trim_start().len());
                inline.push((name.to_owned(), open..closing(code, open)));
            }
            Some(';') => {
                let around = inline.iter().filter(|(_, range)| range.contains(&at));
                let mut names: Vec<&str> = around.map(|(name, _)| name.as_str()).collect();
                names.push(name);
                declared.push(Declared {
                    name: names.join("/"),
                    path: path_attribute(text, at),
                    is_test: source.is_test_at(at),
                });
            }
            _ => {}
        }
    }
    declared
}

/// Where the brace at `open` is closed.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The `#[path = "..."]` among the attribute lines right before the item at `at`.
fn path_attribute(text: &str, at: usize) -> Option<String> {
    let before = &text[..text[..at].rfind('\n')?];
    let attributes = before
        .lines()
        .rev()
        .take_while(|line| line.trim_start().starts_with("#["));
    let mut paths =
        attributes.filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
    paths.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixtures::core;
    use super::*;

    #[test]
    fn a_file_without_a_module_is_found_and_nested_ones_are_not() {
        let tree = core(&[
            (
                "lib.rs",
                "mod a;\npub mod b { mod c; }\n#[cfg(test)]\nmod tests;\n#[path = \"odd/name.rs\"]\nmod d;\n// mod orphan;\n",
            ),
            ("a.rs", "mod inner;"),
            ("a/inner.rs", ""),
            ("b/c/mod.rs", "mod deep;"),
            ("b/c/deep.rs", ""),
            ("tests.rs", "mod more;"),
            ("tests/more.rs", ""),
            ("odd/name.rs", ""),
            ("orphan.rs", ""),
        ]);
        let sources = Sources::of(&tree);
        let findings = no_file_is_an_orphan(&tree, &sources);
        let paths: Vec<_> = findings.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["host/core/src/orphan.rs"]);
    }

    #[test]
    fn a_file_is_a_test_when_only_tests_lead_to_it() {
        let tree = core(&[
            ("lib.rs", "mod a;\n#[cfg(test)]\nmod tests;\n"),
            ("a.rs", ""),
            ("tests.rs", "mod more;"),
            ("tests/more.rs", ""),
        ]);
        let sources = Sources::of(&tree);
        let is_test = |name: &str| {
            sources
                .find(&format!("host/core/src/{name}"))
                .unwrap()
                .is_test
        };
        assert_eq!(
            ["lib.rs", "a.rs", "tests.rs", "tests/more.rs"].map(is_test),
            [false, false, true, true]
        );
    }
}
