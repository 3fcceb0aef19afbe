//! What becomes free later: blocks that other streams use too, or that somebody holds. It is no part of a hit.

use crate::clock::{Clock, Fence};
use crate::heap::extent::Extent;
use crate::heap::holds::{self, Left};
use crate::heap::inside::Inside;
use crate::heap::pending::Pending;
use crate::mutant::{Mutant, is_planted};
use crate::unit::units_of;
use std::sync::Arc;

impl Inside {
    /// All that is free, or waits, becomes as if it were freed now and used on `clocks` until now. Blocks
    /// become used on them too, and what was freed and is held.
    pub(crate) fn free_again(&mut self, clocks: &[Arc<Clock>]) {
        let Some(epoch) = self.tenant.as_ref().map(|tenant| tenant.clock.stamp()) else { return };
        let fences: Vec<Fence> =
            clocks.iter().map(|clock| Fence { epoch: clock.stamp(), clock: clock.clone() }).collect();
        let blocks: Vec<u64> = self.live.iter().map(|block| block.address).collect();
        for (address, clock) in blocks.into_iter().flat_map(|address| clocks.iter().map(move |clock| (address, clock)))
        {
            self.add_use(address, clock);
        }
        self.holds.add_users(clocks);
        for pending in &mut self.pending {
            pending.epoch = epoch;
            pending.fences.extend(fences.iter().cloned());
        }
        let free: Vec<Extent> = self.extents.iter().collect();
        for Extent { start, units } in free {
            if fences.is_empty() {
                self.log.push(start, units, epoch, &self.live);
            } else if self.extents.remove_range(start, units) {
                self.pending.push(Pending { start, units, epoch, fences: fences.clone() });
            }
        }
    }

    /// Notes that the block at `address` is used on another stream too. False: no such block.
    pub(crate) fn add_use(&mut self, address: u64, clock: &Arc<Clock>) -> bool {
        if !self.live.has(address) {
            return false;
        }
        if is_planted(Mutant::SkipRecordUse) {
            return true;
        }
        holds::add(self.uses.entry(address).or_default(), clock);
        true
    }

    /// Holds the block at `address`: freeing it takes effect only after [`Inside::let_go`]. False: no such block.
    pub(crate) fn hold(&mut self, address: u64) -> bool {
        let Some(units) = self.live.units_at(address) else { return false };
        self.uses.entry(address).or_default();
        self.holds.add(address, units);
        true
    }

    /// A holder of the block at `address` goes; work of these streams may use it from now on. True: the
    /// block had been freed, and that takes effect now.
    pub(crate) fn let_go(&mut self, address: u64, clocks: &[Arc<Clock>]) -> bool {
        let own = self.tenant.as_ref().map(|tenant| tenant.clock.clone());
        let others = clocks.iter().filter(|clock| own.as_ref().is_none_or(|own| own.serial() != clock.serial()));
        let others: Vec<_> = others.cloned().collect();
        match (self.holds.leave(address, &others), own) {
            (Left::Free(extent, clocks), Some(own)) => {
                self.wait_for(extent, own.stamp(), clocks);
                true
            }
            _ => {
                for clock in &others {
                    self.add_use(address, clock);
                }
                false
            }
        }
    }

    pub(crate) fn free_later(&mut self, extent: Extent, epoch: u64, clocks: Vec<Arc<Clock>>) {
        if let Some(clocks) = self.holds.defer(extent.start, clocks) {
            self.wait_for(extent, epoch, clocks);
        }
    }

    /// Bytes that become free once these streams are past what is queued on them so far.
    fn wait_for(&mut self, extent: Extent, epoch: u64, clocks: Vec<Arc<Clock>>) {
        let Extent { start, units } = extent;
        if clocks.is_empty() {
            self.free_now(start, units, epoch);
            return;
        }
        let fences = clocks.into_iter().map(|clock| Fence { epoch: clock.stamp(), clock }).collect();
        self.pending.push(Pending { start, units, epoch, fences });
    }

    /// Moves pending blocks whose other streams are all past into the free bytes.
    pub(crate) fn reap(&mut self) -> bool {
        let passed = self.tenant.as_ref().map_or(0, |tenant| tenant.clock.passed());
        let before = self.pending.len();
        let mut index = 0;
        while index < self.pending.len() {
            if !self.pending[index].fences.iter().all(Fence::is_passed) {
                index += 1;
                continue;
            }
            let Pending { start, units, epoch, .. } = self.pending.remove(index);
            if epoch > passed {
                self.free_now(start, units, epoch);
            } else {
                self.extents.insert(start, units);
            }
        }
        self.pending.len() < before
    }

    /// Takes bytes that have no memory out of those that are free or wait: no work can name them, whatever its
    /// stream is before. False: a block lives there, and nothing was taken.
    pub(crate) fn take_asleep(&mut self, start: u64, end: u64) -> bool {
        let mut free = Vec::new();
        let mut at = start;
        while at < end {
            let waits = || self.pending.iter().map(Pending::extent).find(|it| it.start <= at && at < it.end());
            let next = match self.extents.holding(at) {
                Some(extent) => {
                    let high = extent.end().min(end);
                    free.push((at, high));
                    high
                }
                None => match waits() {
                    Some(extent) => extent.end(),
                    None => return false,
                },
            };
            at = next;
        }
        for (low, high) in free {
            self.extents.remove_range(low, units_of(high - low));
        }
        self.take_from_pending(start, end);
        true
    }

    /// Takes what of these bytes is in pending blocks out of them.
    pub(crate) fn take_from_pending(&mut self, start: u64, end: u64) {
        let mut rest = Vec::new();
        for block in std::mem::take(&mut self.pending) {
            let whole = block.extent();
            for (low, high) in [(whole.start, whole.end().min(start)), (whole.start.max(end), whole.end())] {
                if low < high {
                    let units = units_of(high - low);
                    rest.push(Pending { start: low, units, epoch: block.epoch, fences: block.fences.clone() });
                }
            }
        }
        self.pending = rest;
    }
}
