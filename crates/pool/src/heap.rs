//! A heap: the blocks and free bytes of one stream in one kind of place. Its lock is the only one a
//! hit takes, and no driver call is made under it.

use crate::arena::ArenaId;
use crate::clock::{Clock, Fence};
use crate::extents::{Extent, Extents};
use crate::free_log::FreeLog;
use crate::holds::{self, Holds, Left};
use crate::live::{Block, LiveTable};
use crate::mutant::{Mutant, is_planted};
use crate::unit::{UNIT_BYTES, bytes_of, units_of};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stitchpool_chunks::Placement;
use stitchpool_driver::{Address, DeviceId, Grant};

/// Every so many frees the heap asks whether its streams should be sealed.
const FREES_PER_TICK: u32 = 16;
/// Serves no stream: no serial is as high.
const NOBODY: u64 = u64::MAX;

/// How often a thread looks at a taken lock before it sleeps, and how many pauses it makes between two
/// looks at most, some twenty microseconds. Long pauses let one thread at a time run undisturbed: 16 threads
/// on one heap need 300 ns a pair in all with 2^8, 790 ns with 2^5, and 1,045 ns asleep.
const LOOKS_MAX: u32 = 32;
const PAUSES_MAX_LOG2: u32 = 9;

/// A heap and its lock. Aligned, so that threads on neighbouring heaps do not share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Heap {
    pub(crate) index: u32,
    pub(crate) core: Mutex<Core>,
    /// `core.live_units` in bytes, for readers without the lock.
    live_bytes: AtomicU64,
    /// The highest `live_bytes` since it was last asked for.
    live_peak_bytes: AtomicU64,
    /// Bytes of its sleeping slots. Only the mapper's holder writes it.
    asleep_bytes: AtomicU64,
    /// No tick has anything to do before.
    tick_due_us: AtomicU64,
}

/// What all blocks of a heap have in common, so that a hit need not look at it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct HeapKey {
    pub(crate) serial: u32,
    pub(crate) arena: ArenaId,
    pub(crate) placement: Placement,
    /// Who may read and write, beside the stream's device and those of the placement.
    pub(crate) readers: Vec<DeviceId>,
    /// All blocks have this size, because the placement is exact; `None`: any size.
    pub(crate) block_bytes: Option<u64>,
    /// Each block has handles of its own, and a chain.
    pub(crate) exclusive: bool,
}

/// Who uses a heap now.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) key: HeapKey,
    pub(crate) clock: Arc<Clock>,
    pub(crate) grants: Arc<[Grant]>,
}

impl Tenant {
    /// Whether what the stream asks for without naming an arena is served elsewhere now.
    pub(crate) fn is_diverted(&self) -> bool {
        self.key.arena.is_default() && self.clock.is_captured()
    }
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct Core {
    /// The serial of the stream that may allocate; `NOBODY` iff there is no tenant, its stream is retired, its
    /// arena is not awake, or it is the home of a stream that is being captured: blocks may still be freed.
    serves: u64,
    /// Iff the tenant's stream is retired, or its arena dissolved.
    retired: bool,
    /// None iff the heap is unused: no chain, block or pending block is in it.
    pub(crate) tenant: Option<Tenant>,
    /// Free bytes, all of them in current slots of the heap's chains.
    pub(crate) extents: Extents,
    live: LiveTable,
    /// For each live block that is used on other streams, which; for a held block always, so that its free
    /// looks here.
    uses: BTreeMap<u64, Vec<Arc<Clock>>>,
    /// Blocks that leases and views keep in place, freed ones too.
    pub(crate) holds: Holds,
    /// Freed, but other streams may still be using them.
    pub(crate) pending: Vec<Pending>,
    pub(crate) log: FreeLog,
    /// The sum over `live`.
    live_units: u64,
    frees_until_tick: u32,
    pub(crate) counts: HeapCounts,
}

/// What a heap has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapCounts {
    pub(crate) allocs: u64,
    pub(crate) frees: u64,
    pub(crate) misses: u64,
}

/// A freed block that other streams may still be using.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) start: u64,
    pub(crate) units: u32,
    /// The owner's epoch at the free.
    pub(crate) epoch: u64,
    /// Where the other streams must be.
    pub(crate) fences: Vec<Fence>,
}

impl Pending {
    pub(crate) const fn extent(&self) -> Extent {
        Extent { start: self.start, units: self.units }
    }
}

/// What a free has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// The bytes are free; `true`: it is time for a tick.
    Now(bool),
    /// The bytes wait for other streams.
    Pending,
    /// No live block starts there.
    Unknown,
}

