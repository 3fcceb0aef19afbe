//! What all clones of a pool share, and the small questions that several of its parts ask.

use crate::arena::{Arenas, Wakefulness};
use crate::background::Background;
use crate::capture::Captures;
use crate::clock::Clock;
use crate::device_limits::{DeviceLimits, total_bytes};
use crate::devices::distinct;
use crate::error::{Error, Result};
use crate::heap::extents::Extent;
use crate::heap::{Heap, HeapKey, Tenant};
use crate::listener::Listeners;
use crate::mapper::budget::Budget;
use crate::mapper::doubt::Doubt;
use crate::mapper::overrides::{over, positive};
use crate::mapper::pins::Pins;
use crate::mapper::space::{PlotTable, Space, VIEWS};
use crate::mapper::tray::Trays;
use crate::mapper::{Mapper, MapperCounts};
use crate::order::Order;
use crate::registry::{HEAPS_MAX, Registry};
use crate::request::{BLOCK_BYTES_MAX, Block, Request, StreamId};
use crate::settings::Settings;
use crate::unit::{UNIT_BYTES, units_of};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stitchpool_chunks::{Origin, Placement, Stock};
use stitchpool_driver::{Address, DeviceId, Driver, Grant, Link, Rights};

/// The pool itself.
pub(crate) struct Engine {
    pub(crate) origin: Arc<Origin>,
    pub(crate) settings: Settings,
    /// The devices memory may come from.
    pub(crate) devices: BTreeMap<DeviceId, DeviceLimits>,
    /// Tells whose an address is.
    pub(crate) table: PlotTable,
    pub(crate) registry: Registry,
    /// Outermost of all locks: a heap's is taken under it, never the other way round.
    pub(crate) mapper: Arc<Mutex<Mapper>>,
    /// None iff the settings ask for no thread.
    pub(crate) background: Option<Background>,
    /// False only while nobody needs to know how far the GPU is: one stream, and nothing stale.
    pub(crate) watched: AtomicBool,
    /// When the budgets are next looked at for memory that was not needed for long.
    pub(crate) decay_due_us: AtomicU64,
    /// False only while a tick has nothing to clear away: no mapping is stale, no retired stream known.
    pub(crate) littered: AtomicBool,
    pub(crate) listeners: Listeners,
    /// Uses of blocks so far, for the order of eviction.
    pub(crate) uses: AtomicU64,
}

/// A plot is so many granules, and a chain at least one plot.
const PLOT_GRANULES: u64 = 512;
const ADDRESS_BYTES_MAX: u64 = 32 << 40;
/// Addresses are reserved for so many times the memory: room to grow in place is cheap.
const ADDRESSES_PER_BYTE: u64 = 64;

impl Engine {
    pub(crate) fn open(driver: Arc<dyn Driver>, settings: Settings) -> Result<Self> {
        let origin = Origin::new(driver);
        let devices = DeviceLimits::find(&origin, &settings)?;
        let granule_bytes = devices.values().map(|device| device.granule_bytes).max().unwrap_or(UNIT_BYTES);
        if settings.handle_bytes_max < granule_bytes || !settings.handle_bytes_max.is_power_of_two() {
            return Err(Error::Setting(format!(
                "handle_bytes_max is {}: it must be a power of two of at least one granule, {granule_bytes} bytes",
                settings.handle_bytes_max
            )));
        }
        let memory_bytes = devices.values().map(|device| device.limit_bytes).fold(0, u64::saturating_add);
        let plot_bytes = granule_bytes * PLOT_GRANULES;
        let wanted_bytes =
            memory_bytes.saturating_mul(ADDRESSES_PER_BYTE).clamp(u64::from(HEAPS_MAX) * plot_bytes, ADDRESS_BYTES_MAX);
        let address_bytes = settings.address_bytes.unwrap_or(wanted_bytes);
        let space = Space::reserve(&origin, plot_bytes, address_bytes, plot_bytes)?;
        let budget =
            |device: &DeviceLimits| Budget::new(device.granule_bytes, device.limit_bytes, settings.headroom_bytes);
        let table = space.table().clone();
        let mapper = Mapper {
            origin: origin.clone(),
            settings: settings.clone(),
            space,
            chains: BTreeMap::new(),
            stock: Stock::default(),
            budgets: devices.iter().map(|(&id, device)| (id, budget(device))).collect(),
            stale: VecDeque::new(),
            order: Order::default(),
            clocks: BTreeMap::new(),
            at_work: BTreeSet::new(),
            arenas: Arenas::default(),
            refuges: BTreeMap::new(),
            captures: Captures::default(),
            pins: Pins::default(),
            trays: Trays::default(),
            doubt: Doubt::default(),
            unfilled: BTreeMap::new(),
            counts: MapperCounts::default(),
        };
        let mapper = Arc::new(Mutex::new(mapper));
        let background = settings.background_thread.then(|| Background::start(mapper.clone())).transpose()?;
        Ok(Self {
            origin,
            settings,
            devices,
            table,
            registry: Registry::new(),
            mapper,
            background,
            watched: AtomicBool::new(false),
            decay_due_us: AtomicU64::new(0),
            littered: AtomicBool::new(false),
            listeners: Listeners::default(),
            uses: AtomicU64::new(0),
        })
    }

