//! Plays the steps of a life on the pool and on its shadow: blocks, buffers, streams and their work.

use crate::case::{Case, Kind, Op, Store, Where};
use crate::rig::{Application, Stream};
use crate::shadow::{Cell, Given, Held, Lane, Leased, Pinned, Place, Seen, right};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver, HostGraph, StreamMode};
use stitchpool::driver::{Address, DeviceId, Faulty, RawEvent, Rights};
use stitchpool::{ArenaId, Block, Error, Interest, Listener, Placement, Pool, Request, Segment, Settings};

pub const DEVICES: u16 = 2;
pub const ARENAS: usize = 4;
/// The arena that graphs are captured into.
pub const GRAPH: usize = 3;
/// What a tight pool may hold of each device.
const TIGHT_GRANULES: u64 = 9;
const LANES_MAX: usize = 8;
const BUFFERS_MAX: usize = 4;
const BUFFER_GRANULES: u64 = 16;

/// The pool and its shadow.
pub struct World<'a> {
    pub case: &'a Case,
    pub host: Arc<HostDriver>,
    pub faulty: Arc<Faulty>,
    pub pool: Pool,
    pub lanes: Vec<Lane>,
    pub arenas: [ArenaId; ARENAS],
    pub asleep: [bool; ARENAS],
    pub asked: [Given; ARENAS],
    /// Whether blocks may be put out of them.
    pub evictable: [bool; ARENAS],
    /// What the pool may hold of each device, and what it held before this step.
    pub limits_bytes: [u64; DEVICES as usize],
    held_bytes: [u64; DEVICES as usize],
    /// By a number that is never given twice.
    pub blocks: BTreeMap<u64, Held>,
    pub leases: Vec<Leased>,
    pub views: Vec<Seen>,
    pub pins: Vec<Pinned>,
    pub veto: Arc<AtomicBool>,
    /// Each with the lane it was captured on.
    pub graphs: Vec<(HostGraph, usize)>,
    /// The end of the last replay.
    pub last: Option<RawEvent>,
    pub next: u64,
    /// Blocks of the open capture have higher numbers.
    pub captured_from: u64,
    now_us: u64,
    /// Calls that were made to fail before this step.
    failed_before: u64,
    /// Work that was queued without rights.
    pub trespasses: usize,
    /// What the probes were refused.
    pub refusals: u64,
}

struct Objector(Arc<AtomicBool>);

impl Listener for Objector {
    fn before_leave(&self, _: &[Segment]) -> Result<(), String> {
        if self.0.load(Ordering::Relaxed) { Err("it is registered".into()) } else { Ok(()) }
    }

    fn after_return(&self, _: &[Segment]) {}
}

impl<'a> World<'a> {
    pub fn new(case: &'a Case) -> Self {
        let granularity_bytes = case.granule_bytes;
        let device = HostDevice { capacity_bytes: case.granules * granularity_bytes, granularity_bytes };
        let host = HostDriver::new(HostConfig {
            devices: vec![device; usize::from(DEVICES)],
            address_space_bytes: 1 << 35,
            streams: if case.lags { StreamMode::Lagged { lag_us: 3_000 } } else { StreamMode::ByHand },
            watch_order: true,
            ..HostConfig::default()
        });
        let host = host.unwrap();
        let faulty = Faulty::new(host.clone());
        let handle_bytes_max = case.handle_granules * granularity_bytes;
        let settings = Settings { handle_bytes_max, poison: true, address_bytes: Some(1 << 31), ..Settings::default() };
        let pool = Pool::new(faulty.clone(), settings).unwrap();
        let veto = Arc::new(AtomicBool::new(false));
        pool.listen(Arc::new(Objector(veto.clone())), Interest::Pool).unwrap();
        let arenas =
            [ArenaId::DEFAULT, pool.arena("left").unwrap(), pool.arena("right").unwrap(), pool.arena("graph").unwrap()];
        let mut world = Self {
            case,
            host,
            faulty,
            pool,
            lanes: Vec::new(),
            arenas,
            asleep: [false; ARENAS],
            asked: Default::default(),
            evictable: [false; ARENAS],
            limits_bytes: [u64::MAX; DEVICES as usize],
            held_bytes: [0; DEVICES as usize],
            blocks: BTreeMap::new(),
            leases: Vec::new(),
            views: Vec::new(),
            pins: Vec::new(),
            veto,
            graphs: Vec::new(),
            last: None,
            next: 1,
            captured_from: 0,
            now_us: 0,
            failed_before: 0,
            trespasses: 0,
            refusals: 0,
        };
        (0..2 * DEVICES).for_each(|lane| assert!(!world.register(lane % DEVICES)));
        if case.tight {
            (0..DEVICES).for_each(|device| assert!(!world.set_limit(device, TIGHT_GRANULES)));
            (0..GRAPH).for_each(|arena| world.set_evictable(arena, Some(Store::Host)));
        }
        world
    }

