//! A pool and its shadow, which knows who may do what, what each granule holds, and who holds which block.

use crate::bench::{Bench, DEVICES, LONER};
use crate::op::{Aim, LANES, Op};
use crate::rig::{Application, GRANULE, Stream};
use crate::shadow::{Given, Held, Seen, device_of, merge, right};
use std::collections::{BTreeMap, BTreeSet};
use stitchpool::driver::{Address, DeviceId, ErrorKind, Fault, Grant, Kernels, Rights};
use stitchpool::{ArenaId, Error, Lease, Request, Scope};

const GRANULES: u64 = 40;

pub struct World {
    pub bench: Bench,
    pub lanes: Vec<Stream>,
    arena: ArenaId,
    /// By a number that is never given twice.
    pub blocks: BTreeMap<u64, Held>,
    pub leases: Vec<(Lease, u64)>,
    pub views: Vec<Seen>,
    asked: [Given; 2],
    /// Whether a heap of the named arena was asked for.
    housed: bool,
    pub next: u64,
    now_us: u64,
    /// Calls that were made to fail before this step.
    failed_before: u64,
}

impl World {
    pub fn new() -> Self {
        let bench = Bench::new(GRANULES);
        let lanes = (0..LANES).map(|lane| bench.stream(device_of(lane).0)).collect();
        let arena = bench.pool.arena("named").unwrap();
        let (blocks, asked) = Default::default();
        Self {
            bench,
            lanes,
            arena,
            blocks,
            leases: Vec::new(),
            views: Vec::new(),
            asked,
            housed: false,
            next: 1,
            now_us: 0,
            failed_before: 0,
        }
    }

    pub fn pick(&self, pick: usize, live: bool) -> Option<u64> {
        let found: Vec<u64> = self.blocks.iter().filter(|(_, held)| held.live || !live).map(|(&id, _)| id).collect();
        (!found.is_empty()).then(|| found[pick % found.len()])
    }

    pub fn refused(&self) -> bool {
        self.bench.faulty.failed() > self.failed_before
    }

    pub fn step(&mut self, op: &Op) {
        self.failed_before = self.bench.faulty.failed();
        match op {
            Op::Alloc { lane, granules, exclusive, arena } => self.alloc(*lane, *granules, *exclusive, *arena),
            Op::Free(block) => self.free(*block),
            Op::Lease(block) => self.lease(*block),
            Op::EndLease { lease, lane } => self.end_lease(*lease, *lane),
            Op::View { parts, grants } => self.view(parts, grants),
            Op::UseView { view, lane, writes } => self.use_view(*view, *lane, *writes),
            Op::EndView(view) => self.end_view(*view),
            Op::Use { block, lane, writes } => self.use_block(*block, *lane, *writes),
            Op::SetRights { of, grants } => self.set_rights(of, grants),
            Op::Advance { lane, items } => drop(self.bench.host.advance(self.lanes[*lane].raw, *items).unwrap()),
            Op::Trim => drop(self.bench.pool.trim()),
            Op::TrimAndWait => drop(self.bench.pool.trim_and_wait()),
            Op::Elapse(us) => {
                self.now_us += us;
                self.bench.host.set_now_us(self.now_us);
            }
            Op::Fault { verb, nth } => {
                // One at a time: where the way back fails too, more may change.
                self.bench.faulty.clear();
                self.bench.faulty.arm(Fault { verb: *verb, nth: *nth, lasting: false, kind: ErrorKind::Unknown });
            }
        }
        if !matches!(op, Op::Fault { .. }) {
            self.bench.faulty.clear();
        }
    }