    /// Serves a plain request of so many units from free bytes.
    #[inline(always)]
    pub(crate) fn hit(&self, units: u32, stream: StreamId) -> Option<Block> {
        let address = self.registry.heap(stream.home)?.hit(stream.serial, units)?;
        Some(Block::of(address, units))
    }

    /// Frees the block at `address`. False: there is no such block.
    #[inline(always)]
    pub(crate) fn free_plain(&self, address: Address) -> bool {
        let Some(index) = self.table.heap_of(address.0) else { return false };
        let Some(heap) = self.registry.heap(index) else { return false };
        let Some(tick) = heap.free_own(address.0) else { return false };
        if tick {
            self.tick(heap);
        }
        true
    }

    /// The heap that serves a request, and the request's length in units.
    pub(crate) fn resolve(&self, request: &Request) -> Result<(&Heap, u32)> {
        // A stream whose captures must be asked for has a home that is no heap's.
        match (request.plain_units(), self.registry.heap(request.stream.home)) {
            (Some(units), Some(heap)) => Ok((heap, units)),
            _ => self.resolve_placed(request),
        }
    }

    #[cold]
    pub(crate) fn resolve_placed(&self, request: &Request) -> Result<(&Heap, u32)> {
        let clock = self.registry.clock(request.stream.serial, request.stream.home)?;
        let device = clock.raw().device;
        let placement = request.placement.clone().unwrap_or(Placement::Home(device));
        let places = placement.devices();
        for place in &places {
            self.known_device(*place)?;
        }
        if request.bytes == 0 || request.bytes > BLOCK_BYTES_MAX {
            return Err(Error::InvalidSize { bytes: request.bytes, limit_bytes: BLOCK_BYTES_MAX });
        }
        let granule_bytes = self.granule_bytes();
        let alignment_bytes = request.alignment_bytes;
        if !alignment_bytes.is_power_of_two() || alignment_bytes > granule_bytes {
            return Err(Error::InvalidAlignment { alignment_bytes, limit_bytes: granule_bytes });
        }
        // A placement by shares only keeps its meaning if every block of the heap is cut the same way.
        let exact = matches!(placement, Placement::Weighted(_) | Placement::Shards(_));
        let whole = exact || request.exclusive;
        let bytes = if whole { request.bytes.next_multiple_of(granule_bytes) } else { request.bytes };
        if bytes > BLOCK_BYTES_MAX {
            return Err(Error::InvalidSize { bytes: request.bytes, limit_bytes: BLOCK_BYTES_MAX });
        }
        let readers = distinct(request.readers.iter().copied());
        let block_bytes = exact.then_some(bytes);
        if self.settings.ask_capture {
            self.follow_capture(&clock);
        }
        let arena = if request.arena.is_default() { clock.arena() } else { request.arena };
        let (serial, exclusive) = (clock.serial(), request.exclusive);
        let key = HeapKey { serial, arena, placement, readers, block_bytes, exclusive };
        let index = match self.registry.find(&key) {
            Some(index) => index,
            None => {
                key.placement.pieces(bytes.next_multiple_of(granule_bytes), granule_bytes)?;
                self.house(&self.mapper.lock(), key, &clock)?
            }
        };
        let heap = self.registry.heap(index).ok_or(Error::UnknownStream { serial: clock.serial() })?;
        Ok((heap, units_of(bytes)))
    }

