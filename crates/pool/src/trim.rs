//! Gives memory back to the driver: what is wholly free and past every stream.

use crate::clock::Fence;
use crate::engine::Engine;
use crate::error::{Error, Result as PoolResult};
use crate::heap::Heap;
use crate::mapper::Mapper;
use crate::mapper::budget::Budget;
use crate::mapper::slot::Slot;
use crate::miss::candidate::{Candidate, Wanted, candidates, fences};
use crate::unit::units_of;
use std::collections::{BTreeMap, BTreeSet};
use stitchpool_driver::{Address, DeviceId, Error as Refusal};

/// What a trim has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Bytes given back to the driver.
    pub released_bytes: u64,
    /// Bytes that are free but that some stream may still be using; a later trim gives them back.
    pub waiting_bytes: u64,
    /// The driver's first refusal, if there was one; what it refused is still the pool's.
    pub refusal: Option<Refusal>,
}

impl Engine {
    /// Gives back what is wholly free and past every stream. Waits for nothing.
    pub(crate) fn trim(&self) -> Trimmed {
        let mut mapper = self.mapper.lock();
        self.end_abandoned(&mut mapper);
        self.seal_all(&mapper);
        mapper.poll_clocks();
        self.give_back_all(&mut mapper)
    }

    /// Waits until the streams have done what is queued so far, then trims.
    pub(crate) fn trim_and_wait(&self) -> Result<Trimmed, Refusal> {
        let mut mapper = self.mapper.lock();
        self.end_abandoned(&mut mapper);
        self.finish_all(&mapper)?;
        Ok(self.give_back_all(&mut mapper))
    }

    fn give_back_all(&self, mapper: &mut Mapper) -> Trimmed {
        self.forget_freed(mapper);
        mapper.drop_idle_trays(None);
        let heaps: Vec<&Heap> = self.registry.heaps().collect();
        let trimmed = mapper.trim(&heaps, |_, _| 0);
        self.set_watched(mapper);
        trimmed
    }

    /// Does what needs memory of a device; where that is short, again after all that nobody uses there was given
    /// back, and then after each wait for work that still uses what is free there.
    pub(crate) fn trim_for<T>(
        &self,
        mapper: &mut Mapper,
        device: DeviceId,
        act: impl Fn(&Mapper) -> PoolResult<T>,
    ) -> PoolResult<T> {
        let is_short = |outcome: &PoolResult<T>| outcome.as_ref().is_err_and(Error::is_short);
        let mut outcome = act(mapper);
        if is_short(&outcome) {
            self.relinquish(mapper, device);
            outcome = act(mapper);
        }
        if !is_short(&outcome) {
            return outcome;
        }
        // Of a stream that stands still nothing more comes.
        let mut still = BTreeSet::new();
        for Fence { clock, epoch } in self.uses_of_free(mapper, device) {
            if still.contains(&clock.serial()) || epoch <= clock.passed() {
                continue;
            }
            mapper.counts.cpu_waits += 1;
            tracing::debug!(stream = clock.serial(), %device, "the CPU waits for free memory that is still in use");
            if let Err(error) = clock.finish(epoch, self.settings.wait_max, &self.origin) {
                tracing::debug!(%error, stream = clock.serial(), "a stream did not finish");
                still.insert(clock.serial());
                continue;
            }
            self.relinquish(mapper, device);
            outcome = act(mapper);
            if !is_short(&outcome) {
                break;
            }
        }
        outcome
    }

    /// Every point that work on free memory of a device may still be before, stream after stream, the earliest
    /// first.
    fn uses_of_free(&self, mapper: &Mapper, device: DeviceId) -> Vec<Fence> {
        let wanted = Wanted { device, kind: mapper.settings.kind, taker: None, pending: true };
        let mut uses = BTreeMap::new();
        for heap in self.registry.heaps() {
            let inside = heap.inside.lock();
            let found = candidates(mapper, &inside, heap.index, &wanted);
            let slots: Vec<&Slot> = found.iter().filter_map(|candidate| mapper.slot_holding(candidate.at)).collect();
            let fences = fences(&inside, &slots).into_iter().flatten();
            uses.extend(fences.map(|fence| ((fence.clock.serial(), fence.epoch), fence)));
        }
        uses.into_values().collect()
    }

