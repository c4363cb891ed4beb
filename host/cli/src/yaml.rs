//! YAML in and out, by way of JSON values.

use std::{io::Read, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

/// Reads a YAML or JSON file; `-` is stdin.
pub(crate) fn read(path: &Path) -> Result<Value> {
    serde_saphyr::from_str(&text(path)?)
        .with_context(|| format!("{} is not valid YAML", path.display()))
}

/// Reads every document of a file.
pub(crate) fn read_all(path: &Path) -> Result<Vec<Value>> {
    serde_saphyr::from_multiple(&text(path)?)
        .with_context(|| format!("{} is not valid YAML", path.display()))
}

fn text(path: &Path) -> Result<String> {
    Ok(if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("reading stdin")?;
        text
    } else {
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?
    })
}

/// Prints a value as one YAML document.
pub(crate) fn print(value: &impl serde::Serialize) -> Result<String> {
    serde_saphyr::to_string(value).context("printing YAML")
}

/// Writes to stdout; a reader that went away is no error.
pub(crate) fn out(text: &str) -> Result<()> {
    use std::io::Write;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to stdout")
        }
        _ => Ok(()),
    }
}
