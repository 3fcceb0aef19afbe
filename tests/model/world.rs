//! Plays the steps of a case on the pool and on its shadow, and compares the two.

use crate::buffers::Shelf;
use crate::case::{Case, Op, Wish};
use crate::rig::{Application, Rig, Shape};
use crate::shadow::{Held, Lane};
use std::collections::BTreeSet;
use stitchpool::driver::{Address, DeviceId, Driver};
use stitchpool::{Block, Error, Pool, Request, Segment, Settings};

/// A registered stream costs a heap, so there are at most so many.
const LANES_MAX: usize = 12;
const LANES_AT_START: u16 = 2;

/// The pool and its shadow.
pub struct World<'a> {
    pub case: &'a Case,
    pub rig: Rig,
    pub lanes: Vec<Lane>,
    pub blocks: Vec<Held>,
    pub buffers: Vec<Shelf>,
    next_seed: u64,
    now_us: u64,
    pub allocs: u64,
    pub frees: u64,
    /// Calls that were made to fail before this step.
    failed_before: u64,
}

impl<'a> World<'a> {
    pub fn new(case: &'a Case) -> Self {
        let shape = Shape {
            devices: case.devices,
            first_granule_bytes: if case.uneven { case.granule_bytes / 4 } else { case.granule_bytes },
            granule_bytes: case.granule_bytes,
            granules: case.granules,
        };
        let settings = Settings {
            handle_bytes_max: case.handle_granules * case.granule_bytes,
            limit_bytes: case.limit_granules.map(|granules| granules * case.granule_bytes),
            stream_waits: case.stream_waits,
            ..Settings::default()
        };
        let rig = Rig::new(shape, settings);
        let (lanes, blocks, buffers) = (Vec::new(), Vec::new(), Vec::new());
        let mut world =
            Self { case, rig, lanes, blocks, buffers, next_seed: 1, now_us: 0, allocs: 0, frees: 0, failed_before: 0 };
        (0..case.devices * LANES_AT_START).for_each(|lane| world.register(lane % case.devices));
        world
    }

    pub fn pool(&self) -> &Pool {
        &self.rig.pool
    }

    pub fn step(&mut self, op: &Op) {
        self.failed_before = self.rig.faulty.failed();
        match op {
            Op::Alloc(wish) => self.alloc(wish),
            Op::Free { block, on } => self.free(*block, *on),
            Op::Use { block, stream, writes } => self.use_block(*block, *stream, *writes),
            Op::MakeBuffer { wish, step_granules } => self.make_buffer(wish, *step_granules),
            Op::Back { buffer, from, granules } => self.back(*buffer, *from, *granules),
            Op::GiveBack { buffer, from, granules } => self.give_back(*buffer, *from, *granules),
            Op::DropBuffer { buffer } => self.drop_buffer(*buffer),
            Op::RecordUse { block, stream } => self.record_use(*block, *stream),
            Op::Misuse { block, stream } => self.misuse(*block, *stream),
            Op::Advance { stream, items } => {
                if let Some(lane) = self.live_lane(*stream) {
                    self.rig.host.advance(self.lanes[lane].stream.raw, *items).unwrap();
                }
            }
            Op::RunAll => drop(self.rig.host.run_all()),
            Op::Stall { stream, stalled } => self.stall(*stream, *stalled),
            Op::Trim => drop(self.pool().trim()),
            Op::TrimAndWait => self.trim_and_wait(),
            Op::Register { device } if self.lanes.len() < LANES_MAX => {
                self.register((device % usize::from(self.case.devices)) as u16);
            }
            Op::Register { .. } => {}
            Op::Retire { stream } => self.retire(*stream),
            Op::Elapse { us } => {
                self.now_us += us;
                self.rig.host.set_now_us(self.now_us);
            }
            Op::Outside { device, granules } => {
                let device = DeviceId((device % usize::from(self.case.devices)) as u16);
                // More than the pool leaves them is refused, and then nothing changes.
                drop(self.rig.host.outside(device, granules * self.case.granule_bytes));
            }
            Op::Fault(fault) => self.rig.faulty.arm(*fault),
        }
        if !matches!(op, Op::Fault(_)) {
            self.rig.faulty.clear();
        }
    }

    /// Whether a call of this step was made to fail.
    pub fn was_refused(&self) -> bool {
        self.rig.faulty.failed() > self.failed_before
    }

    /// An error that only a made fault excuses.
    pub fn excuse(&self, error: &Error) {
        assert!(self.was_refused(), "the driver refused nothing, and yet: {error}");
    }

    pub fn live_lane(&self, pick: usize) -> Option<usize> {
        let alive: Vec<usize> = (0..self.lanes.len()).filter(|&lane| self.lanes[lane].lives()).collect();
        (!alive.is_empty()).then(|| alive[pick % alive.len()])
    }

