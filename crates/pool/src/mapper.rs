//! What stands behind the heaps: chains, idle handles, budgets, stale mappings. One lock guards it;
//! no hit ever takes it.

pub(crate) mod backup;
pub(crate) mod budget;
pub(crate) mod chain;
pub(crate) mod disk;
pub(crate) mod doubt;
pub(crate) mod overrides;
pub(crate) mod parts;
pub(crate) mod pins;
pub(crate) mod slack;
pub(crate) mod slot;
pub(crate) mod space;
pub(crate) mod stale;
pub(crate) mod tray;

use crate::arena::{ArenaId, Arenas};
use crate::capture::Captures;
use crate::clock::Clock;
use crate::error::Error as PoolError;
use crate::heap::Heap;
use crate::heap::inside::Inside;
use crate::mapper::backup::{Backup, Content};
use crate::mapper::budget::Budget;
use crate::mapper::chain::{Chain, Held};
use crate::mapper::doubt::Doubt;
use crate::mapper::pins::Pins;
use crate::mapper::slot::Slot;
use crate::mapper::space::Space;
use crate::mapper::tray::Trays;
use crate::order::Order;
use crate::settings::Settings;
use crate::unit::UNIT_BYTES;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stitchpool_chunks::{Mapping, Origin, PhysicalHandle, Stock, Vacancy, capture_of};
use stitchpool_driver::{Address, Capture, DeviceId, Error, ErrorKind, Verb};

/// The state that misses, trims and retirement change.
#[derive(Debug)]
pub(crate) struct Mapper {
    pub(crate) origin: Arc<Origin>,
    pub(crate) settings: Settings,
    pub(crate) space: Space,
    /// By first address.
    pub(crate) chains: BTreeMap<u64, Chain>,
    /// Idle handles: no mapping names them, and all work that used them is done.
    pub(crate) stock: Stock,
    /// One for each device of the pool.
    pub(crate) budgets: BTreeMap<DeviceId, Budget>,
    /// Addresses of stale slots, oldest first; exactly those.
    pub(crate) stale: VecDeque<Address>,
    pub(crate) order: Order,
    /// Streams that are registered and not retired, by serial.
    pub(crate) clocks: BTreeMap<u32, Arc<Clock>>,
    /// A device is in it iff a stream was ever registered on it, or refused for another reason than its rights.
    pub(crate) at_work: BTreeSet<DeviceId>,
    pub(crate) arenas: Arenas,
    /// Where exclusive blocks of an arena are put out to while memory is short; of the others they are not.
    pub(crate) refuges: BTreeMap<ArenaId, Backup>,
    pub(crate) captures: Captures,
    pub(crate) pins: Pins,
    /// Where backups lie, and trays kept for the next.
    pub(crate) trays: Trays,
    /// While there is any, nothing is unmapped.
    pub(crate) doubt: Doubt,
    /// What slots shall be filled with that a failed resume left mapped, by address, with their heaps.
    pub(crate) unfilled: BTreeMap<u64, (u32, Content)>,
    pub(crate) counts: MapperCounts,
}

/// What the mapper has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapperCounts {
    pub(crate) created: u64,
    pub(crate) released: u64,
    pub(crate) aliased: u64,
    pub(crate) unmapped: u64,
    pub(crate) stream_waits: u64,
    pub(crate) cpu_waits: u64,
    pub(crate) forced_bytes: u64,
    pub(crate) evictions: u64,
    pub(crate) evicted_bytes: u64,
    pub(crate) returned_bytes: u64,
}

impl Mapper {
    /// Whether a heap's free memory is a graph's, which uses it whenever it is replayed.
    pub(crate) fn serves_graph(&self, inside: &Inside) -> bool {
        inside.tenant.as_ref().is_some_and(|tenant| self.captures.is_graph(tenant.key.arena))
    }

    /// The chain that holds `address`.
    pub(crate) fn chain_holding(&self, address: u64) -> Option<&Chain> {
        self.chains.range(..=address).next_back().map(|(_, chain)| chain)
    }

    pub(crate) fn chain_holding_mut(&mut self, address: u64) -> Option<&mut Chain> {
        self.chains.range_mut(..=address).next_back().map(|(_, chain)| chain)
    }

    /// The slot that holds `address`.
    pub(crate) fn slot_holding(&self, address: u64) -> Option<&Slot> {
        self.chain_holding(address)?.slot_holding(Address(address))
    }

    /// The slots that have a byte in `[start, end)`, which lies in one chain; in address order.
    pub(crate) fn slots_over(&self, start: Address, end: Address) -> impl Iterator<Item = &Slot> {
        let slots = self.chain_holding(start.0).map(Chain::slots).unwrap_or_default();
        let first = slots.partition_point(|slot| slot.end() <= start);
        slots[first..].iter().take_while(move |slot| slot.at() < end)
    }

    /// After a failed mapping: the chain gets its room at `start` again, or what was left of it.
    pub(crate) fn put_back_room(&mut self, chain: u64, start: u64, vacancies: Vec<Vacancy>) {
        let Some(standing) = self.chains.get_mut(&chain) else { return };
        standing.put_back(start, vacancies);
        standing.recede();
        if standing.is_over() {
            self.close_chain(chain);
        }
    }

