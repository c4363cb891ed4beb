//! Rules about the documents: what they promise is there.

use super::Finding;
use super::source::{Source, Sources};
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const RELIABILITY: &str = "docs/reliability.md";
/// The heading over the table of reports in [`RELIABILITY`].
const REPORTS: &str = "## Public reports and the tests that hold them";

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
    let all = sources.iter().flat_map(tests_of);
    all.map(|(_, name)| name).collect()
}

/// The same of one file, each with the line of its `fn`, from 0.
fn tests_of(source: &Source) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (index, line) in source.code.lines().map(str::trim).enumerate() {
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
            let name = &after[..after.find(|c| !is_ident(c)).unwrap_or(after.len())];
            found.push((index, name));
        }
    }
    found
}

/// Each row of the table of public reports (`| kind of fault | report, report | \`test\`, \`test\` |`) names tests that exist,
/// and each of its reports stands in the doc lines of at least one of them: a report that no test answers may come true.
pub(super) fn reports_are_held_by_tests(tree: &Tree, sources: &Sources) -> Vec<Finding> {
    let rows = tree.files.get(RELIABILITY).map(|text| reports(text));
    let rows = rows.unwrap_or_default();
    if rows.is_empty() {
        let todo = format!("write it under `{REPORTS}`, one row for each kind of fault");
        return vec![Finding::new(
            RELIABILITY,
            1,
            "no table of public reports",
            todo,
        )];
    }
    let docs = test_docs(tree, sources);
    let mut findings = Vec::new();
    let mut find = |line: usize, what: String, todo: &str| {
        findings.push(Finding::new(RELIABILITY, line, what, todo));
    };
    for Reports { line, named, tests } in rows {
        if named.is_empty() || tests.is_empty() {
            let what = "a row names no report or no test".to_owned();
            find(
                line,
                what,
                "write `| fault | report, report | `test`, `test` |`",
            );
        }
        for test in tests.iter().filter(|test| !docs.contains_key(**test)) {
            let what = format!("names `{test}`, and there is no such test");
            find(line, what, "name a test function that exists");
        }
        let says = |report: &str| {
            let of_row = tests.iter().filter_map(|test| docs.get(*test));
            of_row.into_iter().any(|doc| mentions(doc, report))
        };
        for report in named.iter().filter(|report| !says(report)) {
            let what = format!("the doc line of no test of this row names {report}");
            find(
                line,
                what,
                "name it (`/// repository#number`) at the test that holds it",
            );
        }
    }
    findings
}

/// One row of the table of reports.
struct Reports<'a> {
    line: usize,
    named: Vec<&'a str>,
    tests: Vec<&'a str>,
}

fn reports(text: &str) -> Vec<Reports<'_>> {
    let lines = text.lines().enumerate();
    let below = lines.skip_while(|(_, line)| line.trim() != REPORTS).skip(1);
    let section = below.take_while(|(_, line)| !line.starts_with("## "));
    let rows = section.filter_map(|(index, line)| {
        let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
        let (fault, named, tests) = (cells.next()?, cells.next()?, cells.next()?);
        let named = named.split(',').map(str::trim);
        Some((
            fault,
            Reports {
                line: index + 1,
                named: named.filter(|name| !name.is_empty()).collect(),
                tests: backticked(tests),
            },
        ))
    });
    // The first two are the head and the rule below it.
    rows.skip(2).map(|(_, row)| row).collect()
}

/// Whether a text names a report, and not one whose number only begins like it.
fn mentions(text: &str, report: &str) -> bool {
    text.match_indices(report)
        .any(|(at, _)| !text[at + report.len()..].starts_with(|c: char| c.is_alphanumeric()))
}

/// The doc lines of every test function, by its name.
fn test_docs(tree: &Tree, sources: &Sources) -> BTreeMap<String, String> {
    let mut docs: BTreeMap<String, String> = BTreeMap::new();
    for source in sources.iter() {
        let text = tree.files.get(&source.path).map_or("", String::as_str);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (line, name) in tests_of(source) {
            let above = lines[..line].iter().rev();
            let above = above.take_while(|line| line.starts_with("#[") || line.starts_with("///"));
            let doc = docs.entry(name.to_owned()).or_default();
            above.for_each(|line| *doc = format!("{line}\n{doc}"));
        }
    }
    docs
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
    fn a_report_needs_a_test_that_exists_and_names_it() {
        let mut tree = core(&[(
            "lib.rs",
            "#[cfg(test)]\nmod tests {\n    /// kopf#12: it\n    /// goes. kro#3\n    #[test]\n    fn it_holds() {}\n    /// kro#4\n    #[test]\n    fn another() {}\n}\n",
        )]);
        let mut lines = |table: &str| {
            let head = "| fault | reports | tests |\n|---|---|---|\n";
            let text = format!("# R\n{REPORTS}\n{head}{table}\n## End\n| x | y#1 | `z` |\n");
            tree.files.insert(RELIABILITY.to_owned(), text);
            let findings = reports_are_held_by_tests(&tree, &Sources::of(&tree));
            findings.iter().map(|f| f.line).collect::<Vec<_>>()
        };
        assert_eq!(
            lines("| a | kopf#12, kro#3 | `it_holds` |"),
            [] as [usize; 0]
        );
        assert_eq!(
            lines("| a | kro#3, kro#4 | `it_holds`, `another` |"),
            [] as [usize; 0]
        );
        let wrong = "| a | kopf#1 | `it_holds` |\n| b | kro#4 | `it_holds` |\n| c | kro#4 | `gone` |\n| d | | |";
        assert_eq!(lines(wrong), [5, 6, 7, 7, 8]);
        assert_eq!(lines(""), [1], "no table");
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
