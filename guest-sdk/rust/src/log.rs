//! Lines that the host attaches to the pass; in native tests they go to stderr.

/// For the plugin's author.
pub fn debug(message: &str) {
    write(0, message);
}

/// What happened.
pub fn info(message: &str) {
    write(1, message);
}

/// What looks wrong.
pub fn warn(message: &str) {
    write(2, message);
}

/// What went wrong.
pub fn error(message: &str) {
    write(3, message);
}

#[cfg(target_arch = "wasm32")]
fn write(level: usize, message: &str) {
    use crate::door::bindings::guesthouse::reconciler::log::{Level, write};
    write(
        [Level::Debug, Level::Info, Level::Warn, Level::Error][level],
        message,
    );
}

#[cfg(not(target_arch = "wasm32"))]
fn write(level: usize, message: &str) {
    eprintln!("{} {message}", ["debug", "info", "warn", "error"][level]);
}
