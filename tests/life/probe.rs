//! Looks at all of a life: the pool's invariants, who may do what where, every byte; and its end.

use crate::case::{End, Kind};
use crate::requests::lies;
use crate::rig::Application;
use crate::shadow::{Given, right};
use crate::world::{DEVICES, GRAPH, World};
use std::sync::atomic::Ordering;
use stitchpool::driver::{Address, DeviceId, Driver, Kernels, Rights};
use stitchpool::{Error, Holdings, Scope, Stats};

impl World<'_> {
    /// The pool is sound, and no work but trespassers' has met a fault.
    pub fn inspect(&self) {
        self.pool.check().unwrap();
        let tally = self.host.tally().unwrap();
        assert_eq!((tally.faults.len(), tally.wrong_bytes), (self.trespasses, 0), "{:#?}", tally.faults);
        let ledger = self.host.ledger();
        assert_eq!(ledger.refusals, self.refusals, "{:?}", ledger.last_refusal);
        let stats = self.pool.stats();
        let parts = |kind: Kind, cells: usize| if kind == Kind::Buffer { cells } else { 1 };
        let live = self.blocks.values().filter(|held| held.live);
        assert_eq!(stats.live_blocks, live.map(|held| parts(held.kind, held.cells.len()) as u64).sum::<u64>());
        self.compare_figures(&stats);
    }

    /// Each byte is told once, and nothing that is not there. Where the driver has never refused, all of them are.
    fn compare_figures(&self, stats: &Stats) {
        let (is_calm, is_settled) = (self.faulty.failed() == 0, stats.stale_mappings == 0);
        for held in stats.devices.iter().map(|device| device.holdings) {
            let in_use_bytes = self.host.ledger().physical_bytes_on(held.device);
            let free_bytes = held.free_bytes + held.stranded_bytes + held.pinned_bytes;
            let told_bytes = held.live_bytes + held.pending_bytes + held.kept_bytes + free_bytes + held.backup_bytes;
            assert!(told_bytes <= held.physical_bytes && held.physical_bytes <= in_use_bytes, "{held}");
            assert!(held.leased_bytes <= held.live_bytes && held.remote_bytes <= held.live_bytes, "{held}");
            assert!(!is_calm || held.physical_bytes == in_use_bytes, "{in_use_bytes} are in use: {held}");
            assert!(!is_calm || !is_settled || told_bytes == held.physical_bytes, "{held}");
        }
        let cells = |asleep: bool| {
            let cells = self.blocks.values().filter(|held| held.live).flat_map(|held| held.cells.values());
            cells.filter(move |cell| cell.asleep == asleep).map(|cell| cell.bytes).sum::<u64>()
        };
        let all = |bytes: fn(&Holdings) -> u64| stats.devices.iter().map(|device| bytes(&device.holdings)).sum::<u64>();
        assert!(!is_calm || all(|held| held.live_bytes) == cells(false), "{stats:?}");
        assert!(!is_calm || all(|held| held.suspended_bytes) >= cells(true), "{stats:?}");
    }

    /// All that is awake lies where the application knows it to.
    fn demand_places(&self) {
        for held in self.blocks.values().filter(|held| held.live) {
            for (&offset, cell) in held.cells.iter().filter(|(_, cell)| !cell.asleep) {
                let device = cell.device.map(|_| lies(&self.pool, held.at(offset), cell.bytes));
                assert_eq!(device, cell.device, "at {offset} of {:?}", held.block);
            }
        }
    }

    /// What a device may do at an address, found by trying; no queued work may name it.
    fn may(&self, device: DeviceId, at: Address) -> Rights {
        let mut byte = [0];
        // SAFETY: the host driver refuses what is not mapped, not open, or named by queued work.
        unsafe {
            match self.host.read(device, at, &mut byte) {
                Err(_) => Rights::None,
                Ok(()) if self.host.write(device, at, &byte).is_err() => Rights::Read,
                Ok(()) => Rights::ReadWrite,
            }
        }
    }

    /// With nothing queued, every device may do what it should at every place and nothing more, and every
    /// byte that can be read is what was written last.
    pub fn probe(&mut self) {
        if self.is_capturing() {
            return;
        }
        self.host.run_all();
        self.demand_places();
        let demand = |at: Address, given: &Given, awake: bool| {
            for device in (0..DEVICES).map(DeviceId) {
                let expected = if awake { right(given, device) } else { Rights::None };
                assert_eq!(self.may(device, at), expected, "of {device} at {at}");
            }
        };
        for held in self.blocks.values() {
            held.cells.iter().for_each(|(&offset, cell)| demand(held.at(offset), &cell.rights, !cell.asleep));
        }
        for seen in &self.views {
            (0..seen.behind.len() as u64).for_each(|granule| {
                demand(seen.view.address() + granule * self.case.granule_bytes, &seen.grants, true)
            });
        }
        self.refusals = self.host.ledger().refusals;
        let ids: Vec<u64> = self.blocks.keys().copied().collect();
        for id in ids {
            for device in 0..DEVICES {
                if let Some(lane) = (0..self.lanes.len())
                    .find(|&lane| self.lanes[lane].runs() && self.lanes[lane].device() == DeviceId(device))
                {
                    self.look_told(id, lane);
                }
            }
        }
        self.host.run_all();
        self.inspect();
    }

    /// Tells of a use, then reads.
    fn look_told(&mut self, id: u64, lane: usize) {
        let (held, stream) = (&self.blocks[&id], self.lanes[lane].stream.id);
        if !held.live {
            return;
        }
        // A device that may use only a later part of a block cannot tell of it.
        let mut starts = held.cells.keys().filter(|&&offset| held.block_of(offset) == offset);
        if !starts.all(|&offset| self.pool.record_use(held.at(offset), stream).is_ok()) {
            return;
        }
        self.look(id, lane);
    }

    /// All ends, and nothing is left.
    pub fn finish(mut self) {
        self.faulty.clear();
        while self.is_capturing() {
            self.end(0, End::Graph);
        }
        for lane in 0..self.lanes.len() {
            self.tell_end(lane);
        }
        self.host.run_all();
        (GRAPH..self.arenas.len()).for_each(|arena| self.release(arena));
        self.leases.clear();
        self.views.clear();
        self.pins.clear();
        self.blocks.retain(|_, held| held.live);
        self.veto.store(false, Ordering::Relaxed);
        (0..self.places.len()).for_each(|place| self.set_outside(place, 0));
        (0..self.places.len()).for_each(|place| assert!(!self.set_limit(place, 0)));
        (0..GRAPH).for_each(|arena| self.set_evictable(arena, None));
        self.wake_all();
        self.probe();
        for (_, held) in std::mem::take(&mut self.blocks) {
            if held.kind != Kind::Buffer {
                self.pool.free(held.block.address).unwrap();
            }
        }
        let trimmed = self.pool.trim_and_wait().unwrap();
        assert_eq!((trimmed.waiting_bytes, trimmed.refusal), (0, None));
        self.inspect();
        let quarantined = self.pool.stats().quarantined;
        self.last.iter().flatten().for_each(|&last| self.host.forget_mark(last));
        self.lanes.iter().filter_map(|lane| lane.end).for_each(|end| self.host.forget_mark(end));
        let Self { host, faulty, pool, .. } = self;
        drop((pool, faulty));
        let ledger = host.ledger();
        assert!(quarantined > 0 || ledger.is_empty(), "{ledger:?}");
    }

    /// Resumes all, and what was put out; where that does not fit, something that sleeps is freed first.
    fn wake_all(&mut self) {
        loop {
            let out = self.blocks.values().filter(|held| held.evicted).map(|held| Scope::Block(held.block.address));
            let scopes: Vec<Scope> = out.chain([Scope::All]).collect();
            match scopes.into_iter().try_for_each(|scope| self.pool.resume(scope).map(drop)) {
                Ok(()) => break,
                Err(Error::OutOfMemory(_)) => {}
                Err(error) => panic!("{error}"),
            }
            let sleeper = self.blocks.iter().find(|(_, held)| held.cells.values().any(|cell| cell.asleep));
            let id = *sleeper.expect("what sleeps can be freed").0;
            let held = self.blocks.remove(&id).unwrap();
            if held.kind != Kind::Buffer {
                self.pool.free(held.block.address).unwrap();
            }
            // Other streams may have used it.
            self.pool.trim_and_wait().unwrap();
        }
        for held in self.blocks.values_mut() {
            held.cells.values_mut().for_each(|cell| cell.asleep = false);
        }
    }
}
