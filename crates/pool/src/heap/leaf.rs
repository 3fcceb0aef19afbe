//! A leaf: a few extents in address order, in arrays of fixed size that are scanned and moved without a branch.
//! It knows no address.

use crate::heap::scan::{Turned, above, largest};

/// At most [`LEAF`] extents. Places are in units from the group's base.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Leaf {
    /// Rising; behind the extents the highest number.
    starts: [Turned; ROOM],
    /// Behind the extents 0, which no search wants.
    lengths: [Turned; ROOM],
    count: usize,
}

/// So many extents a leaf has at most.
pub(crate) const LEAF: usize = 32;
/// Twice as many numbers stand there, so that as many can be moved from any place on.
const ROOM: usize = 2 * LEAF;

impl Leaf {
    pub(crate) const EMPTY: Self = Self { starts: [Turned::MOST; ROOM], lengths: [Turned::LEAST; ROOM], count: 0 };

    #[inline(always)]
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(crate) const fn start(&self, at: usize) -> u32 {
        self.starts[at % ROOM].units()
    }

    #[inline(always)]
    pub(crate) const fn length(&self, at: usize) -> u32 {
        self.lengths[at % ROOM].units()
    }

    #[inline(always)]
    pub(crate) const fn end(&self, at: usize) -> u32 {
        self.start(at) + self.length(at)
    }

    /// How many extents start at or before `place`.
    #[inline(always)]
    pub(crate) fn rank(&self, place: u32) -> usize {
        let behind = above(&self.starts.as_chunks::<LEAF>().0[0], LEAF, place);
        (behind | 1 << self.count).trailing_zeros() as usize
    }

    /// Bit `i` is set iff extent `i` is at least `wanted` long.
    #[inline(always)]
    pub(crate) fn at_least(&self, wanted: u32) -> u64 {
        above(&self.lengths.as_chunks::<LEAF>().0[0], LEAF, wanted - 1)
    }

    /// The longest extent's length, 0 of none.
    #[inline(always)]
    pub(crate) fn longest(&self) -> u32 {
        largest(&self.lengths.as_chunks::<LEAF>().0[0])
    }

    #[inline(always)]
    pub(crate) const fn set(&mut self, at: usize, start: u32, length: u32) {
        self.starts[at % ROOM] = Turned::of(start);
        self.lengths[at % ROOM] = Turned::of(length);
    }

    /// Moves the extents from `from` on to where they start at `to`: no further, one up or one down. Up, there is
    /// room, and what is in between is to be set.
    #[inline(always)]
    pub(crate) fn shift(&mut self, from: usize, to: usize) {
        // Always so many numbers, so that it is a few moves and no loop.
        let (from, to) = (from.min(LEAF), to.min(LEAF));
        self.starts.copy_within(from..from + LEAF, to);
        self.lengths.copy_within(from..from + LEAF, to);
        self.count = self.count + to - from;
    }

    /// Puts an extent before extent `at`. There is room.
    pub(crate) fn insert(&mut self, at: usize, start: u32, length: u32) {
        self.shift(at, at + 1);
        self.set(at, start, length);
    }

    pub(crate) fn remove(&mut self, at: usize) {
        self.shift(at + 1, at);
    }

    /// Moves the extents from `at` on to the end of another leaf, which has room for them.
    pub(crate) fn move_from(&mut self, at: usize, to: &mut Self) {
        let behind = to.count..to.count + (self.count - at);
        to.starts[behind.clone()].copy_from_slice(&self.starts[at..self.count]);
        to.lengths[behind.clone()].copy_from_slice(&self.lengths[at..self.count]);
        to.count = behind.end;
        self.starts[at..].fill(Turned::MOST);
        self.lengths[at..].fill(Turned::LEAST);
        self.count = at;
    }

    /// Checks the invariants at the fields.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (starts, behind) = self.starts.split_at(self.count);
        let rises = starts.is_sorted_by(|low, high| low < high);
        let clear = behind.iter().all(|&start| start == Turned::MOST);
        if self.count <= LEAF && rises && clear && self.lengths[self.count..].iter().all(|&it| it == Turned::LEAST) {
            return Ok(());
        }
        Err(format!("a leaf of {} does not rise, or is not clear behind its extents: {starts:?}", self.count))
    }
}
