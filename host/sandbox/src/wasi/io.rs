//! Standard streams: input is the observation of a command, else at its end; output goes to the log and is never full, but for a
//! command's reply.

use wasmtime::{
    Result, StoreContextMut,
    component::{ComponentType, Lift, LinkerInstance, Lower, Resource, WasmList},
};

use super::clock::Pollable;
use crate::{meter::Stop, output::Stream, state::State};

/// `wasi:io/streams` `input-stream`; there is only stdin.
pub(super) struct InputStream;
/// `wasi:io/streams` `output-stream`; its number says which.
pub(super) struct OutputStream;
/// `wasi:io/error` `error`; none is ever made.
pub(super) struct IoError;
/// A terminal to read from; none is ever made.
pub(super) struct TerminalInput;
/// A terminal to write to; none is ever made.
pub(super) struct TerminalOutput;

/// Bytes a guest is told it may write at once, and gets at once; writing more is not an error here.
const PERMIT: u64 = 64 << 10;

#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    #[allow(dead_code)] // Part of the type; no operation fails.
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

type Done<T> = std::result::Result<T, StreamError>;

/// The pollable that is always ready.
const READY: u32 = 0;

const OUT: u32 = 1;
const ERR: u32 = 2;

pub(super) fn stdin(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    instance.func_wrap("get-stdin", |_, (): ()| {
        Ok((Resource::<InputStream>::new_own(0),))
    })
}

pub(super) fn stdout(
    instance: &mut LinkerInstance<'_, State>,
    stream: Stream,
    name: &str,
) -> Result<()> {
    let number = if stream == Stream::Out { OUT } else { ERR };
    instance.func_wrap(name, move |_, (): ()| {
        Ok((Resource::<OutputStream>::new_own(number),))
    })
}

pub(super) fn no_terminal<T: 'static>(
    instance: &mut LinkerInstance<'_, State>,
    name: &str,
) -> Result<()> {
    instance.func_wrap(name, |_, (): ()| Ok((None::<Resource<T>>,)))
}

pub(super) fn streams(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    input(instance)?;
    output(instance)
}

fn input(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    for name in [
        "[method]input-stream.read",
        "[method]input-stream.blocking-read",
    ] {
        instance.func_wrap(
            name,
            |mut store, (_, most): (Resource<InputStream>, u64)| {
                let most = usize::try_from(most.min(PERMIT)).unwrap_or(0);
                let bytes = store.data_mut().world.input.take(most).to_vec();
                let end = bytes.is_empty() && most > 0;
                Ok((if end {
                    Done::Err(StreamError::Closed)
                } else {
                    Done::Ok(bytes)
                },))
            },
        )?;
    }
    for name in [
        "[method]input-stream.skip",
        "[method]input-stream.blocking-skip",
    ] {
        instance.func_wrap(name, |_, _: (Resource<InputStream>, u64)| {
            Ok((Done::<u64>::Err(StreamError::Closed),))
        })?;
    }
    instance.func_wrap(
        "[method]input-stream.subscribe",
        |_, _: (Resource<InputStream>,)| Ok((Resource::<Pollable>::new_own(READY),)),
    )
}

fn output(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    instance.func_wrap(
        "[method]output-stream.check-write",
        |_, _: (Resource<OutputStream>,)| Ok((Done::Ok(PERMIT),)),
    )?;
    for name in [
        "[method]output-stream.write",
        "[method]output-stream.blocking-write-and-flush",
    ] {
        instance.func_wrap(
            name,
            |store, (this, bytes): (Resource<OutputStream>, WasmList<u8>)| {
                write(store, &this, &bytes)?;
                Ok((Done::Ok(()),))
            },
        )?;
    }
    for name in [
        "[method]output-stream.flush",
        "[method]output-stream.blocking-flush",
    ] {
        instance.func_wrap(name, |_, _: (Resource<OutputStream>,)| Ok((Done::Ok(()),)))?;
    }
    for name in [
        "[method]output-stream.write-zeroes",
        "[method]output-stream.blocking-write-zeroes-and-flush",
    ] {
        // Nothing that a log would show.
        instance.func_wrap(name, |_, _: (Resource<OutputStream>, u64)| {
            Ok((Done::Ok(()),))
        })?;
    }
    for name in [
        "[method]output-stream.splice",
        "[method]output-stream.blocking-splice",
    ] {
        instance.func_wrap(
            name,
            |_, _: (Resource<OutputStream>, Resource<InputStream>, u64)| {
                Ok((Done::<u64>::Err(StreamError::Closed),))
            },
        )?;
    }
    instance.func_wrap(
        "[method]output-stream.subscribe",
        |_, _: (Resource<OutputStream>,)| Ok((Resource::<Pollable>::new_own(READY),)),
    )
}

fn write(
    mut store: StoreContextMut<'_, State>,
    this: &Resource<OutputStream>,
    bytes: &WasmList<u8>,
) -> std::result::Result<(), Stop> {
    let stream = if this.rep() == ERR {
        Stream::Err
    } else {
        Stream::Out
    };
    // Out and in again: the guest's memory and the call's data are both behind the store.
    let mut output = std::mem::replace(&mut store.data_mut().output, crate::output::Output::new(0));
    let written = output.write(stream, bytes.as_le_slice(&store));
    store.data_mut().output = output;
    written
}
