//! Handles that could be taken from a heap: wholly free, or wholly free but for blocks that wait for
//! other streams. Derived from the heap's extents when somebody asks; no hit keeps them up to date.

use crate::chain::Slot;
use crate::clock::{Clock, Fence};
use crate::extents::Extent;
use crate::heap::Core;
use crate::mapper::Mapper;
use crate::mutant::{Mutant, is_planted};
use std::collections::BTreeMap;
use stitchpool_driver::{Address, DeviceId, HandleKind};

/// A handle that a heap could give up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// The heap it stands in.
    pub(crate) heap: u32,
    /// Where it stands.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Whether some of its bytes are in blocks that wait for other streams.
    pub(crate) pending: bool,
    /// Whether the taker's stream may use it at once, without waiting for another.
    pub(crate) ready: bool,
}

/// What a taker looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) device: DeviceId,
    pub(crate) kind: HandleKind,
    /// The stream that will use it; `None`: it must be past every fence.
    pub(crate) taker: Option<&'a Clock>,
    /// Whether blocks that wait for other streams count too.
    pub(crate) pending: bool,
}

/// Every candidate of a heap, in address order.
pub(crate) fn candidates(mapper: &Mapper, core: &Core, heap: u32, wanted: &Wanted<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for run in free_runs(core, wanted.pending) {
        let Some(chain) = mapper.chain_holding(run.start) else { continue };
        let first = chain.first_slot_from(Address(run.start));
        for slot in chain.slots()[first..].iter().take_while(|slot| slot.end().0 <= run.end()) {
            let Slot::Current { mapping, .. } = slot else { continue };
            if mapping.device() != wanted.device || mapping.handle().kind() != wanted.kind {
                continue;
            }
            let (at, bytes) = (mapping.at().0, mapping.bytes());
            let pending = wanted.pending && core.pending.iter().any(|block| touches(block.extent(), at, at + bytes));
            found.push(Candidate { heap, at, bytes, pending, ready: false });
        }
    }
    mark_ready(mapper, core, wanted, &mut found);
    found
}

/// Brings candidates of one heap into the order in which they should be taken, the best last: the one
/// whose bytes were freed longest ago. What the log has forgotten is older than all it knows.
pub(crate) fn sort_oldest_last(core: &Core, found: &mut Vec<Candidate>) {
    const FORGOTTEN: usize = usize::MAX;
    let mut ranks = vec![FORGOTTEN; found.len()];
    // `next[i]` leads to the first candidate from `i` on that has no rank yet.
    let mut next: Vec<usize> = (0..=found.len()).collect();
    let mut unranked = found.len();
    for (rank, freed) in core.log.newer_than(0).enumerate() {
        if unranked == 0 {
            break;
        }
        let first = found.partition_point(|candidate| candidate.at + candidate.bytes <= freed.start);
        let mut index = follow(&mut next, first);
        while index < found.len() && found[index].at < freed.end {
            ranks[index] = rank;
            next[index] = index + 1;
            unranked -= 1;
            index = follow(&mut next, index);
        }
    }
    let mut ranked: Vec<(usize, Candidate)> = ranks.into_iter().zip(found.drain(..)).collect();
    ranked.sort_by_key(|&(rank, _)| rank);
    found.extend(ranked.into_iter().map(|(_, candidate)| candidate));
}

/// Follows a chain of links to its end, shortening it on the way.
fn follow(next: &mut [usize], from: usize) -> usize {
    let mut index = from;
    while next[index] != index {
        next[index] = next[next[index]];
        index = next[index];
    }
    index
}

/// Every point that work on this slot's bytes may still be before: frees under this address, what
/// earlier addresses brought along, and streams that pending blocks wait for.
pub(crate) fn fences(core: &Core, slot: &Slot) -> Vec<Fence> {
    let (start, end) = (slot.at().0, slot.end().0);
    let mut newest: BTreeMap<u32, Fence> = BTreeMap::new();
    let mut add = |fence: Fence| {
        if fence.is_passed() {
            return;
        }
        let known = newest.entry(fence.clock.serial()).or_insert_with(|| fence.clone());
        known.epoch = known.epoch.max(fence.epoch);
    };
    if let Some(tenant) = &core.tenant {
        let clock = &tenant.clock;
        let own = |epoch| Fence { clock: clock.clone(), epoch };
        if let Some(epoch) = core.log.epoch_touching(start, end, clock.passed()) {
            add(own(epoch));
        }
        for block in core.pending.iter().filter(|block| touches(block.extent(), start, end)) {
            add(own(block.epoch));
            block.fences.iter().cloned().for_each(&mut add);
        }
    }
    if let Slot::Current { carried, .. } = slot {
        carried.iter().cloned().for_each(&mut add);
    }
    newest.into_values().collect()
}

