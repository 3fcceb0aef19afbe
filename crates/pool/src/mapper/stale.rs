//! Stale slots: their handles went elsewhere, and their old mappings stand until nothing uses them any more.

use crate::clock::Fence;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::mutant::{Mutant, is_planted};
use std::collections::VecDeque;
use stitchpool_driver::{Address, Error};

impl Mapper {
    /// Unmaps stale slots whose fences are past, `limit` at most. What the driver refuses stays stale.
    pub(crate) fn retire_stale(&mut self, limit: usize) -> Result<usize, Error> {
        let mut done = 0;
        let mut kept = VecDeque::with_capacity(self.stale.len());
        let mut refusal = None;
        while let Some(at) = self.stale.pop_front() {
            if !self.is_past(at) || done >= limit || refusal.is_some() {
                kept.push_back(at);
                continue;
            }
            match self.take_down(at) {
                Ok(()) => done += 1,
                Err(error) => {
                    refusal = Some(error);
                    kept.push_back(at);
                }
            }
        }
        self.stale = kept;
        refusal.map_or(Ok(done), Err)
    }

    /// Unmaps the oldest stale slot whose fences are past. False: there is none.
    pub(crate) fn retire_next(&mut self) -> Result<bool, Error> {
        let Some(index) = self.stale.iter().position(|at| self.is_past(*at)) else { return Ok(false) };
        let Some(at) = self.stale.remove(index) else { return Ok(false) };
        let taken_down = self.take_down(at);
        if taken_down.is_err() {
            self.stale.insert(index.min(self.stale.len()), at);
        }
        taken_down.map(|()| true)
    }

    /// Unmaps stale slots for a caller who came for something else, `limit` at most.
    pub(crate) fn retire_some(&mut self, limit: usize) {
        let stale = self.stale.len();
        if let Err(error) = self.retire_stale(limit) {
            tracing::debug!(%error, "stale mappings stay");
        }
        tracing::trace!(retired = stale - self.stale.len().min(stale), "took stale mappings down");
    }

    fn take_down(&mut self, at: Address) -> Result<(), Error> {
        if let Some(handle) = self.unmap(at)? {
            self.settle(handle, true);
        }
        Ok(())
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
