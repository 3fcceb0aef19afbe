//! What a hit scans and edits rows with: as the processor can. Each answers the same.

use crate::heap::leaf::{Added, Leaf, Piece};
use crate::heap::scan::{self, LANES, Number};

/// A way to look at `LANES` numbers at once.
pub(crate) trait Lanes: Copy {
    /// Bit `i` is set iff number `i` is at least `wanted`, which is not 0.
    fn at_least(self, numbers: &[Number; LANES], wanted: u32) -> u32;

    /// The largest number but that in slot `but`.
    fn largest_but(self, numbers: &[Number; LANES], but: usize) -> u32;

    /// Puts an extent before slot `at` of a leaf that is not full.
    fn insert(self, leaf: &mut Leaf, at: usize, piece: Piece);

    /// Takes an extent out of a leaf.
    fn remove(self, leaf: &mut Leaf, slot: usize);

    /// Adds an extent to a leaf, joined with those it touches there, where nothing can be guessed.
    fn add(self, leaf: &mut Leaf, piece: Piece) -> Added;
}

/// What every processor of the kind can.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fours;

impl Lanes for Fours {
    #[inline(always)]
    fn at_least(self, numbers: &[Number; LANES], wanted: u32) -> u32 {
        scan::at_least(numbers, wanted)
    }

    #[inline(always)]
    fn largest_but(self, numbers: &[Number; LANES], but: usize) -> u32 {
        let mut others = *numbers;
        others[but % LANES] = Number::LEAST;
        scan::largest(&others)
    }

    fn insert(self, leaf: &mut Leaf, at: usize, piece: Piece) {
        leaf.starts.copy_within(at..LANES - 1, at + 1);
        leaf.lengths.copy_within(at..LANES - 1, at + 1);
        leaf.set(at, piece);
    }

    fn remove(self, leaf: &mut Leaf, slot: usize) {
        // The last slot is empty.
        leaf.starts.copy_within(slot + 1.., slot);
        leaf.lengths.copy_within(slot + 1.., slot);
    }

    #[inline(always)]
    fn add(self, leaf: &mut Leaf, piece: Piece) -> Added {
        leaf.add(self, piece)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn numbers() -> impl Strategy<Value = [Number; LANES]> {
        let number = prop_oneof![0_u32..50, Just(0), u32::MAX - 3..=u32::MAX, (1 << 31) - 3..(1 << 31) + 3_u32];
        prop::collection::vec(number, LANES).prop_map(|row| std::array::from_fn(|index| Number::of(row[index])))
    }

    /// What all processors of the kind do, what this one does if it has more, and the plain loop agree on scans.
    fn agree(lanes: impl Lanes, numbers: &[Number; LANES], wanted: u32, but: usize) {
        let row = Row(*numbers);
        let plain = (0..LANES).filter(|&slot| numbers[slot].get() >= wanted).fold(0, |mask, slot| mask | 1_u32 << slot);
        assert_eq!(lanes.at_least(&row.0, wanted), plain);
        let others = (0..LANES).filter(|&slot| slot != but).map(|slot| numbers[slot].get());
        assert_eq!(lanes.largest_but(&row.0, but), others.max().unwrap());
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
                lanes.remove(&mut leaf, slot);
                list.remove(slot);
            } else if clear {
                let low = list.iter().position(|other| other.end() == piece.start);
                let high = list.iter().position(|other| other.start == piece.end());
                let added = if op == 1 { lanes.add(&mut leaf, piece) } else { leaf.add(lanes, piece) };
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
        fn scans_agree_with_the_plain_loop(row in numbers(), other in numbers(), but in 0..LANES) {
            let wanted = other[but].get().max(1);
            agree(Fours, &row, wanted, but);
            #[cfg(target_arch = "x86_64")]
            if let Some(eights) = crate::heap::eights::Eights::find() {
                agree(eights, &row, wanted, but);
            }
            prop_assert_eq!(scan::plain_at_least(&row, wanted), scan::at_least(&row, wanted));
            let eight: [u32; 8] = std::array::from_fn(|slot| row[slot].get());
            prop_assert_eq!(scan::plain_equal(&eight, wanted), scan::equal(&eight, wanted));
        }

        #[test]
        fn edits_agree_with_a_plain_list(ops in prop::collection::vec((0_u8..6, 1_u32..60, 1_u32..5), 1..400)) {
            play(Fours, &ops);
            #[cfg(target_arch = "x86_64")]
            if let Some(eights) = crate::heap::eights::Eights::find() {
                play(eights, &ops);
            }
        }
    }
}
