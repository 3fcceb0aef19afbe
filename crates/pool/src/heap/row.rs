//! A row: of each leaf of a group where its places begin, and how long its longest extent is. It knows no leaf.

use crate::heap::lanes::Lanes;
use crate::heap::scan::{LANES, Number, largest};

/// So many leaves a row tells of at most.
pub(crate) const ROW: usize = 2 * LANES;

/// Leaves in the order of their places.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Row {
    /// The length of the longest extent of a leaf; of an only one it means nothing. Behind the leaves 0, which no search
    /// wants.
    longest: [Number; ROW],
    /// Rising: all places of a leaf are from its fence on, and none is behind the next leaf's. Behind the leaves the
    /// highest number.
    fences: [Number; ROW],
    count: usize,
}

impl Row {
    pub(crate) const EMPTY: Self = Self { longest: [Number::LEAST; ROW], fences: [Number::MOST; ROW], count: 0 };

    #[inline(always)]
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(crate) const fn longest(&self, leaf: usize) -> u32 {
        self.longest[leaf % ROW].get()
    }

    #[inline(always)]
    pub(crate) const fn fence(&self, leaf: usize) -> u32 {
        self.fences[leaf % ROW].get()
    }

    /// The fence behind the leaf's places; that of the next group's first leaf is not known here.
    #[inline(always)]
    pub(crate) fn fence_behind(&self, leaf: usize) -> Option<u32> {
        (leaf + 1 < self.count).then(|| self.fence(leaf + 1))
    }

    /// The leaf that has this place, which is not below the first fence.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, lanes: impl Lanes, place: u32) -> usize {
        let behind = self.at_least(lanes, &self.fences, place.saturating_add(1));
        (behind.trailing_zeros() as usize).min(self.count) - 1
    }

    /// Bit `i` is set iff leaf `i` has an extent of so many units.
    #[inline(always)]
    pub(crate) fn hopeful(&self, lanes: impl Lanes, units: u32) -> u64 {
        self.at_least(lanes, &self.longest, units)
    }

    /// Bit `i` is set iff number `i` is at least `wanted`; behind the leaves it means nothing.
    #[inline(always)]
    fn at_least(&self, lanes: impl Lanes, numbers: &[Number; ROW], wanted: u32) -> u64 {
        let halves = numbers.as_chunks::<LANES>().0;
        let mut mask = u64::from(lanes.at_least(&halves[0], wanted));
        // How many leaves there are changes seldom.
        if self.count > LANES {
            mask |= u64::from(lanes.at_least(&halves[1], wanted)) << LANES;
        }
        mask
    }

    pub(crate) fn largest(&self) -> u32 {
        largest(&self.longest)
    }

    #[inline(always)]
    pub(crate) const fn set_longest(&mut self, leaf: usize, units: u32) {
        self.longest[leaf % ROW] = Number::of(units);
    }

    #[inline(always)]
    pub(crate) fn raise_longest(&mut self, leaf: usize, units: u32) {
        let longest = &mut self.longest[leaf % ROW];
        *longest = (*longest).max(Number::of(units));
    }

    pub(crate) const fn set_fence(&mut self, leaf: usize, place: u32) {
        self.fences[leaf % ROW] = Number::of(place);
    }

    /// Puts a leaf before leaf `at`. There is room.
    pub(crate) fn insert(&mut self, at: usize, fence: u32, longest: u32) {
        self.longest.copy_within(at..self.count, at + 1);
        self.fences.copy_within(at..self.count, at + 1);
        self.count += 1;
        self.set_fence(at, fence);
        self.set_longest(at, longest);
    }

    /// Takes a leaf out; its places are those of the leaf before, or if it was the first, of the next.
    pub(crate) fn remove(&mut self, at: usize) {
        let fence = self.fence(at);
        self.longest.copy_within(at + 1..self.count, at);
        self.fences.copy_within(at + 1..self.count, at);
        self.count -= 1;
        self.longest[self.count] = Number::LEAST;
        self.fences[self.count] = Number::MOST;
        if at == 0 && self.count > 0 {
            self.set_fence(0, fence);
        }
    }

    /// Moves the leaves from `at` on to the end of another row, which has room for them.
    pub(crate) fn move_from(&mut self, at: usize, to: &mut Self) {
        for leaf in at..self.count {
            to.insert(to.count, self.fence(leaf), self.longest(leaf));
        }
        self.longest[at..].fill(Number::LEAST);
        self.fences[at..].fill(Number::MOST);
        self.count = at;
    }

    /// Checks the invariants at the fields that need no leaf.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (fences, behind) = self.fences.split_at(self.count);
        let rises = fences.windows(2).all(|pair| pair[0] < pair[1]);
        let clear = behind.iter().all(|&fence| fence == Number::MOST);
        if rises && clear && self.longest[self.count..].iter().all(|&longest| longest == Number::LEAST) {
            return Ok(());
        }
        Err(format!("a row of {} does not rise, or is not clear behind its leaves: {fences:x?}", self.count))
    }
}
