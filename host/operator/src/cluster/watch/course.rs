//! What a watch does next, as a pure function of what just happened.

use std::sync::Arc;
use std::time::Duration;

use super::{KindState, WatchOptions};
use crate::cluster::error::RequestError;

/// How an attempt goes about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attempt {
    /// List by WatchList streaming, and follow.
    Stream,
    /// List in pages.
    Pages,
    /// Follow from this version.
    Follow(String),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// A list in pages is complete.
    Listed,
    /// The server ended the watch as it does after its time.
    Closed,
    /// No byte for too long.
    Silent,
    /// The connection broke, or a line was unreadable.
    Cut(String),
    /// The server refused the request, or said so within the stream.
    Refused(RequestError),
    /// The list is older than what was told before.
    Backwards,
    /// An event that cannot be taken (too long, not JSON): only a list can tell what it was.
    Unreadable(String),
}

/// The place and pace of one watch.
#[derive(Debug)]
pub(super) struct Course {
    options: WatchOptions,
    /// The version to go on from; empty = a list is needed.
    version: String,
    /// A complete list was seen since the kind last appeared.
    listed: bool,
    /// A complete list was ever seen.
    served: bool,
    /// The server does not offer WatchList.
    no_stream: bool,
    /// The last streamed list never came to its end: pages this time.
    pages_once: bool,
    failures: u32,
    /// Refusals to go on from `version` in a row.
    refusals: u32,
    turns: u64,
}

/// Refusals to go on from a version before a list is tried instead, whatever the server gave as the reason (a restored
/// backup answers "too large resource version" with 504 for ever).
const REFUSALS: u32 = 3;

/// 429 answers in a row that are not shown as a state.
const PATIENCE: u32 = 3;

/// The longest a server's wish to be left alone is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

impl Course {
    pub(super) fn new(options: WatchOptions) -> Self {
        Self {
            options,
            version: String::new(),
            listed: false,
            served: false,
            no_stream: false,
            pages_once: false,
            failures: 0,
            refusals: 0,
            turns: 0,
        }
    }

    pub(super) fn options(&self) -> &WatchOptions {
        &self.options
    }

    /// What to try now.
    pub(super) fn attempt(&self) -> Attempt {
        match () {
            () if !self.version.is_empty() => Attempt::Follow(self.version.clone()),
            () if self.no_stream || self.pages_once => Attempt::Pages,
            () => Attempt::Stream,
        }
    }

    /// Whether no list has been completed since the kind appeared.
    pub(super) fn is_first(&self) -> bool {
        !self.listed
    }

    /// A list as of this version is complete.
    pub(super) fn listed(&mut self, version: &str) {
        (self.listed, self.served) = (true, true);
        self.pages_once = false;
        self.follow(version);
    }

    /// The server told of this version in the list's order: an event or a bookmark.
    pub(super) fn told(&mut self, version: &str) {
        self.failures = 0;
        self.refusals = 0;
        self.follow(version);
    }

    fn follow(&mut self, version: &str) {
        self.version.clear();
        self.version.push_str(version);
    }

    /// Seconds the next watch shall last: up to a fifth less than the most, so that watches begun together end apart.
    pub(super) fn lifetime(&self) -> u64 {
        let most = self.options.lifetime.as_secs().max(1);
        most - mix(self.options.seed ^ self.turns) % (most / 5 + 1)
    }

    /// Takes note of how the attempt ended; returns the state it means, if it means one, and how long to wait.
    pub(super) fn ended(&mut self, end: End) -> (Option<KindState>, Duration) {
        self.turns += 1;
        let following = !self.version.is_empty();
        match end {
            End::Listed => (Some(KindState::Active), Duration::ZERO),
            End::Closed | End::Silent if !following => {
                self.pages_once = true;
                (None, self.failed())
            }
            End::Silent => (None, self.options.backoff),
            // `told` has set failures to zero if anything came; a server that only ever hangs up is not asked in a tight loop.
            End::Closed => {
                let wait = if self.failures == 0 {
                    Duration::ZERO
                } else {
                    self.delay()
                };
                self.failures += 1;
                (None, wait)
            }
            End::Cut(message) => (Some(unreachable(message)), self.failed()),
            End::Backwards => (None, self.relist()),
            End::Unreadable(message) => {
                self.pages_once = true;
                (Some(unreachable(message)), self.relist())
            }
            End::Refused(error) => self.refused(error, following),
        }
    }

    fn refused(&mut self, error: RequestError, following: bool) -> (Option<KindState>, Duration) {
        match error {
            RequestError::Gone(_) => (None, self.relist()),
            RequestError::NotServed(_) | RequestError::NotFound(_) => {
                // What appears under this name later is another kind, and may be served by another server.
                self.version.clear();
                (self.listed, self.no_stream, self.pages_once, self.failures) =
                    (false, false, false, 0);
                let state = if self.served {
                    KindState::Gone
                } else {
                    KindState::Absent
                };
                (Some(state), self.jittered(self.options.poll))
            }
            RequestError::Forbidden(message) => {
                (Some(KindState::Forbidden(message.into())), self.failed())
            }
            RequestError::Invalid(_) if self.attempt() == Attempt::Stream => {
                self.no_stream = true;
                (None, Duration::ZERO)
            }
            error => {
                // Only answers count: while nobody answers, the place is as good as before.
                let answered = !matches!(error, RequestError::Unreachable(_));
                self.refusals += u32::from(following && answered);
                if self.refusals >= REFUSALS {
                    self.refusals = 0;
                    self.version.clear();
                }
                let wish = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
                // Asking for patience is what a server does while it builds a new kind's storage: no state unless it lasts.
                let patience =
                    matches!(error, RequestError::Throttled { .. }) && self.failures < PATIENCE;
                let state = (!patience).then(|| unreachable(error.to_string()));
                (state, self.failed().max(wish))
            }
        }
    }

    fn relist(&mut self) -> Duration {
        self.version.clear();
        self.failed()
    }

    fn failed(&mut self) -> Duration {
        let delay = self.delay();
        self.failures += 1;
        delay
    }

    fn delay(&self) -> Duration {
        let doubled = self
            .options
            .backoff
            .saturating_mul(1 << self.failures.min(16));
        self.jittered(doubled.min(self.options.backoff_max))
    }

    /// Up to a quarter less, by the seed and the turn.
    fn jittered(&self, delay: Duration) -> Duration {
        let share = mix(self.options.seed ^ self.turns.rotate_left(32)) % 256;
        delay.mul_f64(1.0 - share as f64 / 1024.0)
    }
}

fn unreachable(message: String) -> KindState {
    KindState::Unreachable(Arc::from(message))
}

/// SplitMix64's finalizer (Steele, Lea, Flood 2014): any change of the input changes about half of the output.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests;
