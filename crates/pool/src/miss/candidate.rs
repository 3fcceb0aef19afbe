//! Handles that could be taken from a heap: wholly free, or wholly free but for blocks that wait for
//! other streams. Derived from the heap's extents when somebody asks; no hit keeps them up to date.

use crate::clock::{Clock, Fence};
use crate::heap::extents::Extent;
use crate::heap::free_log::FreeLog;
use crate::heap::inside::Inside;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::mutant::{Mutant, is_planted};
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
///
/// Never one of a graph's arena, nor a pinned one: others than the pool's streams use them.
pub(crate) fn candidates(mapper: &Mapper, inside: &Inside, heap: u32, wanted: &Wanted<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    if mapper.serves_graph(inside) {
        return found;
    }
    for run in free_runs(inside, wanted.pending) {
        let Some(chain) = mapper.chain_holding(run.start) else { continue };
        let first = chain.first_slot_from(Address(run.start));
        for slot in chain.slots()[first..].iter().take_while(|slot| slot.end().0 <= run.end()) {
            let Slot::Current { mapping, .. } = slot else { continue };
            if mapping.device() != wanted.device || mapping.handle().kind() != wanted.kind {
                continue;
            }
            if mapper.pins.touch(mapping.at().0, mapping.end().0) {
                continue;
            }
            let (at, bytes) = (mapping.at().0, mapping.bytes());
            let pending = wanted.pending && inside.pending.iter().any(|block| touches(block.extent(), at, at + bytes));
            found.push(Candidate { heap, at, bytes, pending, ready: false });
        }
    }
    mark_ready(mapper, inside, wanted, &mut found);
    found
}

/// Brings candidates of one heap into the order in which they should be taken, the best last: the one
/// whose bytes were freed longest ago. What the log has forgotten is older than all it knows.
pub(crate) fn sort_oldest_last(inside: &Inside, found: &mut Vec<Candidate>) {
    let spans: Vec<Span> = found.iter().map(|candidate| (candidate.at, candidate.at + candidate.bytes)).collect();
    let ages = last_frees(&inside.log, 0, &spans);
    let mut aged: Vec<(usize, Candidate)> =
        ages.iter().map(|freed| freed.map_or(usize::MAX, |(age, _)| age)).zip(found.drain(..)).collect();
    aged.sort_by_key(|&(age, _)| age);
    found.extend(aged.into_iter().map(|(_, candidate)| candidate));
}

/// From one address to another.
type Span = (u64, u64);

/// For each span, in address order, the newest free that touches it: how many frees ago it was, and its
/// epoch. Looks back to epoch `passed`, once for all spans.
fn last_frees(log: &FreeLog, passed: u64, spans: &[Span]) -> Vec<Option<(usize, u64)>> {
    let mut found = vec![None; spans.len()];
    // `next[i]` leads to the first span from `i` on for which nothing is found yet.
    let mut next: Vec<usize> = (0..=spans.len()).collect();
    let mut open = spans.len();
    for (age, freed) in log.newer_than(passed).enumerate() {
        if open == 0 {
            break;
        }
        let mut index = follow(&mut next, spans.partition_point(|span| span.1 <= freed.start));
        while index < spans.len() && spans[index].0 < freed.end {
            found[index] = Some((age, freed.epoch));
            next[index] = index + 1;
            open -= 1;
            index = follow(&mut next, index);
        }
    }
    found
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

/// For each slot, in address order, every point that work on its bytes may still be before: frees under
/// this address, what earlier addresses brought along, and streams that pending blocks wait for.
pub(crate) fn fences(inside: &Inside, slots: &[&Slot]) -> Vec<Vec<Fence>> {
    let Some(tenant) = &inside.tenant else { return vec![Vec::new(); slots.len()] };
    let clock = &tenant.clock;
    let passed = clock.passed();
    let spans: Vec<Span> = slots.iter().map(|slot| (slot.at().0, slot.end().0)).collect();
    let own = |epoch| Fence { clock: clock.clone(), epoch };
    let frees = last_frees(&inside.log, passed, &spans).into_iter().map(|freed| freed.map(|(_, epoch)| epoch));
    let lost = (inside.log.lost_epoch() > passed).then(|| inside.log.lost_epoch());
    let of_slot = |((slot, &(start, end)), freed): ((&&Slot, &Span), Option<u64>)| {
        let mut newest = Newest::default();
        freed.max(lost).map(own).into_iter().for_each(|fence| newest.add(fence));
        for block in inside.pending.iter().filter(|block| touches(block.extent(), start, end)) {
            newest.add(own(block.epoch));
            block.fences.iter().for_each(|fence| newest.add(fence.clone()));
        }
        if let Slot::Current { carried, .. } = slot {
            carried.iter().for_each(|fence| newest.add(fence.clone()));
        }
        newest.fences
    };
    slots.iter().zip(&spans).zip(frees).map(of_slot).collect()
}

/// One fence a stream, the newest; none that is passed.
#[derive(Default)]
struct Newest {
    fences: Vec<Fence>,
}

impl Newest {
    fn add(&mut self, fence: Fence) {
        if fence.is_passed() {
            return;
        }
        match self.fences.iter_mut().find(|known| known.clock.serial() == fence.clock.serial()) {
            Some(known) => known.epoch = known.epoch.max(fence.epoch),
            None => self.fences.push(fence),
        }
    }
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
fn free_runs(inside: &Inside, pending: bool) -> Vec<Extent> {
    let mut runs: Vec<Extent> = inside.extents.iter().collect();
    if !pending || inside.pending.is_empty() {
        return runs;
    }
    runs.extend(inside.pending.iter().map(|block| block.extent()));
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
fn mark_ready(mapper: &Mapper, inside: &Inside, wanted: &Wanted<'_>, found: &mut [Candidate]) {
    let Some(tenant) = &inside.tenant else { return };
    let own = wanted.taker.is_some_and(|taker| taker.serial() == tenant.clock.serial());
    let behind = match wanted.taker {
        _ if own => u64::MAX,
        Some(taker) => mapper.order.behind(taker, &tenant.clock),
        None => tenant.clock.passed(),
    };
    let lost = inside.log.lost_epoch() > behind;
    for candidate in &mut *found {
        let slot = mapper.slot_holding(candidate.at);
        let carried = match slot {
            Some(Slot::Current { carried, .. }) => is_ready(mapper, wanted, carried),
            _ => false,
        };
        let fenced = |slot: &Slot| !fences(inside, &[slot]).iter().all(|fences| is_ready(mapper, wanted, fences));
        let waits = candidate.pending && slot.is_none_or(fenced);
        candidate.ready = carried && !waits && !lost;
    }
    if own || (is_planted(Mutant::SkipReadyCheck) && wanted.taker.is_some()) {
        return;
    }
    for freed in inside.log.newer_than(behind) {
        let first = found.partition_point(|candidate| candidate.at + candidate.bytes <= freed.start);
        for candidate in found[first..].iter_mut().take_while(|candidate| candidate.at < freed.end) {
            candidate.ready = false;
        }
    }
}

fn touches(extent: Extent, start: u64, end: u64) -> bool {
    extent.start < end && start < extent.end()
}
