//! Rules about Cargo.toml files: who may depend on whom.

use super::Finding;
use super::source::Sources;
use super::tree::{Package, Tree};

const CORE: &str = "guesthouse-core";
const ARTIFACT: &str = "guesthouse-artifact";
const SANDBOX: &str = "guesthouse-sandbox";
const OPERATOR: &str = "guesthouse-operator";
const CLI: &str = "guesthouse";

/// Crates without I/O, clocks and threads of their own. (`jiff` and `url` can do more than the core calls.)
const PURE: &[&str] = &[
    "base64",
    "blake3",
    "jiff",
    // Evaluates rules of a schema; despite its name there is no client in it, and chrono below it is never asked for now.
    "kube-cel",
    "regex",
    "schemars",
    "serde",
    "serde-saphyr",
    "serde_json",
    "thiserror",
    "url",
];

/// The one direction: each crate of the host, and those of the host it may depend on.
const LAYERS: &[(&str, &[&str])] = &[
    (CORE, &[]),
    (ARTIFACT, &[]),
    (SANDBOX, &[CORE]),
    (OPERATOR, &[SANDBOX, CORE, ARTIFACT]),
    (CLI, &[OPERATOR, SANDBOX, CORE, ARTIFACT]),
];

/// What the core is made of decides what it can do.
pub(super) fn core_depends_on_pure_crates(tree: &Tree, _: &Sources) -> Vec<Finding> {
    let Some(core) = tree.package(CORE) else {
        return Vec::new();
    };
    let impure = core
        .dependencies
        .iter()
        .filter(|d| !d.is_dev() && !PURE.contains(&d.name.as_str()));
    impure
        .map(|dependency| {
            // The layers have a rule, and so a message, of their own, but saying it twice harms nobody.
            let what = format!("the pure core depends on `{}`", dependency.name);
            finding(
                tree,
                core,
                &dependency.name,
                what,
                "do that in another layer; if the crate has no I/O, clock or threads, name it in PURE of xtask/src/tidy/manifests.rs",
            )
        })
        .collect()
}

/// cli → operator → {sandbox, core, artifact}, sandbox → core; what runs in a guest knows nothing of the host.
pub(super) fn dependencies_point_down(tree: &Tree, _: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let allowed = LAYERS.iter().find(|(name, _)| *name == package.name);
        let is_guest_side =
            package.manifest.starts_with("guest-sdk/") || package.manifest.starts_with("plugins/");
        let allowed: &[&str] = match allowed {
            Some((_, allowed)) => allowed,
            None if is_guest_side => &[],
            // Tasks, tests and benchmarks stand above all layers.
            None => continue,
        };
        for dependency in package.dependencies.iter().filter(|d| !d.is_dev()) {
            let of_the_host = LAYERS.iter().any(|(name, _)| *name == dependency.name);
            let of_the_workspace = tree.package(&dependency.name).is_some();
            let wrong = match is_guest_side {
                true => of_the_host,
                false => of_the_workspace && !allowed.contains(&dependency.name.as_str()),
            };
            if wrong {
                let what = format!("`{}` depends on `{}`", package.name, dependency.name);
                findings.push(finding(
                    tree,
                    package,
                    &dependency.name,
                    what,
                    "dependencies go one way, cli → operator → {sandbox, core, artifact} and sandbox → core, and guests know the contract alone: move the code",
                ));
            }
        }
    }
    findings
}

/// A crate with lints of its own, or none, is outside of what all others obey. (One that is a workspace of its own has
/// none to inherit.)
pub(super) fn lints_are_inherited(tree: &Tree, _: &Sources) -> Vec<Finding> {
    let inherits = |text: &str| {
        let after = text.lines().skip_while(|line| line.trim() != "[lints]");
        let section = after.skip(1).take_while(|line| !line.starts_with('['));
        section
            .into_iter()
            .any(|line| line.replace(' ', "") == "workspace=true")
    };
    let own = tree.packages.iter().filter(|package| {
        let text = tree.files.get(&package.manifest);
        text.is_some_and(|text| !inherits(text) && !text.lines().any(|line| line == "[workspace]"))
    });
    own.map(|package| {
        Finding::new(
            &package.manifest,
            1,
            "the workspace's lints are not inherited",
            "add `[lints]` with `workspace = true`",
        )
    })
    .collect()
}

/// A finding at the line of the manifest that names the dependency.
fn finding(tree: &Tree, package: &Package, dependency: &str, what: String, todo: &str) -> Finding {
    let text = tree.files.get(&package.manifest);
    let names = |line: &str| {
        line.strip_prefix(dependency)
            .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    let line = text.and_then(|text| text.lines().position(names));
    Finding::new(&package.manifest, line.map_or(1, |at| at + 1), what, todo)
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixtures::{files, package};
    use super::*;

    fn tree(packages: Vec<Package>) -> Tree {
        Tree {
            packages,
            ..files(&[(
                "host/core/Cargo.toml",
                "[package]\n\n[dependencies]\nserde.workspace = true\ntokio.workspace = true\n",
            )])
        }
    }

    #[test]
    fn a_core_that_depends_on_a_runtime_is_found_at_its_line() {
        let tree = tree(vec![package(CORE, "host/core", &["serde", "tokio"])]);
        let found = core_depends_on_pure_crates(&tree, &Sources::default());
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].line, found[0].what.contains("`tokio`")),
            (5, true)
        );
    }

    #[test]
    fn a_dependency_that_points_up_is_found_and_the_layers_are_not() {
        let mut packages = vec![
            package(CORE, "host/core", &[]),
            package(SANDBOX, "host/sandbox", &[CORE]),
            package(ARTIFACT, "host/artifact", &[]),
            package(OPERATOR, "host/operator", &[SANDBOX, CORE, ARTIFACT]),
            package(CLI, "host/cli", &[OPERATOR, SANDBOX, CORE, ARTIFACT]),
            package("guesthouse-sdk", "guest-sdk/rust", &[]),
            package("report-job", "plugins/report-job", &["guesthouse-sdk"]),
            package("xtask", "xtask", &[CORE]),
        ];
        let found = |packages: Vec<Package>| {
            let found = dependencies_point_down(&tree(packages), &Sources::default());
            found.into_iter().map(|f| f.path).collect::<Vec<_>>()
        };
        packages[1] = package(SANDBOX, "host/sandbox", &[OPERATOR]);
        assert_eq!(found(packages), ["host/sandbox/Cargo.toml"]);

        let up = vec![
            package(CORE, "host/core", &["xtask"]),
            package(ARTIFACT, "host/artifact", &[CORE]),
            package("xtask", "xtask", &[]),
            package("report-job", "plugins/report-job", &[CORE]),
        ];
        assert_eq!(
            found(up),
            [
                "host/core/Cargo.toml",
                "host/artifact/Cargo.toml",
                "plugins/report-job/Cargo.toml"
            ]
        );
    }

    #[test]
    fn a_crate_without_the_workspaces_lints_is_found() {
        let with = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n";
        let without =
            "[package]\nversion.workspace = true\n[lints.rust]\nunsafe_code = \"allow\"\n";
        let elsewhere = "[lints]\n[dependencies]\nworkspace = true\n";
        for (text, wrong) in [(with, 0), (without, 1), (elsewhere, 1)] {
            let tree = Tree {
                packages: vec![package("a", "a", &[])],
                ..files(&[("a/Cargo.toml", text)])
            };
            let found = lints_are_inherited(&tree, &Sources::default());
            assert_eq!(found.len(), wrong, "{text}");
        }
    }
}
