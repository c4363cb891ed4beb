//! The `guesthouse` binary: the host itself, and all that a plugin author uses.

mod args;
mod artifact;
mod crd;
mod diff;
mod drain;
mod exit;
mod new;
mod render;
mod rollback;
mod run;
mod schema;
mod yaml;

fn main() -> std::process::ExitCode {
    args::main()
}
