//! `cargo xtask generate`: the committed files that are made from code, so that a reader finds them without building.
//!
//! What is made and from what is one list; `--check` compares instead of writing, and `cargo xtask tidy` uses the same.

use crate::artifacts::{guest_plugins, host_binary, root};
use crate::setup;
use anyhow::{Context, Result, bail};
use clap::{CommandFactory, Parser};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Write the generated files: schemas, CustomResourceDefinitions, the SDK's copy of the contract, docs/cli.md.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask generate
  cargo xtask generate --check                  write nothing; fail if a file is not what its source says")]
pub(crate) struct Args {
    /// Compare instead of writing.
    #[arg(long)]
    check: bool,
}

/// Plugins that bring a definition, which is committed beside them: folder, file.
const PLUGINS: &[(&str, &str)] = &[
    ("report-job", "report_job.wasm"),
    ("provision-request", "provision_request.wasm"),
    ("website", "website.wasm"),
];

/// Copies of the contract.
const COPIES: &[&str] = &[
    "guest-sdk/rust/wit/reconciler.wit",
    "guest-sdk/js/wit/reconciler.wit",
    "guest-sdk/python/guesthouse_sdk/wit/reconciler.wit",
];

/// Characters in a line of a help text.
const WIDTH: usize = 100;

/// A file and what it should hold.
struct Generated {
    path: String,
    content: String,
}

impl Generated {
    fn new(path: impl Into<String>, content: String) -> Self {
        Self {
            path: path.into(),
            content,
        }
    }

    fn is_committed(&self) -> bool {
        std::fs::read_to_string(root().join(&self.path)).is_ok_and(|text| text == self.content)
    }

    fn write(&self) -> Result<()> {
        let path = root().join(&self.path);
        let parent = path.parent().unwrap_or(root());
        std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        std::fs::write(&path, &self.content).with_context(|| format!("write {}", path.display()))
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let drifted: Vec<Generated> = all()?.into_iter().filter(|g| !g.is_committed()).collect();
    for generated in &drifted {
        if args.check {
            println!(
                "{}: is not what its source says; run: cargo xtask generate",
                generated.path
            );
        } else {
            generated.write()?;
            println!("{}: written", generated.path);
        }
    }
    if drifted.is_empty() {
        eprintln!("all generated files are up to date");
    }
    Ok(if args.check && !drifted.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The generated files that are not what their source says.
pub(crate) fn drifted() -> Result<Vec<String>> {
    let drifted = all()?.into_iter().filter(|g| !g.is_committed());
    Ok(drifted.map(|generated| generated.path).collect())
}

fn all() -> Result<Vec<Generated>> {
    setup::ensure_wasm_target()?;
    let host = host_binary()?;
    let plugins = guest_plugins()?;
    let mut all = Vec::new();
    for of in ["observation", "decision", "descriptor", "mapping", "policy"] {
        let schema = output(&host, &["schema", of])?;
        all.push(Generated::new(format!("docs/schemas/{of}.json"), schema));
    }
    let own = output(&host, &["crd", "--host"])?;
    for (kind, crd) in ["journals", "mappings"].into_iter().zip(own.split("---\n")) {
        all.push(Generated::new(
            format!("deploy/crds/{kind}.yaml"),
            crd.to_owned(),
        ));
    }
    for (folder, file) in PLUGINS {
        let wasm = plugins.join(file);
        let crd = output(&host, &["crd", &wasm.to_string_lossy()])?;
        all.push(Generated::new(format!("plugins/{folder}/crd.yaml"), crd));
    }
    // SDKs are published by themselves, so they carry the contract.
    let contract = root().join("wit/reconciler.wit");
    let contract = std::fs::read_to_string(&contract)
        .with_context(|| format!("read {}", contract.display()))?;
    for copy in COPIES {
        all.push(Generated::new(*copy, contract.clone()));
    }
    all.push(Generated::new("docs/cli.md", commands(&host)?));
    Ok(all)
}

/// What a program writes to stdout, in an environment that changes no help text.
fn output(program: &Path, args: &[&str]) -> Result<String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let shown = format!("{name} {}", args.join(" "));
    let output = Command::new(program)
        .args(args)
        // Help shows variables with their values, and wraps at the terminal's width.
        .env_clear()
        .env("COLUMNS", WIDTH.to_string())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {shown}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{shown}: {}\n{}", output.status, why.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("read the output of {shown}"))
}

const COMMANDS: &str = "\
# Commands

What `--help` of every command says. Generated by `cargo xtask generate`.
";

/// The help of both programs, command by command.
fn commands(host: &Path) -> Result<String> {
    let mut text = COMMANDS.to_owned();
    host_commands(host, &mut Vec::new(), &mut text)?;
    // Not by starting this program: building the host may have replaced its file.
    let mut tasks = crate::Cli::command().term_width(WIDTH);
    tasks.build();
    task_commands(&mut tasks, "cargo xtask", &mut text);
    Ok(text)
}

fn host_commands(host: &Path, path: &mut Vec<String>, text: &mut String) -> Result<()> {
    let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
    args.push("--help");
    let help = output(host, &args)?;
    describe(&format!("guesthouse {}", path.join(" ")), &help, text);
    for command in subcommands(&help) {
        path.push(command);
        host_commands(host, path, text)?;
        path.pop();
    }
    Ok(())
}

fn task_commands(command: &mut clap::Command, title: &str, text: &mut String) {
    describe(title, &command.render_long_help().to_string(), text);
    for inner in command.get_subcommands_mut() {
        let name = inner.get_name().to_owned();
        if name != "help" && !inner.is_hide_set() {
            task_commands(inner, &format!("{title} {name}"), text);
        }
    }
}

fn describe(title: &str, help: &str, text: &mut String) {
    let lines: Vec<&str> = help.trim().lines().map(str::trim_end).collect();
    let (title, help) = (title.trim(), lines.join("\n"));
    text.push_str(&format!("\n## {title}\n\n```text\n{help}\n```\n"));
}

/// The names under `Commands:`, as clap prints them.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = lines.take_while(|line| !line.is_empty());
    // Text that goes on in a further line is indented more.
    let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_read_from_the_help_that_lists_them() {
        let help = "A tool\n\nUsage: x\n\nCommands:\n  run   Runs\n  crd   Prints what is\n          long\n  help  Print this\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(help), ["run", "crd"]);
        assert_eq!(subcommands("Usage: x\n"), Vec::<String>::new());
    }
}
