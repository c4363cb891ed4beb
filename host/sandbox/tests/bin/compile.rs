//! The compiler's child process, for tests.

fn main() -> std::process::ExitCode {
    guesthouse_sandbox::compile_child_main(std::env::args().skip(1))
}
