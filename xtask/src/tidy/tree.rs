//! The checkout as text, and the workspace's packages as cargo knows them.

use crate::artifacts::{cargo_metadata, root};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All that rules look at.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Text files that are or would be committed, by path from the checkout's root.
    pub(super) files: BTreeMap<String, String>,
    pub(super) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) name: String,
    /// Its Cargo.toml, from the checkout's root.
    pub(super) manifest: String,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// None for a normal one; `dev` or `build`.
    pub(super) kind: Option<String>,
}

impl Dependency {
    pub(super) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[derive(Debug)]
pub(super) struct Target {
    /// `lib`, `bin`, `test`, `example`, `bench`, `custom-build` …
    pub(super) kind: String,
    /// Its root file, from the checkout's root.
    pub(super) root: String,
}

impl Tree {
    /// Reads the checkout.
    pub(super) fn read() -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in listed()? {
            // One that is not text has no lines to look at; one that was removed is listed until it is committed.
            if let Ok(text) = std::fs::read_to_string(root().join(&path)) {
                files.insert(path, text);
            }
        }
        let mut packages = packages()?;
        packages.extend(apart(&files, &packages));
        Ok(Self { files, packages })
    }

    pub(super) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Whether a path is a file, or a folder with files.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(next, _)| next.starts_with(&folder))
    }
}

/// What git has and what it would take.
fn listed() -> Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root())
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .context("run git")?;
    if !output.status.success() {
        bail!(
            "git ls-files: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .split('\0')
        .filter(|p| !p.is_empty())
        .map(str::to_owned)
        .collect())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<RawPackage>,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<RawTarget>,
}

#[derive(Deserialize)]
struct RawTarget {
    kind: Vec<String>,
    src_path: PathBuf,
}

fn packages() -> Result<Vec<Package>> {
    let metadata: Metadata = cargo_metadata()?;
    Ok(metadata.packages.into_iter().map(package).collect())
}

/// Packages that are workspaces of their own: cargo does not tell of them here, but their files belong to somebody.
fn apart(files: &BTreeMap<String, String>, members: &[Package]) -> Vec<Package> {
    let is_apart = |path: &&String| {
        path.ends_with("/Cargo.toml") && !members.iter().any(|member| member.manifest == **path)
    };
    let package = |manifest: &String| {
        let folder = manifest.trim_end_matches("Cargo.toml");
        let targets = [("lib", "src/lib.rs"), ("bin", "src/main.rs")].map(|(kind, file)| Target {
            kind: kind.to_owned(),
            root: format!("{folder}{file}"),
        });
        Package {
            name: folder.to_owned(),
            manifest: manifest.clone(),
            dependencies: Vec::new(),
            targets: targets.into(),
        }
    };
    files.keys().filter(is_apart).map(package).collect()
}

fn package(raw: RawPackage) -> Package {
    let target = |raw: RawTarget| Target {
        kind: raw.kind.into_iter().next().unwrap_or_default(),
        root: relative(&raw.src_path),
    };
    Package {
        name: raw.name,
        manifest: relative(&raw.manifest_path),
        dependencies: raw.dependencies,
        targets: raw.targets.into_iter().map(target).collect(),
    }
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}

/// Trees for the rules' tests.
#[cfg(test)]
pub(super) mod fixtures {
    use super::*;

    /// A tree of these files, without packages.
    pub(in crate::tidy) fn files(files: &[(&str, &str)]) -> Tree {
        let owned = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Tree {
            files: owned.collect(),
            packages: Vec::new(),
        }
    }

    /// A package with these normal dependencies, whose library's root is `FOLDER/src/lib.rs`.
    pub(in crate::tidy) fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let normal = |name: &&str| Dependency {
            name: (*name).to_owned(),
            kind: None,
        };
        Package {
            name: name.to_owned(),
            manifest: format!("{folder}/Cargo.toml"),
            dependencies: dependencies.iter().map(normal).collect(),
            targets: vec![Target {
                kind: "lib".to_owned(),
                root: format!("{folder}/src/lib.rs"),
            }],
        }
    }

    /// A tree of one package called `guesthouse-core` with these files under its `src`.
    pub(in crate::tidy) fn core(sources: &[(&str, &str)]) -> Tree {
        let mut tree = files(&[]);
        for (name, text) in sources {
            tree.files
                .insert(format!("host/core/src/{name}"), (*text).to_owned());
        }
        tree.packages
            .push(package("guesthouse-core", "host/core", &[]));
        tree
    }
}
