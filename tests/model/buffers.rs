//! Growable buffers in the model: each handle behind one is a block of the shadow, and is the buffer's as
//! long as it lives.

use crate::case::Wish;
use crate::shadow::Held;
use crate::world::World;
use std::collections::BTreeSet;
use std::ops::Range;
use stitchpool::driver::DeviceId;
use stitchpool::{Block, Error, Growable, Placement, Request};

/// There are at most so many.
const BUFFERS_MAX: usize = 6;

/// A buffer and what was asked for.
pub struct Shelf {
    growable: Growable,
    owner: usize,
    request: Request,
}

impl Shelf {
    fn span(&self) -> Range<u64> {
        let start = self.growable.address().0;
        start..start + self.growable.max_bytes()
    }

    fn holds(&self, block: &Block) -> bool {
        self.span().contains(&block.address.0)
    }

    /// Which device each of its granules must lie on, where the placement says.
    fn device_at(&self, offset_bytes: u64, granule_bytes: u64) -> Option<DeviceId> {
        let placement = self.request.placement.as_ref()?;
        if matches!(placement, Placement::Spill(_)) {
            return None;
        }
        let mut border = 0;
        let pieces = placement.pieces(self.growable.max_bytes(), granule_bytes).unwrap();
        let piece = pieces.into_iter().find(|piece| {
            border += piece.bytes;
            offset_bytes < border
        });
        piece.map(|piece| piece.device)
    }
}

