//! `cargo xtask tidy`: the project's rules that neither the compiler nor clippy checks.
//!
//! Each rule is a function from the checkout's text ([`Tree`]) to findings, so that its test can seed a violation. A
//! finding says where, what is wrong and what to do; there is no list of exceptions beside the code.

mod code;
mod documents;
mod manifests;
mod modules;
mod places;
mod source;
mod tree;

use crate::generate;
use anyhow::Result;
use clap::Parser;
use source::Sources;
use std::fmt;
use std::process::ExitCode;
use tree::Tree;

/// Check the project's own rules: layers, pure core, orphan files, long files, invariants with tests, links, generated files.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask tidy
  cargo xtask tidy --quick                      only what needs no build: seconds")]
pub(crate) struct Args {
    /// Leave out the generated files: comparing them builds host and plugins.
    #[arg(long)]
    quick: bool,
}

/// Something that is against a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1.
    line: usize,
    what: String,
    todo: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
            todo: todo.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            what,
            todo,
        } = self;
        write!(f, "{path}:{line}: {what}; {todo}")
    }
}

type Rule = fn(&Tree, &Sources) -> Vec<Finding>;

const RULES: &[Rule] = &[
    code::core_is_pure,
    code::files_are_short,
    code::crate_roots_have_docs,
    code::nothing_is_left_open,
    manifests::core_depends_on_pure_crates,
    manifests::dependencies_point_down,
    manifests::lints_are_inherited,
    modules::no_file_is_an_orphan,
    documents::invariants_name_their_tests,
    documents::reports_are_held_by_tests,
    documents::links_lead_somewhere,
    places::no_machine_is_named,
];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let tree = Tree::read()?;
    let sources = Sources::of(&tree);
    let mut findings: Vec<Finding> = RULES
        .iter()
        .flat_map(|rule| rule(&tree, &sources))
        .collect();
    if !args.quick {
        let drifted = generate::drifted()?;
        findings.extend(drifted.iter().map(|path| {
            Finding::new(
                path,
                1,
                "is not what its source says",
                "run: cargo xtask generate",
            )
        }));
    }
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        eprintln!(
            "tidy: {} rules hold over {} files",
            RULES.len() + usize::from(!args.quick),
            tree.files.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: findings: {}", findings.len());
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_that_an_editor_can_follow() {
        let finding = Finding::new("host/core/src/a.rs", 7, "names tokio", "pass it in");
        assert_eq!(
            finding.to_string(),
            "host/core/src/a.rs:7: names tokio; pass it in"
        );
    }

    #[test]
    fn the_checkout_is_read_with_its_packages_and_without_what_is_built() {
        let tree = Tree::read().unwrap();
        assert!(tree.files.contains_key("xtask/src/tidy.rs"));
        assert!(!tree.files.keys().any(|path| path.starts_with("target/")));
        let core = tree.package("guesthouse-core").unwrap();
        assert_eq!(core.manifest, "host/core/Cargo.toml");
        assert!(
            Sources::of(&tree)
                .find("xtask/src/tidy/source.rs")
                .is_some()
        );
    }
}