    /// Makes a stream the tenant of a heap for requests of one kind, if it is not yet: the heap's index. A vacant
    /// heap changes its tenant only while no miss is under way in it, and so under the mapper's lock.
    pub(crate) fn house(&self, mapper: &Mapper, key: HeapKey, clock: &Arc<Clock>) -> Result<u32> {
        let grants = self.grants(&key, clock.raw().device, mapper)?;
        let awake = mapper.arenas.get(key.arena)?.wakefulness == Wakefulness::Awake;
        self.registry.house(Tenant { key, clock: clock.clone(), grants }, awake)
    }

    /// Who gets rights on a heap's memory: the stream's device, those it lies on, the readers, and the peers where
    /// all is open to them; over that, what was asked for the arena.
    pub(crate) fn grants(&self, key: &HeapKey, device: DeviceId, mapper: &Mapper) -> Result<Arc<[Grant]>> {
        let asked = &mapper.arenas.get(key.arena)?.grants;
        let places = key.placement.devices();
        // Memory of the host is no user of anything: the CPU reads what is open to it only if asked for.
        let owners = places.iter().copied().filter(|place| !place.is_host());
        let named = std::iter::once(device).chain(owners).chain(key.readers.iter().copied());
        let mut users: Vec<DeviceId> = named.collect();
        if self.settings.open_to_peers {
            for &peer in &mapper.at_work {
                if self.unreachable(peer, &places)?.is_none() {
                    users.push(peer);
                }
            }
        }
        let named: Vec<Grant> = users.into_iter().map(|device| Grant { device, rights: Rights::ReadWrite }).collect();
        let grants = positive(&over(&named, asked));
        for grant in grants.chunks(1) {
            places.iter().try_for_each(|&owner| self.demand_reach(grant, owner))?;
        }
        Ok(grants)
    }

    /// Refuses grants to devices that cannot reach memory of `owner`.
    pub(crate) fn demand_reach(&self, grants: &[Grant], owner: DeviceId) -> Result<()> {
        for &Grant { device: reader, rights } in grants {
            if rights != Rights::None && self.unreachable(reader, &[owner])?.is_some() {
                return Err(Error::Unreachable { reader, owner });
            }
        }
        Ok(())
    }