    /// Where the view that `address` lies in ends, if it lies in one.
    pub(crate) fn view_end(&self, address: Address) -> Option<Address> {
        let viewed = |slot: &&Slot| matches!(slot, Slot::Viewed(_));
        let end = self.chain_holding(address.0)?.slots().iter().filter(viewed).map(Slot::end).next_back()?;
        (address < end).then_some(end)
    }

    /// The granule of the pool's handles and chains: the same on all its devices.
    pub(crate) fn granule_bytes(&self) -> u64 {
        self.budgets.values().map(|budget| budget.granule_bytes).max().unwrap_or(UNIT_BYTES)
    }

    /// Every mapping whose handle is in use at its place, in address order.
    pub(crate) fn current_mappings(&self) -> impl Iterator<Item = (u32, &Mapping)> {
        let slots = self.chains.values().flat_map(|chain| chain.slots().iter().map(move |slot| (chain.heap(), slot)));
        slots.filter_map(|(heap, slot)| Some((heap, slot.current()?)))
    }

    /// Asks the GPU how far each stream is.
    pub(crate) fn poll_clocks(&self) {
        for clock in self.clocks.values() {
            if let Err(error) = clock.poll() {
                tracing::debug!(%error, stream = clock.serial(), "a stream could not be asked");
            }
        }
    }

    /// Makes a slot a hole, and gives its handle: nothing else does that to one that is mapped. Whoever calls it has
    /// made sure that every fence is past.
    pub(crate) fn unmap(&mut self, at: Address) -> Result<Option<Arc<PhysicalHandle>>, Error> {
        self.end_doubt()?;
        let Some(chain) = self.chain_holding_mut(at.0) else { return Ok(None) };
        let handle = chain.unmap(at)?;
        chain.recede();
        self.counts.unmapped += 1;
        self.drop_if_empty(at);
        self.forget_unfilled(at);
        Ok(handle)
    }

    /// Makes a sleeping slot, of which nothing is in use any more, a hole; gives what it held.
    pub(crate) fn forget(&mut self, at: Address) -> Option<Content> {
        let chain = self.chain_holding_mut(at.0)?;
        let content = chain.forget(at);
        chain.recede();
        self.drop_if_empty(at);
        content
    }

    /// Gives the addresses of a chain without slots back.
    fn drop_if_empty(&mut self, at: Address) {
        let Some(chain) = self.chain_holding(at.0).filter(|chain| chain.is_over()) else { return };
        self.close_chain(chain.at().0);
    }

    /// Takes note of slots that a failed operation left mapped, and of what they shall be filled with.
    pub(crate) fn note_unfilled(&mut self, heap: &Heap, stuck: Held) {
        for (at, content) in stuck {
            let bytes = self.slot_holding(at.0).map_or(0, Slot::bytes);
            heap.note_asleep(0, bytes);
            self.unfilled.insert(at.0, (heap.index, content));
        }
    }

    /// Nobody wants any more what a slot should have been filled with.
    fn forget_unfilled(&mut self, at: Address) {
        if let Some((_, content)) = self.unfilled.remove(&at.0) {
            self.put_trays(content.into_trays());
        }
    }

    /// Whether a slot from `start` on and before `end` has memory and not its content, after a failed operation.
    pub(crate) fn is_unfilled(&self, start: u64, end: u64) -> bool {
        self.unfilled.range(start..end).next().is_some()
    }

    /// Whether the slot that holds `address` has no memory now, or has it without its content.
    pub(crate) fn is_asleep_at(&self, address: u64) -> bool {
        let slot = self.slot_holding(address);
        slot.is_some_and(|slot| slot.content().is_some() || self.unfilled.contains_key(&slot.at().0))
    }

    /// What the pool holds of a device's memory.
    pub(crate) fn held_bytes(&self, device: DeviceId) -> u64 {
        self.budgets.get(&device).map_or(0, Budget::physical_bytes)
    }

    /// Why a heap does not serve the stream with this serial.
    #[cold]
    pub(crate) fn refusal(&self, heap: &Heap, serial: u32) -> PoolError {
        let inside = heap.inside.lock();
        let tenant = inside.tenant.as_ref().filter(|_| inside.belongs_to(serial));
        let Some(tenant) = tenant else { return PoolError::UnknownStream { serial } };
        if tenant.is_diverted() {
            return PoolError::Capturing { serial, operation: "memory of another arena than the graph's" };
        }
        match self.arenas.get(tenant.key.arena) {
            Ok(arena) => arena.demand_still().err().unwrap_or_else(|| PoolError::Asleep { what: arena.title() }),
            Err(error) => error,
        }
    }

