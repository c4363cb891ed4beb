//! Gathers what `guesthouse new` writes: of each language its template, and the files of its SDK that a project brings along
//! as long as the SDKs are not published. `guest-sdk/<language>/shipped.txt` names those; nothing else of the folder is looked
//! at, so neither builds nor tests that lie there get into the binary. What is the same in every language lies in
//! `guest-sdk/template`; a language's own file of that name takes its place.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{Error, Result},
    path::{Path, PathBuf},
};

fn main() -> Result<()> {
    let here = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let out = env::var_os("OUT_DIR").map(PathBuf::from);
    let (Some(here), Some(out)) = (here, out) else {
        return Err(Error::other(
            "cargo names neither the package nor the output folder",
        ));
    };
    let sdks = fs::canonicalize(here.join("../../guest-sdk"))?;
    println!("cargo::rerun-if-changed=build.rs");
    let mut text = String::from("const LANGUAGES: &[Language] = &[\n");
    for language in names(&sdks)? {
        let dir = sdks.join(&language);
        let list = dir.join("shipped.txt");
        println!("cargo::rerun-if-changed={}", list.display());
        if !list.is_file() {
            continue;
        }
        text += &format!("    ({language:?}, &[\n");
        for line in fs::read_to_string(&list)?
            .lines()
            .filter(|line| !line.is_empty())
        {
            text += &entry(&format!("sdk/{line}"), &dir.join(line));
        }
        let mut project = BTreeMap::new();
        for template in [sdks.join("template"), dir.join("template")] {
            println!("cargo::rerun-if-changed={}", template.display());
            for file in files(&template)? {
                let name = file.strip_prefix(&template).map_err(Error::other)?;
                project.insert(name.to_string_lossy().into_owned(), file);
            }
        }
        for (name, file) in project {
            text += &entry(&name, &file);
        }
        text += "    ]),\n";
    }
    text += "];\n";
    fs::write(out.join("languages.rs"), text)
}

fn entry(name: &str, file: &Path) -> String {
    println!("cargo::rerun-if-changed={}", file.display());
    format!(
        "        ({name:?}, include_bytes!({:?})),\n",
        file.display()
    )
}

/// Names in a folder, sorted.
fn names(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// All files below a folder, sorted.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for name in names(dir)? {
        let path = dir.join(name);
        if path.is_dir() {
            all.extend(files(&path)?);
        } else {
            all.push(path);
        }
    }
    Ok(all)
}
