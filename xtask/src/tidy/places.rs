//! The repository is the same on every machine: it names no folder and no mirror of one.

use super::Finding;
use super::source::Sources;
use super::tree::Tree;

/// Folders and hosts, in two parts each so that this file passes its own rule.
const PLACES: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("/hom", "e/"),
    ("/Use", "rs/"),
    ("proxy.golang", ".org"),
    ("sum.golang", ".org"),
    ("goproxy", ".io"),
    ("index.crates", ".io"),
    ("static.crates", ".io"),
    ("static.rust-lang", ".org"),
    ("registry.npmjs", ".org"),
    ("files.pythonhosted", ".org"),
];

/// A path or a registry's host works on the machine it was written on.
pub(super) fn no_machine_is_named(tree: &Tree, _: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A lock file names sources by itself.
    let files = tree
        .files
        .iter()
        .filter(|(path, _)| !path.ends_with("Cargo.lock"));
    for (path, text) in files {
        for (index, line) in text.lines().enumerate() {
            let named = PLACES
                .iter()
                .map(|(one, two)| format!("{one}{two}"))
                .find(|place| names(line, place));
            if let Some(place) = named {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("names `{place}`, a place of one machine or network"),
                    "take it from the environment, or leave it to the tool's own settings",
                ));
            }
        }
    }
    findings
}

/// Whether the place stands there by itself: a path is none when it goes on from something, as in `target/work/`.
fn names(line: &str, place: &str) -> bool {
    let stands_alone = |at: usize| {
        let before = line[..at].chars().next_back();
        !place.starts_with('/')
            || !before.is_some_and(|c| c.is_alphanumeric() || "_-.}/~*$)>".contains(c))
    };
    line.match_indices(place).any(|(at, _)| stands_alone(at))
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixtures::files;
    use super::*;

    #[test]
    fn a_path_of_a_machine_and_a_host_are_found_and_a_part_of_a_path_is_not() {
        let seeded = |place: (&str, &str)| format!("fine\nsee {}{}x\n", place.0, place.1);
        for place in PLACES {
            let tree = files(&[("docs/a.md", &seeded(*place))]);
            let found = no_machine_is_named(&tree, &Sources::default());
            assert_eq!(found.len(), 1, "{place:?}");
            assert_eq!(found[0].line, 2);
        }
        let (one, two) = PLACES[0];
        let fine = format!("target{one}{two}x $HOME{one}{two}y\n");
        let lock = seeded(PLACES[0]);
        let tree = files(&[("a.md", fine.as_str()), ("Cargo.lock", &lock)]);
        assert_eq!(no_machine_is_named(&tree, &Sources::default()), []);
    }
}
