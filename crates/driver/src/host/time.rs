//! The driver's clock. It is read without the lock that guards all else, because callers ask often.

use super::config::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Microseconds that never go back.
#[derive(Debug)]
pub(super) struct Time {
    clock: Clock,
    started: Instant,
    set_us: AtomicU64,
}

impl Time {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, started: Instant::now(), set_us: AtomicU64::new(0) }
    }

    pub(super) fn now_us(&self) -> u64 {
        let set_us = self.set_us.load(Relaxed);
        match self.clock {
            Clock::ByHand => set_us,
            Clock::Wall => set_us.max(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)),
        }
    }

    /// Puts the clock forward; an earlier time changes nothing.
    pub(super) fn set_us(&self, us: u64) {
        self.set_us.fetch_max(us, Relaxed);
    }
}