    /// Gives the driver all that nobody uses on a device.
    fn relinquish(&self, mapper: &mut Mapper, device: DeviceId) {
        self.seal_all(mapper);
        mapper.poll_clocks();
        mapper.drop_idle_trays(Some(device));
        let heaps: Vec<&Heap> = self.registry.heaps().collect();
        let trimmed = mapper.trim(&heaps, |mapper, other| if other == device { 0 } else { mapper.held_bytes(other) });
        tracing::debug!(?trimmed, "gave back what was idle, to make room");
    }
}

impl Mapper {
    /// Gives back what is wholly free until a device holds at most `floor_bytes`.
    pub(crate) fn trim(&mut self, heaps: &[&Heap], floor_bytes: impl Fn(&Self, DeviceId) -> u64) -> Trimmed {
        let held_before = self.physical_bytes();
        let mut trimmed = Trimmed { refusal: self.retire_stale(usize::MAX).err(), ..Trimmed::default() };
        let devices: Vec<DeviceId> = self.budgets.keys().copied().collect();
        for device in devices {
            if self.held_bytes(device) > floor_bytes(self, device) {
                self.release_stock(Some(device));
            }
            for heap in heaps {
                let surplus_bytes = self.held_bytes(device).saturating_sub(floor_bytes(self, device));
                let outcome = self.trim_heap(heap, device, surplus_bytes, &mut trimmed.waiting_bytes);
                trimmed.refusal = trimmed.refusal.take().or(outcome.err());
            }
        }
        trimmed.released_bytes = held_before - self.physical_bytes();
        tracing::debug!(released_bytes = trimmed.released_bytes, waiting_bytes = trimmed.waiting_bytes, "trimmed");
        trimmed
    }

    /// Takes ready handles out of a heap, highest address first, and unmaps them.
    fn trim_heap(
        &mut self,
        heap: &Heap,
        device: DeviceId,
        surplus_bytes: u64,
        waiting_bytes: &mut u64,
    ) -> Result<(), Refusal> {
        let wanted = Wanted { device, kind: self.settings.kind, taker: None, pending: false };
        let mut surplus_bytes = surplus_bytes;
        let mut taken: Vec<Candidate> = Vec::new();
        {
            let mut inside = heap.inside.lock();
            inside.reap();
            for candidate in candidates(self, &inside, heap.index, &wanted).into_iter().rev() {
                if surplus_bytes == 0 {
                    break;
                }
                if candidate.ready && inside.extents.remove_range(candidate.at, units_of(candidate.bytes)) {
                    surplus_bytes = surplus_bytes.saturating_sub(candidate.bytes);
                    taken.push(candidate);
                } else {
                    *waiting_bytes += candidate.bytes;
                }
            }
        }
        self.release(heap, taken)
    }

    /// Releases those of a heap's candidates, in address order, that are still free and past every
    /// stream. True if it was any.
    pub(crate) fn release_passed(&mut self, heap: &Heap, found: &[Candidate]) -> Result<bool, Refusal> {
        let mut taken = Vec::new();
        {
            let standing = found.iter().filter_map(|candidate| Some((*candidate, self.slot_holding(candidate.at)?)));
            let (found, slots): (Vec<Candidate>, Vec<&Slot>) = standing.unzip();
            let mut inside = heap.inside.lock();
            for (candidate, fences) in found.iter().zip(fences(&inside, &slots)) {
                if fences.is_empty() && inside.extents.remove_range(candidate.at, units_of(candidate.bytes)) {
                    taken.push(*candidate);
                }
            }
        }
        let any = !taken.is_empty();
        self.release(heap, taken).map(|()| any)
    }

    /// Unmaps and releases handles whose bytes were taken out of their heap. What the driver refuses goes
    /// back there.
    fn release(&mut self, heap: &Heap, taken: Vec<Candidate>) -> Result<(), Refusal> {
        let mut refusal = None;
        for candidate in taken {
            match self.unmap(Address(candidate.at)) {
                Ok(Some(handle)) => self.settle(handle, false),
                Ok(None) => {}
                Err(error) => {
                    heap.inside.lock().extents.insert(candidate.at, units_of(candidate.bytes));
                    refusal = refusal.or(Some(error));
                }
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    fn physical_bytes(&self) -> u64 {
        self.budgets.values().map(Budget::physical_bytes).sum()
    }
}
