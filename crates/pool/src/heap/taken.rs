//! Bytes on their way out of a heap: taken from free extents and pending blocks, and put back where they
//! were if a plan is given up.

use crate::heap::Pending;
use crate::heap::inside::Inside;
use crate::unit::{bytes_of, units_of};

/// Bytes taken out of a heap.
pub(crate) struct Taken {
    pub(crate) heap: u32,
    pub(crate) start: u64,
    pub(crate) units: u32,
    /// What of them was in pending blocks.
    pub(crate) pending: Vec<Pending>,
}

/// Takes `[start, +units)` out of free extents and pending blocks; `None`, and nothing done, if some
/// of it is in neither.
pub(crate) fn take(inside: &mut Inside, heap: u32, start: u64, units: u32) -> Option<Taken> {
    let end = start + bytes_of(units);
    if inside.extents.remove_range(start, units) {
        return Some(Taken { heap, start, units, pending: Vec::new() });
    }
    let mut pending: Vec<Pending> = Vec::new();
    for block in &inside.pending {
        let (low, high) = (block.start.max(start), block.extent().end().min(end));
        if low < high {
            pending.push(Pending {
                start: low,
                units: units_of(high - low),
                epoch: block.epoch,
                fences: block.fences.clone(),
            });
        }
    }
    pending.sort_unstable_by_key(|block| block.start);
    let mut gaps = Vec::new();
    let mut at = start;
    for block in &pending {
        if block.start > at {
            gaps.push((at, units_of(block.start - at)));
        }
        at = block.extent().end();
    }
    if at < end {
        gaps.push((at, units_of(end - at)));
    }
    for (done, &(gap, gap_units)) in gaps.iter().enumerate() {
        if !inside.extents.remove_range(gap, gap_units) {
            for &(gap, gap_units) in &gaps[..done] {
                inside.extents.insert(gap, gap_units);
            }
            return None;
        }
    }
    inside.take_from_pending(start, end);
    Some(Taken { heap, start, units, pending })
}

pub(crate) fn put_back(inside: &mut Inside, taken: Taken) {
    let mut at = taken.start;
    let end = taken.start + bytes_of(taken.units);
    for block in taken.pending {
        if block.start > at {
            inside.extents.insert(at, units_of(block.start - at));
        }
        at = block.extent().end();
        inside.pending.push(block);
    }
    if at < end {
        inside.extents.insert(at, units_of(end - at));
    }
}
