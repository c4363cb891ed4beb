//! Short ways to a refusal, and from an ended call to the refusal that says why it ended.

use guesthouse_core::{
    contract::cut,
    limits::Limits,
    refusal::{Refusal, RefusalKind},
    units::Span,
};
use wasmtime::Trap;

use crate::{meter::Stop, state::State};

/// Most of a refusal's text, bytes; conditions hold 1,024, and whoever reports it names the object before it.
const MAX_TEXT: usize = 900;

pub(crate) fn refuse(kind: RefusalKind, message: impl Into<String>) -> Refusal {
    Refusal::new(kind, message)
}

/// Why an instance could not be made.
pub(crate) fn not_opened(error: &wasmtime::Error, state: &mut State, limits: &Limits) -> Refusal {
    explain(
        error,
        state,
        limits,
        RefusalKind::ContractMismatch,
        "its exports have other types than the contract's",
    )
}

/// Why a call ended without a reply.
pub(crate) fn ended(error: &wasmtime::Error, state: &mut State, limits: &Limits) -> Refusal {
    explain(
        error,
        state,
        limits,
        RefusalKind::BadOutput,
        "what came back breaks the component model's rules",
    )
}

/// The order matters: what this host stopped or denied comes before what the guest did about it, since a guest that was
/// refused memory panics. What is left over is `otherwise`.
fn explain(
    error: &wasmtime::Error,
    state: &mut State,
    limits: &Limits,
    otherwise: RefusalKind,
    text: &str,
) -> Refusal {
    let (kind, text) =
        reason(error, state, limits).unwrap_or_else(|root| (otherwise, format!("{text}: {root}")));
    // Where a call was cut off by time differs from call to call, and so would its last words.
    let words = if kind == RefusalKind::Timeout {
        String::new()
    } else {
        state.output.last_words()
    };
    let text = if words.is_empty() {
        text
    } else {
        format!("{text}: {words}")
    };
    refuse(kind, cut(&text, MAX_TEXT))
}

/// The kind and the text, or the error's own text where only the phase says what it means.
fn reason(
    error: &wasmtime::Error,
    state: &State,
    limits: &Limits,
) -> Result<(RefusalKind, String), String> {
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return Ok(stopped(*stop, limits));
    }
    if state.meter.denied() {
        let text = format!(
            "memories and tables together would be over {} (limits.memory)",
            limits.memory
        );
        return Ok((RefusalKind::OutOfMemory, text));
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return Ok(trapped(*trap, state, limits));
    }
    let root = error.root_cause().to_string();
    // The runtime keeps the type of this error to itself.
    if root.contains("fuel allocated for hostcalls") {
        return Ok(too_large(limits));
    }
    if error
        .downcast_ref::<wasmtime::PoolConcurrencyLimitError>()
        .is_some()
    {
        return Ok((
            RefusalKind::Host,
            format!("no room for another instance: {root}"),
        ));
    }
    Err(root)
}

fn too_large(limits: &Limits) -> (RefusalKind, String) {
    let text = format!(
        "the plugin handed the host more than {} at once (limits.output)",
        limits.output
    );
    (RefusalKind::TooLarge, text)
}

fn stopped(stop: Stop, limits: &Limits) -> (RefusalKind, String) {
    match stop {
        // One text for both: which of them comes first is the machine's affair, and would be a write each time it changes.
        Stop::Cpu | Stop::Wall => (
            RefusalKind::Timeout,
            format!(
                "the call took longer than {} of CPU time, or than {} by the clock (limits.time)",
                limits.time,
                Span(limits.time.0.saturating_mul(4))
            ),
        ),
        Stop::Exit { code: 0 } => (
            RefusalKind::Panic,
            "the plugin ended itself instead of returning".into(),
        ),
        Stop::Exit { .. } => (
            RefusalKind::Panic,
            "the plugin ended itself with a failure instead of returning".into(),
        ),
        Stop::Output => too_large(limits),
        Stop::Used(what) => (
            RefusalKind::Trap,
            format!(
                "the plugin used {what}, which plugins do not have: ask for it in the decision"
            ),
        ),
        Stop::TooMuch(what) => (
            RefusalKind::Trap,
            format!("the plugin asked for too much at once: {what}"),
        ),
    }
}

fn trapped(trap: Trap, state: &State, limits: &Limits) -> (RefusalKind, String) {
    match trap {
        Trap::StackOverflow => (
            RefusalKind::StackOverflow,
            "the plugin's calls are nested too deeply; is there a recursion without end?".into(),
        ),
        Trap::OutOfFuel | Trap::Interrupt => (
            RefusalKind::Timeout,
            format!(
                "the call used up the instructions for {} (limits.time)",
                limits.time
            ),
        ),
        // What Rust, C and Go do at the end of a panic or an abort; before it they say why.
        Trap::UnreachableCodeReached if state.output.spoke() => {
            (RefusalKind::Panic, "the plugin panicked".into())
        }
        other => (RefusalKind::Trap, other.to_string()),
    }
}