impl World<'_> {
    pub fn make_buffer(&mut self, wish: &Wish, step_granules: u64) {
        let Some(owner) = self.live_lane(wish.stream) else { return };
        if self.buffers.len() >= BUFFERS_MAX {
            return;
        }
        let granule_bytes = self.case.granule_bytes;
        let max_bytes = wish.bytes(self.case).next_multiple_of(granule_bytes);
        let request = Request { bytes: 0, exclusive: false, ..self.request(owner, wish) };
        let step_granules = if self.case.handle_granules == 1 { 1 } else { step_granules };
        match self.pool().growable_in_steps(&request, max_bytes, step_granules * granule_bytes) {
            Ok(growable) => {
                assert_eq!((growable.max_bytes(), growable.backed_bytes()), (max_bytes, 0));
                self.buffers.push(Shelf { growable, owner, request });
            }
            Err(error) => self.excuse(&error),
        }
    }

    fn buffer(&self, pick: usize) -> Option<usize> {
        (!self.buffers.is_empty()).then(|| pick % self.buffers.len())
    }

    pub fn back(&mut self, pick: usize, from: u64, granules: u64) {
        let Some(index) = self.buffer(pick) else { return };
        let Shelf { growable, owner, request } = &self.buffers[index];
        let granule_bytes = self.case.granule_bytes;
        let part = from * granule_bytes..(from + granules) * granule_bytes;
        let before = growable.backed();
        let Err(error) = growable.back(part.start, part.end - part.start) else {
            let backed = growable.backed();
            assert!(part.is_empty() || backed.iter().any(|run| run.start <= part.start && part.end <= run.end));
            self.enter_parts(index);
            return;
        };
        assert_eq!(before, growable.backed(), "{error}");
        match error {
            Error::BeyondMax { max_bytes, .. } => assert!(part.end > max_bytes, "{error}"),
            Error::UnknownStream { .. } => assert!(!self.lanes[*owner].lives(), "{error}"),
            Error::OutOfMemory(_) => {
                let overlap = |run: &Range<u64>| run.end.min(part.end).saturating_sub(run.start.max(part.start));
                let backed_bytes: u64 = before.iter().map(overlap).sum();
                let bytes = part.end - part.start - backed_bytes;
                self.prove_shortage(*owner, &Request { bytes, ..request.clone() });
            }
            // What was taken from its place may be in use there for ever.
            error => assert!(
                self.was_refused() || self.lanes.iter().any(|lane| lane.stalled) || self.pool().stats().quarantined > 0,
                "{error}"
            ),
        }
    }

    /// Handles that are new behind a buffer become blocks of the shadow, filled on its stream.
    fn enter_parts(&mut self, index: usize) {
        let Shelf { growable, owner, request } = &self.buffers[index];
        let owner = *owner;
        let home = self.lanes[owner].device();
        let places = request.placement.as_ref().map_or(vec![home], Placement::devices);
        let devices: BTreeSet<DeviceId> = places.iter().copied().chain([home]).chain(request.readers.clone()).collect();
        let runs = growable.backed();
        let segments: Vec<_> =
            runs.into_iter().flat_map(|run| growable.segments(run.start, run.end - run.start).unwrap()).collect();
        for segment in segments {
            let shelf = &self.buffers[index];
            let (start, step_bytes) = (segment.at.0 - shelf.span().start, shelf.growable.step_bytes());
            assert_eq!(start / step_bytes, (start + segment.bytes - 1) / step_bytes, "{segment:?} crosses a step");
            let device = shelf.device_at(start, self.case.granule_bytes);
            assert!(device.is_none_or(|device| device == segment.device), "{segment:?} lies not on {device:?}");
            assert!(places.contains(&segment.device));
            if self.blocks.iter().any(|held| held.block.address == segment.at) {
                continue;
            }
            self.allocs += 1;
            let seed = self.seed();
            let block = Block { address: segment.at, bytes: segment.bytes };
            let (users, devices) = (BTreeSet::new(), devices.clone());
            let mut held = Held { block, owner, seed, writer: owner, users, devices, own: true };
            held.queue_use(&self.rig.host, &self.lanes, owner, Some(seed));
            self.blocks.push(held);
        }
    }

    pub fn give_back(&mut self, pick: usize, from: u64, granules: u64) {
        let Some(index) = self.buffer(pick) else { return };
        let shelf = &self.buffers[index];
        let granule_bytes = self.case.granule_bytes;
        let (offset_bytes, bytes) = (from * granule_bytes, granules * granule_bytes);
        let span = shelf.span().start + offset_bytes..shelf.span().start + offset_bytes + bytes;
        let touches = |block: &Block| block.address.0 < span.end && span.start < block.address.0 + block.bytes;
        let inside = |block: &Block| span.start <= block.address.0 && block.address.0 + block.bytes <= span.end;
        let of_shelf = |held: &&Held| shelf.holds(&held.block) && touches(&held.block);
        if span.end > shelf.span().end {
            let refused = shelf.growable.give_back(offset_bytes, bytes);
            assert!(matches!(refused, Err(Error::BeyondMax { .. })), "{refused:?}");
        } else if self.blocks.iter().filter(of_shelf).any(|held| !inside(&held.block)) {
            let refused = shelf.growable.give_back(offset_bytes, bytes);
            assert!(matches!(refused, Err(Error::PartOfHandle { .. })), "{refused:?}");
        } else {
            let parts_bytes = self.leave(|block| span.contains(&block.address.0));
            assert_eq!(self.buffers[index].growable.give_back(offset_bytes, bytes), Ok(parts_bytes));
        }
    }

    pub fn drop_buffer(&mut self, pick: usize) {
        let Some(index) = self.buffer(pick) else { return };
        let shelf = self.buffers.swap_remove(index);
        self.leave(|block| shelf.holds(block));
    }

    /// Parts go out of the shadow, after a last look at their bytes on their stream; gives their bytes.
    fn leave(&mut self, goes: impl Fn(&Block) -> bool) -> u64 {
        let mut bytes = 0;
        for held in self.blocks.iter_mut().filter(|held| goes(&held.block)) {
            if self.lanes[held.owner].lives() {
                held.queue_use(&self.rig.host, &self.lanes, held.owner, None);
            }
            bytes += held.block.bytes;
            self.frees += 1;
        }
        self.blocks.retain(|held| !goes(&held.block));
        bytes
    }

    /// Each buffer is backed where the shadow has its parts, and nowhere else.
    pub fn inspect_buffers(&self) {
        for shelf in &self.buffers {
            let mut parts: Vec<&Block> =
                self.blocks.iter().map(|held| &held.block).filter(|block| shelf.holds(block)).collect();
            parts.sort_unstable_by_key(|block| block.address);
            let mut runs: Vec<Range<u64>> = Vec::new();
            for block in parts {
                let start = block.address.0 - shelf.span().start;
                match runs.last_mut() {
                    Some(run) if run.end == start => run.end += block.bytes,
                    _ => runs.push(start..start + block.bytes),
                }
            }
            assert_eq!(shelf.growable.backed(), runs);
        }
    }
}
