//! Growable buffers of a life: memory comes and goes granule by granule.

use crate::case::{Kind, Where};
use crate::shadow::{Cell, Held, Place};
use crate::world::{GRAPH, World};
use stitchpool::driver::DeviceId;
use stitchpool::{Block, Error, Placement, Request};

const BUFFERS_MAX: usize = 4;
pub const BUFFER_GRANULES: u64 = 16;

impl World<'_> {
    pub fn make_buffer(&mut self, lane: usize, arena: usize, place: Where) -> bool {
        let count = self.blocks.values().filter(|held| held.kind == Kind::Buffer).count();
        let lane = self.lane_where(lane, |lane| lane.end.is_none());
        let Some(lane) = lane.filter(|_| count < BUFFERS_MAX) else { return false };
        let device = self.lanes[lane].device();
        let request = Request {
            placement: self.placement(place, device),
            ..Request::new(0, self.lanes[lane].stream.id).in_arena(self.arenas[arena])
        };
        let granule_bytes = self.case.granule_bytes;
        let make = || self.pool.growable_in_steps(&request, BUFFER_GRANULES * granule_bytes, granule_bytes);
        let (made, arena) = self.served(lane, arena, make);
        match made {
            Ok(growable) => {
                let block = Block { address: growable.address(), bytes: growable.max_bytes() };
                let placement = request.placement.unwrap_or(Placement::Home(device));
                let base = self.base(device, &placement);
                let held = Self::held(block, Kind::Buffer, (lane, arena), base, placement);
                self.next += 1;
                self.blocks.insert(self.next, Held { growable: Some(growable), ..held });
                false
            }
            Err(Error::Asleep { .. }) if self.asleep[arena] => false,
            Err(error) => self.excuse(&error),
        }
    }

    pub fn back(&mut self, pick: usize, from: u64, granules: u64) -> bool {
        let Some(id) = self.pick(pick, &[Kind::Buffer]) else { return false };
        let granule_bytes = self.case.granule_bytes;
        let held = &self.blocks[&id];
        let Some(growable) = held.growable.as_ref().filter(|_| self.lanes[held.owner].end.is_none()) else {
            return false;
        };
        let wanted = (from..from + granules).map(|granule| granule * granule_bytes);
        let lacking: Vec<u64> = wanted.filter(|offset| !held.cells.contains_key(offset)).collect();
        let is_kept = lacking.iter().any(|&offset| self.is_held((id, offset)));
        match growable.back(from * granule_bytes, granules * granule_bytes) {
            Ok(()) => {
                assert!(lacking.is_empty() || !self.asleep[held.arena], "the arena sleeps");
                assert!(!is_kept, "a lease keeps what was given back");
                for offset in lacking {
                    self.add_cell((id, offset), granule_bytes);
                    self.assert_home((id, offset));
                }
                false
            }
            Err(Error::BeyondMax { .. }) => from + granules <= BUFFER_GRANULES,
            Err(_) if self.refused() => true,
            Err(Error::Asleep { .. }) => {
                assert!(self.asleep[held.arena] || held.captured, "nothing of it sleeps");
                false
            }
            Err(Error::Held { .. }) => {
                assert!(is_kept, "nobody holds what was given back");
                false
            }
            Err(Error::Capturing { .. }) => {
                assert!(self.may_seem_capturing(), "no stream is being captured");
                false
            }
            Err(Error::OutOfMemory(_)) => {
                let homes: Vec<Vec<DeviceId>> =
                    lacking.iter().map(|&offset| held.homes(offset, granule_bytes)).collect();
                assert!(self.may_seem_capturing() || self.is_short_of(&homes), "{homes:?} are left");
                false
            }
            Err(error) => {
                assert!(self.pool.stats().quarantined > 0, "{error}");
                false
            }
        }
    }

    /// New memory of a buffer lies where it shall. What a graph or a pin keeps in place serves where it is.
    fn assert_home(&self, (id, offset): Place) {
        let held = &self.blocks[&id];
        let (device, homes) = (held.cells[&offset].device.unwrap(), held.homes(offset, self.case.granule_bytes));
        let stays = held.captured || self.is_pinned((id, offset));
        assert!(stays || homes.contains(&device), "it lies on {device}, and shall on {homes:?}");
    }

    pub fn give_back(&mut self, pick: usize, from: u64, granules: u64) {
        let Some(id) = self.pick(pick, &[Kind::Buffer]) else { return };
        let granule_bytes = self.case.granule_bytes;
        let part = from * granule_bytes..(from + granules).min(BUFFER_GRANULES) * granule_bytes;
        let given: Vec<u64> = self.blocks[&id].cells.range(part.clone()).map(|(&offset, _)| offset).collect();
        // What a lease holds may go, and stays in place until it ends.
        if part.is_empty() || given.iter().any(|&offset| self.is_seen((id, offset))) {
            return;
        }
        let held = self.blocks.get_mut(&id).unwrap();
        let bytes = held.growable.as_ref().unwrap().give_back(part.start, part.end - part.start).unwrap();
        assert_eq!(bytes, given.len() as u64 * granule_bytes);
        let gone: Vec<Cell> = given.iter().filter_map(|offset| held.cells.remove(offset)).collect();
        if held.captured && gone.iter().any(|cell| cell.asleep) {
            self.gaps[held.arena - GRAPH] = true;
        }
    }
}
