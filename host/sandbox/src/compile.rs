//! From a component to native code. The compiler is the one part of a load whose use of time and memory an attacker
//! chooses, so it runs with an engine, a stack and, where configured, a process of its own; one at a time.

use std::{sync::mpsc, time::Duration};

use guesthouse_core::refusal::{Refusal, RefusalKind::*};

use crate::{
    Budget, Compiler, child,
    engine::{self, Shape},
    refuse::refuse,
};

/// Stack of the thread that parses and compiles, bytes; both recurse with the depth of what they read (`wasmtime#9304`).
pub(crate) const COMPILE_STACK: usize = 32 << 20;

/// Native code for a component or a core module.
pub(crate) fn compile(
    compiler: &Compiler,
    shape: Shape,
    budget: &Budget,
    component: Vec<u8>,
) -> Result<Vec<u8>, Refusal> {
    match compiler {
        Compiler::InProcess => in_process(shape, budget, component),
        Compiler::Child { exe, args } => child::compile(exe, args, shape, budget, component),
    }
}

/// The compiler itself, on this thread.
pub(crate) fn here(shape: Shape, component: &[u8]) -> Result<Vec<u8>, String> {
    let engine = engine::throw_away(shape).map_err(|error| error.to_string())?;
    let code = match wasmparser::Parser::is_core_wasm(component) {
        true => engine.precompile_module(component),
        false => engine.precompile_component(component),
    };
    code.map_err(|error| format!("{error:#}"))
}

fn in_process(shape: Shape, budget: &Budget, component: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    let (send, receive) = mpsc::sync_channel(1);
    big_thread("compile", move || {
        // Nobody may be waiting any more.
        let _ = send.send(here(shape, &component));
    })?;
    match receive.recv_timeout(budget.time) {
        Ok(result) => {
            result.map_err(|error| refuse(CompileFailed, format!("cannot be compiled: {error}")))
        }
        Err(mpsc::RecvTimeoutError::Timeout) => Err(over_time(budget.time)),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(refuse(CompileFailed, "the compiler panicked"))
        }
    }
}

pub(crate) fn over_time(time: Duration) -> Refusal {
    refuse(
        CompileFailed,
        format!(
            "compiling took longer than {} s; is the module larger than it need be?",
            time.as_secs_f32()
        ),
    )
}

/// Starts a thread that is fit for the compiler.
pub(crate) fn big_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<std::thread::JoinHandle<T>, Refusal> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(COMPILE_STACK)
        .spawn(work)
        .map_err(|error| refuse(Host, format!("cannot start a thread to {name}: {error}")))
}
