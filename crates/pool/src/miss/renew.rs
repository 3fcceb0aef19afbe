//! Renews small handles: where a plan would move many of them, they are released and the bytes created
//! anew in larger ones. Moving costs per handle, so this pays at once, and again at every later move.

use crate::engine::Engine;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::miss::candidate::Candidate;
use crate::miss::job::Job;
use crate::miss::plan::{Plan, Step};
use std::collections::BTreeMap;

/// So many handles must be worth it.
const HANDLES_MIN: usize = 32;
/// A handle is small if a new one would be at least so many times as large.
const SMALL_PART: u64 = 2;

impl Engine {
    /// Releases the small handles that `plan` would take, if they are many and past every stream. True
    /// if it has released any: the plan is then void, and creation has room. One that still stands at an old
    /// place too would give nothing back, and could not be taken either.
    pub(crate) fn renew(&self, mapper: &mut Mapper, job: &Job<'_>, plan: &Plan) -> bool {
        let mut small: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
        for step in &plan.steps {
            let Step::Steal(candidate) = step else { continue };
            let Some(mapping) = mapper.slot_holding(candidate.at).and_then(Slot::current) else { continue };
            let is_small = candidate.bytes * SMALL_PART <= job.renewed_bytes(mapper, mapping.device());
            if candidate.ready && is_small && mapping.is_only() {
                small.entry(candidate.heap).or_default().push(*candidate);
            }
        }
        if small.values().map(Vec::len).sum::<usize>() < HANDLES_MIN {
            return false;
        }
        let mut any = false;
        for (heap, mut found) in small {
            found.sort_unstable_by_key(|candidate| candidate.at);
            let released = self.registry.heap(heap).map(|heap| mapper.release_passed(heap, &found));
            match released.transpose() {
                Ok(released) => any |= released.unwrap_or(false),
                Err(error) => tracing::debug!(%error, "a small handle stays"),
            }
        }
        tracing::debug!(any, "small handles were to make room for larger ones");
        any
    }
}
