//! `cargo xtask languages`: the SDKs, conformance guests and plugins of the languages other than Rust, built and tested by
//! their own tools.
//!
//! What each language is built with is one table, [`LANGUAGES`]; versions are pinned in the folders themselves (lock files). A
//! language whose tools are missing is skipped with a banner on a developer's machine, and an error in CI.

mod twice;

use crate::artifacts::{root, target_dir};
use anyhow::{Context, Result, bail};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Build and test the SDKs and plugins of Go, JavaScript, Python and C.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask languages                         all of them, with their unit tests
  cargo xtask languages --only go --only c
  cargo xtask languages --twice                 built in two folders: the same bytes?

Built files lie in target/plugins. Without its tools a language is skipped, loudly; in CI (CI is
set) that is an error.")]
pub(crate) struct Args {
    /// Only this one; may be given more than once.
    #[arg(long, value_parser = LANGUAGES.map(|language| language.name))]
    only: Vec<String>,
    /// Leave out the unit tests.
    #[arg(long)]
    no_test: bool,
    /// Build everything a second time in another folder, and compare.
    #[arg(long)]
    twice: bool,
}

/// A language and what is made with it.
struct Language {
    name: &'static str,
    /// Programs it cannot do without, and what brings them.
    needs: &'static [(&'static str, &'static str)],
    works: &'static [Work],
}

/// A folder with a thing to build: commands as one would type them there.
struct Work {
    dir: &'static str,
    set_up: &'static [&'static str],
    test: &'static [&'static str],
    build: &'static [&'static str],
    /// Built file, and its name in `target/plugins`; none: a library.
    made: Option<(&'static str, &'static str)>,
}

const LANGUAGES: [Language; 4] = [
    Language {
        name: "go",
        needs: &[("go", "Go 1.26 or newer (https://go.dev/dl)")],
        works: &[
            Work {
                dir: "guest-sdk/go",
                set_up: &[],
                test: &["go vet ./...", "go test ./..."],
                build: &[],
                made: None,
            },
            Work {
                dir: "guest-sdk/go/conformance",
                set_up: &[],
                test: &["go vet ./...", "go test ./..."],
                build: &[GO],
                made: Some(("plugin.wasm", "conformance_go.wasm")),
            },
            Work {
                dir: "plugins/provision-request-go",
                set_up: &[],
                test: &["go vet ./...", "go test ./..."],
                build: &[GO],
                made: Some(("plugin.wasm", "provision_request_go.wasm")),
            },
        ],
    },
    Language {
        name: "js",
        needs: &[
            ("node", "Node.js 20 or newer (https://nodejs.org)"),
            ("npm", "npm, which comes with Node.js"),
        ],
        works: &[
            Work {
                dir: "guest-sdk/js",
                set_up: &[NPM],
                test: &["npm test"],
                build: &["npm run build"],
                made: Some(("conformance/conformance.wasm", "conformance_js.wasm")),
            },
            Work {
                dir: "plugins/email-request",
                set_up: &[NPM],
                test: &["npm test"],
                build: &["npm run build"],
                made: Some(("email_request.wasm", "email_request.wasm")),
            },
        ],
    },
    Language {
        name: "c",
        needs: &[
            ("make", "make (apt-get install make)"),
            ("cc", "a C compiler (apt-get install build-essential)"),
            (
                "apt-get",
                "Debian's packages, which the pinned compiler for WebAssembly comes from",
            ),
        ],
        works: &[
            Work {
                dir: "guest-sdk/c/tests",
                set_up: &["sh ../wasi-cc setup"],
                test: &["make test"],
                build: &[],
                made: None,
            },
            Work {
                dir: "guest-sdk/c/conformance",
                set_up: &[],
                test: &[],
                build: &["make"],
                made: Some(("conformance.wasm", "conformance_c.wasm")),
            },
            Work {
                dir: "plugins/config-checksum",
                set_up: &[],
                test: &["make test"],
                build: &["make"],
                made: Some(("config_checksum.wasm", "config_checksum.wasm")),
            },
        ],
    },
    Language {
        name: "python",
        needs: &[(
            "python3",
            "Python 3.11 or newer with its venv module (apt-get install python3-venv)",
        )],
        works: &[
            Work {
                dir: "guest-sdk/python",
                set_up: &[VENV],
                test: &[".venv/bin/python -m unittest discover -s tests"],
                build: &[],
                made: None,
            },
            Work {
                dir: "guest-sdk/python/conformance",
                set_up: &[],
                test: &[],
                build: &[
                    "PYTHONPATH=.. ../.venv/bin/python -m guesthouse_sdk build conformance -o conformance.wasm",
                ],
                made: Some(("conformance.wasm", "conformance_python.wasm")),
            },
            Work {
                dir: "plugins/nightly-backup",
                set_up: &[VENV],
                test: &[
                    "PYTHONPATH=../../guest-sdk/python .venv/bin/python -m unittest discover -s tests",
                ],
                build: &[
                    "PYTHONPATH=../../guest-sdk/python .venv/bin/python -m guesthouse_sdk build nightly_backup --with tzdata -o nightly_backup.wasm",
                ],
                made: Some(("nightly_backup.wasm", "nightly_backup.wasm")),
            },
            Work {
                dir: "host/sandbox/tests/guests/python",
                set_up: &[],
                test: &[],
                build: &[
                    "PYTHONPATH=../../../../../guest-sdk/python ../../../../../guest-sdk/python/.venv/bin/python -m guesthouse_sdk build hostile -o hostile.wasm",
                ],
                made: Some(("hostile.wasm", "hostile_python.wasm")),
            },
        ],
    },
];

