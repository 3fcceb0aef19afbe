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
    lengths: [Number; LANES],
    /// Where they start, rising; the highest number, where nothing starts or ends, iff the slot is empty.
    starts: [Number; LANES],
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

    /// Has the processor fetch all of it.
    #[inline(always)]
    pub(crate) fn foresee(&self) {
        for numbers in [&self.lengths, &self.starts] {
            scan::prefetch(&numbers[0]);
            scan::prefetch(&numbers[LANES / 2]);
        }
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
        lanes.at_least(&self.starts, place.saturating_add(1)).trailing_zeros() as usize
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

    /// The same in one way for all that may be, which guesses nothing.
    #[inline(always)]
    pub(crate) fn add_even(&mut self, lanes: impl Lanes, piece: Piece) -> Added {
        let at = self.rank(lanes, piece.start);
        let low = u32::from(lanes.has_sum(&self.starts, &self.lengths, piece.start));
        let high = u32::from(lanes.has(&self.starts, piece.end()));
        if low + high == 0 && self.is_full() {
            return Added::Full;
        }
        // Products instead of choices, which would become branches.
        let low_units = self.get(at.wrapping_sub(1)).units * low;
        let high_units = self.get(at).units * high;
        let units = piece.units + low_units + high_units;
        // What stands behind moves up by one, stays, or moves down by one.
        let up = 1 - (low + high) as isize;
        let from = at + usize::from(up == 1);
        lanes.shift(&mut self.starts, from, up);
        lanes.shift(&mut self.lengths, from, up);
        self.set(at - low as usize, Piece { start: piece.start - low_units, units });
        if up < 0 { Added::Fewer(units) } else { Added::Joined(units) }
    }

    /// Adds an extent that touches both those before and behind slot `at`.
    #[inline(always)]
    fn bridge(&mut self, lanes: impl Lanes, at: usize, piece: Piece) -> Added {
        let (low, high) = (self.get(at - 1), self.get(at));
        let units = low.units + piece.units + high.units;
        self.remove(lanes, at);
        self.set(at - 1, Piece { start: low.start, units });
        Added::Fewer(units)
    }

    /// Puts an extent that touches no other before slot `at`.
    #[inline(always)]
    pub(crate) fn insert(&mut self, lanes: impl Lanes, at: usize, piece: Piece) -> Added {
        if self.is_full() {
            return Added::Full;
        }
        lanes.shift(&mut self.starts, at + 1, 1);
        lanes.shift(&mut self.lengths, at + 1, 1);
        self.set(at, piece);
        Added::Joined(piece.units)
    }

    /// Takes an extent out.
    #[inline(always)]
    pub(crate) fn remove(&mut self, lanes: impl Lanes, slot: usize) {
        lanes.shift(&mut self.starts, slot, -1);
        lanes.shift(&mut self.lengths, slot, -1);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::heap::lanes::Task;
    use crate::heap::width::Width;
    use proptest::prelude::*;

    fn numbers() -> impl Strategy<Value = [Number; LANES]> {
        let number = prop_oneof![0_u32..50, Just(0), u32::MAX - 3..=u32::MAX, (1 << 31) - 3..(1 << 31) + 3_u32];
        prop::collection::vec(number, LANES).prop_map(|row| std::array::from_fn(|index| Number::of(row[index])))
    }

    /// Scans of a row with any lanes, beside the plain loop.
    struct Agree<'a>(&'a [Number; LANES], u32, usize);

    impl Task for Agree<'_> {
        type Output = ();

        fn run(self, lanes: impl Lanes) {
            agree(lanes, self.0, self.1, self.2);
        }
    }

    /// Edits of a leaf with any lanes, beside a plain list.
    struct Play<'a>(&'a [(u8, u32, u32)]);

    impl Task for Play<'_> {
        type Output = ();

        fn run(self, lanes: impl Lanes) {
            play(lanes, self.0);
        }
    }

    fn agree(lanes: impl Lanes, numbers: &[Number; LANES], wanted: u32, but: usize) {
        let row = Row(*numbers);
        let plain = (0..LANES).filter(|&slot| numbers[slot].get() >= wanted).fold(0, |mask, slot| mask | 1_u32 << slot);
        assert_eq!(lanes.at_least(&row.0, wanted), plain);
        let others = (0..LANES).filter(|&slot| slot != but).map(|slot| numbers[slot].get());
        assert_eq!(lanes.largest_but(&row.0, but), others.max().unwrap());
        assert_eq!(lanes.has(&row.0, wanted), numbers.contains(&Number::of(wanted)));
        let sum = numbers[but].get().wrapping_mul(2);
        assert!(lanes.has_sum(&row.0, &row.0, sum) && !lanes.has_sum(&row.0, &Row([Number::of(1 << 20); LANES]).0, 7));
    }

    /// Rows lie at whole cache lines.
    #[repr(align(64))]
    struct Row([Number; LANES]);

    /// Plays adding and taking out on a leaf and on a plain list.
    fn play(lanes: impl Lanes, ops: &[(u8, u32, u32)]) {
        let (mut leaf, mut list) = (Leaf::EMPTY, Vec::<Piece>::new());
        for &(op, place, units) in ops {
            let piece = Piece { start: place * 2, units };
            let clear = list.iter().all(|other| other.end() <= piece.start || piece.end() <= other.start);
            if op == 0 && !list.is_empty() {
                let slot = place as usize % list.len();
                leaf.remove(lanes, slot);
                list.remove(slot);
            } else if clear {
                let low = list.iter().position(|other| other.end() == piece.start);
                let high = list.iter().position(|other| other.start == piece.end());
                let added = if op == 1 { leaf.add_even(lanes, piece) } else { leaf.add(lanes, piece) };
                let joined = |slot: Option<usize>| slot.map_or(0, |slot| list[slot].units);
                let all = units + joined(low) + joined(high);
                let expected = match (low, high) {
                    (None, None) if list.len() == LANES - 1 => Added::Full,
                    (Some(_), Some(_)) => Added::Fewer(all),
                    _ => Added::Joined(all),
                };
                assert_eq!(added, expected);
                if added != Added::Full {
                    let start = low.map_or(piece.start, |slot| list[slot].start);
                    list.retain(|other| other.end() != piece.start && other.start != piece.end());
                    let at = list.partition_point(|other| other.start < start);
                    list.insert(at, Piece { start, units: all });
                }
            }
            assert_eq!(leaf.check(), Ok(()));
            assert_eq!(leaf.iter().collect::<Vec<_>>(), list);
            assert_eq!(leaf.rank(lanes, place * 2), list.iter().filter(|other| other.start <= place * 2).count());
        }
    }

    proptest! {
        #[test]
        fn scans_agree_with_the_plain_loop(width in 0_usize..3, row in numbers(), other in numbers(), but in 0..LANES) {
            let wanted = other[but].get().max(1);
            Width::any(width).play(Agree(&row, wanted, but));
            prop_assert_eq!(scan::plain_at_least(&row, wanted), scan::at_least(&row, wanted));
            let eight: [u32; 8] = std::array::from_fn(|slot| row[slot].get());
            prop_assert_eq!(scan::plain_equal(&eight, wanted), scan::equal(&eight, wanted));
        }

        #[test]
        fn edits_agree_with_a_plain_list(width in 0_usize..3, ops in prop::collection::vec((0_u8..6, 1_u32..60, 1_u32..5), 1..400)) {
            Width::any(width).play(Play(&ops));
        }
    }
}
