//! The last resort of a plan that must be filled to the byte: handles that are wholly free but too large
//! for any piece are released, so that what is missing can be created.

use crate::clock::Fence;
use crate::engine::Engine;
use crate::heap::Heap;
use crate::mapper::Mapper;
use crate::miss::candidate::{Candidate, Wanted, candidates, fences};
use crate::miss::job::Job;
use crate::miss::plan::{Plan, Step};
use crate::miss::victims::Victims;
use std::collections::{BTreeMap, BTreeSet};
use stitchpool_driver::DeviceId;

impl Engine {
    /// Releases as many handles as the plan misses bytes, no more than one too many on each device. True if
    /// the driver has got memory back: the plan is then void, and creation has room.
    pub(crate) fn melt(&self, mapper: &mut Mapper, job: &Job<'_>, plan: &Plan, waits: &mut Vec<String>) -> bool {
        if !plan.exact {
            return false;
        }
        let fallbacks = job.tenant.key.placement.fallbacks();
        let mut any = false;
        for (&device, &missing_bytes) in &plan.missing {
            let mut rest = missing_bytes;
            for &place in std::iter::once(&device).chain(&fallbacks[..job.fallbacks.min(fallbacks.len())]) {
                let melted_bytes = self.melt_on(mapper, plan, Missing { device: place, bytes: rest }, waits);
                rest = rest.saturating_sub(melted_bytes);
                any |= melted_bytes > 0;
            }
        }
        any
    }

    /// Releases what is missing on one device; gives how many bytes the driver has got back.
    fn melt_on(&self, mapper: &mut Mapper, plan: &Plan, missing: Missing, waits: &mut Vec<String>) -> u64 {
        let before_bytes = mapper.held_bytes(missing.device);
        for (heap, found) in self.pick_molten(mapper, plan, missing, waits.is_empty()) {
            let Some(heap) = self.registry.heap(heap) else { continue };
            self.finish_molten(mapper, heap, &found, waits);
            if let Err(error) = mapper.release_passed(heap, &found) {
                waits.push(error.to_string());
            }
        }
        // What also stands at an old place is given back only when it has left that too.
        if mapper.held_bytes(missing.device) == before_bytes {
            mapper.drain_stale(waits);
            mapper.release_stock(Some(missing.device));
        }
        before_bytes.saturating_sub(mapper.held_bytes(missing.device))
    }

    /// The handles to release, by heap and in address order: first those that nobody uses any more, then,
    /// with `wait`, others. None that the plan counts on.
    fn pick_molten(&self, mapper: &Mapper, plan: &Plan, missing: Missing, wait: bool) -> BTreeMap<u32, Vec<Candidate>> {
        let used: BTreeSet<u64> = plan.steps.iter().filter_map(Step::stolen_from).collect();
        let wanted = Wanted { device: missing.device, kind: mapper.settings.kind, taker: None, pending: wait };
        let (mut ready, mut waiting) = (Victims::default(), Victims::default());
        for heap in self.registry.heaps() {
            let mut inside = heap.inside.lock();
            inside.reap();
            for candidate in candidates(mapper, &inside, heap.index, &wanted) {
                if used.contains(&candidate.at) || plan.place.holds(&candidate) {
                    continue;
                }
                if candidate.ready { ready.add(candidate) } else { waiting.add(candidate) }
            }
        }
        let mut picked: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
        let mut rest = missing.bytes;
        while rest > 0 {
            let late = |waiting: &mut Victims| if wait { waiting.pick(rest, false) } else { None };
            let Some(candidate) = ready.pick(rest, false).or_else(|| late(&mut waiting)) else { break };
            rest = rest.saturating_sub(candidate.bytes);
            picked.entry(candidate.heap).or_default().push(candidate);
        }
        picked.values_mut().for_each(|found| found.sort_unstable_by_key(|candidate| candidate.at));
        picked
    }

    /// Waits (the CPU) until nobody uses these handles any more.
    fn finish_molten(&self, mapper: &mut Mapper, heap: &Heap, found: &[Candidate], waits: &mut Vec<String>) {
        let open: Vec<Fence> = {
            let inside = heap.inside.lock();
            let slots = found.iter().filter_map(|candidate| mapper.slot_holding(candidate.at)).collect::<Vec<_>>();
            fences(&inside, &slots).into_iter().flatten().collect()
        };
        for fence in open {
            if fence.is_passed() {
                continue;
            }
            mapper.counts.cpu_waits += 1;
            if let Err(error) = fence.clock.finish(fence.epoch, self.settings.wait_max, &self.origin) {
                waits.push(format!("stream {} did not finish: {error}", fence.clock.serial()));
            }
        }
        heap.inside.lock().reap();
    }
}

/// So much is missing on a device.
#[derive(Clone, Copy, Debug)]
struct Missing {
    device: DeviceId,
    bytes: u64,
}
