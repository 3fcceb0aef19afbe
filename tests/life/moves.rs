//! What is done to memory in a life while its addresses stay: suspend, resume, migrate, exchange, rights.

use crate::buffers::BUFFER_GRANULES;
use crate::case::{Aim, Kind, Store};
use crate::requests::lies;
use crate::shadow::{Place, right};
use crate::world::{GRAPH, World};
use std::sync::atomic::Ordering;
use stitchpool::driver::{DeviceId, ErrorKind, Grant, Rights};
use stitchpool::{Error, Scope};

const ANY: &[Kind] = &[Kind::Plain, Kind::Exclusive, Kind::Buffer];

/// What an operation is about: as the pool is told, and as the shadow knows it.
#[derive(Debug)]
pub struct Target {
    scope: Scope,
    places: Vec<Place>,
    /// What it names of buffers, backed or not.
    reach: Vec<Place>,
    /// Arenas that are named as a whole.
    arenas: Vec<usize>,
}

impl World<'_> {
    fn target(&self, of: Aim) -> Option<Target> {
        let all_of = |arenas: &[usize]| -> Vec<Place> {
            let held = self.blocks.iter().filter(|(_, held)| arenas.contains(&held.arena));
            held.flat_map(|(&id, held)| held.cells.keys().map(move |&offset| (id, offset))).collect()
        };
        let step_bytes = self.case.granule_bytes;
        let whole = |scope: Scope, arenas: Vec<usize>| {
            let awake = |arena: &usize| arenas.contains(arena) && !self.asleep[*arena];
            let buffers = self.blocks.iter().filter(|(_, it)| it.kind == Kind::Buffer && awake(&it.arena));
            let all = |&id: &u64| (0..BUFFER_GRANULES).map(move |granule| (id, granule * step_bytes));
            let reach = buffers.flat_map(|(id, _)| all(id)).collect();
            Some(Target { scope, places: all_of(&arenas), reach, arenas })
        };
        let some = |scope: Scope, places: Vec<Place>| {
            let reach = places.iter().copied().filter(|(id, _)| self.blocks[id].kind == Kind::Buffer).collect();
            Some(Target { scope, places, reach, arenas: Vec::new() })
        };
        match of {
            Aim::All => whole(Scope::All, (0..self.arenas.len()).collect()),
            Aim::Arena(pick) => {
                let arena = pick % self.arenas.len();
                whole(Scope::Arena(self.arenas[arena]), vec![arena])
            }
            Aim::Block(pick) => {
                let id = self.pick(pick, ANY)?;
                let held = &self.blocks[&id];
                let first = *held.cells.keys().next()?;
                let offsets =
                    held.cells.keys().copied().filter(|&offset| held.block_of(offset) == held.block_of(first));
                some(Scope::Block(held.at(first)), offsets.map(|offset| (id, offset)).collect())
            }
            Aim::Part(pick, from, length) => {
                let id = self.pick(pick, &[Kind::Exclusive, Kind::Buffer])?;
                let held = &self.blocks[&id];
                let from = *held.cells.keys().nth(from as usize % held.cells.len().max(1))?;
                let run = (0..length).map(|step| from + step * step_bytes);
                let run: Vec<u64> = run.take_while(|offset| held.cells.contains_key(offset)).collect();
                let scope = Scope::Range { address: held.at(from), bytes: run.len() as u64 * step_bytes };
                some(scope, run.into_iter().map(|offset| (id, offset)).collect())
            }
            Aim::Stretch(pick, from, length) => {
                let id = self.pick(pick, &[Kind::Buffer])?;
                let held = Some(&self.blocks[&id]).filter(|held| !self.is_over(held))?;
                let part = from * step_bytes..(from + length).min(BUFFER_GRANULES) * step_bytes;
                let scope = Scope::Range { address: held.at(part.start), bytes: part.end - part.start };
                let places = held.cells.range(part.clone()).map(|(&offset, _)| (id, offset)).collect();
                let reach = part.step_by(step_bytes as usize).map(|offset| (id, offset)).collect();
                Some(Target { scope, places, reach, arenas: Vec::new() })
            }
        }
    }

    fn with_sleep(&self, places: &[Place], asleep: bool) -> Vec<Place> {
        places.iter().copied().filter(|(id, offset)| self.blocks[id].cells[offset].asleep == asleep).collect()
    }

    /// An operation was done that takes memory from its place: nothing spoke against it.
    pub fn demand_free(&self, moved: &[Place]) {
        assert!(!self.is_capturing(), "a capture is open");
        assert!(moved.is_empty() || !self.veto.load(Ordering::Relaxed), "a listener has objected");
        for &place in moved {
            assert!(!self.is_held(place) && !self.is_pinned(place), "it is held, or pinned");
        }
    }

    /// Why it was refused must be so. True: a made fault has stopped it.
    fn permit(&self, error: &Error, target: &Target) -> bool {
        if self.refused() {
            return true;
        }
        let any = |test: &dyn Fn(&Place) -> bool| target.places.iter().chain(&target.reach).any(test);
        match error {
            Error::Held { .. } => assert!(any(&|&place| self.is_held(place))),
            Error::InUse { .. } => assert!(!self.pins.is_empty()),
            Error::Vetoed { .. } => assert!(self.veto.load(Ordering::Relaxed)),
            Error::Capturing { .. } => assert!(self.may_seem_capturing()),
            Error::Shared { .. } | Error::NotWhole { .. } | Error::Layout { .. } => {
                let is_shared = any(&|(id, _)| self.blocks[id].kind == Kind::Plain);
                assert!(self.case.handle_granules > 1 || is_shared, "{error}: {target:?}");
            }
            Error::Asleep { .. } => {
                // What is free in a graph's arena sleeps too.
                let asleep =
                    |id: &u64| self.blocks[id].captured || self.blocks[id].cells.values().any(|cell| cell.asleep);
                let arena = target.arenas.iter().any(|&arena| self.asleep[arena]);
                assert!(
                    arena || any(&|(id, _)| asleep(id) || self.asleep[self.blocks[id].arena]),
                    "{error}: {target:?}"
                );
            }
            Error::OutOfMemory(_) | Error::Limit { .. } | Error::Backup(_) => {}
            Error::Driver(error) => assert_eq!(error.kind, ErrorKind::OutOfMemory, "{error}"),
            Error::Chunks(error) => assert!(error.to_string().contains("out of memory"), "{error}"),
            error => panic!("{error}"),
        }
        false
    }

    pub fn suspend(&mut self, of: Aim, to: Store) -> bool {
        let Some(target) = self.target(of) else { return false };
        let backup = self.backup(to);
        let awake = self.with_sleep(&target.places, false);
        match self.pool.suspend(target.scope, &backup) {
            Ok(done) => {
                self.demand_free(&awake);
                assert!(awake.is_empty() || !done.already, "{awake:?} are awake");
                for (id, offset) in awake {
                    let cell = self.blocks.get_mut(&id).unwrap().cells.get_mut(&offset).unwrap();
                    cell.asleep = true;
                    cell.seed = cell.seed.filter(|_| !matches!(to, Store::Discard));
                }
                target.arenas.iter().for_each(|&arena| self.asleep[arena] = true);
                false
            }
            Err(error) => self.permit(&error, &target),
        }
    }

    pub fn resume(&mut self, of: Aim) -> bool {
        let Some(target) = self.target(of) else { return false };
        let asleep = self.with_sleep(&target.places, true);
        match self.pool.resume(target.scope) {
            Ok(done) => {
                // An arena that wakes leaves alone what was put out of it.
                let whole = !target.arenas.is_empty();
                let asleep: Vec<Place> =
                    asleep.into_iter().filter(|(id, _)| !whole || !self.blocks[id].evicted).collect();
                assert!(asleep.is_empty() || !done.already, "{asleep:?} are asleep");
                for (id, offset) in asleep {
                    let held = self.blocks.get_mut(&id).unwrap();
                    held.evicted = false;
                    held.cells.get_mut(&offset).unwrap().asleep = false;
                }
                for &arena in &target.arenas {
                    self.asleep[arena] = false;
                    if let Some(gap) = arena.checked_sub(GRAPH).map(|graph| &mut self.gaps[graph]) {
                        *gap = false;
                    }
                }
                false
            }
            Err(error) => {
                if matches!(error, Error::OutOfMemory(_)) && !self.refused() {
                    self.assert_short_of_sleepers();
                }
                self.permit(&error, &target)
            }
        }
    }

    pub fn migrate(&mut self, of: Aim, device: DeviceId) -> bool {
        let Some(target) = self.target(of) else { return false };
        let awake = self.with_sleep(&target.places, false);
        match self.pool.migrate(target.scope, device) {
            Ok(_) => {
                self.demand_free(&[]);
                for place in awake {
                    assert!(!self.is_held(place) && !self.is_pinned(place));
                    let (id, offset) = place;
                    let held = self.blocks.get_mut(&id).unwrap();
                    let (at, cell) = (held.at(offset), held.cells.get_mut(&offset).unwrap());
                    assert_eq!(lies(&self.pool, at, cell.bytes), device);
                    cell.device = cell.device.map(|_| device);
                }
                for (id, offset) in target.reach {
                    self.blocks.get_mut(&id).unwrap().sent.insert(offset, device);
                }
                false
            }
            Err(error) => self.permit(&error, &target),
        }
    }

    pub fn exchange(&mut self, one: usize, other: usize) -> bool {
        let pair = [one, other].map(|pick| self.pick(pick, &[Kind::Exclusive]));
        let [Some(one), Some(other)] = pair else { return false };
        if one == other || self.blocks[&one].cells.len() != self.blocks[&other].cells.len() {
            return false;
        }
        let scopes = [one, other].map(|id| Scope::Block(self.blocks[&id].block.address));
        let places = [one, other].map(|id| self.blocks[&id].cells.keys().map(|&offset| (id, offset)).collect());
        self.cross(scopes, places)
    }

    pub fn exchange_parts(&mut self, aims: [Aim; 2]) -> bool {
        let [Some(one), Some(other)] = aims.map(|aim| self.target(aim)) else { return false };
        let is_full = |target: &Target| target.reach.iter().all(|place| target.places.contains(place));
        let meet = one.places.iter().any(|place| other.places.contains(place));
        let fits = one.places.len() == other.places.len() && (!meet || one.places == other.places);
        if fits && is_full(&one) && is_full(&other) {
            return self.cross([one.scope, other.scope], [one.places, other.places]);
        }
        // Neither overlap nor different lengths can be, nor gaps.
        assert!(self.pool.exchange(one.scope, other.scope).is_err());
        self.refused()
    }

    /// Exchanges what stands at the one places with what stands at the others.
    fn cross(&mut self, scopes: [Scope; 2], [ones, others]: [Vec<Place>; 2]) -> bool {
        let target = Target {
            scope: scopes[0],
            places: [&ones[..], &others[..]].concat(),
            reach: Vec::new(),
            arenas: Vec::new(),
        };
        match self.pool.exchange(scopes[0], scopes[1]) {
            Ok(()) => {
                self.demand_free(&target.places);
                assert!(self.with_sleep(&target.places, true).is_empty(), "what sleeps has no memory to give");
                for ((one, from), (other, to)) in ones.into_iter().zip(others) {
                    let places = [(one, from), (other, to)];
                    let [here, there] = places.map(|(id, offset)| self.blocks[&id].cells[&offset].clone());
                    for ((id, offset), brought) in places.into_iter().zip([there, here]) {
                        let held = self.blocks.get_mut(&id).unwrap();
                        let cell = held.cells.get_mut(&offset).unwrap();
                        (cell.seed, cell.device) = (brought.seed.filter(|_| !held.captured), brought.device);
                    }
                }
                false
            }
            Err(error) => self.permit(&error, &target),
        }
    }

    pub fn set_rights(&mut self, of: Aim, device: u16, rights: Rights) -> bool {
        // A graph writes whenever it runs: its arena stays open.
        let of = match of {
            Aim::All => Aim::Arena(0),
            Aim::Arena(arena) => Aim::Arena(arena % GRAPH),
            Aim::Part(..) | Aim::Stretch(..) | Aim::Block(_) => of,
        };
        let Some(target) = self.target(of) else { return false };
        if target.arenas.is_empty() && target.places.iter().any(|(id, _)| self.blocks[id].captured) {
            return false;
        }
        let device = DeviceId(device);
        match self.pool.set_rights(target.scope, &[Grant { device, rights }]) {
            Ok(()) => {
                for &(id, offset) in &target.places {
                    let held = (self.is_held((id, offset)), self.blocks.get_mut(&id).unwrap());
                    let (is_held, held) = held;
                    let cell = held.cells.get_mut(&offset).unwrap();
                    assert!(!is_held || right(&cell.rights, device) <= rights, "a right on what is held was lowered");
                    cell.rights.insert(device, rights);
                }
                if target.arenas.is_empty() {
                    for &(id, offset) in target.places.iter().chain(&target.reach) {
                        self.blocks.get_mut(&id).unwrap().asked.entry(offset).or_default().insert(device, rights);
                    }
                }
                for &arena in &target.arenas {
                    self.asked[arena].insert(device, rights);
                    for held in self.blocks.values_mut().filter(|held| held.arena == arena) {
                        held.asked.values_mut().for_each(|given| given.retain(|&known, _| known != device));
                    }
                }
                false
            }
            Err(error) => self.permit(&error, &target),
        }
    }
}
