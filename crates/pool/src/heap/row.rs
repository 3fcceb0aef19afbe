//! A row: where each leaf of a group starts and how long its longest extent is, in arrays of fixed size that are
//! scanned whole. It knows no extent and no address.

use crate::heap::scan::{Turned, above, largest, raise};

/// At most [`GROUP`] leaves, in address order. Places are in units from the group's base.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Row {
    /// Where the first extent of each leaf starts; behind the leaves the highest number.
    starts: [Turned; GROUP],
    /// How long the longest extent of each leaf is; behind the leaves 0, which no search wants.
    bounds: [Turned; GROUP],
    count: usize,
}

/// So many leaves a group has at most.
pub(crate) const GROUP: usize = 64;

impl Row {
    pub(crate) const EMPTY: Self = Self { count: 0, starts: [Turned::MOST; GROUP], bounds: [Turned::LEAST; GROUP] };

    #[inline(always)]
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(crate) const fn start(&self, leaf: usize) -> u32 {
        self.starts[leaf % GROUP].units()
    }

    #[inline(always)]
    pub(crate) const fn bound(&self, leaf: usize) -> u32 {
        self.bounds[leaf % GROUP].units()
    }

    /// The last leaf that starts at or before `place`, or the first of all.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, place: u32) -> usize {
        // The bit behind the last leaf's; of a full row there is none, and all 64 are counted.
        let end = 2_u64 << (self.count.wrapping_sub(1) % GROUP);
        let behind = above(&self.starts, self.count, place) | end;
        (behind.trailing_zeros() as usize).saturating_sub(1)
    }

    /// Bit `i` is set iff an extent of leaf `i` is at least `wanted` long.
    #[inline(always)]
    pub(crate) fn at_least(&self, wanted: u32) -> u64 {
        above(&self.bounds, self.count, wanted - 1)
    }

    /// The longest extent's length.
    pub(crate) fn longest(&self) -> u32 {
        largest(&self.bounds)
    }

    #[inline(always)]
    pub(crate) const fn set_start(&mut self, leaf: usize, start: u32) {
        self.starts[leaf % GROUP] = Turned::of(start);
    }

    #[inline(always)]
    pub(crate) const fn set_bound(&mut self, leaf: usize, units: u32) {
        self.bounds[leaf % GROUP] = Turned::of(units);
    }

    /// An extent of the leaf has become so long.
    #[inline(always)]
    pub(crate) fn raise_bound(&mut self, leaf: usize, units: u32) {
        raise(&mut self.bounds, leaf, units);
    }

    /// Puts a leaf before leaf `at`. There is room.
    pub(crate) fn insert(&mut self, at: usize, start: u32, bound: u32) {
        self.starts.copy_within(at..self.count, at + 1);
        self.bounds.copy_within(at..self.count, at + 1);
        self.count += 1;
        self.set_start(at, start);
        self.set_bound(at, bound);
    }

    pub(crate) fn remove(&mut self, at: usize) {
        self.starts.copy_within(at + 1..self.count, at);
        self.bounds.copy_within(at + 1..self.count, at);
        self.count -= 1;
        self.set_start(self.count, u32::MAX);
        self.set_bound(self.count, 0);
    }

    /// Moves the leaves from `at` on to the end of another row, which has room for them.
    pub(crate) fn move_from(&mut self, at: usize, to: &mut Self) {
        for leaf in at..self.count {
            to.insert(to.count, self.start(leaf), self.bound(leaf));
        }
        self.starts[at..].fill(Turned::MOST);
        self.bounds[at..].fill(Turned::LEAST);
        self.count = at;
    }

    /// Checks the invariants at the fields that need no leaf.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (starts, behind) = self.starts.split_at(self.count);
        let rises = starts.is_sorted_by(|low, high| low < high);
        let clear = behind.iter().all(|&start| start == Turned::MOST);
        if rises && clear && self.bounds[self.count..].iter().all(|&bound| bound == Turned::LEAST) {
            return Ok(());
        }
        Err(format!("a row of {} does not rise, or is not clear behind its leaves: {starts:?}", self.count))
    }
}
