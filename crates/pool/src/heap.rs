//! A heap: the blocks and free bytes of one stream in one kind of place, under one lock. Its lock is the only
//! one a hit takes, and no driver call is made under it.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) mod eights;
pub(crate) mod extent;
pub(crate) mod extents;
pub(crate) mod free_log;
pub(crate) mod group;
pub(crate) mod holds;
pub(crate) mod inside;
pub(crate) mod lanes;
#[allow(unsafe_code)]
pub(crate) mod latch;
pub(crate) mod later;
pub(crate) mod leaf;
pub(crate) mod live;
pub(crate) mod pending;
pub(crate) mod position;
pub(crate) mod roll;
pub(crate) mod row;
#[allow(unsafe_code)]
pub(crate) mod scan;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) mod sixteens;
pub(crate) mod stretch;
pub(crate) mod taken;
pub(crate) mod tenant;
pub(crate) mod tree;
pub(crate) mod width;

use crate::clock::Clock;
use crate::heap::inside::{Freed, Inside};
use crate::heap::latch::{Latch, LatchGuard};
pub(crate) use crate::heap::pending::Pending;
pub(crate) use crate::heap::tenant::{HeapKey, Tenant};
use crate::unit::UNIT_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A heap and its lock. Aligned, so that threads on neighbouring heaps do not share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Heap {
    pub(crate) index: u32,
    pub(crate) inside: Door,
    /// Units in live blocks, for readers without the lock.
    live_units: AtomicU64,
    /// The highest `live_units` since it was last asked for.
    live_peak_units: AtomicU64,
    /// Bytes of its sleeping slots. Only the mapper's holder writes it.
    asleep_bytes: AtomicU64,
    /// No tick has anything to do before.
    tick_due_us: AtomicU64,
}

/// The lock, with what it protects.
#[derive(Debug, Default)]
pub(crate) struct Door(Latch<Inside>);

impl Door {
    /// Takes the lock; nothing is promised inside.
    pub(crate) fn lock(&self) -> LatchGuard<'_, Inside> {
        let mut inside = self.0.lock();
        inside.settle();
        inside
    }
}

impl Heap {
    pub(crate) fn new(index: u32) -> Self {
        Self {
            index,
            inside: Door::default(),
            live_units: AtomicU64::new(0),
            live_peak_units: AtomicU64::new(0),
            asleep_bytes: AtomicU64::new(0),
            tick_due_us: AtomicU64::new(0),
        }
    }

    /// Whether a tick is due; if so, the next one is `pause_us` later.
    pub(crate) fn is_tick_due(&self, now_us: u64, pause_us: u64) -> bool {
        let due = now_us >= self.tick_due_us.load(Ordering::Relaxed);
        if due {
            self.tick_due_us.store(now_us.saturating_add(pause_us), Ordering::Relaxed);
        }
        due
    }

    /// Bytes in live blocks now.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_units.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// Bytes in live blocks that have memory, as far as it can be told without looking at each.
    pub(crate) fn awake_bytes(&self) -> u64 {
        self.live_bytes().saturating_sub(self.asleep_bytes())
    }

    /// The most bytes in live blocks with memory since the last call.
    pub(crate) fn take_live_peak_bytes(&self) -> u64 {
        let live_units = self.live_units.load(Ordering::Relaxed);
        let peak_bytes = self.live_peak_units.swap(live_units, Ordering::Relaxed) * UNIT_BYTES;
        peak_bytes.saturating_sub(self.asleep_bytes()).max(self.awake_bytes())
    }

    /// Bytes of slots whose blocks are suspended.
    pub(crate) fn asleep_bytes(&self) -> u64 {
        self.asleep_bytes.load(Ordering::Relaxed)
    }

    /// Takes note that slots of so many bytes fell asleep, or awoke.
    pub(crate) fn note_asleep(&self, more_bytes: u64, less_bytes: u64) {
        self.asleep_bytes.store((self.asleep_bytes() + more_bytes).saturating_sub(less_bytes), Ordering::Relaxed);
    }

    /// A block for the stream with this serial from the free bytes, if it is served here and some extent has them.
    #[inline(always)]
    pub(crate) fn hit(&self, serial: u32, units: u32) -> Option<u64> {
        let mut inside = self.inside.0.lock();
        if !inside.serves(serial) {
            return None;
        }
        let address = inside.give(units)?;
        self.add_live(units);
        Some(address)
    }

    /// Takes a block from the free bytes, if some extent has them.
    pub(crate) fn take(&self, inside: &mut Inside, units: u32, alignment_bytes: u64) -> Option<u64> {
        let address = inside.give_aligned(units, alignment_bytes)?;
        self.add_live(units);
        Some(address)
    }

    /// Enters a block whose bytes are no free ones.
    pub(crate) fn enter(&self, inside: &mut Inside, address: u64, units: u32) {
        inside.enter(address, units);
        self.add_live(units);
    }

    /// Only the lock's holder writes, so plain stores do.
    #[inline(always)]
    fn add_live(&self, units: u32) {
        let live_units = self.live_units.load(Ordering::Relaxed) + u64::from(units);
        self.live_units.store(live_units, Ordering::Relaxed);
        if live_units > self.live_peak_units.load(Ordering::Relaxed) {
            self.live_peak_units.store(live_units, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn sub_live(&self, units: u32) {
        self.live_units.store(self.live_units.load(Ordering::Relaxed) - u64::from(units), Ordering::Relaxed);
    }

    /// Frees the block at `address`, used last on the heap's stream. `None`: there is no such; `true`: it is time
    /// for a tick.
    #[inline(always)]
    pub(crate) fn free_own(&self, address: u64) -> Option<bool> {
        let mut inside = self.inside.0.lock();
        let freed = inside.free_own(address);
        self.note_free(freed)
    }

    /// Frees the block at `address`, used last on the heap's stream and perhaps on `also`; answers as
    /// [`Heap::free_own`] does.
    pub(crate) fn free(&self, address: u64, also: Option<Arc<Clock>>) -> Option<bool> {
        let mut inside = self.inside.lock();
        let freed = inside.free(address, also);
        self.note_free(freed)
    }

    /// Publishes a free; the lock is held.
    #[inline(always)]
    fn note_free(&self, freed: Freed) -> Option<bool> {
        let (units, tick) = match freed {
            Freed::Now(units, tick) => (units, tick),
            Freed::Pending(units) => (units, true),
            Freed::Unknown => return None,
        };
        self.sub_live(units);
        Some(tick)
    }
}
