//! A leaf: a few extents in the order of their places, in arrays that are scanned whole. It knows no address and no
//! neighbour.

use crate::heap::lanes::{Fours, Lanes};
use crate::heap::scan::{self, LANES, Number};

/// So many extents a leaf has at most: the last slot is always empty.
pub(crate) const LEAF: usize = LANES - 1;

/// Extents in order. Four cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Leaf {
    /// Of the extents; 0 iff the slot is empty.
    pub(super) lengths: [Number; LANES],
    /// Where they start, rising; the highest number, where nothing starts or ends, iff the slot is empty.
    pub(super) starts: [Number; LANES],
}

/// An extent of a leaf: where it starts and how long it is, in units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) start: u32,
    pub(crate) units: u32,
}

impl Piece {
    #[inline(always)]
    pub(crate) const fn end(self) -> u32 {
        self.start + self.units
    }
}

/// What has become of an extent that was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    /// It is so long now.
    Joined(u32),
    /// So long, and the leaf has one extent less.
    Fewer(u32),
    /// It is not added: no slot is empty.
    Full,
}

impl Leaf {
    pub(crate) const EMPTY: Self = Self { lengths: [Number::LEAST; LANES], starts: [Number::MOST; LANES] };

    #[inline(always)]
    pub(crate) const fn get(&self, slot: usize) -> Piece {
        Piece { start: self.starts[slot % LANES].get(), units: self.lengths[slot % LANES].get() }
    }

    #[inline(always)]
    pub(crate) const fn set(&mut self, slot: usize, piece: Piece) {
        self.starts[slot % LANES] = Number::of(piece.start);
        self.lengths[slot % LANES] = Number::of(piece.units);
    }

    /// Bit `i` is set iff the extent in slot `i` has `units`, which are not 0.
    #[inline(always)]
    pub(crate) fn with(&self, lanes: impl Lanes, units: u32) -> u32 {
        lanes.at_least(&self.lengths, units)
    }

    /// The length of the longest extent but that in this slot.
    #[inline(always)]
    pub(crate) fn largest_but(&self, lanes: impl Lanes, slot: usize) -> u32 {
        lanes.largest_but(&self.lengths, slot)
    }

    /// How many extents start at or before a place.
    #[inline(always)]
    pub(crate) fn rank(&self, lanes: impl Lanes, place: u32) -> usize {
        // The last slot is empty, so some start is above.
        lanes.at_least(&self.starts, place + 1).trailing_zeros() as usize
    }

    /// Adds an extent, joined with those of the leaf that it touches, where what is added can be guessed from what was
    /// before.
    #[inline(always)]
    pub(crate) fn add(&mut self, lanes: impl Lanes, piece: Piece) -> Added {
        let at = self.rank(lanes, piece.start);
        let low = at.wrapping_sub(1);
        let touches_low = at > 0 && self.get(low).end() == piece.start;
        let touches_high = self.starts[at % LANES] == Number::of(piece.end());
        if touches_low == touches_high {
            return if touches_low { self.bridge(lanes, at, piece) } else { self.insert(lanes, at, piece) };
        }
        // One way for either neighbour: which one it is cannot be guessed.
        let grown = if touches_low { low } else { at };
        let old = self.get(grown);
        let units = old.units + piece.units;
        self.set(grown, Piece { start: old.start.min(piece.start), units });
        Added::Joined(units)
    }

    /// Adds an extent that touches both those before and behind slot `at`.
    #[inline(always)]
    fn bridge(&mut self, lanes: impl Lanes, at: usize, piece: Piece) -> Added {
        let (low, high) = (self.get(at - 1), self.get(at));
        let units = low.units + piece.units + high.units;
        lanes.remove(self, at);
        self.set(at - 1, Piece { start: low.start, units });
        Added::Fewer(units)
    }

    /// Puts an extent that touches no other before slot `at`.
    #[inline(always)]
    pub(crate) fn insert(&mut self, lanes: impl Lanes, at: usize, piece: Piece) -> Added {
        if self.is_full() {
            return Added::Full;
        }
        lanes.insert(self, at, piece);
        Added::Joined(piece.units)
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.lengths[LEAF - 1] != Number::LEAST
    }

    /// How many extents there are.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.with(Fours, 1).trailing_ones() as usize
    }

    /// Whether there are at most so many, less than a leaf can have.
    #[inline(always)]
    pub(crate) fn has_at_most(&self, count: usize) -> bool {
        self.lengths[count % LANES] == Number::LEAST
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.has_at_most(0)
    }

    pub(crate) fn largest(&self) -> u32 {
        scan::largest(&self.lengths)
    }

    /// All extents, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        (0..self.count()).map(|slot| self.get(slot))
    }

    /// Adds all extents of the leaf behind this one; there is room.
    pub(crate) fn append(&mut self, next: &Self) {
        let count = self.count();
        for (slot, piece) in (count..).zip(next.iter()) {
            self.set(slot, piece);
        }
    }

    /// Keeps the lower half of a full leaf; gives the upper one.
    pub(crate) fn split(&mut self) -> Self {
        let mut high = Self::EMPTY;
        for slot in LEAF / 2..LEAF {
            high.set(slot - LEAF / 2, self.get(slot));
            self.starts[slot] = Number::MOST;
            self.lengths[slot] = Number::LEAST;
        }
        high
    }

    /// Checks the invariants at the fields.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = self.count();
        let rises = self.starts[..count].is_sorted_by(|one, next| one < next);
        let clear = self.starts[count..].iter().all(|&start| start == Number::MOST)
            && self.lengths[count..].iter().all(|&length| length == Number::LEAST);
        if rises && clear && count <= LEAF && self.starts[..count].iter().all(|&start| start != Number::MOST) {
            return Ok(());
        }
        Err(format!("a leaf of {count} does not rise, or is not clear behind its extents: {self:?}"))
    }
}