const GO: &str =
    "GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false -ldflags='-s -w' -o plugin.wasm .";
const VENV: &str = "python3 -m venv .venv && .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt";
const NPM: &str = "npm ci --no-audit --no-fund --loglevel=error";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let wanted = |language: &&Language| {
        args.only.is_empty() || args.only.iter().any(|name| name == language.name)
    };
    for language in LANGUAGES.iter().filter(wanted) {
        build(language, !args.no_test, args.twice)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds all languages into `target/plugins`, with their unit tests if wanted; in CI everything twice.
pub(crate) fn ensure(test: bool) -> Result<()> {
    LANGUAGES
        .iter()
        .try_for_each(|language| build(language, test, is_ci()))
}

/// The folder of all plugins, whatever they are written in.
pub(crate) fn plugins_dir() -> PathBuf {
    target_dir().join("plugins")
}

fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

fn build(language: &Language, test: bool, twice: bool) -> Result<()> {
    let name = language.name;
    if let Some((program, what)) = language.needs.iter().find(|(program, _)| !on_path(program)) {
        if is_ci() {
            bail!("{name}: {program} is not on PATH; install {what}");
        }
        eprintln!(
            "\n*** SKIPPED: {name} is neither built nor tested: {program} is not on PATH ***\n*** install {what} ***\n"
        );
        return Ok(());
    }
    let began = Instant::now();
    for work in language.works {
        let dir = root().join(work.dir);
        let commands = work.set_up.iter();
        let commands = commands.chain(work.test.iter().filter(|_| test));
        for command in commands.chain(work.build) {
            step(&dir, command)?;
        }
        if let Some((built, file)) = work.made {
            keep(&dir.join(built), file)?;
        }
    }
    if twice {
        twice::compare(language)?;
    }
    eprintln!("{name}: {} s", began.elapsed().as_secs());
    Ok(())
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Runs one command as one would type it; what it says is shown if it fails.
fn step(dir: &Path, command: &str) -> Result<()> {
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(dir)
        .output()
        .with_context(|| format!("start `{command}` in {}", dir.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    bail!(
        "`{command}` in {}: {}\n{out}{err}",
        dir.display(),
        output.status
    )
}

/// Puts a built file among the plugins: another file takes the name, so that one that is being read stays whole.
pub(crate) fn keep(built: &Path, file: &str) -> Result<()> {
    let dir = plugins_dir();
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let aside = dir.join(format!("{file}.new"));
    std::fs::copy(built, &aside).with_context(|| format!("copy {}", built.display()))?;
    std::fs::rename(&aside, dir.join(file)).with_context(|| format!("put {file} in place"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_a_conformance_guest_and_a_plugin_and_all_folders_are_there() {
        for language in &LANGUAGES {
            let made: Vec<_> = language.works.iter().filter_map(|work| work.made).collect();
            let conformance = format!("conformance_{}.wasm", language.name);
            assert!(
                made.iter().any(|(_, file)| *file == conformance),
                "{}",
                language.name
            );
            assert!(made.len() >= 2, "{} has no plugin", language.name);
            for work in language.works {
                assert!(root().join(work.dir).is_dir(), "{}", work.dir);
            }
        }
    }
}
