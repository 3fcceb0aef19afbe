//! A gap of a chain as a place for a block, with the free extents beside it.

use crate::heap::extents::Extents;
use crate::mapper::chain::Gap;
use crate::miss::job::Job;

/// A gap with what is free beside it, for one job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) chain: u64,
    pub(crate) gap: Gap,
    /// Where the block would start.
    pub(crate) start: u64,
    /// How many bytes the gap must get.
    pub(crate) missing_bytes: u64,
    /// How many the block takes of the extent behind the gap; then the gap must be filled exactly.
    pub(crate) behind_bytes: u64,
}

impl Site {
    pub(crate) fn beside(chain: u64, gap: Gap, extents: &Extents, job: &Job<'_>) -> Option<Self> {
        let before = extents.ending_at(gap.start).map_or(gap.start, |extent| extent.start);
        let start = before.next_multiple_of(job.alignment_bytes);
        let end = start + job.bytes();
        if start > gap.start || end <= gap.start {
            return None;
        }
        if end <= gap.end() {
            return Some(Self { chain, gap, start, missing_bytes: end - gap.start, behind_bytes: 0 });
        }
        let behind_bytes = end - gap.end();
        let reaches = extents.starting_at(gap.end()).is_some_and(|behind| behind.bytes() >= behind_bytes);
        reaches.then_some(Self { chain, gap, start, missing_bytes: gap.bytes, behind_bytes })
    }
}
