//! What is tried when no plan is enough: the last resorts, in order. Everything here may be slow; nothing here is
//! a panic.

use crate::clock::Fence;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::miss::job::{Job, Waits};
use std::sync::Arc;

/// How far the last resorts have gone for one request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Resort {
    #[default]
    Nothing,
    /// What the GPU is past has been taken in.
    Retired,
    /// Idle handles of unfitting sizes have been released, and trays that wait for backups.
    Restocked,
    /// The CPU may wait for pending memory.
    Waiting,
    /// Stale mappings that hold memory have been waited for.
    Drained,
    /// So many further devices may be used.
    Spilled(usize),
}

impl Mapper {
    /// Does the next thing that may help. False: there is none left.
    pub(crate) fn resort(&mut self, job: &mut Job<'_>, resort: &mut Resort, waits: &mut Vec<String>) -> bool {
        let fallbacks = job.tenant.key.placement.fallbacks().len();
        *resort = match *resort {
            Resort::Nothing => {
                self.poll_clocks();
                if let Err(error) = self.retire_stale(usize::MAX) {
                    waits.push(error.to_string());
                }
                job.heap.inside.lock().reap();
                Resort::Retired
            }
            Resort::Retired => {
                for device in job.devices(self) {
                    self.release_stock(Some(device));
                    self.drop_idle_trays(Some(device));
                }
                Resort::Restocked
            }
            Resort::Restocked => {
                job.waits = Waits::Cpu;
                Resort::Waiting
            }
            Resort::Waiting => {
                self.drain_stale(waits);
                Resort::Drained
            }
            Resort::Drained if fallbacks > 0 => Resort::Spilled(1),
            Resort::Spilled(used) if used < fallbacks => Resort::Spilled(used + 1),
            Resort::Drained | Resort::Spilled(_) => return false,
        };
        tracing::debug!(resort = ?*resort, "no plan was enough: a last resort");
        if let Resort::Spilled(used) = *resort {
            job.fallbacks = used;
            job.waits = Waits::gentle(self.settings.stream_waits, &job.tenant.clock);
        }
        true
    }

    /// Waits (the CPU) until stale mappings can go whose handles stand nowhere else.
    pub(crate) fn drain_stale(&mut self, waits: &mut Vec<String>) {
        let orphans = self.stale.iter().filter_map(|at| match self.slot_holding(at.0) {
            Some(Slot::Stale { mapping, fences }) if !self.stands_elsewhere(mapping.handle()) => Some(fences.clone()),
            _ => None,
        });
        let fences: Vec<Fence> = orphans.flatten().filter(|fence| !fence.is_passed()).collect();
        for fence in fences {
            if fence.is_passed() {
                continue;
            }
            self.counts.cpu_waits += 1;
            tracing::debug!(stream = fence.clock.serial(), "the CPU waits for stale mappings that hold memory");
            if let Err(error) = fence.clock.finish(fence.epoch, self.settings.wait_max, &self.origin) {
                waits.push(format!("stream {} did not finish: {error}", fence.clock.serial()));
            }
        }
        if let Err(error) = self.retire_stale(usize::MAX) {
            waits.push(error.to_string());
        }
    }

    fn stands_elsewhere(&self, handle: &Arc<stitchpool_chunks::PhysicalHandle>) -> bool {
        self.current_mappings().any(|(_, mapping)| Arc::ptr_eq(mapping.handle(), handle))
    }
}
