//! What holds memory in place in a life: leases, views and pins; and work that may not be.

use crate::case::Kind;
use crate::rig::Application;
use crate::shadow::{Cell, Given, Leased, Pinned, Place, Seen, right};
use crate::world::World;
use stitchpool::driver::{DeviceId, Grant, Rights};
use stitchpool::{Error, Part};

const ALL: &[Kind] = &[Kind::Plain, Kind::Exclusive, Kind::Buffer];

impl World<'_> {
    /// Whether leases or views hold the pool's block that a cell lies in.
    pub fn is_held(&self, (id, offset): Place) -> bool {
        let Some(held) = self.blocks.get(&id) else { return false };
        self.leases.iter().any(|leased| leased.of == (id, held.block_of(offset))) || self.is_seen((id, offset))
    }

    /// Whether views do.
    pub fn is_seen(&self, (id, offset): Place) -> bool {
        let Some(held) = self.blocks.get(&id) else { return false };
        let seen = |place: &Place| place.0 == id && held.block_of(place.1) == held.block_of(offset);
        self.views.iter().any(|it| it.behind.iter().any(seen))
    }

    /// Forgets a block that was freed and that nobody holds.
    pub fn settle(&mut self, id: u64) {
        let gone = self.blocks.get(&id).is_some_and(|held| !held.live) && !self.is_held((id, 0));
        if gone {
            self.blocks.remove(&id);
        }
    }

    /// A pool's block: its first cell.
    fn first(&self, pick: usize) -> Option<Place> {
        let id = self.pick(pick, ALL)?;
        let held = &self.blocks[&id];
        let offsets: Vec<u64> = held.cells.keys().copied().filter(|&offset| held.block_of(offset) == offset).collect();
        (!offsets.is_empty()).then(|| (id, offsets[pick % offsets.len()]))
    }

    fn cells_of(&self, (id, of): Place) -> Vec<u64> {
        let held = &self.blocks[&id];
        held.cells.keys().copied().filter(|&offset| held.block_of(offset) == of).collect()
    }

    pub fn lease(&mut self, pick: usize) {
        let Some(of) = self.first(pick) else { return };
        let held = &self.blocks[&of.0];
        let awake = self.cells_of(of).iter().all(|offset| !held.cells[offset].asleep);
        match self.pool.lease(held.at(of.1)) {
            Ok(lease) => {
                assert!(awake);
                self.leases.push(Leased { lease, of });
            }
            Err(Error::Asleep { .. }) => assert!(!awake || self.asleep[held.arena]),
            Err(error) => panic!("{error}"),
        }
    }

    /// Brings a block back if it sleeps, and holds it: now and then one that was put out.
    pub fn touch_block(&mut self, pick: usize) -> bool {
        let mut out = self.blocks.iter().filter(|(_, held)| held.live && held.evicted);
        let out = out.next().filter(|_| pick.is_multiple_of(2)).map(|(&id, _)| (id, 0));
        let Some(of) = out.or_else(|| self.first(pick)) else { return false };
        let (at, arena) = (self.blocks[&of.0].at(of.1), self.blocks[&of.0].arena);
        match self.pool.touch(at) {
            Ok(lease) => {
                assert!(!self.asleep[arena], "the arena sleeps");
                let cells = self.cells_of(of);
                let held = self.blocks.get_mut(&of.0).unwrap();
                held.evicted = false;
                cells.iter().for_each(|offset| held.cells.get_mut(offset).unwrap().asleep = false);
                self.leases.push(Leased { lease, of });
                false
            }
            Err(_) if self.refused() => true,
            Err(Error::Asleep { .. }) => {
                assert!(self.asleep[arena]);
                false
            }
            Err(Error::Capturing { .. }) => {
                assert!(self.may_seem_capturing());
                false
            }
            Err(Error::OutOfMemory(_) | Error::Limit { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Launches on a lane, if one is named and may, and ends the lease.
    pub fn end_lease(&mut self, pick: usize, lane: Option<usize>) {
        if self.leases.is_empty() {
            return;
        }
        let Leased { lease, of } = self.leases.swap_remove(pick % self.leases.len());
        let (held, cells) = (&self.blocks[&of.0], self.cells_of(of));
        let may = |lane: &usize| {
            let device = self.lanes[*lane].device();
            cells.iter().all(|offset| right(&held.cells[offset].rights, device) > Rights::None)
        };
        // Of a part of a buffer that was given back nothing is known any more.
        let lane = lane.filter(|_| !cells.is_empty());
        let lane = lane.and_then(|pick| self.lane(pick)).filter(may).filter(|&lane| self.can_use(of.0, lane));
        if let Some(lane) = lane {
            for offset in cells {
                let at = self.blocks[&of.0].at(offset);
                self.touch((of.0, offset), at, lane, false);
            }
            lease.end_on(self.lanes[lane].stream.id).map_err(|refused| refused.0).unwrap();
        } else {
            drop(lease);
        }
        self.settle(of.0);
    }

    pub fn view(&mut self, wishes: &[(usize, u64, u64)], rights: [Rights; 2]) -> bool {
        let (mut parts, mut behind) = (Vec::new(), Vec::new());
        for &(pick, from, length) in wishes {
            let Some(id) = self.pick(pick, &[Kind::Exclusive, Kind::Buffer]) else { return false };
            let held = &self.blocks[&id];
            let offsets: Vec<u64> = held.cells.keys().copied().collect();
            if offsets.is_empty() {
                return false;
            }
            let from = from as usize % offsets.len();
            let most = if held.kind == Kind::Buffer { 1 } else { offsets.len() - from };
            let length = (length as usize).min(most);
            let bytes = length as u64 * self.case.granule_bytes;
            parts.push(Part { address: held.at(offsets[from]), bytes });
            behind.extend(offsets[from..from + length].iter().map(|&offset| (id, offset)));
        }
        let sleeps =
            behind.iter().any(|&(id, offset)| self.sleeps((id, offset)) || self.asleep[self.blocks[&id].arena]);
        let grants = [0, 1].map(|device| Grant { device: DeviceId(device), rights: rights[usize::from(device)] });
        match self.pool.view(&parts, &grants) {
            Ok(view) => {
                assert!(behind.iter().all(|&place| !self.sleeps(place)));
                assert_eq!(view.bytes(), behind.len() as u64 * self.case.granule_bytes);
                let grants: Given = grants.iter().map(|grant| (grant.device, grant.rights)).collect();
                self.views.push(Seen { view, grants, behind });
                false
            }
            Err(_) if self.refused() => true,
            Err(Error::Asleep { .. }) => {
                // Another part of an exclusive block may sleep.
                let of_blocks = behind.iter().any(|(id, _)| self.blocks[id].cells.values().any(|cell| cell.asleep));
                assert!(sleeps || of_blocks);
                false
            }
            Err(Error::NotWhole { .. }) => {
                assert!(self.case.handle_granules > 1);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn sleeps(&self, (id, offset): Place) -> bool {
        self.blocks[&id].cells[&offset].asleep
    }

    pub fn use_view(&mut self, pick: usize, lane: usize, writes: bool) {
        let Some(lane) = self.lane(lane).filter(|_| !self.views.is_empty()) else { return };
        let seen = &self.views[pick % self.views.len()];
        let may = right(&seen.grants, self.lanes[lane].device());
        assert_eq!(seen.view.record_use(self.lanes[lane].stream.id).is_ok(), may > Rights::None);
        let needs = if writes { Rights::ReadWrite } else { Rights::Read };
        if may < needs || seen.behind.iter().any(|&(id, _)| !self.can_use(id, lane)) {
            return;
        }
        let (at, behind) = (seen.view.address(), seen.behind.clone());
        for (index, place) in behind.into_iter().enumerate() {
            self.touch(place, at + index as u64 * self.case.granule_bytes, lane, writes);
        }
    }

    pub fn end_view(&mut self, pick: usize) {
        if self.views.is_empty() {
            return;
        }
        let Seen { view, behind, .. } = self.views.swap_remove(pick % self.views.len());
        drop(view);
        behind.into_iter().for_each(|(id, _)| self.settle(id));
    }

    pub fn pin(&mut self, pick: usize) {
        let Some(of) = self.first(pick) else { return };
        let held = &self.blocks[&of.0];
        let offsets = self.cells_of(of);
        let bytes = offsets.iter().map(|offset| held.cells[offset].bytes).sum();
        let pin = self.pool.pin(held.at(of.1), bytes).unwrap();
        self.pins.push(Pinned { pin, places: offsets.into_iter().map(|offset| (of.0, offset)).collect() });
    }

    pub fn unpin(&mut self, pick: usize) {
        if !self.pins.is_empty() {
            let Pinned { pin, .. } = self.pins.swap_remove(pick % self.pins.len());
            drop(pin);
        }
    }

    /// Whether a live, awake cell is pinned.
    pub fn is_pinned(&self, place: Place) -> bool {
        self.pins.iter().any(|pinned| pinned.places.contains(&place))
    }

    /// Work that may not be: it becomes a fault, and touches nothing.
    pub fn trespass(&mut self, pick: usize, lane: usize) {
        let (Some(id), Some(lane)) = (self.pick(pick, ALL), self.lane(lane)) else { return };
        let (held, stream) = (&self.blocks[&id], self.lanes[lane].stream);
        let device = self.lanes[lane].device();
        let barred = |cell: &Cell| cell.asleep || right(&cell.rights, device) < Rights::ReadWrite;
        let Some((&offset, cell)) = held.cells.iter().find(|(_, cell)| barred(cell)) else { return };
        let (at, bytes) = (held.at(offset), cell.bytes);
        self.host.run_all();
        self.host.touch(stream.raw, at, bytes, Rights::ReadWrite).unwrap();
        self.host.run_all();
        self.trespasses += 1;
        for user in 0..self.lanes.len() {
            if self.lanes[user].runs() && user != lane && !self.is_capturing() {
                self.host.order(self.lanes[user].stream.raw, stream.raw);
            }
        }
    }
}
