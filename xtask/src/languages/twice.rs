//! Reproducible builds: the same sources in another folder give the same bytes.

use super::{Language, step};
use crate::artifacts::{root, target_dir};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// What building brings into a folder: not a source.
const NOT_SOURCES: [&str; 4] = ["node_modules", ".venv", "__pycache__", "target"];

/// Builds what a language makes in a copy of its sources, and compares.
pub(super) fn compare(language: &Language) -> Result<()> {
    let again = target_dir().join("again").join(language.name);
    if again.exists() {
        std::fs::remove_dir_all(&again).with_context(|| format!("remove {}", again.display()))?;
    }
    // The SDK lies beside the plugins, as in the checkout.
    copy(Path::new("guest-sdk").join(language.name).as_path(), &again)?;
    copy(Path::new("tests/conformance/cases.json"), &again)?;
    copy(Path::new("wit"), &again)?;
    for work in language.works {
        if !Path::new(work.dir).starts_with(Path::new("guest-sdk").join(language.name)) {
            copy(Path::new(work.dir), &again)?;
        }
    }
    // What lay there built would be taken for built.
    for (dir, (built, _)) in language
        .works
        .iter()
        .filter_map(|work| Some((work.dir, work.made?)))
    {
        let path = again.join(dir).join(built);
        if path.is_file() {
            std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    for work in language.works {
        let dir = again.join(work.dir);
        for command in work.set_up.iter().chain(work.build) {
            step(&dir, command)?;
        }
        let Some((built, file)) = work.made else {
            continue;
        };
        let first = root().join(work.dir).join(built);
        let [first, second] = [first, dir.join(built)]
            .map(|path| std::fs::read(&path).with_context(|| format!("read {}", path.display())));
        if first? != second? {
            bail!(
                "{file}: two builds of the same sources differ: {} in {} and in {}",
                built,
                work.dir,
                dir.display()
            );
        }
        eprintln!("{file}: the same bytes from two folders");
    }
    Ok(())
}

/// Copies a file or folder of the checkout to its place below another root.
fn copy(path: &Path, below: &Path) -> Result<()> {
    let (from, to) = (root().join(path), below.join(path));
    let context = || format!("copy {}", from.display());
    if from.is_file() {
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent).with_context(context)?;
        }
        std::fs::copy(&from, &to).with_context(context)?;
        return Ok(());
    }
    for entry in from.read_dir().with_context(context)? {
        let name = entry.with_context(context)?.file_name();
        if !NOT_SOURCES.iter().any(|other| name == *other) {
            copy(&path.join(name), below)?;
        }
    }
    Ok(())
}
