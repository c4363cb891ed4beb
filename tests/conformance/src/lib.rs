//! One suite for the guests of all languages and both doors: `cases.json` holds observations and what is to be answered.
//!
//! A guest is judged as the host would run it: in a fresh instance for each call, within the usual limits of memory. The
//! format is told in this folder's README.

mod case;

use anyhow::{Context, Result};
use guesthouse_core::{contract::Descriptor, limits::Limits, units::Span};
use guesthouse_sandbox::{CALL_STACK, Plugin, Sandbox, Settings};
use serde::Deserialize;
use serde_json::{Value, json};

pub use case::Case;

/// The suite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// What the guest says of itself; `sdk` is any of the language's own.
    describe: Value,
    cases: Vec<Case>,
}

/// What became of one case.
#[derive(Debug)]
pub struct Verdict {
    /// The case's name, or `describe`.
    pub case: String,
    /// What was wrong.
    pub fault: Option<String>,
}

/// A sandbox as a host has it, compiling in this process.
pub fn sandbox() -> Result<Sandbox> {
    Ok(Sandbox::new(Settings::default())?)
}

/// The usual limits, with time for a machine that does much else.
fn limits() -> Limits {
    Limits {
        time: Span::from_secs(10),
        ..Limits::default()
    }
}

impl Suite {
    /// The project's own.
    pub fn own() -> Result<Self> {
        Self::read(include_str!("../cases.json")).context("cases.json")
    }

    /// Reads a suite.
    pub fn read(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// The names of all cases.
    pub fn names(&self) -> Vec<&str> {
        self.cases.iter().map(Case::name).collect()
    }

    /// Judges a guest, by all cases or the one of that name.
    pub fn judge(&self, sandbox: &Sandbox, wasm: &[u8], only: Option<&str>) -> Vec<Verdict> {
        let plugin = match sandbox.load(wasm) {
            Ok(plugin) => plugin,
            Err(refusal) => {
                return vec![Verdict {
                    case: "load".into(),
                    fault: Some(refusal.to_string()),
                }];
            }
        };
        let mut verdicts = Vec::new();
        if only.is_none_or(|name| name == "describe") {
            verdicts.push(Verdict {
                case: "describe".into(),
                fault: self
                    .described(&plugin)
                    .err()
                    .map(|error| format!("{error:#}")),
            });
        }
        let wanted = |case: &&Case| only.is_none_or(|name| name == case.name());
        for case in self.cases.iter().filter(wanted) {
            let fault = on_call_stack(|| case.judge(&plugin, &limits()));
            verdicts.push(Verdict {
                case: case.name().to_owned(),
                fault,
            });
        }
        verdicts
    }

    fn described(&self, plugin: &Plugin) -> Result<()> {
        // By way of text, which is how JSON inside a descriptor is held.
        let mut wanted: Descriptor =
            serde_json::from_str(&self.describe.to_string()).context("`describe` of the suite")?;
        let found = plugin.descriptor();
        wanted.sdk.clone_from(&found.sdk);
        let (language, version) = found.sdk.split_once('/').unwrap_or_default();
        anyhow::ensure!(
            !language.is_empty() && !version.is_empty(),
            "sdk: `{}` is not <language>/<version>",
            found.sdk
        );
        accepts_a_greeting(found)?;
        wanted.config_schema.clone_from(&found.config_schema);
        let (wanted, mut found) = (serde_json::to_value(&wanted)?, serde_json::to_value(found)?);
        // A definition has more in it than its name, and each SDK its own way to it.
        if let Some(crd) = found.pointer_mut("/kinds/0/crd") {
            let name = crd["metadata"]["name"].take();
            crd.clone_from(&wanted["kinds"][0]["crd"]);
            crd["metadata"]["name"] = name;
        }
        anyhow::ensure!(wanted == found, "wanted {wanted}\n      found  {found}");
        Ok(())
    }
}

/// A schema is judged by what it takes, not by its text.
fn accepts_a_greeting(found: &Descriptor) -> Result<()> {
    let schema = found.config_schema.as_ref().context("no configSchema")?;
    let validator = jsonschema::validator_for(&schema.read()?)
        .map_err(|error| anyhow::anyhow!("configSchema: {error}"))?;
    anyhow::ensure!(
        validator.is_valid(&json!({"greeting": "hello"})),
        "configSchema refuses a greeting"
    );
    anyhow::ensure!(
        !validator.is_valid(&json!({"greeting": 1})),
        "configSchema takes a number for a greeting"
    );
    Ok(())
}

/// Calls need a stack of a known size.
fn on_call_stack(work: impl FnOnce() -> Option<String> + Send) -> Option<String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(CALL_STACK + (1 << 20));
        match thread.spawn_scoped(scope, work) {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|_| Some("the host panicked".into())),
            Err(error) => Some(format!("no thread to call on: {error}")),
        }
    })
}
