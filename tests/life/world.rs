//! Plays the steps of a life on the pool and on its shadow: blocks, buffers, streams and their work.

use crate::captures::Graph;
use crate::case::{Case, Kind, Op, Store};
use crate::lane::Lane;
use crate::shadow::{Given, Held, Leased, Pinned, Seen};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver, StreamMode};
use stitchpool::driver::{DeviceId, Faulty, RawEvent};
use stitchpool::{ArenaId, Error, Interest, Listener, Pool, Segment, Settings};

pub const DEVICES: u16 = 2;
/// The first of the arenas that graphs are captured into.
pub const GRAPH: usize = 3;
pub const GRAPHS: usize = 2;
/// So many there are from the start; captures that the pool finds out have further ones.
pub const ARENAS: usize = GRAPH + GRAPHS;
/// Those that can be dissolved have names.
pub const NAMES: [&str; ARENAS] = ["", "left", "right", "graph", "other graph"];
/// What a tight pool may hold of each device.
const TIGHT_GRANULES: u64 = 9;
const LANES_MAX: usize = 8;
/// Where the host is no place of the pool, backups find enough there.
const AMPLE_BYTES: u64 = 1 << 38;

/// The pool and its shadow.
pub struct World<'a> {
    pub case: &'a Case,
    pub host: Arc<HostDriver>,
    pub faulty: Arc<Faulty>,
    pub pool: Pool,
    /// The devices, then the host where it is one.
    pub places: Vec<DeviceId>,
    pub lanes: Vec<Lane>,
    pub arenas: Vec<ArenaId>,
    pub asleep: Vec<bool>,
    pub asked: Vec<Given>,
    /// Whether blocks may be put out of them.
    pub evictable: [bool; GRAPH],
    /// What the pool may hold of each place.
    pub limits_bytes: Vec<u64>,
    /// By a number that is never given twice.
    pub blocks: BTreeMap<u64, Held>,
    pub leases: Vec<Leased>,
    pub views: Vec<Seen>,
    pub pins: Vec<Pinned>,
    pub veto: Arc<AtomicBool>,
    pub graphs: Vec<Graph>,
    /// How many graphs the pool knows of in each of their arenas.
    pub counts: Vec<u32>,
    /// Whether what was freed asleep in a graph's arena has no memory: a graph may need it.
    pub gaps: Vec<bool>,
    /// The end of the last replay in each.
    pub last: Vec<Option<RawEvent>>,
    pub next: u64,
    now_us: u64,
    /// Calls that were made to fail before this step.
    failed_before: u64,
    /// Work that was queued without rights.
    pub trespasses: usize,
    /// What the driver has refused the probes, and the ends of broken captures.
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
        let host_bytes = if case.host { device.capacity_bytes } else { AMPLE_BYTES };
        let host = HostDriver::new(HostConfig {
            devices: vec![device; usize::from(DEVICES)],
            host_memory: HostDevice { capacity_bytes: host_bytes, granularity_bytes },
            address_space_bytes: 1 << 35,
            streams: if case.lags { StreamMode::Lagged { lag_us: 3_000 } } else { StreamMode::ByHand },
            watch_order: true,
            ..HostConfig::default()
        });
        let host = host.unwrap();
        let faulty = Faulty::new(host.clone());
        let handle_bytes_max = case.handle_granules * granularity_bytes;
        let places: Vec<DeviceId> = (0..DEVICES).map(DeviceId).chain(case.host.then_some(DeviceId::HOST)).collect();
        let settings = Settings {
            devices: places.clone(),
            handle_bytes_max,
            open_to_peers: case.open,
            ask_capture: case.asks,
            backup_keep_bytes: if case.keeps { u64::MAX } else { 0 },
            poison: true,
            address_bytes: Some(1 << 31),
            ..Settings::default()
        };
        let pool = Pool::new(faulty.clone(), settings).unwrap();
        let veto = Arc::new(AtomicBool::new(false));
        pool.listen(Arc::new(Objector(veto.clone())), Interest::Pool).unwrap();
        let named = |name: &str| if name.is_empty() { ArenaId::DEFAULT } else { pool.arena(name).unwrap() };
        let arenas: Vec<ArenaId> = NAMES.map(named).to_vec();
        let mut world = Self {
            case,
            host,
            faulty,
            pool,
            lanes: Vec::new(),
            limits_bytes: vec![u64::MAX; places.len()],
            places,
            arenas,
            asleep: vec![false; ARENAS],
            asked: vec![Given::new(); ARENAS],
            evictable: [false; GRAPH],
            blocks: BTreeMap::new(),
            leases: Vec::new(),
            views: Vec::new(),
            pins: Vec::new(),
            veto,
            graphs: Vec::new(),
            counts: vec![0; GRAPHS],
            gaps: vec![false; GRAPHS],
            last: vec![None; GRAPHS],
            next: 1,
            now_us: 0,
            failed_before: 0,
            trespasses: 0,
            refusals: 0,
        };
        let used = if case.open { 1 } else { DEVICES };
        (0..2 * DEVICES).for_each(|lane| assert!(!world.register(lane % used)));
        if case.tight {
            (0..usize::from(DEVICES)).for_each(|device| assert!(!world.set_limit(device, TIGHT_GRANULES)));
            (0..GRAPH).for_each(|arena| world.set_evictable(arena, Some(Store::Host)));
        }
        world
    }

    /// One step. What a made fault has stopped is done again without, and must then go as without.
    pub fn step(&mut self, op: &Op) {
        if let Op::Faults(faults) = op {
            self.faulty.clear();
            return faults.iter().for_each(|fault| self.faulty.arm(*fault));
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

    /// Does it, and finds what it has put out. Of no place the pool takes more memory than its limit allows.
    fn act_within_limits(&mut self, op: &Op) -> bool {
        let before_bytes = self.physical();
        let stopped = self.act(op);
        self.find_evicted();
        let bounds = self.limits_bytes.iter().zip(before_bytes).map(|(&limit, before)| limit.max(before));
        for (held_bytes, most_bytes) in self.physical().into_iter().zip(bounds) {
            assert!(held_bytes <= most_bytes, "{held_bytes} are held, {most_bytes} may be");
        }
        stopped
    }

    /// True: a made fault has stopped it.
    fn act(&mut self, op: &Op) -> bool {
        match op {
            Op::Alloc { .. } => return self.alloc(op),
            Op::MakeBuffer { lane, arena, place } => return self.make_buffer(*lane, *arena, *place),
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
            Op::Limit { place, granules } => return self.set_limit(*place, *granules),
            Op::Headroom { place, granules } => self.set_headroom(*place, *granules),
            Op::Dissolve(arena) => self.dissolve(*arena),
            Op::SetRights { of, device, rights } => return self.set_rights(*of, *device, *rights),
            Op::Suspend { of, to } => return self.suspend(*of, *to),
            Op::Resume(of) => return self.resume(*of),
            Op::Migrate { of, place } => return self.migrate(*of, self.place(*place)),
            Op::Exchange(one, other) => return self.exchange(*one, *other),
            Op::ExchangeParts(aims) => return self.exchange_parts(*aims),
            Op::Begin { lane, arena, driver_first } => return self.begin(*lane, GRAPH + *arena, *driver_first),
            Op::BeginUntold(lane) => self.begin_untold(*lane),
            Op::Name { lane, block } => self.name(*lane, *block),
            Op::End { lane, how } => self.end(*lane, *how),
            Op::Launch { graph, lane } => self.launch(*graph, *lane),
            Op::Release(pick) => self.release(GRAPH + *pick % (self.arenas.len() - GRAPH)),
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
            Op::Outside { place, granules } => self.set_outside(*place, *granules),
            Op::Faults(_) => {}
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

    /// A live block, of these kinds.
    pub fn pick(&self, pick: usize, kinds: &[Kind]) -> Option<u64> {
        let fits = |held: &Held| held.live && kinds.contains(&held.kind);
        let found: Vec<u64> = self.blocks.iter().filter(|(_, held)| fits(held)).map(|(&id, _)| id).collect();
        (!found.is_empty()).then(|| found[pick % found.len()])
    }
}
