//! What holds blocks in place: leases and views, and work through them.

use crate::bench::LONER;
use crate::rig::GRANULE;
use crate::shadow::{Given, Seen, device_of, merge, right};
use crate::world::World;
use stitchpool::driver::{Grant, Rights};
use stitchpool::{Error, Part};

impl World {
    /// Forgets a block that was freed and that nobody holds.
    pub fn settle(&mut self, id: u64) {
        if !self.is_held(id) && self.blocks.get(&id).is_some_and(|held| !held.live) {
            self.blocks.remove(&id);
        }
    }

    pub fn is_held(&self, id: u64) -> bool {
        let viewed = |seen: &Seen| seen.behind.iter().any(|&(behind, _)| behind == id);
        self.leases.iter().any(|(_, leased)| *leased == id) || self.views.iter().any(viewed)
    }

    pub fn lease(&mut self, pick: usize) {
        let Some(id) = self.pick(pick, false) else { return };
        let held = &self.blocks[&id];
        match self.bench.pool.lease(held.block.address) {
            Ok(lease) => {
                assert!(held.live);
                self.leases.push((lease, id));
            }
            Err(error) => assert!(!held.live, "{error}"),
        }
    }

    /// Launches on a lane, if one is named and may, and ends the lease.
    pub fn end_lease(&mut self, pick: usize, lane: Option<usize>) {
        if self.leases.is_empty() {
            return;
        }
        let (lease, id) = self.leases.swap_remove(pick % self.leases.len());
        let held = self.blocks[&id].clone();
        let lane = lane.filter(|&lane| held.rights.iter().all(|it| right(it, device_of(lane)) > Rights::None));
        if let Some(lane) = lane {
            self.touch_all(id, lane, false);
            lease.end_on(self.lanes[lane].id).map_err(|refused| refused.0).unwrap();
        }
        self.settle(id);
    }

    pub fn view(&mut self, wishes: &[(usize, u64, u64)], grants: &[Grant]) {
        let (mut parts, mut behind) = (Vec::new(), Vec::new());
        for &(pick, from, length) in wishes {
            let Some(id) = self.pick(pick, true) else { return };
            let held = &self.blocks[&id];
            let count = held.seeds.len() as u64;
            let from = from % count;
            let length = length.min(count - from);
            parts.push(Part { address: held.block.address + from * GRANULE, bytes: length * GRANULE });
            behind.extend((from..from + length).map(|granule| (id, granule as usize)));
        }
        let mut given = Given::new();
        merge(&mut given, grants);
        match self.bench.pool.view(&parts, grants) {
            Ok(view) => {
                assert_eq!(right(&given, LONER), Rights::None);
                assert_eq!(view.bytes(), behind.len() as u64 * GRANULE);
                self.views.push(Seen { view, grants: given, behind });
            }
            Err(Error::Unreachable { reader, .. }) => assert!(reader == LONER && right(&given, LONER) > Rights::None),
            Err(error) => assert!(self.refused(), "{error}"),
        }
    }

    pub fn use_view(&mut self, pick: usize, lane: usize, writes: bool) {
        if self.views.is_empty() {
            return;
        }
        let index = pick % self.views.len();
        let seen = &self.views[index];
        let may = right(&seen.grants, device_of(lane));
        let recorded = seen.view.record_use(self.lanes[lane].id);
        assert_eq!(recorded.is_ok(), may > Rights::None);
        if may < if writes { Rights::ReadWrite } else { Rights::Read } {
            return;
        }
        let (at, behind) = (seen.view.address(), seen.behind.clone());
        self.next += 1;
        for (place, &(id, granule)) in behind.iter().enumerate() {
            self.touch(id, granule, at + place as u64 * GRANULE, lane, writes);
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
}