    /// The first of the places that a device cannot reach.
    fn unreachable(&self, reader: DeviceId, places: &[DeviceId]) -> Result<Option<DeviceId>> {
        for &owner in places {
            if self.origin.driver().link(reader, owner)? == Link::None {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }

    /// Frees the block at `address` after what is queued on another stream too.
    pub(crate) fn free(&self, address: Address, also: Option<Arc<Clock>>) -> Result<()> {
        let heap = self.heap_of(address)?;
        if heap.free(address.0, also).ok_or_else(|| self.unknown(address))? {
            self.tick(heap);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn heap_of(&self, address: Address) -> Result<&Heap> {
        let heap = self.table.heap_of(address.0).and_then(|index| self.registry.heap(index));
        heap.ok_or_else(|| self.unknown(address))
    }

    /// The live block that holds `address`.
    pub(crate) fn block_holding(&self, address: Address) -> Option<Extent> {
        self.heap_of(address).ok()?.inside.lock().block_at(address.0)
    }

    /// Refuses a part that does not lie in one live block.
    pub(crate) fn demand_inside(&self, address: Address, bytes: u64) -> Result<()> {
        let end = Address(self.block_holding(address).ok_or_else(|| self.unknown(address))?.end());
        match address.checked_add(bytes).is_some_and(|asked| asked <= end) && bytes > 0 {
            true => Ok(()),
            false => Err(Error::OutOfRange { address, bytes, end }),
        }
    }

    /// Whether the stream's device has rights on the heap's memory.
    pub(crate) fn may_use(&self, heap: &Heap, address: Address, clock: &Clock) -> Result<()> {
        let device = clock.raw().device;
        let given = heap.inside.lock().tenant.as_ref().map(|tenant| tenant.grants.clone()).unwrap_or_default();
        let names = |grants: &[Grant]| grants.iter().any(|grant| grant.device == device);
        let asked = || {
            let mapper = self.mapper.lock();
            mapper.chain_holding(address.0).is_some_and(|chain| names(&chain.grants_at(address, &given)))
        };
        if names(&given) || asked() { Ok(()) } else { Err(Error::NoRights { device, address }) }
    }

    #[cold]
    pub(crate) fn unknown(&self, address: Address) -> Error {
        let heap = self.table.heap_of(address.0).and_then(|index| self.registry.heap(index));
        let hint = match heap {
            None if self.table.heap_of(address.0) == Some(VIEWS) => {
                "it lies in a view: drop the view, and name the blocks behind it".into()
            }
            None => "the pool never gave it out; free it where it was allocated".into(),
            Some(heap) => match heap.inside.lock().block_at(address.0) {
                Some(block) => {
                    format!("it lies inside the block at {:#x}; name the block's first address", block.start)
                }
                None => "it was freed already, or never allocated".into(),
            },
        };
        Error::UnknownAddress { address, hint }
    }

    pub(crate) fn known_device(&self, device: DeviceId) -> Result<&DeviceLimits> {
        self.devices.get(&device).ok_or_else(|| {
            let known: Vec<String> = self.devices.keys().map(ToString::to_string).collect();
            Error::UnknownDevice { device, known: known.join(", ") }
        })
    }

    /// All the memory a device has, as far as the driver tells without a context.
    pub(crate) fn total_bytes(&self, device: DeviceId) -> Result<u64> {
        total_bytes(&self.origin, &self.origin.driver().devices()?, device)
    }

    pub(crate) fn granule_bytes(&self) -> u64 {
        self.devices.values().map(|device| device.granule_bytes).max().unwrap_or(UNIT_BYTES)
    }

    pub(crate) fn set_watched(&self, mapper: &Mapper) {
        let stale = !mapper.stale.is_empty();
        let asleep = self.registry.heaps().any(|heap| heap.asleep_bytes() > 0);
        let littered = stale || asleep || mapper.clocks.values().any(|clock| clock.is_retired());
        for (flag, is) in [(&self.watched, stale || asleep || mapper.clocks.len() > 1), (&self.littered, littered)] {
            // Threads that hit read beside them: not written without need.
            if flag.load(Ordering::Relaxed) != is {
                flag.store(is, Ordering::Relaxed);
            }
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("driver", &self.origin.driver().name()).field("devices", &self.devices).finish()
    }
}

impl Drop for Engine {
    /// Waits for the streams, then lets every owner give back what it has. Memory that somebody may
    /// still be using is left standing: a leak is better than a fault.
    fn drop(&mut self) {
        self.background = None;
        let live_bytes: u64 = self.registry.heaps().map(Heap::live_bytes).sum();
        self.end_abandoned(&mut self.mapper.lock());
        let finished = self.finish_all(&self.mapper.lock());
        let mut mapper = self.mapper.lock();
        let finished = finished.and_then(|()| mapper.end_doubt());
        // A stream that is being captured was not waited for: its arena has a graph.
        let graphs = mapper.captures.has_graphs();
        if live_bytes == 0 && !graphs && finished.is_ok() {
            return;
        }
        tracing::warn!(live_bytes, graphs, waited = ?finished.err(), "the pool goes while memory is in use: it is left standing");
        std::mem::forget(std::mem::take(&mut mapper.chains));
    }
}
