//! Rules about the documents: what they promise is there.

use super::Finding;
use super::source::Sources;
use super::tree::Tree;
use std::collections::BTreeSet;

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Each invariant of ARCHITECTURE.md (`**I1. sentence.** … Tests: \`name\`, \`name\`.`) names tests that exist: what no
/// test holds is a wish.
pub(super) fn invariants_name_their_tests(tree: &Tree, sources: &Sources) -> Vec<Finding> {
    let Some(text) = tree.files.get(ARCHITECTURE) else {
        let todo = "write the bird's-eye view, the code map and the numbered invariants";
        return vec![Finding::new(ARCHITECTURE, 1, "the file is missing", todo)];
    };
    let tests = test_names(sources);
    let mut findings = Vec::new();
    let mut find = |line: usize, what: String, todo: &str| {
        findings.push(Finding::new(ARCHITECTURE, line, what, todo));
    };
    let invariants = invariants(text);
    if invariants.is_empty() {
        let todo = "write each as `**I1. sentence.** … Tests: `name`.`";
        find(1, "no numbered invariant".to_owned(), todo);
    }
    for (index, invariant) in invariants.iter().enumerate() {
        let Invariant { number, line, body } = invariant;
        if *number != index + 1 {
            let what = format!("invariant I{number} stands where I{} should", index + 1);
            find(*line, what, "number them without gaps, in order");
        }
        let Some((_, named)) = body.split_once("Tests:") else {
            let what = format!("invariant I{number} names no test");
            find(
                *line,
                what,
                "add `Tests:` and the names of the tests that hold it",
            );
            continue;
        };
        let named = backticked(named);
        if named.is_empty() {
            let what = format!("invariant I{number} names no test");
            find(
                *line,
                what,
                "put the tests' names after `Tests:`, each in backticks",
            );
        }
        for name in named {
            let function = name.rsplit("::").next().unwrap_or(name);
            if !tests.contains(function) {
                let what = format!("invariant I{number} names `{name}`, and there is no such test");
                find(*line, what, "name a test function that exists");
            }
        }
    }
    findings
}

struct Invariant {
    number: usize,
    line: usize,
    /// Up to the next invariant or heading, as one line.
    body: String,
}

fn invariants(text: &str) -> Vec<Invariant> {
    let mut invariants: Vec<Invariant> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let begins = line
            .trim_start_matches(['-', '*', ' '])
            .strip_prefix('I')
            .filter(|_| line.contains("**I"))
            .and_then(|rest| rest.split_once('.'))
            .and_then(|(number, _)| number.parse().ok());
        if let Some(number) = begins {
            open = true;
            invariants.push(Invariant {
                number,
                line: index + 1,
                body: String::new(),
            });
        } else if line.starts_with('#') {
            open = false;
        }
        if let (true, Some(last)) = (open, invariants.last_mut()) {
            last.body.push_str(line);
            last.body.push(' ');
        }
    }
    invariants
}

fn backticked(text: &str) -> Vec<&str> {
    // Every second piece is inside.
    text.split('`').skip(1).step_by(2).map(str::trim).collect()
}

/// Names of functions under an attribute that makes them tests.
fn test_names(sources: &Sources) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for source in sources.iter() {
        let mut is_test = false;
        for line in source.code.lines().map(str::trim) {
            if line.starts_with("#[") && line.contains("test") {
                is_test = !line.contains("cfg(");
            }
            let Some((_, after)) = line.split_once("fn ") else {
                // Attributes and nothing else may stand between the two.
                is_test &= line.is_empty() || line.starts_with("#[");
                continue;
            };
            if std::mem::take(&mut is_test) {
                let is_ident = |c: char| c.is_alphanumeric() || c == '_';
                names.insert(&after[..after.find(|c| !is_ident(c)).unwrap_or(after.len())]);
            }
        }
    }
    names
}

/// A link from one document to a file of the checkout must find it.
pub(super) fn links_lead_somewhere(tree: &Tree, _: &Sources) -> Vec<Finding> {
    let documents = tree.files.iter().filter(|(path, _)| path.ends_with(".md"));
    let mut findings = Vec::new();
    for (path, text) in documents {
        for (line, link) in links(text) {
            let file = link.split(['#', '?']).next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let wanted = resolve(path, file);
            if !wanted.as_ref().is_some_and(|wanted| tree.has(wanted)) {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("the link to `{link}` leads nowhere"),
                    "correct the path (it starts at the document's folder), or remove the link",
                ));
            }
        }
    }
    findings
}

/// The targets of `[text](target)` and `[name]: target` outside of code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
        {
            links.push((index + 1, target.trim()));
        }
        for (at, _) in line.match_indices("](") {
            // Between backticks it is code.
            if line[..at].matches('`').count() % 2 == 1 {
                continue;
            }
            let rest = &line[at + 2..];
            let target = &rest[..rest.find([')', ' ']).unwrap_or(rest.len())];
            links.push((index + 1, target.trim_matches(['<', '>'])));
        }
    }
    links
}

/// A link's path from the checkout's root; `None` if it leads out of it.
fn resolve(document: &str, link: &str) -> Option<String> {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let start = if link.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = start.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixtures::{core, files};
    use super::*;

    /// What is found in an ARCHITECTURE.md beside a test `it_holds` and a function `it_does_not`.
    fn found(architecture: &str) -> Vec<(usize, String)> {
        let mut tree = core(&[(
            "lib.rs",
            "#[cfg(test)]\nmod tests {\n    #[tokio::test]\n    #[allow(x)]\n    async fn it_holds() {}\n}\n#[cfg(test)]\nfn it_does_not() {}\n",
        )]);
        tree.files
            .insert(ARCHITECTURE.to_owned(), architecture.to_owned());
        let findings = invariants_name_their_tests(&tree, &Sources::of(&tree));
        findings.into_iter().map(|f| (f.line, f.what)).collect()
    }

    #[test]
    fn an_invariant_needs_a_test_that_exists() {
        assert_eq!(
            found("# A\n**I1. One.** Because\nof it. Tests:\n`a::tests::it_holds`.\n\n## B\n`x`\n"),
            []
        );
        let wrong = "**I1. One.** Tests: `it_holds`, `it_does_not`.\n- **I3. Two.** Nothing.\n**I3. Three.** Tests: none.\n";
        let lines: Vec<_> = found(wrong).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 2, 3], "{:?}", found(wrong));
        assert_eq!(found("nothing\n").len(), 1);
    }

    #[test]
    fn a_document_that_is_missing_is_found() {
        let tree = files(&[]);
        assert_eq!(
            invariants_name_their_tests(&tree, &Sources::of(&tree)).len(),
            1
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let text = "\
[a](../README.md#five-minutes) [b](img/) ![c](https://example.org/x) [d](#here)
[gone](gone.md) and `[code](gone.md)` [out](../../x.md)
```
[code](gone.md)
```
[e]: guide.md
[f]: missing.md
";
        let tree = files(&[
            ("docs/guide.md", text),
            ("README.md", "[docs](docs) [root](/docs/guide.md)"),
            ("docs/img/a.svg", ""),
        ]);
        let lines: Vec<_> = links_lead_somewhere(&tree, &Sources::default())
            .iter()
            .map(|f| (f.path.clone(), f.line))
            .collect();
        let guide = "docs/guide.md".to_owned();
        assert_eq!(lines, [(guide.clone(), 2), (guide.clone(), 2), (guide, 7)]);
    }
}