    fn alloc(&mut self, lane: usize, granules: u64, exclusive: bool, arena: bool) {
        let asked = self.asked[usize::from(arena)].clone();
        let mut request = Request::new(granules * GRANULE, self.lanes[lane].id);
        request.exclusive = exclusive;
        request.arena = if arena { self.arena } else { ArenaId::DEFAULT };
        match self.bench.pool.alloc(&request) {
            Ok(block) => {
                let mut rights = Given::from([(device_of(lane), Rights::ReadWrite)]);
                rights.extend(asked);
                let may_write = right(&rights, device_of(lane)) == Rights::ReadWrite;
                let count = (block.bytes / GRANULE) as usize;
                let held = Held {
                    block,
                    lane,
                    exclusive,
                    arena,
                    live: true,
                    seeds: vec![None; count],
                    rights: vec![rights; count],
                    users: BTreeSet::from([lane]),
                };
                self.housed |= arena;
                self.next += 1;
                self.blocks.insert(self.next, held);
                if may_write {
                    self.touch_all(self.next, lane, true);
                }
            }
            Err(Error::Unreachable { .. }) => assert!(arena && right(&asked, LONER) > Rights::None),
            Err(Error::OutOfMemory(_)) => self.housed |= arena,
            Err(error) => {
                assert!(self.refused(), "{error}");
                self.housed |= arena;
            }
        }
    }

    /// Uses all granules of a block where it stands.
    pub fn touch_all(&mut self, id: u64, lane: usize, writes: bool) {
        let (start, count) = (self.blocks[&id].block.address, self.blocks[&id].seeds.len());
        (0..count).for_each(|index| self.touch(id, index, start + index as u64 * GRANULE, lane, writes));
    }

    /// Uses a granule of a block at an address, after all earlier users of the block.
    pub fn touch(&mut self, id: u64, granule: usize, at: Address, lane: usize, writes: bool) {
        let (host, raw) = (self.bench.host.clone(), self.lanes[lane].raw);
        let seed = self.next * 1000 + granule as u64;
        let held = self.blocks.get_mut(&id).unwrap();
        held.users.iter().for_each(|&user| host.order(raw, self.lanes[user].raw));
        held.users.insert(lane);
        match held.seeds[granule] {
            _ if writes => {
                held.seeds[granule] = Some(seed);
                Application::fill(&*host, raw, at, GRANULE, seed);
            }
            Some(seed) => Application::verify(&*host, raw, at, GRANULE, seed),
            None => host.touch(raw, at, GRANULE, Rights::Read).unwrap(),
        }
    }

    fn use_block(&mut self, pick: usize, lane: usize, writes: bool) {
        let Some(id) = self.pick(pick, true) else { return };
        let held = self.blocks[&id].clone();
        let recorded = self.bench.pool.record_use(held.block.address, self.lanes[lane].id);
        let device = device_of(lane);
        let needs = if writes { Rights::ReadWrite } else { Rights::Read };
        if held.rights.iter().any(|given| right(given, device) < needs) {
            return;
        }
        recorded.unwrap();
        self.next += 1;
        self.touch_all(id, lane, writes);
    }

    fn free(&mut self, pick: usize) {
        let Some(id) = self.pick(pick, true) else { return };
        let held = self.blocks.get_mut(&id).unwrap();
        self.bench.pool.free(held.block.address).unwrap();
        held.live = false;
        let again = self.bench.pool.free(held.block.address);
        assert!(matches!(again, Err(Error::UnknownAddress { .. })), "{again:?}");
        self.settle(id);
    }