    fn block(&self, pick: usize) -> Option<usize> {
        (!self.blocks.is_empty()).then(|| pick % self.blocks.len())
    }

    fn register(&mut self, device: u16) {
        let raw = self.rig.host.new_stream(device);
        match self.pool().register(raw) {
            Ok(id) => self.lanes.push(Lane { stream: crate::rig::Stream { raw, id }, end: None, stalled: false }),
            Err(error) => {
                self.excuse(&error);
                self.rig.host.destroy(raw);
            }
        }
    }

    /// What a lane asks for.
    pub fn request(&self, owner: usize, wish: &Wish) -> Request {
        let readers: Vec<DeviceId> =
            (0..self.case.devices).filter(|device| wish.readers >> device & 1 == 1).map(DeviceId).collect();
        let stream = self.lanes[owner].stream.id;
        let request =
            Request::new(wish.bytes(self.case), stream).aligned_to(512 << wish.alignment_power).open_to(&readers);
        Request { placement: wish.placement(self.case), exclusive: wish.exclusive, ..request }
    }

    fn alloc(&mut self, wish: &Wish) {
        let Some(owner) = self.live_lane(wish.stream) else { return };
        let request = self.request(owner, wish);
        match self.pool().alloc(&request) {
            Ok(block) => self.enter(owner, wish, &request, block),
            Err(Error::InvalidSize { limit_bytes, .. }) => assert!(request.bytes > limit_bytes, "{request:?}"),
            Err(Error::OutOfMemory(shortage)) => {
                assert!(shortage.missing_bytes > 0, "{shortage}");
                self.prove_shortage(owner, &request);
            }
            Err(error) => self.excuse(&error),
        }
    }

    fn enter(&mut self, owner: usize, wish: &Wish, request: &Request, block: Block) {
        self.allocs += 1;
        let unit_bytes = if wish.is_whole() { self.case.granule_bytes } else { 512 };
        assert_eq!(block.bytes, request.bytes.next_multiple_of(unit_bytes));
        assert!(block.address.is_aligned(request.alignment_bytes));
        let home = self.lanes[owner].device();
        let placement = request.placement.clone();
        let places = placement.as_ref().map_or(vec![home], stitchpool::Placement::devices);
        let segments = self.pool().segments(block.address, block.bytes).unwrap();
        assert!(segments.iter().all(|segment| places.contains(&segment.device)), "{placement:?} {segments:?}");
        if let (true, Some(placement)) = (wish.is_exact(), placement) {
            let mut expected = placement.pieces(block.bytes, self.case.granule_bytes).unwrap();
            expected.retain(|piece| piece.bytes > 0);
            assert_eq!(runs(&segments), expected.iter().map(|p| (p.device, p.bytes)).collect::<Vec<_>>());
        }
        let devices: BTreeSet<DeviceId> =
            places.into_iter().chain([home]).chain(request.readers.iter().copied()).collect();
        let seed = self.seed();
        let mut held = Held { block, owner, seed, writer: owner, users: BTreeSet::new(), devices, own: wish.exclusive };
        held.queue_use(&self.rig.host, &self.lanes, owner, Some(seed));
        self.blocks.push(held);
    }

    pub fn seed(&mut self) -> u64 {
        self.next_seed += 1;
        self.next_seed
    }

    /// A request of one device was refused: even with every wholly free granule, whoever has it, there
    /// was not enough. It can be shown where a handle is a granule.
    pub fn prove_shortage(&self, owner: usize, request: &Request) {
        let home = match &request.placement {
            None => self.lanes[owner].device(),
            Some(stitchpool::Placement::Home(device)) => *device,
            Some(_) => return,
        };
        let stalled = self.lanes.iter().any(|lane| lane.stalled);
        if self.case.handle_granules > 1
            || self.case.uneven
            || stalled
            || self.was_refused()
            || self.pool().stats().quarantined > 0
        {
            return;
        }
        let used: BTreeSet<u64> = self
            .blocks
            .iter()
            .flat_map(|held| self.pool().segments(held.block.address, held.block.bytes).unwrap())
            .filter(|segment| segment.device == home)
            .map(|segment| segment.handle.0)
            .collect();
        let granule_bytes = self.case.granule_bytes;
        let free_bytes = self.rig.host.memory(home).unwrap().free_bytes;
        let within_reach_bytes = self.rig.host.ledger().physical_bytes_on(home) + free_bytes;
        let limit_bytes = self.case.limit_granules.map_or(u64::MAX, |granules| granules * granule_bytes);
        let granules = within_reach_bytes.min(limit_bytes) / granule_bytes - used.len() as u64;
        let needed = request.bytes.div_ceil(granule_bytes);
        assert!(granules < needed, "{granules} granules could be had, {needed} were asked for: {request:?}");
    }

