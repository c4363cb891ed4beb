//! WASI preview 1 for commands that are core modules: the same closed world as in [`super`], by the functions of that version.
//!
//! Numbers, layouts and error codes are those of the preview 1 witx files (`wasi_snapshot_preview1`). A function that is not
//! here answers `ENOSYS`, so a program links whatever it imports and hears no when it uses it.

use wasmtime::{Caller, Engine, Extern, Linker, Module, Result, Val, ValType};

use crate::{meter::Stop, output::Stream, state::State};

/// The module that all of it is imported from.
pub(crate) const MODULE: &str = "wasi_snapshot_preview1";

const SUCCESS: i32 = 0;
const BADF: i32 = 8;
const FAULT: i32 = 21;
const INVAL: i32 = 28;
const NOSYS: i32 = 52;
const SPIPE: i32 = 70;

const STDIN: u32 = 0;
const STDOUT: u32 = 1;
const STDERR: u32 = 2;

/// What the monotonic clock begins with, nanoseconds: Go takes a 0 for a clock that is not there.
const FIRST: u64 = 1;

/// Most bytes one call moves, and most vectors and subscriptions it looks at: no deadline fires inside a host function.
const MAX_BYTES: usize = 1 << 20;
const MAX_ITEMS: u32 = 1024;

/// A linker that satisfies all that `module` imports; that it imports nothing else was checked before (`inspect`).
pub(crate) fn link(engine: &Engine, module: &Module) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    linker.allow_shadowing(true);
    for import in module.imports() {
        let wasmtime::ExternType::Func(ty) = import.ty() else {
            continue;
        };
        let answers = matches!(ty.results().collect::<Vec<_>>()[..], [ValType::I32]);
        linker.func_new(import.module(), import.name(), ty, move |_, _, results| {
            match results {
                [result] if answers => *result = Val::I32(NOSYS),
                _ => return Err(Stop::Used("a part of WASI").into()),
            }
            Ok(())
        })?;
    }
    program(&mut linker)?;
    time(&mut linker)?;
    streams(&mut linker)?;
    Ok(linker)
}