    /// One step. What a made fault has stopped is done again without, and must then go as without.
    pub fn step(&mut self, op: &Op) {
        if let Op::Fault { verb, nth, kind } = op {
            self.faulty.clear();
            return match verb {
                Some(verb) => self.faulty.fail(*verb, *nth, *kind),
                None => self.faulty.fail_any(*nth, *kind),
            };
        }
        self.failed_before = self.faulty.failed();
        let stopped = self.act_within_limits(op);
        self.faulty.clear();
        self.failed_before = self.faulty.failed();
        if stopped {
            self.inspect();
            assert!(!self.act_within_limits(op));
        }
    }

    /// Does it, and finds what it has put out. No device is given more memory than its limit allows.
    fn act_within_limits(&mut self, op: &Op) -> bool {
        self.held_bytes = self.physical();
        let stopped = self.act(op);
        self.find_evicted();
        let bounds = self.limits_bytes.iter().zip(self.held_bytes).map(|(&limit, before)| limit.max(before));
        for (held_bytes, most_bytes) in self.physical().into_iter().zip(bounds) {
            assert!(held_bytes <= most_bytes, "{held_bytes} are held, {most_bytes} may be");
        }
        stopped
    }

    /// What the pool holds of each device.
    fn physical(&self) -> [u64; DEVICES as usize] {
        let stats = self.pool.stats();
        std::array::from_fn(|device| stats.devices[device].holdings.physical_bytes)
    }

    /// True: a made fault has stopped it.
    fn act(&mut self, op: &Op) -> bool {
        match op {
            Op::Alloc { .. } => return self.alloc(op),
            Op::MakeBuffer { lane, arena } => return self.make_buffer(*lane, *arena),
            Op::Back { buffer, from, granules } => return self.back(*buffer, *from, *granules),
            Op::GiveBack { buffer, from, granules } => self.give_back(*buffer, *from, *granules),
            Op::Free { block, on } => self.free(*block, *on),
            Op::Use { block, lane, writes } => self.use_block(*block, *lane, *writes),
            Op::Trespass { block, lane } => self.trespass(*block, *lane),
            Op::Lease(block) => self.lease(*block),
            Op::Touch(block) => return self.touch_block(*block),
            Op::EndLease { lease, lane } => self.end_lease(*lease, *lane),
            Op::View { parts, rights } => return self.view(parts, *rights),
            Op::UseView { view, lane, writes } => self.use_view(*view, *lane, *writes),
            Op::EndView(view) => self.end_view(*view),
            Op::Pin(block) => self.pin(*block),
            Op::Unpin(pin) => self.unpin(*pin),
            Op::Veto(veto) => self.veto.store(*veto, Ordering::Relaxed),
            Op::Evictable { arena, refuge } => self.set_evictable(*arena, *refuge),
            Op::Limit { device, granules } => return self.set_limit(*device, *granules),
            Op::Dissolve(arena) => self.dissolve(*arena),
            Op::SetRights { of, device, rights } => return self.set_rights(*of, *device, *rights),
            Op::Suspend { of, to } => return self.suspend(*of, *to),
            Op::Resume(of) => return self.resume(*of),
            Op::Migrate { of, device } => return self.migrate(*of, *device),
            Op::Exchange(one, other) => return self.exchange(*one, *other),
            Op::ExchangeParts(one, other, length) => return self.exchange_parts(*one, *other, *length),
            Op::Begin(lane) => return self.begin(*lane),
            Op::End { aborts } => self.end(*aborts),
            Op::Launch(pick) => self.launch(*pick),
            Op::Release => self.release(),
            Op::Advance { lane, items } => {
                if let Some(lane) = self.lane(*lane) {
                    self.host.advance(self.lanes[lane].stream.raw, *items).unwrap();
                }
            }
            Op::RunAll => drop(self.host.run_all()),
            Op::Trim { waits: false } => drop(self.pool.trim()),
            Op::Trim { waits: true } => assert!(self.pool.trim_and_wait().is_ok() || self.refused()),
            Op::Register { device } => return self.lanes.len() < LANES_MAX && self.register(*device),
            Op::Retire(lane) => return self.retire(*lane),
            Op::Elapse(us) => {
                self.now_us += us;
                self.host.set_now_us(self.now_us);
            }
            // More than the pool leaves them is refused, and then nothing changes.
            Op::Outside { device, granules } => {
                drop(self.host.outside(DeviceId(*device), granules * self.case.granule_bytes));
            }
            Op::Fault { .. } => {}
        }
        false
    }