    pub fn free(&mut self, pick: usize, on: Option<usize>) {
        let Some(index) = self.block(pick) else { return };
        let held = &mut self.blocks[index];
        let may_use = |lane: &usize| self.lanes[*lane].lives() && held.devices.contains(&self.lanes[*lane].device());
        let on = on.map(|pick| pick % self.lanes.len()).filter(may_use);
        let last = on.unwrap_or(held.owner);
        if self.lanes[last].lives() {
            held.queue_use(&self.rig.host, &self.lanes, last, None);
        }
        let (address, block) = (held.block.address, held.block);
        let freed = match on {
            Some(lane) => self.pool().free_on(address, self.lanes[lane].stream.id),
            None => self.pool().free(address),
        };
        assert_eq!(freed, Ok(()), "{block:?}");
        self.blocks.swap_remove(index);
        self.frees += 1;
    }

    /// Uses a block on a stream; on another than its own after telling the pool.
    fn use_block(&mut self, pick: usize, stream: usize, writes: bool) {
        let (Some(index), Some(lane)) = (self.block(pick), self.live_lane(stream)) else { return };
        let seed = self.seed();
        let held = &self.blocks[index];
        if !held.devices.contains(&self.lanes[lane].device()) {
            return;
        }
        self.pool().record_use(held.block.address, self.lanes[lane].stream.id).unwrap();
        self.blocks[index].queue_use(&self.rig.host, &self.lanes, lane, writes.then_some(seed));
    }

    fn record_use(&self, pick: usize, stream: usize) {
        let (Some(index), Some(lane)) = (self.block(pick), self.live_lane(stream)) else { return };
        let (held, lane) = (&self.blocks[index], &self.lanes[lane]);
        match self.pool().record_use(held.block.address, lane.stream.id) {
            Ok(()) => assert!(held.devices.contains(&lane.device())),
            Err(Error::NoRights { device, .. }) => assert!(!held.devices.contains(&device)),
            Err(error) => panic!("{error}"),
        }
    }

    /// What an application must not do is refused, and changes nothing.
    fn misuse(&self, pick: usize, stream: usize) {
        let Some(index) = self.block(pick) else { return };
        let (held, lane) = (&self.blocks[index], &self.lanes[stream % self.lanes.len()]);
        let inside = held.block.address + 512;
        if !self.starts_at(inside) {
            assert!(matches!(self.pool().free(inside), Err(Error::UnknownAddress { .. })));
        }
        if !lane.lives() {
            let unknown = Error::UnknownStream { serial: u32::MAX };
            let same = |error: Error| std::mem::discriminant(&error) == std::mem::discriminant(&unknown);
            assert!(same(self.pool().alloc(&Request::new(1, lane.stream.id)).unwrap_err()));
            assert!(same(self.pool().free_on(held.block.address, lane.stream.id).unwrap_err()));
            assert!(same(self.pool().record_use(held.block.address, lane.stream.id).unwrap_err()));
            assert!(same(self.pool().retire(lane.stream.id).unwrap_err()));
        }
    }

    fn starts_at(&self, address: Address) -> bool {
        self.blocks.iter().any(|held| held.block.address == address)
    }

    fn stall(&mut self, stream: usize, stalled: bool) {
        if let Some(lane) = self.live_lane(stream) {
            self.rig.host.stall(self.lanes[lane].stream.raw, stalled).unwrap();
            self.lanes[lane].stalled = stalled;
        }
    }

    fn trim_and_wait(&self) {
        if let Err(error) = self.pool().trim_and_wait() {
            let stalled = self.lanes.iter().any(|lane| lane.stalled);
            assert!(stalled || self.was_refused(), "{error}");
        }
    }

    /// Checks the stream's blocks a last time, retires it, and destroys it.
    fn retire(&mut self, stream: usize) {
        let Some(lane) = self.live_lane(stream) else { return };
        for held in self.blocks.iter_mut().filter(|held| held.owner == lane) {
            held.queue_use(&self.rig.host, &self.lanes, lane, None);
        }
        let raw = self.lanes[lane].stream.raw;
        if let Err(error) = self.pool().retire(self.lanes[lane].stream.id) {
            self.excuse(&error);
            return;
        }
        self.rig.host.stall(raw, false).unwrap();
        self.lanes[lane].stalled = false;
        self.lanes[lane].end = Some(self.rig.host.mark(raw));
        self.rig.host.destroy(raw);
    }
}

/// Neighbouring segments of one device, joined.
fn runs(segments: &[Segment]) -> Vec<(DeviceId, u64)> {
    let mut runs: Vec<(DeviceId, u64)> = Vec::new();
    for segment in segments {
        match runs.last_mut() {
            Some((device, bytes)) if *device == segment.device => *bytes += segment.bytes,
            _ => runs.push((segment.device, segment.bytes)),
        }
    }
    runs
}
