//! Stale slots: their handles went elsewhere, and their old mappings stand until nothing uses them any more.

use crate::clock::Fence;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::mutant::{Mutant, is_planted};
use stitchpool_driver::{Address, Error};

impl Mapper {
    /// Unmaps stale slots whose fences are past, oldest first and `limit` at most: how many. What the driver refuses stays
    /// stale, and all behind it.
    pub(crate) fn retire_stale(&mut self, limit: usize) -> Result<usize, Error> {
        let (mut done, mut index) = (0, 0);
        while let Some(&at) = self.stale.get(index).filter(|_| done < limit) {
            if !self.is_past(at) {
                index += 1;
                continue;
            }
            if let Some(handle) = self.unmap(at)? {
                self.settle(handle, true);
            }
            self.stale.remove(index);
            done += 1;
        }
        Ok(done)
    }

    /// Unmaps stale slots for a caller who came for something else, `limit` at most.
    pub(crate) fn retire_some(&mut self, limit: usize) {
        match self.retire_stale(limit) {
            Ok(retired) => tracing::trace!(retired, "took stale mappings down"),
            Err(error) => tracing::debug!(%error, "stale mappings stay until a tick takes them down"),
        }
    }

    /// Whether nothing uses a stale slot any more.
    fn is_past(&self, at: Address) -> bool {
        match self.slot_holding(at.0) {
            Some(Slot::Stale { fences, .. }) => fences.iter().all(Fence::is_passed) || is_planted(Mutant::UnmapEarly),
            _ => false,
        }
    }

    /// A slot's handle goes elsewhere, or its view is gone: what still stands there is stale until these points are
    /// past.
    pub(crate) fn make_stale(&mut self, at: Address, fences: Vec<Fence>) {
        if let Some(chain) = self.chain_holding_mut(at.0) {
            chain.make_stale(at, fences);
            self.stale.push_back(at);
        }
        self.forget_unfilled(at);
    }
}
