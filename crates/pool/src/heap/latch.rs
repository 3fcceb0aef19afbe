//! The lock of a heap: taken by one exchange, let go by one plain store. It knows nothing of what it protects.
//!
//! Nobody is woken, so no wake-up can be lost: who finds it taken looks again, at first at once and in the end
//! after a sleep.

use parking_lot::lock_api::{self, GuardNoSend, RawMutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a thread looks at a taken lock before it sleeps, and how many pauses it makes between two
/// looks at most, some twenty microseconds. Long pauses let one thread at a time run undisturbed: 16 threads
/// on one heap need 300 ns a pair in all with 2^8, 790 ns with 2^5, and 1,045 ns asleep.
const LOOKS_MAX: u32 = 32;
const PAUSES_MAX_LOG2: u32 = 9;
/// Whoever holds it for so long is not at a hit.
const SLEEP: Duration = Duration::from_micros(50);

/// The lock, on a word that is true while somebody has it.
#[derive(Debug)]
pub(crate) struct RawLatch<W = AtomicBool>(W);

/// Something behind a latch.
pub(crate) type Latch<T> = lock_api::Mutex<RawLatch, T>;
/// Proof that the latch is taken.
pub(crate) type LatchGuard<'a, T> = lock_api::MutexGuard<'a, RawLatch, T>;

/// What a latch is made of: the processor's word or, in tests, a model that plays every order of events.
pub(crate) trait Word {
    fn swap(&self, value: bool, order: Ordering) -> bool;
    fn store(&self, value: bool, order: Ordering);
}

impl Word for AtomicBool {
    #[inline(always)]
    fn swap(&self, value: bool, order: Ordering) -> bool {
        self.swap(value, order)
    }

    #[inline(always)]
    fn store(&self, value: bool, order: Ordering) {
        self.store(value, order);
    }
}

impl<W: Word> RawLatch<W> {
    /// Whether it was free, and so is the caller's now.
    #[inline(always)]
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline(always)]
    fn let_go(&self) {
        self.0.store(false, Ordering::Release);
    }
}

// SAFETY: of all exchanges between two stores of `let_go` only the first finds false, and it sees all that was
// written before the store.
unsafe impl RawMutex for RawLatch {
    const INIT: Self = Self(AtomicBool::new(false));
    type Guard = GuardNoSend;

    #[inline(always)]
    fn lock(&self) -> GuardNoSend {
        self.try_lock().unwrap_or_else(|| self.lock_contended())
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<GuardNoSend> {
        self.take().then(GuardNoSend::new)
    }

    #[inline(always)]
    unsafe fn unlock(&self, _guard: GuardNoSend) {
        self.let_go();
    }

    #[inline(always)]
    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl RawLatch {
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> GuardNoSend {
        let mut look = 0_u32;
        loop {
            if look < LOOKS_MAX {
                for _ in 0..(1 << look.min(PAUSES_MAX_LOG2)) {
                    std::hint::spin_loop();
                }
            } else {
                std::thread::sleep(SLEEP);
            }
            look = look.saturating_add(1);
            if !self.is_locked()
                && let Some(guard) = self.try_lock()
            {
                return guard;
            }
        }
    }
}

#[cfg(test)]
mod tests;
