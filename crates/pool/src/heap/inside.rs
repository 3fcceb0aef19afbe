//! What a heap's lock protects: blocks and free bytes, and what a hit does with them.

use crate::clock::Clock;
use crate::heap::extent::Extent;
use crate::heap::extents::Extents;
use crate::heap::free_log::FreeLog;
use crate::heap::holds::{self, Holds};
use crate::heap::lanes::{Fours, Lanes, Task};
use crate::heap::live::{Block, LiveTable};
use crate::heap::pending::Pending;
use crate::heap::tenant::Tenant;
use crate::heap::width::Width;
use crate::unit::{UNIT_BYTES, bytes_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use stitchpool_driver::Address;

/// After every so many frees the heap asks whether its streams should be sealed.
const FREES_PER_TICK: u64 = 16;
/// Serves no stream: no serial is as high.
const NOBODY: u64 = u64::MAX;

/// The blocks and free bytes of a heap.
#[derive(Debug)]
pub(crate) struct Inside {
    /// The serial of the stream that may allocate; `NOBODY` iff there is no tenant, its stream is retired, its
    /// arena is not awake, or it is the home of a stream that is being captured: blocks may still be freed.
    serves: u64,
    promise: Promise,
    /// How hits look at rows.
    width: Width,
    /// How many blocks were freed and were free at once.
    frees: u64,
    /// How many were freed and had to wait.
    late_frees: u64,
    /// Iff the tenant's stream is retired, or its arena dissolved.
    retired: bool,
    /// None iff the heap is unused: no chain, block or pending block is in it.
    pub(crate) tenant: Option<Tenant>,
    /// Free bytes, all of them in current slots of the heap's chains.
    pub(crate) extents: Extents,
    pub(crate) live: LiveTable,
    /// For each live block that is used on other streams, which; for a held block always, so that its free
    /// looks here.
    pub(crate) uses: BTreeMap<u64, Vec<Arc<Clock>>>,
    /// Blocks that leases and views keep in place, freed ones too.
    pub(crate) holds: Holds,
    /// Freed, but other streams may still be using them.
    pub(crate) pending: Vec<Pending>,
    pub(crate) log: FreeLog,
    /// Requests that found no free extent.
    pub(crate) misses: u64,
}

/// The block that was given last. Its bytes are no free ones, but until something else is asked of the heap it is not
/// entered among the live blocks, nor are its bytes put back when it is freed: so its free has nothing to do, and the
/// next request of its size has nothing to look for, as what is the lowest place for it has not changed.
#[derive(Debug)]
struct Promise {
    /// Where it is, or was last.
    address: u64,
    /// Its length.
    units: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// There is none: all is done.
    Settled,
    /// It is live, and to be entered.
    Given,
    /// It is freed, and to be put back.
    Spare,
}

/// What a free has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// So many units are free; `true`: it is time for a tick.
    Now(u32, bool),
    /// So many units wait for other streams.
    Pending(u32),
    /// No live block starts there.
    Unknown,
}

impl Inside {
    /// Whether the stream with this serial may allocate here.
    #[inline(always)]
    pub(crate) fn serves(&self, serial: u32) -> bool {
        self.serves == u64::from(serial)
    }

    /// Gives a block from the free bytes, if some extent has them: its address.
    #[inline(always)]
    pub(crate) fn give(&mut self, units: u32) -> Option<u64> {
        let is_spare = self.promise.state == State::Spare && self.promise.units == units;
        if !is_spare && !self.find(units) {
            return None;
        }
        self.promise.state = State::Given;
        Some(self.promise.address)
    }

    /// Finds the lowest place for a block and takes it: what can be promised next.
    #[inline(never)]
    fn find(&mut self, units: u32) -> bool {
        self.width.play(Find { inside: self, units })
    }

    #[inline(always)]
    fn find_with(&mut self, lanes: impl Lanes, units: u32) -> bool {
        self.settle_with(lanes);
        let Some(found) = self.extents.find_first(lanes, units, UNIT_BYTES) else { return false };
        (self.promise.address, self.promise.units) = (found.start, units);
        self.live.foresee(found.start);
        // Last, so that nobody waits for what is stored here.
        self.extents.take(lanes, found, units);
        true
    }

    /// Does what was promised. Only [`Inside::give`] and [`Inside::free_own`] may find it undone.
    pub(crate) fn settle(&mut self) {
        self.settle_with(Fours);
    }

    /// The same on a hit.
    #[inline(always)]
    fn settle_with(&mut self, lanes: impl Lanes) {
        let Promise { address, units, state } = self.promise;
        self.promise.state = State::Settled;
        match state {
            State::Settled => {}
            State::Given => self.live.insert(Block { address, units }),
            State::Spare => self.extents.insert_with(lanes, address, units),
        }
    }