    fn set_rights(&mut self, scope: &Aim, grants: &[Grant]) {
        let (of, granules) = match *scope {
            Aim::Arena(named) => {
                let ids = self.blocks.iter().filter(|(_, held)| held.arena == named);
                let all = ids.flat_map(|(&id, held)| (0..held.seeds.len()).map(move |granule| (id, granule)));
                (Scope::Arena(if named { self.arena } else { ArenaId::DEFAULT }), all.collect::<Vec<_>>())
            }
            Aim::Block(pick) => {
                let Some(id) = self.pick(pick, true) else { return };
                let held = &self.blocks[&id];
                (Scope::Block(held.block.address), (0..held.seeds.len()).map(|granule| (id, granule)).collect())
            }
            Aim::Part(pick, from, length) => {
                let Some(id) = self.pick(pick, true) else { return };
                let held = &self.blocks[&id];
                let from = from % held.seeds.len() as u64;
                let length = length.min(held.seeds.len() as u64 - from);
                let range = Scope::Range { address: held.block.address + from * GRANULE, bytes: length * GRANULE };
                (range, (from..from + length).map(|granule| (id, granule as usize)).collect())
            }
        };
        let mut wanted = Given::new();
        merge(&mut wanted, grants);
        let lowers = |(id, granule): &(u64, usize)| {
            let given = &self.blocks[id].rights[*granule];
            self.is_held(*id) && wanted.iter().any(|(&device, &rights)| rights < right(given, device))
        };
        let held = granules.iter().any(lowers);
        match self.bench.pool.set_rights(of, grants) {
            Ok(()) => {
                assert!(!held, "a right on what is held was lowered");
                let unborn = matches!(*scope, Aim::Arena(true)) && !self.housed;
                assert!(unborn || right(&wanted, LONER) == Rights::None, "{LONER} reaches nobody");
                if let Aim::Arena(named) = *scope {
                    merge(&mut self.asked[usize::from(named)], grants);
                }
                for (id, granule) in granules {
                    merge(&mut self.blocks.get_mut(&id).unwrap().rights[granule], grants);
                }
            }
            Err(Error::Held { .. }) => assert!(held),
            Err(Error::Unreachable { reader, .. }) => {
                assert_eq!((reader, right(&wanted, LONER) > Rights::None), (LONER, true))
            }
            Err(Error::Shared { .. }) => assert!(!self.blocks[&granules[0].0].exclusive),
            Err(error) => assert!(self.refused(), "{error}"),
        }
    }

    /// The pool is sound, and no work has met a fault.
    pub fn inspect(&self) {
        self.bench.assert_unhurt();
        let stats = self.bench.pool.stats();
        let bytes =
            |live: bool| -> u64 { self.blocks.values().filter(|it| it.live == live).map(|it| it.block.bytes).sum() };
        let sum = |of: fn(&stitchpool::Holdings) -> u64| stats.devices.iter().map(|it| of(&it.holdings)).sum::<u64>();
        assert_eq!(sum(|holdings| holdings.live_bytes), bytes(true));
        assert_eq!(sum(|holdings| holdings.kept_bytes), bytes(false));
    }

    /// With nothing queued, every device may do what it should at every place, and nothing more.
    pub fn probe(&self) {
        self.bench.host.run_all();
        let expected = |given: &Given| std::array::from_fn(|device| right(given, DeviceId(device as u16)));
        for held in self.blocks.values() {
            let rights: Vec<[Rights; DEVICES as usize]> = held.rights.iter().map(expected).collect();
            assert_eq!(self.bench.rights(held.block.address, held.block.bytes), rights, "{held:?}");
        }
        for seen in &self.views {
            let rights = vec![expected(&seen.grants); seen.behind.len()];
            assert_eq!(self.bench.rights(seen.view.address(), seen.view.bytes()), rights);
        }
        self.inspect();
    }

    /// All ends, and nothing is left.
    pub fn finish(mut self) {
        self.bench.faulty.clear();
        self.probe();
        self.leases.clear();
        self.views.clear();
        for held in self.blocks.values().filter(|held| held.live) {
            let lane = &self.lanes[held.lane];
            let written = held.seeds.iter().enumerate().filter_map(|(index, seed)| Some((index, (*seed)?)));
            for (index, seed) in written {
                if right(&held.rights[index], device_of(held.lane)) > Rights::None {
                    held.users.iter().for_each(|&user| self.bench.host.order(lane.raw, self.lanes[user].raw));
                    let at = held.block.address + index as u64 * GRANULE;
                    Application::verify(&*self.bench.host, lane.raw, at, GRANULE, seed);
                }
            }
            self.bench.pool.free(held.block.address).unwrap();
        }
        let trimmed = self.bench.pool.trim_and_wait().unwrap();
        assert_eq!((trimmed.waiting_bytes, trimmed.refusal), (0, None));
        self.bench.assert_unhurt();
        let quarantined = self.bench.pool.stats().quarantined;
        let Bench { host, faulty, pool } = self.bench;
        drop((pool, faulty));
        let ledger = host.ledger();
        assert!(quarantined > 0 || ledger.is_empty(), "{ledger:?}");
        assert_eq!(host.tally().unwrap().faults, Vec::<String>::new());
    }
}