/// Arguments, environment, randomness and the end.
fn program(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(
        MODULE,
        "args_sizes_get",
        |mut caller: Caller<'_, State>, count: u32, size: u32| {
            at(&mut caller, |memory, state| {
                let bytes: usize = state
                    .world
                    .arguments
                    .iter()
                    .map(|text| text.len() + 1)
                    .sum();
                memory.put(count, &(state.world.arguments.len() as u32).to_le_bytes())?;
                memory.put(size, &(bytes as u32).to_le_bytes())
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "args_get",
        |mut caller: Caller<'_, State>, argv: u32, buffer: u32| {
            at(&mut caller, |memory, state| {
                let (mut slot, mut place) = (argv, buffer);
                for text in &state.world.arguments {
                    memory.put(slot, &place.to_le_bytes())?;
                    memory.put(place, &[text.as_bytes(), b"\0"].concat())?;
                    slot = slot.wrapping_add(4);
                    place = place.wrapping_add(text.len() as u32 + 1);
                }
                Ok(())
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "environ_sizes_get",
        |mut caller: Caller<'_, State>, count: u32, size: u32| {
            at(&mut caller, |memory, _| {
                memory.put(count, &[0; 4])?;
                memory.put(size, &[0; 4])
            })
        },
    )?;
    linker.func_wrap(MODULE, "environ_get", |_: u32, _: u32| SUCCESS)?;
    linker.func_wrap(
        MODULE,
        "random_get",
        |mut caller: Caller<'_, State>, place: u32, len: u32| -> Result<i32> {
            let bytes = caller.data_mut().world.random_bytes(u64::from(len))?;
            at(&mut caller, |memory, _| memory.put(place, &bytes))
        },
    )?;
    linker.func_wrap(MODULE, "sched_yield", || SUCCESS)?;
    linker.func_wrap(MODULE, "proc_exit", |code: u32| -> Result<()> {
        Err(Stop::Exit { code }.into())
    })?;
    Ok(())
}

/// Clocks by their numbers: 0 is the wall clock, the others move by what is slept alone.
fn time(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(
        MODULE,
        "clock_res_get",
        |mut caller: Caller<'_, State>, _clock: u32, place: u32| {
            at(&mut caller, |memory, _| {
                memory.put(place, &1_u64.to_le_bytes())
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "clock_time_get",
        |mut caller: Caller<'_, State>, clock: u32, _precision: u64, place: u32| {
            at(&mut caller, |memory, state| {
                memory.put(place, &reading(state, clock).to_le_bytes())
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "poll_oneoff",
        |mut caller: Caller<'_, State>, subscriptions: u32, events: u32, count: u32, made: u32| {
            at(&mut caller, |memory, state| {
                if count == 0 || count > MAX_ITEMS {
                    return Err(INVAL);
                }
                let all = (0..count)
                    .map(|n| subscription(memory, state, subscriptions.wrapping_add(n * 48)));
                let all: Vec<Subscription> = all.collect::<std::result::Result<_, _>>()?;
                let first = all.iter().map(|one| one.ready).min().unwrap_or(0);
                state.world.monotonic = state.world.monotonic.max(first);
                let ready = all.iter().filter(|one| one.ready <= state.world.monotonic);
                let mut written = 0_u32;
                for (one, place) in ready.zip((0_u32..).map(|n| events.wrapping_add(n * 32))) {
                    let mut event = [0; 32];
                    event[..8].copy_from_slice(&one.user);
                    event[10] = one.kind;
                    memory.put(place, &event)?;
                    written += 1;
                }
                memory.put(made, &written.to_le_bytes())
            })
        },
    )?;
    Ok(())
}

/// Nanoseconds on a clock.
fn reading(state: &State, clock: u32) -> u64 {
    match clock {
        0 => u64::try_from(state.world.now)
            .unwrap_or(0)
            .saturating_mul(1_000_000_000),
        _ => state.world.monotonic.saturating_add(FIRST),
    }
}

/// What a poll waits for.
struct Subscription {
    user: [u8; 8],
    kind: u8,
    /// On the monotonic clock; a stream is ready at any time.
    ready: u64,
}

fn subscription(
    memory: &Memory<'_>,
    state: &State,
    place: u32,
) -> std::result::Result<Subscription, i32> {
    let bytes: [u8; 48] = memory.get(place)?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
    let clock = u32::from_le_bytes(std::array::from_fn(|n| bytes[16 + n]));
    let absolute = bytes[40] & 1 == 1;
    let ready = match bytes[8] {
        0 if absolute => state
            .world
            .monotonic
            .saturating_add(number(24).saturating_sub(reading(state, clock))),
        0 => state.world.monotonic.saturating_add(number(24)),
        _ => 0,
    };
    Ok(Subscription {
        user: std::array::from_fn(|n| bytes[n]),
        kind: bytes[8],
        ready,
    })
}

/// The three standard streams; there is no other descriptor.
fn streams(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(
        MODULE,
        "fd_write",
        |mut caller: Caller<'_, State>,
         fd: u32,
         vectors: u32,
         count: u32,
         done: u32|
         -> Result<i32> {
            let stream = match fd {
                STDOUT => Stream::Out,
                STDERR => Stream::Err,
                _ => return Ok(BADF),
            };
            let mut over = None;
            let code = at(&mut caller, |memory, state| {
                let mut written = 0;
                for (place, len) in memory.vectors(vectors, count)? {
                    let len = len.min(MAX_BYTES - written);
                    let bytes = memory.slice(place, len)?;
                    over = over.or(state.output.write(stream, bytes).err());
                    written += len;
                }
                memory.put(done, &(written as u32).to_le_bytes())
            })?;
            match over {
                Some(stop) => Err(stop.into()),
                None => Ok(code),
            }
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_read",
        |mut caller: Caller<'_, State>, fd: u32, vectors: u32, count: u32, done: u32| {
            at(&mut caller, |memory, state| {
                if fd != STDIN {
                    return Err(BADF);
                }
                let mut read = 0;
                for (place, len) in memory.vectors(vectors, count)? {
                    let bytes = state.world.input.take(len.min(MAX_BYTES - read));
                    read += bytes.len();
                    memory.put(place, bytes)?;
                }
                memory.put(done, &(read as u32).to_le_bytes())
            })
        },
    )?;
    linker.func_wrap(MODULE, "fd_close", |fd: u32| standard(fd))?;
    linker.func_wrap(MODULE, "fd_fdstat_set_flags", |fd: u32, _flags: u32| {
        standard(fd)
    })?;
    linker.func_wrap(
        MODULE,
        "fd_seek",
        |fd: u32, _offset: i64, _whence: u32, _place: u32| no_place(fd),
    )?;
    linker.func_wrap(MODULE, "fd_tell", |fd: u32, _place: u32| no_place(fd))?;
    // No terminal, no file: a kind that nobody gives special treatment. All rights, since nothing hangs on them.
    linker.func_wrap(
        MODULE,
        "fd_fdstat_get",
        |mut caller: Caller<'_, State>, fd: u32, place: u32| {
            at(&mut caller, |memory, _| {
                let mut stat = [0; 24];
                stat[8..].fill(0xff);
                if standard(fd) == SUCCESS {
                    memory.put(place, &stat)
                } else {
                    Err(BADF)
                }
            })
        },
    )?;
    linker.func_wrap(
        MODULE,
        "fd_filestat_get",
        |mut caller: Caller<'_, State>, fd: u32, place: u32| {
            at(&mut caller, |memory, _| {
                if standard(fd) == SUCCESS {
                    memory.put(place, &[0; 64])
                } else {
                    Err(BADF)
                }
            })
        },
    )?;
    // The end of the list of directories that are open: there is none.
    linker.func_wrap(MODULE, "fd_prestat_get", |_fd: u32, _place: u32| BADF)?;
    linker.func_wrap(
        MODULE,
        "fd_prestat_dir_name",
        |_fd: u32, _place: u32, _len: u32| BADF,
    )?;
    Ok(())
}

fn standard(fd: u32) -> i32 {
    if fd <= STDERR { SUCCESS } else { BADF }
}

fn no_place(fd: u32) -> i32 {
    if fd <= STDERR { SPIPE } else { BADF }
}

/// The guest's memory.
struct Memory<'a>(&'a mut [u8]);

impl Memory<'_> {
    fn slice(&self, place: u32, len: usize) -> std::result::Result<&[u8], i32> {
        let from = place as usize;
        let to = from.checked_add(len).ok_or(FAULT)?;
        self.0.get(from..to).ok_or(FAULT)
    }

    fn get<const N: usize>(&self, place: u32) -> std::result::Result<[u8; N], i32> {
        self.slice(place, N)?.try_into().map_err(|_| FAULT)
    }

    fn put(&mut self, place: u32, bytes: &[u8]) -> std::result::Result<(), i32> {
        let from = place as usize;
        let to = from.checked_add(bytes.len()).ok_or(FAULT)?;
        self.0
            .get_mut(from..to)
            .ok_or(FAULT)?
            .copy_from_slice(bytes);
        Ok(())
    }

    /// The vectors of a read or write: where, and how many bytes.
    fn vectors(&self, place: u32, count: u32) -> std::result::Result<Vec<(u32, usize)>, i32> {
        if count > MAX_ITEMS {
            return Err(INVAL);
        }
        let vector = |n: u32| {
            let bytes: [u8; 8] = self.get(place.wrapping_add(n * 8))?;
            let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
            Ok((number(0), number(4) as usize))
        };
        (0..count).map(vector).collect()
    }
}

/// Runs a function over the caller's memory and state; its error is the guest's error code.
fn at(
    caller: &mut Caller<'_, State>,
    work: impl FnOnce(&mut Memory<'_>, &mut State) -> std::result::Result<(), i32>,
) -> Result<i32> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
        return Err(Stop::Used("WASI without exporting its memory").into());
    };
    let (bytes, state) = memory.data_and_store_mut(caller);
    Ok(work(&mut Memory(bytes), state).err().unwrap_or(SUCCESS))
}
