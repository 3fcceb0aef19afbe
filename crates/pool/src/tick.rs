//! What is done now and then so that the pool knows how far the GPU is: sealing, reaping, retiring,
//! decay. In line, after a free, with no heap's lock held over a driver call; where there is a background thread, it
//! takes down what is stale.

use crate::background::Background;
use crate::clock::Fence;
use crate::engine::Engine;
use crate::heap::Heap;
use crate::mapper::Mapper;
use std::sync::atomic::Ordering;
use stitchpool_driver::{Error, ErrorKind};

/// How many stale mappings one tick takes down.
const RETIRED_PER_TICK: usize = 64;
/// How often budgets are looked at within one `decay`.
const LOOKS_PER_DECAY: u64 = 8;

impl Engine {
    /// A heap's tick. What the driver refuses here stays as it was, and the next tick tries again.
    #[inline(never)]
    pub(crate) fn tick(&self, heap: &Heap) {
        let now_us = self.origin.driver().now_us();
        // Twice a pause, so that a seal is at most half of one late.
        if !heap.is_tick_due(now_us, self.settings.seal_pause_us() / 2) {
            return;
        }
        // Nothing is asked or given back on behalf of a stream that a capture keeps quiet.
        if heap.inside.lock().tenant.as_ref().is_some_and(|tenant| tenant.clock.is_quiet()) {
            return;
        }
        self.decay(now_us);
        if !self.watched.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.seal_and_poll(heap) {
            tracing::debug!(%error, heap = heap.index, "a tick was cut short");
        }
        heap.inside.lock().reap();
        // What all threads share is touched only if there is something to do.
        if !self.littered.load(Ordering::Relaxed) {
            return;
        }
        // A miss under way does all of this itself.
        let Some(mut mapper) = self.mapper.try_lock() else { return };
        if !mapper.stale.is_empty() && !self.background.as_ref().is_some_and(Background::ring) {
            mapper.retire_some(RETIRED_PER_TICK);
        }
        self.forget_freed(&mut mapper);
        self.forget_retired(&mut mapper);
        self.set_watched(&mapper);
    }

    /// Gives back what was held for a peak that is long past. A peak is forgotten after one to two
    /// times the setting's `decay`; what some stream may still use goes at a later look.
    fn decay(&self, now_us: u64) {
        let due_us = self.decay_due_us.load(Ordering::Relaxed);
        if now_us < due_us {
            return;
        }
        let Some(mut mapper) = self.mapper.try_lock() else { return };
        let decay_us = self.settings.decay_us();
        self.decay_due_us.store(now_us.saturating_add(decay_us / LOOKS_PER_DECAY), Ordering::Relaxed);
        if due_us == 0 {
            return;
        }
        self.note_live(&mut mapper, None);
        let surplus = mapper.budgets.values().any(|budget| budget.physical_bytes() > budget.tolerated_bytes());
        if surplus {
            self.seal_all(&mapper);
            mapper.poll_clocks();
            let heaps: Vec<&Heap> = self.registry.heaps().collect();
            let trimmed = mapper.trim(&heaps, |mapper, device| {
                mapper.budgets.get(&device).map_or(0, crate::mapper::budget::Budget::tolerated_bytes)
            });
            tracing::debug!(?trimmed, "gave back what was long unused");
        }
    }

    /// Seals the heap's stream, and those its pending blocks wait for, if they are due; asks how far
    /// they are.
    fn seal_and_poll(&self, heap: &Heap) -> Result<(), Error> {
        let pause_us = self.settings.seal_pause_us();
        let fences: Vec<Fence> = {
            let inside = heap.inside.lock();
            let pending = inside.pending.iter().flat_map(|block| block.fences.iter().cloned());
            let own = inside
                .tenant
                .iter()
                .map(|tenant| Fence { clock: tenant.clock.clone(), epoch: inside.log.last_epoch() });
            own.chain(pending).collect()
        };
        for fence in fences.iter().filter(|fence| !fence.is_passed()) {
            tracing::trace!(stream = fence.clock.serial(), epoch = fence.epoch, "asks how far a stream is");
            fence.clock.tick(fence.epoch, pause_us, &self.origin)?;
        }
        Ok(())
    }

    /// Forgets retired streams that the GPU is past: a fence of theirs is passed by its own clock.
    pub(crate) fn forget_retired(&self, mapper: &mut Mapper) {
        let gone: Vec<u32> =
            mapper.clocks.values().filter(|clock| clock.is_over()).map(|clock| clock.serial()).collect();
        for serial in gone {
            mapper.clocks.remove(&serial);
            mapper.order.forget(serial);
        }
    }

    /// Seals every stream that has frees or fences in its open epoch.
    pub(crate) fn seal_all(&self, mapper: &Mapper) {
        for clock in mapper.clocks.values().filter(|clock| !clock.is_quiet()) {
            if let Err(error) = clock.seal(&self.origin) {
                tracing::debug!(%error, stream = clock.serial(), "a stream could not be sealed");
            }
        }
    }

    /// Waits (the CPU) until every stream has done what is queued so far, but for those that a capture
    /// keeps quiet.
    pub(crate) fn finish_all(&self, mapper: &Mapper) -> Result<(), Error> {
        for clock in mapper.clocks.values().filter(|clock| !clock.is_quiet()) {
            match clock.finish(clock.stamp(), self.settings.wait_max, &self.origin) {
                Err(error) if error.kind != ErrorKind::Deinitialized => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
