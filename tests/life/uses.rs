//! Uses and frees of a life's blocks, ordered as an application orders them.

use crate::case::Kind;
use crate::rig::Application;
use crate::shadow::{Cell, Place, right};
use crate::world::{GRAPH, World};
use stitchpool::Error;
use stitchpool::driver::{Address, Rights};

impl World<'_> {
    /// Whether work on a lane can come after all users of a block.
    pub fn can_use(&self, id: u64, lane: usize) -> bool {
        let held = &self.blocks[&id];
        !held.captured && self.lanes[lane].runs() && held.users.iter().all(|&user| self.lanes[user].capture.is_none())
    }

    /// What is queued on a lane from now on comes after all earlier uses of the block, and is one.
    pub fn order_behind(&mut self, id: u64, lane: usize) {
        let raw = self.lanes[lane].stream.raw;
        let held = self.blocks.get_mut(&id).unwrap();
        for &user in held.users.iter().filter(|&&user| user != lane) {
            match self.lanes[user].end {
                Some(end) => self.host.order_after(raw, end),
                None => self.host.order(raw, self.lanes[user].stream.raw),
            }
        }
        held.users.insert(lane);
    }

    /// Uses a cell at an address, after all earlier users of the block.
    pub fn touch(&mut self, (id, offset): Place, at: Address, lane: usize, writes: bool) {
        let (host, raw) = (self.host.clone(), self.lanes[lane].stream.raw);
        self.next += 1;
        self.order_behind(id, lane);
        let held = self.blocks.get_mut(&id).unwrap();
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

    pub fn use_block(&mut self, pick: usize, lane: usize, writes: bool) {
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

    pub fn free(&mut self, pick: usize, on: Option<usize>) {
        let Some(id) = self.pick(pick, &[Kind::Plain, Kind::Exclusive, Kind::Buffer]) else { return };
        let held = &self.blocks[&id];
        if held.captured && held.cells.values().any(|cell| cell.asleep) {
            self.gaps[held.arena - GRAPH] = true;
        }
        if held.kind == Kind::Buffer {
            let is_leased = self.leases.iter().any(|leased| leased.of.0 == id);
            if !is_leased && !held.cells.keys().any(|&offset| self.is_seen((id, offset))) {
                self.blocks.remove(&id);
            }
            return;
        }
        let (owner, address, raw) = (held.owner, held.block.address, self.lanes[held.owner].stream.raw);
        if self.is_recording(id) {
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
}
