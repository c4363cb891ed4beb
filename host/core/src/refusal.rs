//! Why a plugin's bytes, or one call of it, were refused. Every refusal is one of a closed set, so that messages, metrics
//! and tests speak of the same things; the text says what happened and, where it is known, what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The closed set of refusals; the metric label is [`RefusalKind::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RefusalKind {
    /// At load: not WebAssembly, damaged, or uses what this host leaves off (threads, memory64 …).
    BadModule,
    /// At load: precompiled code, which is never taken from users.
    Precompiled,
    /// At load: built against another contract version, or against none.
    ContractMismatch,
    /// At load: asks for a part of the contract that this host does not carry out yet; the text names it.
    Unsupported,
    /// At load: the compiler failed or went over its budget of time or memory.
    CompileFailed,
    /// Module, observation, output or status over its size limit.
    TooLarge,
    /// The call ran longer than its limit.
    Timeout,
    /// The guest's memories and tables together went over their limit.
    OutOfMemory,
    /// Recursion without end.
    StackOverflow,
    /// The guest panicked or aborted; the text has its own words.
    Panic,
    /// Any other trap.
    Trap,
    /// What came back is not a valid reply.
    BadOutput,
    /// Something is wrong with the host itself, not with the plugin.
    Host,
}

impl RefusalKind {
    /// CamelCase, as in condition reasons and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            RefusalKind::BadModule => "BadModule",
            RefusalKind::Precompiled => "Precompiled",
            RefusalKind::ContractMismatch => "ContractMismatch",
            RefusalKind::Unsupported => "Unsupported",
            RefusalKind::CompileFailed => "CompileFailed",
            RefusalKind::TooLarge => "TooLarge",
            RefusalKind::Timeout => "Timeout",
            RefusalKind::OutOfMemory => "OutOfMemory",
            RefusalKind::StackOverflow => "StackOverflow",
            RefusalKind::Panic => "Panic",
            RefusalKind::Trap => "Trap",
            RefusalKind::BadOutput => "BadOutput",
            RefusalKind::Host => "Host",
        }
    }
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One refusal. The text holds nothing that changes from call to call (no addresses, no times measured): it ends up in
/// conditions, where each new value would be a write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{kind}: {message}")]
pub struct Refusal {
    /// Which one.
    pub kind: RefusalKind,
    /// What happened and what to do.
    pub message: String,
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}
