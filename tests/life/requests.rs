//! Requests of a life: where the pool serves them from, and how blocks come into the shadow.

use crate::case::{Kind, Op};
use crate::lane::Lane;
use crate::rig::Application;
use crate::shadow::{Cell, Given, Held, Place, right};
use crate::world::{GRAPH, World};
use std::collections::{BTreeMap, BTreeSet};
use stitchpool::driver::{Address, DeviceId, Rights};
use stitchpool::{Block, Error, Placement, Pool, Request};

impl World<'_> {
    pub fn alloc(&mut self, op: &Op) -> bool {
        let Op::Alloc { lane, recorded, size, exclusive, arena, place } = *op else { return false };
        let captured = self.lane_where(lane, |lane| lane.capture.is_some()).filter(|_| recorded);
        let Some(lane) = captured.or_else(|| self.lane_where(lane, |lane| lane.end.is_none())) else { return false };
        let device = self.lanes[lane].device();
        let request = Request {
            exclusive,
            placement: self.placement(place, device),
            ..Request::new(size.bytes(self.case.granule_bytes), self.lanes[lane].stream.id).in_arena(self.arenas[arena])
        };
        let placement = request.placement.clone().unwrap_or(Placement::Home(device));
        let (outcome, arena) = self.served(lane, arena, || self.pool.alloc(&request));
        match outcome {
            Ok(block) => {
                assert!(!self.asleep[arena], "the arena sleeps");
                let kind = if exclusive { Kind::Exclusive } else { Kind::Plain };
                let segments = self.pool.segments(block.address, block.bytes).unwrap();
                if exclusive {
                    Self::assert_placed(&placement, &segments, self.case.granule_bytes);
                }
                self.enter(Self::held(block, kind, (lane, arena), self.base(device, &placement), placement));
                false
            }
            Err(Error::Asleep { .. }) if self.asleep[arena] => false,
            Err(_) if self.refused() => true,
            Err(Error::OutOfMemory(shortage)) => {
                self.assert_short(&placement, request.bytes, &shortage);
                false
            }
            Err(error) => self.excuse(&error),
        }
    }

    pub fn held(block: Block, kind: Kind, (owner, arena): (usize, usize), base: Given, placement: Placement) -> Held {
        let (cells, sent, asked) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (users, growable) = (BTreeSet::from([owner]), None);
        let (live, captured, evicted) = (true, arena >= GRAPH, false);
        Held {
            block,
            kind,
            owner,
            arena,
            live,
            captured,
            cells,
            users,
            base,
            placement,
            sent,
            asked,
            growable,
            evicted,
        }
    }

    /// A new block comes into the shadow, and is written.
    fn enter(&mut self, held: Held) {
        let step_bytes = if held.kind == Kind::Plain { held.block.bytes } else { self.case.granule_bytes };
        self.next += 1;
        let (id, Block { address, bytes }, owner) = (self.next, held.block, held.owner);
        self.blocks.insert(id, held);
        (0..bytes).step_by(step_bytes as usize).for_each(|offset| self.add_cell((id, offset), step_bytes));
        if self.is_recording(id) {
            self.host.fill(self.lanes[owner].stream.raw, address, bytes, id);
        }
    }

    pub fn add_cell(&mut self, (id, offset): Place, bytes: u64) {
        let held = self.blocks.get_mut(&id).unwrap();
        let mut rights = held.base.clone();
        rights.extend(self.asked[held.arena].clone());
        rights.extend(held.asked.get(&offset).cloned().unwrap_or_default());
        let (at, owner) = (held.at(offset), held.owner);
        let may_write = right(&rights, self.lanes[owner].device()) == Rights::ReadWrite;
        let device = (held.kind != Kind::Plain).then(|| lies(&self.pool, at, bytes));
        held.cells.insert(offset, Cell { bytes, seed: None, rights, asleep: false, device });
        if may_write && self.can_use(id, owner) {
            self.touch((id, offset), at, owner, true);
        }
    }

    /// Who may use what lies there, if nothing else is asked for.
    pub fn base(&self, home: DeviceId, placement: &Placement) -> Given {
        let devices = placement.devices().into_iter().filter(|device| !device.is_host()).chain([home]);
        let peers = self.lanes.iter().filter(|_| self.case.open).map(Lane::device);
        devices.chain(peers).map(|device| (device, Rights::ReadWrite)).collect()
    }
}

/// The one device that a piece of memory lies on.
pub fn lies(pool: &Pool, at: Address, bytes: u64) -> DeviceId {
    let segments = pool.segments(at, bytes).unwrap();
    let devices: BTreeSet<DeviceId> = segments.iter().map(|segment| segment.device).collect();
    assert!(devices.len() == 1 && segments.iter().map(|it| it.bytes).sum::<u64>() == bytes, "{segments:?}");
    segments[0].device
}