    pub fn refused(&self) -> bool {
        self.faulty.failed() > self.failed_before
    }

    /// An error that only a made fault excuses.
    pub fn excuse(&self, error: &Error) -> bool {
        assert!(self.refused(), "the driver refused nothing, and yet: {error}");
        true
    }

    /// A lane whose work runs.
    pub fn lane(&self, pick: usize) -> Option<usize> {
        let found: Vec<usize> = (0..self.lanes.len()).filter(|&lane| self.lanes[lane].runs()).collect();
        (!found.is_empty()).then(|| found[pick % found.len()])
    }

    /// A live block, of these kinds.
    pub fn pick(&self, pick: usize, kinds: &[Kind]) -> Option<u64> {
        let fits = |held: &Held| held.live && kinds.contains(&held.kind);
        let found: Vec<u64> = self.blocks.iter().filter(|(_, held)| fits(held)).map(|(&id, _)| id).collect();
        (!found.is_empty()).then(|| found[pick % found.len()])
    }

    fn register(&mut self, device: u16) -> bool {
        let raw = self.host.new_stream(device);
        match self.pool.register(raw) {
            Ok(id) => {
                self.lanes.push(Lane { stream: Stream { raw, id }, end: None, captured: false });
                false
            }
            Err(error) => {
                self.host.destroy(raw);
                self.excuse(&error)
            }
        }
    }

    fn retire(&mut self, pick: usize) -> bool {
        let Some(lane) = self.lane(pick) else { return false };
        let Stream { raw, id } = self.lanes[lane].stream;
        if let Err(error) = self.pool.retire(id) {
            return self.excuse(&error);
        }
        self.lanes[lane].end = Some(self.host.mark(raw));
        self.host.destroy(raw);
        false
    }

    fn alloc(&mut self, op: &Op) -> bool {
        let Op::Alloc { lane, granules, milligranules, exclusive, arena, place } = *op else { return false };
        let alive: Vec<usize> = (0..self.lanes.len()).filter(|&lane| self.lanes[lane].end.is_none()).collect();
        let Some(&lane) = alive.get(lane % alive.len().max(1)) else { return false };
        let captured = self.lanes[lane].captured;
        let (exclusive, place) = (exclusive && !captured, if captured { Where::Home } else { place });
        let arena = if captured { 0 } else { arena };
        let bytes = (granules * self.case.granule_bytes + milligranules * self.case.granule_bytes / 1000).max(1);
        let mut request = Request::new(bytes, self.lanes[lane].stream.id).in_arena(self.arenas[arena]);
        request.exclusive = exclusive;
        let device = self.lanes[lane].device();
        let mut base = Given::from([(device, Rights::ReadWrite)]);
        let other = DeviceId(1 - device.0);
        if place != Where::Home {
            base.insert(other, Rights::ReadWrite);
        }
        request.placement = match place {
            Where::Home => None,
            Where::Away => Some(Placement::Home(other)),
            Where::Dealt => {
                let stripe_bytes = self.case.granule_bytes;
                Some(Placement::RoundRobin { devices: vec![device, other], stripe_bytes })
            }
        };
        let arena = if captured { GRAPH } else { arena };
        match self.pool.alloc(&request) {
            Ok(block) => {
                assert!(!self.asleep[arena], "the arena sleeps");
                let kind = if exclusive { Kind::Exclusive } else { Kind::Plain };
                let segments = self.pool.segments(block.address, block.bytes).unwrap();
                let lies_well = segments.iter().enumerate().all(|(stripe, segment)| match place {
                    Where::Home => segment.device == device,
                    Where::Away => segment.device == other,
                    Where::Dealt => segment.device == [device, other][stripe % 2],
                });
                assert!(!exclusive || lies_well, "{place:?}: {segments:?}");
                self.enter(Self::held(block, kind, (lane, arena), base), captured);
                false
            }
            Err(Error::Asleep { .. }) if self.asleep[arena] => false,
            Err(_) if self.refused() => true,
            Err(Error::OutOfMemory(_)) => false,
            Err(error) => self.excuse(&error),
        }
    }

