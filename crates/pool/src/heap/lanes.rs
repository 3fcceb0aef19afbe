//! What a hit scans and edits rows of numbers with: as the processor can. Each answers the same.

use crate::heap::scan::{self, LANES, Number};

/// A way to look at `LANES` numbers at once.
pub(crate) trait Lanes: Copy {
    /// Whether what cannot be guessed is better not guessed: an edit of a row costs the same wherever it is.
    const EVEN: bool;

    /// Bit `i` is set iff number `i` is at least `wanted`, which is not 0.
    fn at_least(self, numbers: &[Number; LANES], wanted: u32) -> u32;

    /// Whether one of the numbers is `wanted`.
    fn has(self, numbers: &[Number; LANES], wanted: u32) -> bool;

    /// Whether one of the numbers and its fellow among the others are `wanted` together, 32 bits of it.
    fn has_sum(self, numbers: &[Number; LANES], others: &[Number; LANES], wanted: u32) -> bool;

    /// The largest number but that in slot `but`.
    fn largest_but(self, numbers: &[Number; LANES], but: usize) -> u32;

    /// Moves the numbers that come to stand in slot `from` and behind it by `up` slots, one at most. The last slot, and
    /// what moves out of slot `from`, stay as they were.
    fn shift(self, numbers: &mut [Number; LANES], from: usize, up: isize);
}

/// Work that is compiled for all lanes there are.
pub(crate) trait Task {
    type Output;

    /// To be in line.
    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// What every processor of the kind can.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fours;

impl Lanes for Fours {
    const EVEN: bool = false;

    #[inline(always)]
    fn at_least(self, numbers: &[Number; LANES], wanted: u32) -> u32 {
        scan::at_least(numbers, wanted)
    }

    fn has(self, numbers: &[Number; LANES], wanted: u32) -> bool {
        numbers.contains(&Number::of(wanted))
    }

    fn has_sum(self, numbers: &[Number; LANES], others: &[Number; LANES], wanted: u32) -> bool {
        numbers.iter().zip(others).any(|(one, other)| one.get().wrapping_add(other.get()) == wanted)
    }

    #[inline(always)]
    fn largest_but(self, numbers: &[Number; LANES], but: usize) -> u32 {
        let mut others = *numbers;
        others[but % LANES] = Number::LEAST;
        scan::largest(&others)
    }

    fn shift(self, numbers: &mut [Number; LANES], from: usize, up: isize) {
        match up {
            1 => numbers.copy_within(from - 1..LANES - 2, from),
            -1 => numbers.copy_within(from + 1.., from),
            _ => {}
        }
    }
}