    /// As [`Inside::give`], at a multiple of `alignment_bytes`.
    pub(crate) fn give_aligned(&mut self, units: u32, alignment_bytes: u64) -> Option<u64> {
        self.settle();
        let address = self.extents.take_first(units, alignment_bytes)?;
        self.live.insert(Block { address, units });
        Some(address)
    }

    /// Enters a block whose bytes are no free ones.
    pub(crate) fn enter(&mut self, address: u64, units: u32) {
        self.live.insert(Block { address, units });
    }

    /// Frees the block at `address`, used last on the heap's stream.
    #[inline(always)]
    pub(crate) fn free_own(&mut self, address: u64) -> Freed {
        let Some(tenant) = &self.tenant else { return Freed::Unknown };
        let epoch = tenant.clock.stamp();
        if self.promise.address != address || self.promise.state != State::Given {
            return self.free_entered(address, epoch);
        }
        self.promise.state = State::Spare;
        let units = self.promise.units;
        self.log.push(address, units, epoch, &self.live);
        self.note_free(units)
    }

    /// Frees a block that is no promise.
    #[inline(never)]
    fn free_entered(&mut self, address: u64, epoch: u64) -> Freed {
        self.width.play(Free { inside: self, address, epoch })
    }

    #[inline(always)]
    fn free_with(&mut self, lanes: impl Lanes, address: u64, epoch: u64) -> Freed {
        self.live.foresee(address);
        self.extents.foresee(lanes, address);
        self.settle_with(lanes);
        if !self.uses.is_empty() {
            return self.free(address, None);
        }
        let Some(units) = self.live.remove(address) else { return Freed::Unknown };
        self.extents.insert_with(lanes, address, units);
        self.log.push(address, units, epoch, &self.live);
        self.note_free(units)
    }

    /// A free of so many units has taken effect.
    #[inline(always)]
    const fn note_free(&mut self, units: u32) -> Freed {
        self.frees += 1;
        Freed::Now(units, self.frees.is_multiple_of(FREES_PER_TICK))
    }

    /// Frees the block at `address`, used last on the heap's stream and perhaps on `also`.
    #[inline(never)]
    pub(crate) fn free(&mut self, address: u64, also: Option<Arc<Clock>>) -> Freed {
        self.settle();
        // A block is live only in a heap that has a tenant.
        let Some(epoch) = self.tenant.as_ref().map(|tenant| tenant.clock.stamp()) else { return Freed::Unknown };
        let Some(units) = self.live.remove(address) else { return Freed::Unknown };
        let uses = if self.uses.is_empty() { None } else { self.uses.remove(&address) };
        if uses.is_none() && also.is_none() {
            self.free_now(address, units, epoch);
            return self.note_free(units);
        }
        self.late_frees += 1;
        let mut clocks = uses.unwrap_or_default();
        also.iter().for_each(|clock| holds::add(&mut clocks, clock));
        self.free_later(Extent { start: address, units }, epoch, clocks);
        Freed::Pending(units)
    }

    #[inline(always)]
    pub(crate) fn free_now(&mut self, start: u64, units: u32, epoch: u64) {
        self.extents.insert(start, units);
        self.log.push(start, units, epoch, &self.live);
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

    /// Bytes in live blocks; a walk over all of them.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.blocks().map(|block| bytes_of(block.units)).sum()
    }

    /// How many blocks were freed.
    pub(crate) const fn frees(&self) -> u64 {
        self.frees + self.late_frees
    }

    /// How many blocks were given.
    pub(crate) fn allocs(&self) -> u64 {
        self.frees() + self.live.count() as u64
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

/// [`Inside::find`], for all lanes.
struct Find<'a> {
    inside: &'a mut Inside,
    units: u32,
}

impl Task for Find<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> bool {
        self.inside.find_with(lanes, self.units)
    }
}

/// [`Inside::free_entered`], for all lanes.
struct Free<'a> {
    inside: &'a mut Inside,
    address: u64,
    epoch: u64,
}

impl Task for Free<'_> {
    type Output = Freed;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Freed {
        self.inside.free_with(lanes, self.address, self.epoch)
    }
}

impl Default for Inside {
    fn default() -> Self {
        Self {
            serves: NOBODY,
            promise: Promise { address: 0, units: 0, state: State::Settled },
            width: Width::default(),
            frees: 0,
            late_frees: 0,
            retired: false,
            tenant: None,
            extents: Extents::default(),
            live: LiveTable::default(),
            uses: BTreeMap::new(),
            holds: Holds::default(),
            pending: Vec::new(),
            log: FreeLog::default(),
            misses: 0,
        }
    }
}