    fn held(block: Block, kind: Kind, (owner, arena): (usize, usize), base: Given) -> Held {
        let (cells, asked) = (BTreeMap::new(), BTreeMap::new());
        let (users, growable) = (BTreeSet::from([owner]), None);
        let (live, captured, evicted) = (true, false, false);
        Held { block, kind, owner, arena, live, captured, cells, users, base, asked, growable, evicted }
    }

    /// A new block comes into the shadow, and is written.
    fn enter(&mut self, mut held: Held, captured: bool) {
        let step_bytes = if held.kind == Kind::Plain { held.block.bytes } else { self.case.granule_bytes };
        held.captured = captured;
        self.next += 1;
        let (id, bytes) = (self.next, held.block.bytes);
        let (raw, at) = (self.lanes[held.owner].stream.raw, held.block.address);
        self.blocks.insert(id, held);
        (0..bytes).step_by(step_bytes as usize).for_each(|offset| self.add_cell((id, offset), step_bytes));
        if captured {
            self.host.fill(raw, at, bytes, id);
        }
    }

    fn add_cell(&mut self, (id, offset): Place, bytes: u64) {
        let held = self.blocks.get_mut(&id).unwrap();
        let mut rights = held.base.clone();
        rights.extend(self.asked[held.arena].clone());
        rights.extend(held.asked.get(&offset).cloned().unwrap_or_default());
        let (at, owner) = (held.at(offset), held.owner);
        let may_write = right(&rights, self.lanes[owner].device()) == Rights::ReadWrite;
        held.cells.insert(offset, Cell { bytes, seed: None, rights, asleep: false });
        if may_write && self.can_use(id, owner) {
            self.touch((id, offset), at, owner, true);
        }
    }

    fn make_buffer(&mut self, lane: usize, arena: usize) -> bool {
        let count = self.blocks.values().filter(|held| held.kind == Kind::Buffer).count();
        let Some(lane) = self.lane(lane).filter(|_| count < BUFFERS_MAX) else { return false };
        let request = Request::new(0, self.lanes[lane].stream.id).in_arena(self.arenas[arena]);
        let granule_bytes = self.case.granule_bytes;
        match self.pool.growable_in_steps(&request, BUFFER_GRANULES * granule_bytes, granule_bytes) {
            Ok(growable) => {
                let block = Block { address: growable.address(), bytes: growable.max_bytes() };
                let base = Given::from([(self.lanes[lane].device(), Rights::ReadWrite)]);
                let held = Self::held(block, Kind::Buffer, (lane, arena), base);
                self.next += 1;
                self.blocks.insert(self.next, Held { growable: Some(growable), ..held });
                false
            }
            Err(Error::Asleep { .. }) if self.asleep[arena] => false,
            Err(error) => self.excuse(&error),
        }
    }

    fn back(&mut self, pick: usize, from: u64, granules: u64) -> bool {
        let Some(id) = self.pick(pick, &[Kind::Buffer]) else { return false };
        let granule_bytes = self.case.granule_bytes;
        let held = &self.blocks[&id];
        let Some(growable) = held.growable.as_ref().filter(|_| self.lanes[held.owner].runs()) else { return false };
        let wanted = (from..from + granules).map(|granule| granule * granule_bytes);
        let lacking: Vec<u64> = wanted.filter(|offset| !held.cells.contains_key(offset)).collect();
        match growable.back(from * granule_bytes, granules * granule_bytes) {
            Ok(()) => {
                assert!(lacking.is_empty() || !self.asleep[held.arena], "the arena sleeps");
                lacking.into_iter().for_each(|offset| self.add_cell((id, offset), granule_bytes));
                false
            }
            Err(Error::BeyondMax { .. }) => from + granules <= BUFFER_GRANULES,
            Err(_) if self.refused() => true,
            Err(Error::OutOfMemory(_) | Error::Asleep { .. }) => false,
            Err(error) => {
                assert!(self.pool.stats().quarantined > 0, "{error}");
                false
            }
        }
    }

    fn give_back(&mut self, pick: usize, from: u64, granules: u64) {
        let Some(id) = self.pick(pick, &[Kind::Buffer]) else { return };
        let granule_bytes = self.case.granule_bytes;
        let part = from * granule_bytes..(from + granules).min(BUFFER_GRANULES) * granule_bytes;
        let given: Vec<u64> = self.blocks[&id].cells.range(part.clone()).map(|(&offset, _)| offset).collect();
        if part.is_empty() || given.iter().any(|&offset| self.is_held((id, offset))) {
            return;
        }
        let held = self.blocks.get_mut(&id).unwrap();
        let bytes = held.growable.as_ref().unwrap().give_back(part.start, part.end - part.start).unwrap();
        assert_eq!(bytes, given.len() as u64 * granule_bytes);
        given.iter().for_each(|offset| drop(held.cells.remove(offset)));
    }

