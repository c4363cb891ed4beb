//! `guesthouse new`: a project for a plugin, with its SDK, a test and what to apply.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use guesthouse_core::mapping::{is_dns_label, is_dns_subdomain};

use crate::args::{Lang, NewArgs};

/// A file's path in the project, and what is in it.
type File = (&'static str, &'static [u8]);
/// A language's folder, and the files of a project.
type Language = (&'static str, &'static [File]);

include!(concat!(env!("OUT_DIR"), "/languages.rs"));

/// The part of every README that is the same in all languages; `{{deploy}}` there stands for it.
const DEPLOY: &str = "DEPLOY.md";

/// What stands in templates and is replaced, in this order: earlier ones bring in later ones.
struct Words(Vec<(&'static str, String)>);

pub(crate) fn run(args: &NewArgs) -> Result<()> {
    let words = Words::of(args)?;
    let lang = args.lang.folder();
    let found = LANGUAGES.iter().find(|(language, _)| *language == lang);
    let (_, files) = found.with_context(|| format!("this build has no template for {lang}"))?;
    let dir = args.dir.clone().unwrap_or_else(|| args.name.clone().into());
    if dir
        .read_dir()
        .is_ok_and(|mut inside| inside.next().is_some())
        || dir.is_file()
    {
        bail!(
            "{} is there and not empty; name another folder by --dir",
            dir.display()
        );
    }
    for (name, bytes) in files.iter().filter(|(name, _)| args.lang.writes(name)) {
        write(&dir.join(words.put_into(name)), name, bytes, &words)?;
    }
    println!("{}", dir.display());
    let project = files
        .iter()
        .filter(|(name, _)| !name.starts_with("sdk/") && args.lang.writes(name));
    eprintln!(
        "made a plugin in {}: {} files, and its SDK in sdk/. README.md there has the four commands: test, build, render, deploy.",
        args.lang.name(),
        project.count()
    );
    args.lang
        .missing()
        .iter()
        .for_each(|hint| eprintln!("hint: {hint}"));
    Ok(())
}

/// The SDK is written as it is, the template with its words put in.
fn write(path: &Path, name: &str, bytes: &[u8], words: &Words) -> Result<()> {
    let context = || format!("writing {}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(context)?;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !name.starts_with("sdk/") => fs::write(path, words.put_into(text)),
        _ => fs::write(path, bytes),
    }
    .with_context(context)?;
    if bytes.starts_with(b"#!") {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).with_context(context)?;
    }
    Ok(())
}

impl Words {
    fn of(args: &NewArgs) -> Result<Self> {
        let name = args.name.clone();
        if !is_dns_label(&name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            bail!(
                "`{name}` is not a plugin's name: lower-case letters, digits and `-`, as in report-job"
            );
        }
        let kind = args.kind.clone().unwrap_or_else(|| camel(&name));
        let letters = kind.bytes().all(|b| b.is_ascii_alphanumeric());
        if !letters || !kind.starts_with(|c: char| c.is_ascii_uppercase()) {
            bail!("`{kind}` is not a kind: letters and digits in CamelCase, as in ReportJob");
        }
        if !is_dns_subdomain(&args.group) || !args.group.contains('.') {
            bail!(
                "`{}` is not a group of your own: a domain, as in example.com",
                args.group
            );
        }
        let mut words = args.lang.words();
        words.extend([
            ("{{snake}}", name.replace('-', "_")),
            ("{{plural}}", plural(&kind.to_lowercase())),
            ("{{group}}", args.group.clone()),
            ("{{kind}}", kind),
            ("{{name}}", name),
            ("{{dir}}", folder(args)?),
        ]);
        Ok(Self(words))
    }

    fn put_into(&self, text: &str) -> String {
        let put = |text: String, (word, by): &(&str, String)| text.replace(word, by);
        self.0.iter().fold(text.to_owned(), put)
    }
}

/// The project's folder, for whoever starts a host elsewhere.
fn folder(args: &NewArgs) -> Result<String> {
    let dir = args.dir.clone().unwrap_or_else(|| args.name.clone().into());
    let whole =
        std::path::absolute(&dir).with_context(|| format!("the folder {}", dir.display()))?;
    Ok(whole.display().to_string())
}

/// `report-job` as `ReportJob`.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(word).collect()
}

