//! The little state behind the closed WASI: two clocks, one stream of numbers, and what the guest waits for.

use crate::meter::Stop;

/// Start of the one random stream.
pub(super) const SEED: u64 = 0x6775_6573_7468_6f75;
/// Most random bytes at once.
const MAX_RANDOM: u64 = 1 << 20;

/// What a guest can see of a world.
pub(crate) struct World {
    /// Seconds since 1970; 0 until the observation is known.
    pub(crate) now: i64,
    /// Nanoseconds slept.
    pub(crate) monotonic: u64,
    /// A command's arguments; none else.
    pub(crate) arguments: Vec<String>,
    /// What a command finds on its standard input.
    pub(crate) input: Input,
    random: u64,
    /// When each pollable is ready, by its number less one; number 0 is always ready. Freed numbers are taken again.
    waits: Vec<u64>,
    free: Vec<u32>,
}

/// Bytes that are read once, from the front.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    read: usize,
}

impl From<Vec<u8>> for Input {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, read: 0 }
    }
}

impl Input {
    /// The next bytes, at most so many; none at the end.
    pub(super) fn take(&mut self, most: usize) -> &[u8] {
        let from = self.read;
        self.read = from.saturating_add(most).min(self.bytes.len());
        &self.bytes[from..self.read]
    }
}

impl Default for World {
    fn default() -> Self {
        Self {
            now: 0,
            monotonic: 0,
            arguments: Vec::new(),
            input: Input::default(),
            random: SEED,
            waits: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl World {
    /// The next number of the stream (SplitMix64, public domain).
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn random_bytes(&mut self, len: u64) -> Result<Vec<u8>, Stop> {
        if len > MAX_RANDOM {
            return Err(Stop::TooMuch("random bytes"));
        }
        let len = usize::try_from(len).unwrap_or(0);
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.random().to_le_bytes());
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    /// A pollable that is ready at this time.
    pub(super) fn wait_until(&mut self, when: u64) -> u32 {
        if when <= self.monotonic {
            return 0;
        }
        if let Some(number) = self.free.pop() {
            self.waits[number as usize - 1] = when;
            return number;
        }
        self.waits.push(when);
        // The store's limit on handles keeps this far below 2^32.
        self.waits.len() as u32
    }

    /// When a pollable is ready.
    pub(super) fn ready_at(&self, number: u32) -> u64 {
        (number as usize)
            .checked_sub(1)
            .and_then(|index| self.waits.get(index))
            .copied()
            .unwrap_or(0)
    }

    pub(super) fn forget(&mut self, number: u32) {
        if number > 0 {
            self.free.push(number);
        }
    }

    /// Lets time pass up to the first of these that is ready, and says which then are.
    pub(super) fn poll(&mut self, numbers: &[u32]) -> Vec<u32> {
        let times: Vec<u64> = numbers
            .iter()
            .map(|number| self.ready_at(*number))
            .collect();
        self.monotonic = self.monotonic.max(times.iter().copied().min().unwrap_or(0));
        let ready = times
            .iter()
            .enumerate()
            .filter(|(_, when)| **when <= self.monotonic);
        ready.map(|(index, _)| index as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_moves_the_clock_to_the_first_that_is_ready_and_no_further() {
        let mut world = World::default();
        let (a, b) = (world.wait_until(500), world.wait_until(200));
        assert_eq!(world.poll(&[a, b]), [1]);
        assert_eq!(world.monotonic, 200);
        assert_eq!(world.poll(&[a, 0]), [1]);
        assert_eq!(world.monotonic, 200);
        assert_eq!(world.poll(&[a]), [0]);
        assert_eq!(world.monotonic, 500);
    }

    #[test]
    fn a_forgotten_pollable_makes_room() {
        let mut world = World::default();
        for _ in 0..1000 {
            let number = world.wait_until(5);
            world.forget(number);
        }
        assert_eq!(world.waits.len(), 1);
    }

    #[test]
    fn every_world_has_the_same_random_numbers() {
        let draw = || {
            let mut world = World::default();
            (world.random_bytes(11).unwrap(), world.random())
        };
        assert_eq!(draw(), draw());
        assert_eq!(draw().0.len(), 11);
        assert!(World::default().random_bytes(u64::MAX).is_err());
    }
}