impl Heap {
    pub(crate) fn new(index: u32) -> Self {
        Self {
            index,
            core: Mutex::default(),
            live_bytes: AtomicU64::new(0),
            live_peak_bytes: AtomicU64::new(0),
            asleep_bytes: AtomicU64::new(0),
            tick_due_us: AtomicU64::new(0),
        }
    }

    /// The lock, for a hit or a free. It is held for tens of nanoseconds, so a thread that finds it
    /// taken looks at it for a while before it goes to sleep: waking costs more than all of that.
    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.try_lock().unwrap_or_else(|| self.lock_contended())
    }

    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, Core> {
        for look in 0..LOOKS_MAX {
            for _ in 0..(1 << look.min(PAUSES_MAX_LOG2)) {
                std::hint::spin_loop();
            }
            if !self.core.is_locked()
                && let Some(core) = self.core.try_lock()
            {
                return core;
            }
        }
        self.core.lock()
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
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// Bytes in live blocks that have memory, as far as it can be told without looking at each.
    pub(crate) fn awake_bytes(&self) -> u64 {
        self.live_bytes().saturating_sub(self.asleep_bytes())
    }

    /// The most bytes in live blocks with memory since the last call.
    pub(crate) fn take_live_peak_bytes(&self) -> u64 {
        let peak_bytes = self.live_peak_bytes.swap(self.live_bytes(), Ordering::Relaxed);
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

    /// Takes a block from the free bytes, if some extent has them.
    #[inline(always)]
    pub(crate) fn take(&self, core: &mut Core, units: u32, alignment_bytes: u64) -> Option<u64> {
        let address = core.extents.take_first(units, alignment_bytes)?;
        self.add_live(core, address, units);
        Some(address)
    }

    /// Enters a block whose bytes are no free ones.
    #[inline(always)]
    pub(crate) fn add_live(&self, core: &mut Core, address: u64, units: u32) {
        core.live.insert(Block { address, units });
        core.live_units += u64::from(units);
        core.counts.allocs += 1;
        let live_bytes = core.live_units * UNIT_BYTES;
        // Only the lock's holder writes, so plain stores do.
        self.live_bytes.store(live_bytes, Ordering::Relaxed);
        if live_bytes > self.live_peak_bytes.load(Ordering::Relaxed) {
            self.live_peak_bytes.store(live_bytes, Ordering::Relaxed);
        }
    }

    /// Frees the block at `address`, used last on the heap's stream.
    #[inline(always)]
    pub(crate) fn free_own(&self, core: &mut Core, address: u64) -> Freed {
        if !core.uses.is_empty() {
            return self.free(core, address, None);
        }
        let Some(units) = core.live.remove(address) else { return Freed::Unknown };
        let Some(epoch) = self.sub_live(core, units) else { return Freed::Unknown };
        core.free_now(address, units, epoch);
        Freed::Now(core.count_to_tick())
    }

    /// Takes note of a free; gives its epoch. A block is live only in a heap that has a tenant.
    #[inline(always)]
    fn sub_live(&self, core: &mut Core, units: u32) -> Option<u64> {
        core.live_units -= u64::from(units);
        core.counts.frees += 1;
        self.live_bytes.store(core.live_units * UNIT_BYTES, Ordering::Relaxed);
        core.tenant.as_ref().map(|tenant| tenant.clock.stamp())
    }

    /// Frees the block at `address`, used last on the heap's stream and perhaps on `also`.
    #[inline(never)]
    pub(crate) fn free(&self, core: &mut Core, address: u64, also: Option<Arc<Clock>>) -> Freed {
        let Some(units) = core.live.remove(address) else { return Freed::Unknown };
        let Some(epoch) = self.sub_live(core, units) else { return Freed::Unknown };
        let uses = if core.uses.is_empty() { None } else { core.uses.remove(&address) };
        if uses.is_none() && also.is_none() {
            core.free_now(address, units, epoch);
            return Freed::Now(core.count_to_tick());
        }
        let mut clocks = uses.unwrap_or_default();
        also.iter().for_each(|clock| holds::add(&mut clocks, clock));
        core.free_later(Extent { start: address, units }, epoch, clocks);
        Freed::Pending
    }
}

impl Default for Core {
    fn default() -> Self {
        Self {
            serves: NOBODY,
            retired: false,
            tenant: None,
            extents: Extents::default(),
            live: LiveTable::default(),
            uses: BTreeMap::new(),
            holds: Holds::default(),
            pending: Vec::new(),
            log: FreeLog::default(),
            live_units: 0,
            frees_until_tick: FREES_PER_TICK,
            counts: HeapCounts::default(),
        }
    }
}

impl Core {
    /// Whether this free is the one that a tick is due after.
    #[inline(always)]
    const fn count_to_tick(&mut self) -> bool {
        self.frees_until_tick -= 1;
        let due = self.frees_until_tick == 0;
        if due {
            self.frees_until_tick = FREES_PER_TICK;
        }
        due
    }

    /// Whether the stream with this serial may allocate here.
    #[inline(always)]
    pub(crate) fn serves(&self, serial: u32) -> bool {
        self.serves == u64::from(serial)
    }

    /// Whether the stream with this serial is the tenant's, and not retired.
    pub(crate) fn belongs_to(&self, serial: u32) -> bool {
        !self.retired && self.tenant.as_ref().is_some_and(|tenant| tenant.key.serial == serial)
    }

    /// The tenant's stream is retired, or its arena dissolved.
    pub(crate) const fn retire(&mut self) {
        self.serves = NOBODY;
        self.retired = true;
    }

    /// From now on nothing is allocated here; blocks may be freed.
    pub(crate) const fn close(&mut self) {
        self.serves = NOBODY;
    }

    /// The tenant's stream may allocate again, if it is not retired and what it asks for goes nowhere else.
    pub(crate) fn reopen(&mut self) {
        let open = |tenant: &&Tenant| !self.retired && !tenant.is_diverted();
        self.serves = self.tenant.as_ref().filter(open).map_or(NOBODY, |tenant| u64::from(tenant.key.serial));
    }

    /// All that is free, or waits, becomes as if it were freed now and used on `clocks` until now. Blocks
    /// become used on them too.
    pub(crate) fn free_again(&mut self, clocks: &[Arc<Clock>]) {
        let Some(epoch) = self.tenant.as_ref().map(|tenant| tenant.clock.stamp()) else { return };
        let fences: Vec<Fence> =
            clocks.iter().map(|clock| Fence { epoch: clock.stamp(), clock: clock.clone() }).collect();
        let blocks: Vec<u64> = self.live.iter().map(|block| block.address).collect();
        for (address, clock) in blocks.into_iter().flat_map(|address| clocks.iter().map(move |clock| (address, clock)))
        {
            self.add_use(address, clock);
        }
        for pending in &mut self.pending {
            pending.epoch = epoch;
            pending.fences.extend(fences.iter().cloned());
        }
        let free: Vec<Extent> = self.extents.iter().collect();
        for Extent { start, units } in free {
            if fences.is_empty() {
                self.log.push(start, start + bytes_of(units), epoch);
            } else if self.extents.remove_range(start, units) {
                self.pending.push(Pending { start, units, epoch, fences: fences.clone() });
            }
        }
    }

    /// Notes that the block at `address` is used on another stream too. False: no such block.
    pub(crate) fn add_use(&mut self, address: u64, clock: &Arc<Clock>) -> bool {
        if !self.live.has(address) {
            return false;
        }
        if is_planted(Mutant::SkipRecordUse) {
            return true;
        }
        holds::add(self.uses.entry(address).or_default(), clock);
        true
    }

    /// Holds the block at `address`: freeing it takes effect only after [`Core::let_go`]. False: no such block.
    pub(crate) fn hold(&mut self, address: u64) -> bool {
        let Some(units) = self.live.units_at(address) else { return false };
        self.uses.entry(address).or_default();
        self.holds.add(address, units);
        true
    }

    /// A holder of the block at `address` goes; work of these streams may use it from now on. True: the
    /// block had been freed, and that takes effect now.
    pub(crate) fn let_go(&mut self, address: u64, clocks: &[Arc<Clock>]) -> bool {
        let own = self.tenant.as_ref().map(|tenant| tenant.clock.clone());
        let others = clocks.iter().filter(|clock| own.as_ref().is_none_or(|own| own.serial() != clock.serial()));
        let others: Vec<_> = others.cloned().collect();
        match (self.holds.leave(address, &others), own) {
            (Left::Free(extent, clocks), Some(own)) => {
                self.wait_for(extent, own.stamp(), clocks);
                true
            }
            _ => {
                for clock in &others {
                    self.add_use(address, clock);
                }
                false
            }
        }
    }

    /// The length in units of the live block that starts at `address`.
    pub(crate) fn units_at(&self, address: u64) -> Option<u32> {
        self.live.units_at(address)
    }

    /// The first held block that has a byte in `[start, end)`, and how many hold it.
    pub(crate) fn held_in(&self, start: u64, end: u64) -> Option<(Address, u32)> {
        self.holds.within(start, end).map(|(at, holders)| (Address(at), holders))
    }

    /// Whether a live block starts at `address`.
    pub(crate) fn has_block(&self, address: u64) -> bool {
        self.live.has(address)
    }

    #[inline(always)]
    fn free_now(&mut self, start: u64, units: u32, epoch: u64) {
        self.extents.insert(start, units);
        self.log.push(start, start + bytes_of(units), epoch);
    }

    fn free_later(&mut self, extent: Extent, epoch: u64, clocks: Vec<Arc<Clock>>) {
        if let Some(clocks) = self.holds.defer(extent.start, clocks) {
            self.wait_for(extent, epoch, clocks);
        }
    }

    /// Bytes that become free once these streams are past what is queued on them so far.
    fn wait_for(&mut self, extent: Extent, epoch: u64, clocks: Vec<Arc<Clock>>) {
        let Extent { start, units } = extent;
        if clocks.is_empty() {
            self.free_now(start, units, epoch);
            return;
        }
        let fences = clocks.into_iter().map(|clock| Fence { epoch: clock.stamp(), clock }).collect();
        self.pending.push(Pending { start, units, epoch, fences });
    }

    /// Moves pending blocks whose other streams are all past into the free bytes.
    pub(crate) fn reap(&mut self) -> bool {
        let passed = self.tenant.as_ref().map_or(0, |tenant| tenant.clock.passed());
        let before = self.pending.len();
        let mut index = 0;
        while index < self.pending.len() {
            if !self.pending[index].fences.iter().all(Fence::is_passed) {
                index += 1;
                continue;
            }
            let Pending { start, units, epoch, .. } = self.pending.remove(index);
            if epoch > passed {
                self.free_now(start, units, epoch);
            } else {
                self.extents.insert(start, units);
            }
        }
        self.pending.len() < before
    }

    /// Takes bytes out of the pending blocks; all of them are in such.
    pub(crate) fn take_from_pending(&mut self, start: u64, end: u64) {
        let mut rest = Vec::new();
        for block in std::mem::take(&mut self.pending) {
            let whole = block.extent();
            for (low, high) in [(whole.start, whole.end().min(start)), (whole.start.max(end), whole.end())] {
                if low < high {
                    let units = units_of(high - low);
                    rest.push(Pending { start: low, units, epoch: block.epoch, fences: block.fences.clone() });
                }
            }
        }
        self.pending = rest;
    }

    /// The block that starts at `address`, or the one that holds it.
    pub(crate) fn block_at(&self, address: u64) -> Option<Extent> {
        if let Some(units) = self.units_at(address) {
            return Some(Extent { start: address, units });
        }
        self.live.holding(address).map(|block| Extent { start: block.address, units: block.units })
    }

    /// All live blocks, in no order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Extent> + '_ {
        self.live.iter().map(|block| Extent { start: block.address, units: block.units })
    }

    pub(crate) fn block_count(&self) -> usize {
        self.live.count()
    }

    pub(crate) const fn live_bytes(&self) -> u64 {
        self.live_units * UNIT_BYTES
    }

    /// Whether a new tenant may move in.
    pub(crate) fn is_vacant(&self) -> bool {
        self.is_idle() && (self.retired || self.tenant.is_none())
    }

    /// Gives the heap to a tenant. It is vacant, so what its log tells is of nobody's interest.
    pub(crate) fn move_in(&mut self, tenant: Tenant) {
        self.log = FreeLog::default();
        self.serves = u64::from(tenant.key.serial);
        self.retired = false;
        self.tenant = Some(tenant);
    }

    /// Whether nothing is left in it but, perhaps, a log of what was.
    fn is_idle(&self) -> bool {
        self.live.count() == 0
            && self.pending.is_empty()
            && self.extents.free_units() == 0
            && self.holds.freed().next().is_none()
    }

    /// Bytes of host memory that the heap takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let pending = self.pending.capacity() * size_of::<Pending>();
        let own_bytes = self.extents.own_bytes() + self.live.own_bytes() + self.log.own_bytes() + pending as u64;
        own_bytes + self.holds.own_bytes()
    }

    /// Checks the invariants at the fields that need nothing from outside.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.extents.check()?;
        let live_units: u64 = self.blocks().map(|block| u64::from(block.units)).sum();
        if live_units != self.live_units {
            return Err(format!("{live_units} units are in live blocks, {} are counted", self.live_units));
        }
        if let Some(address) = self.uses.keys().find(|address| !self.live.has(**address)) {
            return Err(format!("uses of {address:#x} are known, where no block is live"));
        }
        let stray = self
            .holds
            .live()
            .find(|held| self.live.units_at(held.start) != Some(held.units) || !self.uses.contains_key(&held.start));
        if let Some(stray) = stray {
            return Err(format!("{stray:?} is held, and is no live block that its free would find held"));
        }
        if self.tenant.is_none() && !self.is_idle() {
            return Err("a heap without a tenant is not empty".into());
        }
        Ok(())
    }
}