/// As kubectl's users would say it.
fn plural(kind: &str) -> String {
    let sibilant = ["s", "x", "z", "ch", "sh"]
        .iter()
        .any(|end| kind.ends_with(end));
    let vowel = |end: &str| end.ends_with(['a', 'e', 'i', 'o', 'u']);
    match kind.strip_suffix('y') {
        Some(stem) if !vowel(stem) => format!("{stem}ies"),
        _ if sibilant => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

impl Lang {
    /// Its folder among the SDKs.
    fn folder(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Js => "js",
            Self::Python => "python",
            Self::C => "c",
        }
    }

    /// Whether a file of the template is one of a project.
    fn writes(self, name: &str) -> bool {
        // In Rust the definition of the kind comes out of its types.
        let no_definition = matches!(self, Self::Rust) && name == "crd.yaml";
        name != DEPLOY && !no_definition
    }

    /// What differs from language to language in the steps from a built file to a cluster.
    fn words(self) -> Vec<(&'static str, String)> {
        let found = LANGUAGES
            .iter()
            .find(|(language, _)| *language == self.folder());
        let deploy = found.and_then(|(_, files)| files.iter().find(|(name, _)| *name == DEPLOY));
        let deploy = deploy.map(|(_, bytes)| String::from_utf8_lossy(bytes).trim_end().to_owned());
        let file = match self {
            Self::Rust => "target/wasm32-wasip1/release/{{snake}}.wasm",
            Self::C => "plugin.wasm",
            Self::Go | Self::Js | Self::Python => "{{name}}.wasm",
        };
        // A ConfigMap holds 1 MiB, and the host unpacks what is packed.
        let (plugin, again) = match self {
            Self::Rust | Self::C => (
                config_map("{{file}}"),
                "Repeat the line that makes the ConfigMap.",
            ),
            Self::Go | Self::Js => (
                format!(
                    "zstd -q -19 -f {file} -o {{{{name}}}}.zst\n{}",
                    config_map("{{name}}.zst")
                ),
                "Repeat the lines that pack it and make the ConfigMap.",
            ),
            Self::Python => (
                "# (The mapping names the file.)".to_owned(),
                "Nothing more: the host sees that the file changed.",
            ),
        };
        let time = match self {
            Self::Python => {
                "With 15 MB to compile that takes up to a minute; the host's log says when it does."
            }
            _ => "That takes seconds.",
        };
        let (crd, flag) = match self {
            Self::Rust => ("guesthouse crd {{file}} | kubectl apply -f -", ""),
            _ => ("kubectl apply -f crd.yaml", " --crd crd.yaml"),
        };
        vec![
            ("{{deploy}}", deploy.unwrap_or_default()),
            ("{{plugin-lines}}", plugin),
            ("{{again}}", again.to_owned()),
            ("{{time}}", time.to_owned()),
            ("{{crd-line}}", crd.to_owned()),
            ("{{crd-flag}}", flag.to_owned()),
            ("{{file}}", file.to_owned()),
        ]
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::Js => "JavaScript",
            Self::Python => "Python",
            Self::C => "C",
        }
    }

    /// How to get what building needs and this machine does not have.
    fn missing(self) -> Vec<&'static str> {
        let needs: &[(&str, &str)] = match self {
            Self::Rust => &[(
                "cargo",
                "cargo is not on PATH: install Rust from https://rustup.rs, then `rustup target add wasm32-wasip1`",
            )],
            Self::Go => &[(
                "go",
                "go is not on PATH: install Go 1.24 or newer from https://go.dev/dl",
            )],
            Self::Js => &[(
                "npm",
                "npm is not on PATH: install Node.js 20 or newer from https://nodejs.org",
            )],
            Self::Python => &[(
                "python3",
                "python3 is not on PATH: install Python 3.10 or newer",
            )],
            Self::C => &[("make", "make is not on PATH: install make and a C compiler")],
        };
        let on_path = |program: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
        };
        let missing = needs.iter().filter(|(program, _)| !on_path(program));
        missing.map(|(_, hint)| *hint).collect()
    }
}

/// The line that puts a built file into the cluster, the first time and every time.
fn config_map(file: &str) -> String {
    format!(
        "kubectl create configmap {{{{name}}}}-plugin -n guesthouse-system --from-file=plugin.wasm={file} \\\n  --dry-run=client -o yaml | kubectl apply --server-side -f -"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_kind_and_plural() {
        assert_eq!(camel("nightly-backup"), "NightlyBackup");
        for (kind, wanted) in [
            ("policy", "policies"),
            ("gateway", "gateways"),
            ("switch", "switches"),
            ("job", "jobs"),
        ] {
            assert_eq!(plural(kind), wanted);
        }
    }

    #[test]
    fn every_language_has_a_small_template_without_words_of_nobody() {
        for lang in [Lang::Rust, Lang::Go, Lang::Js, Lang::Python, Lang::C] {
            let found = LANGUAGES
                .iter()
                .find(|(language, _)| *language == lang.folder());
            let Some((language, files)) = found else {
                panic!("no template for {}", lang.name());
            };
            let (sdk, own): (Vec<_>, Vec<_>) =
                files.iter().partition(|(name, _)| name.starts_with("sdk/"));
            assert!(!sdk.is_empty(), "{language}");
            let count = own.iter().filter(|(name, _)| lang.writes(name)).count();
            assert!(count <= 12, "{language}: {count} files");
            for wanted in ["README.md", "mapping.yaml", "sample.yaml", ".gitignore"] {
                assert!(
                    own.iter().any(|(name, _)| *name == wanted),
                    "{language}: {wanted}"
                );
            }
            let args = NewArgs {
                name: "a-b".into(),
                lang,
                kind: None,
                group: "example.com".into(),
                dir: None,
            };
            let words = Words::of(&args).unwrap();
            for (name, bytes) in own {
                let text = words.put_into(std::str::from_utf8(bytes).unwrap());
                for (word, _) in &words.0 {
                    assert!(!text.contains(word), "{language}: {name}: {word}");
                }
            }
        }
    }
}
