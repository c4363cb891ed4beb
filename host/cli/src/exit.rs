//! Exit codes, the same for all commands.

use std::process::ExitCode;

/// 0: fine. 2 is clap's own, for usage.
pub(crate) const FINE: u8 = 0;
/// What was compared differs.
pub(crate) const DIFFERENT: u8 = 1;
/// The tool could not work: a file, the cluster, the network.
pub(crate) const CANNOT: u8 = 3;
/// The plugin was refused, or refused.
pub(crate) const REFUSED: u8 = 4;

/// The plugin was refused; printed like every error, told apart by its code.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// The code of a comparison: whether the two are the same.
pub(crate) fn compared(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(false) => ExitCode::from(DIFFERENT),
        result => code(result.map(|_| ())),
    }
}

/// Prints an error to stderr and names its code.
pub(crate) fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::from(FINE);
    };
    eprintln!("error: {error:#}");
    ExitCode::from(if error.is::<Refused>() {
        REFUSED
    } else {
        CANNOT
    })
}