    /// Refuses to let a device hold so many more bytes, where its limit is in the way.
    pub(crate) fn refuse_beyond_limit(&self, device: DeviceId, bytes: u64) -> Result<(), PoolError> {
        match self.budgets.get(&device) {
            Some(budget) if budget.physical_bytes().saturating_add(bytes) > budget.limit_bytes => {
                let (held_bytes, limit_bytes) = (budget.physical_bytes(), budget.limit_bytes);
                Err(PoolError::Limit { device, asked_bytes: bytes, held_bytes, limit_bytes })
            }
            _ => Ok(()),
        }
    }

    /// A new chain and all its room: [`Chain::fill`] follows, or [`Mapper::put_back_room`].
    pub(crate) fn open_room(&mut self, bytes: u64, heap: u32, generous: bool) -> Result<(u64, Vacancy), Error> {
        let chain = self.open_chain(bytes, heap, generous)?;
        let room = self.chains.get_mut(&chain).and_then(|standing| standing.take_gap(chain));
        let vacancy = room
            .ok_or_else(|| Error::new(Verb::Reserve, ErrorKind::OutOfResources, "a new chain has no room").of(bytes))?;
        Ok((chain, vacancy))
    }

    /// Takes addresses for a chain of at least `bytes`: generously, with room to grow in place, if asked to
    /// and as long as addresses are many. Gives where it is.
    pub(crate) fn open_chain(&mut self, bytes: u64, heap: u32, generous: bool) -> Result<u64, Error> {
        let granule_bytes = self.granule_bytes();
        let needed_bytes = bytes + granule_bytes;
        let roomy = generous && self.space.is_roomy(needed_bytes);
        let wanted_bytes = if roomy { self.space.generous_bytes(needed_bytes) } else { needed_bytes };
        let vacancy = self.space.take(wanted_bytes, heap).ok_or_else(|| {
            let free_bytes = self.space.free_bytes();
            let detail = format!(
                "{free_bytes} bytes of addresses are free, in runs too short: build the pool with more address_bytes"
            );
            Error::new(Verb::Reserve, ErrorKind::OutOfResources, detail).of(needed_bytes)
        })?;
        let chain = Chain::new(vacancy, heap, granule_bytes);
        let at = chain.at().0;
        self.chains.insert(at, chain);
        Ok(at)
    }

    /// Gives a chain's addresses back: it has no slots.
    pub(crate) fn close_chain(&mut self, at: u64) {
        if let Some(vacancy) = self.chains.remove(&at).and_then(Chain::into_vacancy) {
            self.space.give_back(vacancy);
        }
    }

    /// A handle has lost a mapping. If that was the last, it is idle: kept or released.
    pub(crate) fn settle(&mut self, handle: Arc<PhysicalHandle>, keep: bool) {
        if Arc::strong_count(&handle) > 1 {
            // A mapping in quarantine holds its handle for ever: without a slot it is lost to the pool.
            if self.origin.quarantine().count() > 0 && !self.has_slot(&handle) {
                self.count_out(&handle);
            }
            return;
        }
        if keep {
            self.stock.park(handle);
            return;
        }
        self.counts.released += 1;
        self.count_out(&handle);
    }

    /// A registered stream that is being captured, if one is. (Of a stream that was destroyed without a word the
    /// driver knows nothing: it captures nothing either. A retired one may be destroyed: it is not asked for.)
    pub(crate) fn captured(&self) -> Option<&Arc<Clock>> {
        let capturing = |raw| capture_of(&self.origin, raw).is_ok_and(|capture| capture != Capture::None);
        self.clocks.values().find(|clock| !clock.is_retired() && capturing(clock.raw()))
    }

    /// A handle was created, and stands.
    pub(crate) fn count_in(&mut self, device: DeviceId, bytes: u64) {
        self.counts.created += 1;
        if let Some(budget) = self.budgets.get_mut(&device) {
            budget.created(bytes);
        }
    }

    fn count_out(&mut self, handle: &PhysicalHandle) {
        if let Some(budget) = self.budgets.get_mut(&handle.device()) {
            budget.released(handle.bytes());
        }
    }

    fn has_slot(&self, handle: &Arc<PhysicalHandle>) -> bool {
        let mut slots = self.chains.values().flat_map(Chain::slots);
        slots.any(|slot| slot.mapping().is_some_and(|mapping| Arc::ptr_eq(mapping.handle(), handle)))
    }

    /// Bytes of host memory that chains and slots take, their owners and handles included.
    pub(crate) fn own_bytes(&self) -> u64 {
        let slots: usize = self.chains.values().map(|chain| chain.slots().len()).sum();
        let slot = size_of::<Slot>() + size_of::<PhysicalHandle>() + 2 * size_of::<usize>();
        let stale = self.stale.len() * size_of::<Address>();
        (slots * slot + self.chains.len() * size_of::<Chain>() + stale) as u64 + self.pins.own_bytes()
    }

    /// Releases idle handles of a device (or of all) and says how many bytes.
    pub(crate) fn release_stock(&mut self, device: Option<DeviceId>) -> u64 {
        let handles = self.stock.take_all(device);
        let bytes = handles.iter().map(|handle| handle.bytes()).sum();
        for handle in handles {
            self.settle(handle, false);
        }
        bytes
    }
}
