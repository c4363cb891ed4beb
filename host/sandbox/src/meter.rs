//! What one call uses, held against its limits: memory as the sum over all memories and tables, and time.

use std::time::{Duration, Instant};

use guesthouse_core::limits::Limits;
use rustix::time::{ClockId, clock_gettime};
use wasmtime::{ResourceLimiter, Store, StoreContextMut, UpdateDeadline};

use crate::{
    Metering,
    engine::{MEMORY_RESERVATION, TICK},
    state::State,
};

/// Why this host ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The thread's CPU time reached the limit.
    #[error("cpu time")]
    Cpu,
    /// The clock reached four times the limit.
    #[error("wall time")]
    Wall,
    /// The guest called `exit`, with 0 for success.
    #[error("exit")]
    Exit { code: u32 },
    /// More was written to a command's standard output than a reply may hold.
    #[error("too much output")]
    Output,
    /// The guest used something that is only there to satisfy its imports.
    #[error("use of {0}")]
    Used(&'static str),
    /// One request for more than a host function gives.
    #[error("too much of {0}")]
    TooMuch(&'static str),
}

/// Bytes the runtime keeps for one table element.
const TABLE_ELEMENT: u64 = size_of::<usize>() as u64;

/// The memory and time of one call.
pub(crate) struct Meter {
    limit: u64,
    used: u64,
    peak: u64,
    /// What the last permitted growth added, should it fail after all.
    pending: u64,
    denied: bool,
    time: Duration,
    began: Instant,
    cpu_began: Duration,
}

impl Meter {
    pub(crate) fn start(limits: &Limits) -> Self {
        Self {
            limit: limits.memory.0,
            used: 0,
            peak: 0,
            pending: 0,
            denied: false,
            time: limits.time.duration(),
            began: Instant::now(),
            cpu_began: cpu_time(),
        }
    }

    /// Whether a growth was denied; whatever the guest did then, it did for want of memory.
    pub(crate) fn denied(&self) -> bool {
        self.denied
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn grow(&mut self, by: u64, fits: bool) -> bool {
        let sum = self.used.saturating_add(by);
        if sum > self.limit || !fits {
            self.denied = true;
            self.pending = 0;
            return false;
        }
        self.used = sum;
        self.pending = by;
        self.peak = self.peak.max(sum);
        true
    }

    /// The runtime could not do what was permitted: over the module's own maximum, or the system is out of memory.
    fn undo(&mut self) {
        self.used -= std::mem::take(&mut self.pending);
    }

    /// At a deadline: on, for as long as the thread was not given its time, or the end.
    fn deadline(&self) -> Result<Duration, Stop> {
        let used = cpu_time().saturating_sub(self.cpu_began);
        let Some(cpu_left) = self.time.checked_sub(used).filter(|left| !left.is_zero()) else {
            return Err(Stop::Cpu);
        };
        match (self.time * 4)
            .checked_sub(self.began.elapsed())
            .filter(|left| !left.is_zero())
        {
            Some(wall_left) => Ok(cpu_left.min(wall_left)),
            None => Err(Stop::Wall),
        }
    }
}

/// Sets the deadlines of a fresh store.
pub(crate) fn arm(
    store: &mut Store<State>,
    metering: Metering,
    limits: &Limits,
) -> wasmtime::Result<()> {
    store.limiter(|state| &mut state.meter);
    match metering {
        Metering::Epoch => {
            store.set_epoch_deadline(ticks(limits.time.duration()));
            store.epoch_deadline_callback(|context: StoreContextMut<'_, State>| {
                let more = context.data().meter.deadline()?;
                Ok(UpdateDeadline::Continue(ticks(more)))
            });
        }
        Metering::Fuel => {
            store.set_fuel(fuel(limits))?;
            store.set_epoch_deadline(ticks(limits.time.duration() * 10));
            store.epoch_deadline_callback(|_| Err(Stop::Wall.into()));
        }
    }
    Ok(())
}

/// The instructions that stand for the time limit.
pub(crate) fn fuel(limits: &Limits) -> u64 {
    limits.time.0.saturating_mul(1_000_000)
}

/// Whole ticks that are surely as long as `time`: one more, since the current tick is partly over.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(TICK.as_nanos()))
        .unwrap_or(u64::MAX / 2)
        .saturating_add(1)
}

fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(spent.tv_sec).unwrap_or(0),
        u32::try_from(spent.tv_nsec).unwrap_or(0),
    )
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired as u64 <= MEMORY_RESERVATION;
        Ok(self.grow(desired.saturating_sub(current) as u64, fits))
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.undo();
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.grow(
            (desired.saturating_sub(current) as u64).saturating_mul(TABLE_ELEMENT),
            true,
        ))
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.undo();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_core::units::{Bytes, Span};

    fn meter(memory: u64) -> Meter {
        Meter::start(&Limits {
            memory: Bytes(memory),
            ..Limits::default()
        })
    }

    #[test]
    fn memories_and_tables_count_together() {
        let mut meter = meter(1000);
        assert!(meter.memory_growing(0, 600, None).unwrap());
        assert!(meter.table_growing(0, 50, None).unwrap());
        assert!(!meter.denied());
        assert!(!meter.memory_growing(0, 1, None).unwrap());
        assert!(meter.denied());
        assert_eq!(meter.peak(), 1000);
    }

    #[test]
    fn a_growth_that_failed_after_all_is_not_counted() {
        let mut meter = meter(1000);
        assert!(meter.memory_growing(0, 900, None).unwrap());
        assert!(meter.memory_growing(900, 1000, None).unwrap());
        meter
            .memory_grow_failed(wasmtime::Error::msg("maximum"))
            .unwrap();
        assert!(meter.table_growing(0, 12, None).unwrap());
    }

    #[test]
    fn one_memory_stays_within_the_reservation_whatever_the_limit() {
        let mut meter = meter(u64::MAX);
        assert!(
            !meter
                .memory_growing(0, MEMORY_RESERVATION as usize + 1, None)
                .unwrap()
        );
    }

    #[test]
    fn a_deadline_is_never_early() {
        assert_eq!(ticks(Duration::from_millis(1)), 2);
        assert_eq!(ticks(Duration::from_millis(10)), 2);
        assert_eq!(ticks(Duration::from_secs(1)), 101);
    }

    #[test]
    fn a_thread_without_cpu_time_is_extended_and_ends_at_four_times_the_limit() {
        let mut meter = Meter::start(&Limits {
            time: Span(100),
            ..Limits::default()
        });
        let ago = |span| Instant::now().checked_sub(span).unwrap();
        meter.cpu_began = cpu_time();
        meter.began = ago(Duration::from_millis(200));
        assert!(meter.deadline().is_ok());
        meter.began = ago(Duration::from_millis(400));
        assert_eq!(meter.deadline(), Err(Stop::Wall));
        meter.cpu_began = Duration::ZERO;
        while cpu_time() < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        assert_eq!(meter.deadline(), Err(Stop::Cpu));
    }
}