/// Whether the taker may use bytes behind these fences without a wait.
pub(crate) fn is_ready(mapper: &Mapper, wanted: &Wanted<'_>, fences: &[Fence]) -> bool {
    if is_planted(Mutant::SkipReadyCheck) && wanted.taker.is_some() {
        return true;
    }
    fences.iter().all(|fence| match wanted.taker {
        Some(taker) => mapper.order.covers(taker, fence),
        None => fence.is_passed(),
    })
}

/// Free extents, joined with pending blocks if these count.
fn free_runs(core: &Core, pending: bool) -> Vec<Extent> {
    let mut runs: Vec<Extent> = core.extents.iter().collect();
    if !pending || core.pending.is_empty() {
        return runs;
    }
    runs.extend(core.pending.iter().map(|block| block.extent()));
    runs.sort_unstable_by_key(|run| run.start);
    runs.dedup_by(|next, run| {
        let joins = run.end() == next.start;
        if joins {
            run.units += next.units;
        }
        joins
    });
    runs
}

/// A handle is ready unless a recent free touches it, or something it carries is not past.
fn mark_ready(mapper: &Mapper, core: &Core, wanted: &Wanted<'_>, found: &mut [Candidate]) {
    let Some(tenant) = &core.tenant else { return };
    let own = wanted.taker.is_some_and(|taker| taker.serial() == tenant.clock.serial());
    let behind = match wanted.taker {
        _ if own => u64::MAX,
        Some(taker) => mapper.order.behind(taker, &tenant.clock),
        None => tenant.clock.passed(),
    };
    let lost = core.log.lost_epoch() > behind;
    for candidate in &mut *found {
        let slot = mapper.slot_holding(candidate.at);
        let carried = match slot {
            Some(Slot::Current { carried, .. }) => is_ready(mapper, wanted, carried),
            _ => false,
        };
        let waits = candidate.pending && slot.is_none_or(|slot| !is_ready(mapper, wanted, &fences(core, slot)));
        candidate.ready = carried && !waits && !lost;
    }
    if own || (is_planted(Mutant::SkipReadyCheck) && wanted.taker.is_some()) {
        return;
    }
    for freed in core.log.newer_than(behind) {
        let first = found.partition_point(|candidate| candidate.at + candidate.bytes <= freed.start);
        for candidate in found[first..].iter_mut().take_while(|candidate| candidate.at < freed.end) {
            candidate.ready = false;
        }
    }
}

fn touches(extent: Extent, start: u64, end: u64) -> bool {
    extent.start < end && start < extent.end()
}

/// Candidates by size, for the rule that picks victims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    /// A size is present iff a candidate of it is.
    sizes: BTreeMap<u64, Vec<Candidate>>,
}

impl Supply {
    pub(crate) fn add(&mut self, candidate: Candidate) {
        self.sizes.entry(candidate.bytes).or_default().push(candidate);
    }

    /// All their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().map(|(bytes, same)| bytes * same.len() as u64).sum()
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&Candidate) -> bool) {
        self.sizes.retain(|_, same| {
            same.retain(&keep);
            !same.is_empty()
        });
    }

    /// The smallest that covers `bytes`, else the largest. With `exact` none that is larger.
    pub(crate) fn pick(&mut self, bytes: u64, exact: bool) -> Option<Candidate> {
        let covering = if exact { None } else { self.sizes.range(bytes..).next() };
        let size = *covering.or_else(|| self.sizes.range(..=bytes).next_back())?.0;
        let same = self.sizes.get_mut(&size)?;
        let picked = same.pop();
        if same.is_empty() {
            self.sizes.remove(&size);
        }
        picked
    }
}
