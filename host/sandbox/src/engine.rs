//! The runtime's configuration: one for all engines that must understand each other's code, a pool of instances for the
//! engine that runs guests, and the thread that moves its clock.

use std::{
    hash::{Hash, Hasher},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::{Metering, SandboxError};

/// Address space of one linear memory, and so the most one can grow to. A constant of the build, since it is part of the
/// compiled code; what a mapping may use is the limiter's matter.
pub(crate) const MEMORY_RESERVATION: u64 = 256 << 20;
/// Core modules, tables and memories one component may hold. A Python plugin has 14 to 38 core modules, one of QuickJS two
/// memories.
const CORE_INSTANCES: u32 = 128;
const TABLES: u32 = 16;
const MEMORIES: u32 = 4;
/// Elements of one table.
const TABLE_ELEMENTS: usize = 100_000;
/// Raised when the way from a user's bytes to compiled code changes in something the runtime's own hash does not see.
const RECIPE: &[u8] = b"guesthouse recipe 1";

/// How often the engine's clock moves, and so how exact a time limit is.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// What an engine must have in common with another to run its code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) metering: Metering,
    pub(crate) stack: usize,
}

fn config(shape: Shape) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .cranelift_nan_canonicalization(true)
        .epoch_interruption(true)
        .consume_fuel(shape.metering == Metering::Fuel)
        .max_wasm_stack(shape.stack)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_init_cow(true)
        // Only needed for WebAssembly offsets in backtraces, which are not stable enough to be shown.
        .generate_address_map(false);
    config
}

/// An engine for one compilation: it reserves nothing, and dies with what the compiler allocated (`wasmtime#14314`).
pub(crate) fn throw_away(shape: Shape) -> Result<Engine, SandboxError> {
    Engine::new(&config(shape)).map_err(|error| SandboxError::Engine(format!("{error:#}")))
}

/// The engine that runs guests, and why it has no pool if it has none.
pub(crate) fn running(
    shape: Shape,
    slots: usize,
) -> Result<(Engine, Option<String>), SandboxError> {
    let mut config = config(shape);
    let reserve = match u32::try_from(slots).ok().and_then(pool) {
        Some(pool) => {
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
            Engine::new(&config).map_err(|error| format!("{error:#}"))
        }
        None => Err("more than the runtime can count".into()),
    };
    match reserve {
        Ok(engine) => Ok((engine, None)),
        Err(error) => {
            config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
            let engine =
                Engine::new(&config).map_err(|error| SandboxError::Engine(format!("{error:#}")))?;
            Ok((
                engine,
                Some(format!(
                    "no pool for {slots} instances, each call allocates its own: {error}"
                )),
            ))
        }
    }
}

fn pool(slots: u32) -> Option<PoolingAllocationConfig> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .max_component_instance_size(16 << 20)
        .total_core_instances(slots.checked_mul(CORE_INSTANCES)?)
        .max_core_instances_per_component(CORE_INSTANCES)
        .total_tables(slots.checked_mul(TABLES)?)
        .max_tables_per_component(TABLES)
        .max_tables_per_module(TABLES)
        .table_elements(TABLE_ELEMENTS)
        // One more than a component's own: garbage-collected languages keep their heap in one.
        .total_memories(slots.checked_mul(MEMORIES + 1)?)
        .max_memories_per_component(MEMORIES)
        .max_memories_per_module(MEMORIES)
        .max_memory_size(usize::try_from(MEMORY_RESERVATION).ok()?)
        .total_gc_heaps(slots)
        // Tables are small: overwriting one costs less than giving its page back and taking a fault for the next.
        .table_keep_resident(64 << 10);
    Some(pool)
}

/// What must be equal for compiled code to be taken: version, target, settings and our own way to it.
pub(crate) fn identity(engine: &Engine) -> [u8; 32] {
    struct Blake(blake3::Hasher);
    impl Hasher for Blake {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(&(bytes.len() as u64).to_le_bytes());
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = Blake(blake3::Hasher::new());
    hasher.write(RECIPE);
    hasher.write(wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.0.finalize().into()
}

/// Moves an engine's clock once a tick for as long as it lives: always on, whoever has set a limit or not.
pub(crate) struct Ticker {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> Result<Self, SandboxError> {
        let engine = engine.clone();
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("epoch".into())
            // A late tick is not caught up: a deadline may come later, never earlier.
            .spawn(move || {
                while stopped.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                    engine.increment_epoch();
                }
            })
            .map_err(SandboxError::Ticker)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It can only have ended already or be about to.
            let _ = thread.join();
        }
    }
}