    fn free(&mut self, pick: usize, on: Option<usize>) {
        let Some(id) = self.pick(pick, &[Kind::Plain, Kind::Exclusive, Kind::Buffer]) else { return };
        let held = &self.blocks[&id];
        if held.kind == Kind::Buffer {
            if !held.cells.keys().any(|&offset| self.is_held((id, offset))) {
                self.blocks.remove(&id);
            }
            return;
        }
        let (owner, address, raw) = (held.owner, held.block.address, self.lanes[held.owner].stream.raw);
        if held.captured && self.lanes[owner].captured && id > self.captured_from {
            self.host.verify(raw, address, held.block.bytes, id);
        } else {
            self.look(id, owner);
        }
        let may = |lane: &usize| {
            let device = self.lanes[*lane].device();
            self.blocks[&id].cells.values().all(|cell| right(&cell.rights, device) > Rights::None)
        };
        match on.and_then(|pick| self.lane(pick)).filter(may) {
            Some(lane) => self.pool.free_on(address, self.lanes[lane].stream.id).unwrap(),
            None => self.pool.free(address).unwrap(),
        }
        assert!(matches!(self.pool.free(address), Err(Error::UnknownAddress { .. })));
        self.blocks.get_mut(&id).unwrap().live = false;
        self.settle(id);
    }

    /// Whether work on a lane can come after all users of a block.
    pub fn can_use(&self, id: u64, lane: usize) -> bool {
        let held = &self.blocks[&id];
        !held.captured && self.lanes[lane].runs() && held.users.iter().all(|&user| !self.lanes[user].captured)
    }

    /// Uses a cell at an address, after all earlier users of the block.
    pub fn touch(&mut self, (id, offset): Place, at: Address, lane: usize, writes: bool) {
        let (host, raw) = (self.host.clone(), self.lanes[lane].stream.raw);
        self.next += 1;
        let held = self.blocks.get_mut(&id).unwrap();
        for &user in held.users.iter().filter(|&&user| user != lane) {
            match self.lanes[user].end {
                Some(end) => host.order_after(raw, end),
                None => host.order(raw, self.lanes[user].stream.raw),
            }
        }
        held.users.insert(lane);
        let cell = held.cells.get_mut(&offset).unwrap();
        match cell.seed {
            _ if writes => {
                cell.seed = Some(self.next);
                Application::fill(&*host, raw, at, cell.bytes, self.next);
            }
            Some(seed) => Application::verify(&*host, raw, at, cell.bytes, seed),
            None => host.touch(raw, at, cell.bytes, Rights::Read).unwrap(),
        }
    }

    /// Reads what of a block is awake and open to a lane's device.
    pub fn look(&mut self, id: u64, lane: usize) {
        if !self.can_use(id, lane) {
            return;
        }
        let (held, device) = (&self.blocks[&id], self.lanes[lane].device());
        let open = held.cells.iter().filter(|(_, cell)| !cell.asleep && right(&cell.rights, device) > Rights::None);
        let places: Vec<(u64, Address)> = open.map(|(&offset, _)| (offset, held.at(offset))).collect();
        places.into_iter().for_each(|(offset, at)| self.touch((id, offset), at, lane, false));
    }

    fn use_block(&mut self, pick: usize, lane: usize, writes: bool) {
        let id = self.pick(pick, &[Kind::Plain, Kind::Exclusive, Kind::Buffer]);
        let (Some(id), Some(lane)) = (id, self.lane(lane)) else { return };
        let (held, device) = (&self.blocks[&id], self.lanes[lane].device());
        let needs = if writes { Rights::ReadWrite } else { Rights::Read };
        let may = |cell: &Cell| !cell.asleep && right(&cell.rights, device) >= needs;
        if !self.can_use(id, lane) || !held.cells.values().all(may) {
            return;
        }
        let places: Vec<(u64, Address)> = held.cells.keys().map(|&offset| (offset, held.at(offset))).collect();
        for &(offset, at) in &places {
            if held.block_of(offset) == offset {
                self.pool.record_use(at, self.lanes[lane].stream.id).unwrap();
            }
        }
        places.into_iter().for_each(|(offset, at)| self.touch((id, offset), at, lane, writes));
    }
}
