//! A closed WASI of our own: every interface of WASI 0.2 that a language's start-up code imports is there, and nothing in it
//! leads outside.
//!
//! | what | is |
//! |---|---|
//! | wall clock | the observation's `now` |
//! | monotonic clock | 0 at the start, moved only by what the guest sleeps; a sleep returns at once |
//! | random, hash seeds | one constant stream, the same in every call |
//! | environment, directories | none |
//! | arguments, stdin | the verb and the observation of a command; else none, and at its end |
//! | stdout | the reply of a command; else as stderr |
//! | stderr | lines in the log; never full |
//! | files, sockets | an error the guest can handle where its type has one, else the end of the call |
//!
//! Each plugin is linked by the names it imports, whatever 0.2.z they carry. First everything it imports is defined as
//! refused, then what works is put over it: so a function that a later 0.2.z added links too, and is refused when used.

mod clock;
mod io;
pub(crate) mod preview1;
mod refused;
mod world;

use wasmtime::{
    Result,
    component::{Component, Linker, LinkerInstance, WasmStr, types::ComponentItem},
};

pub(crate) use world::World;

use crate::{bindings, output, state::State};

/// A linker that satisfies all that `component` imports; the names were checked before (`inspect`).
pub(crate) fn link(component: &Component) -> Result<Linker<State>> {
    let engine = component.engine();
    let mut linker = Linker::new(engine);
    linker.allow_shadowing(true);
    let ty = component.component_type();
    for (name, import) in ty.imports(engine) {
        // What is not an interface was refused before compiling.
        let ComponentItem::ComponentInstance(interface) = import.ty else {
            continue;
        };
        let mut instance = linker.instance(name)?;
        for (item, export) in interface.exports(engine) {
            refused::define(&mut instance, name, item, &export.ty)?;
        }
        works(name.split('@').next().unwrap_or(name), &mut instance)?;
    }
    Ok(linker)
}

/// Defines what works in one interface.
fn works(interface: &str, instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    match interface {
        "guesthouse:reconciler/log" => log(instance),
        "wasi:cli/environment" => environment(instance),
        "wasi:cli/exit" => exit(instance),
        "wasi:cli/stdin" => io::stdin(instance),
        "wasi:cli/stdout" => io::stdout(instance, output::Stream::Out, "get-stdout"),
        "wasi:cli/stderr" => io::stdout(instance, output::Stream::Err, "get-stderr"),
        "wasi:cli/terminal-stdin" => {
            io::no_terminal::<io::TerminalInput>(instance, "get-terminal-stdin")
        }
        "wasi:cli/terminal-stdout" => {
            io::no_terminal::<io::TerminalOutput>(instance, "get-terminal-stdout")
        }
        "wasi:cli/terminal-stderr" => {
            io::no_terminal::<io::TerminalOutput>(instance, "get-terminal-stderr")
        }
        "wasi:clocks/monotonic-clock" => clock::monotonic(instance),
        "wasi:clocks/wall-clock" => clock::wall(instance),
        "wasi:io/poll" => clock::poll(instance),
        "wasi:io/streams" => io::streams(instance),
        "wasi:random/random" => random(instance, "get-random-bytes", "get-random-u64"),
        "wasi:random/insecure" => random(
            instance,
            "get-insecure-random-bytes",
            "get-insecure-random-u64",
        ),
        "wasi:random/insecure-seed" => seed(instance),
        "wasi:filesystem/preopens" => refused::no_directories(instance),
        _ => Ok(()),
    }
}

fn log(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    instance.func_wrap(
        "write",
        |mut store, (level, message): (bindings::Level, WasmStr)| {
            let message = message.to_str(&store)?.into_owned();
            store.data_mut().output.log(level.into(), &message);
            Ok(())
        },
    )
}

fn environment(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    instance.func_wrap("get-environment", |_, (): ()| {
        Ok((Vec::<(String, String)>::new(),))
    })?;
    instance.func_wrap("get-arguments", |store, (): ()| {
        Ok((store.data().world.arguments.clone(),))
    })?;
    instance.func_wrap("initial-cwd", |_, (): ()| Ok((None::<String>,)))
}

fn exit(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    use crate::meter::Stop;
    instance.func_wrap(
        "exit",
        |_, (status,): (std::result::Result<(), ()>,)| -> Result<()> {
            Err(Stop::Exit {
                code: u32::from(status.is_err()),
            }
            .into())
        },
    )?;
    instance.func_wrap("exit-with-code", |_, (code,): (u8,)| -> Result<()> {
        Err(Stop::Exit { code: code.into() }.into())
    })
}

fn random(instance: &mut LinkerInstance<'_, State>, bytes: &str, number: &str) -> Result<()> {
    instance.func_wrap(bytes, |mut store, (len,): (u64,)| {
        Ok((store.data_mut().world.random_bytes(len)?,))
    })?;
    instance.func_wrap(number, |mut store, (): ()| {
        Ok((store.data_mut().world.random(),))
    })
}

fn seed(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    // A value of its own, not a part of the stream: asking for it must not move what comes after.
    instance.func_wrap("insecure-seed", |_, (): ()| {
        Ok(((world::SEED, !world::SEED),))
    })
}
