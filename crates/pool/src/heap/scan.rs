//! Scans over rows of numbers: the only loops of the hit path. They know nothing of extents. None leaves
//! early, so that the processor has no branch to guess wrongly.

/// So many units, kept so that the processor's signed comparison orders them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Turned(i32);

impl Turned {
    pub(crate) const LEAST: Self = Self::of(0);
    pub(crate) const MOST: Self = Self::of(u32::MAX);

    #[inline(always)]
    pub(crate) const fn of(units: u32) -> Self {
        Self(units.cast_signed() ^ i32::MIN)
    }

    #[inline(always)]
    pub(crate) const fn units(self) -> u32 {
        (self.0 ^ i32::MIN).cast_unsigned()
    }
}

/// Bit `i` is set iff number `i` is above `limit`, of the first `count` numbers and a few behind them. There are a
/// multiple of 16 of them, at most 64.
#[inline(always)]
pub(crate) fn above<const N: usize>(numbers: &[Turned; N], count: usize, limit: u32) -> u64 {
    let parts = numbers.as_chunks::<16>().0;
    let mut mask = u64::from(part_above(&parts[0], limit));
    // Most rows are short, and a row that is stays so for long.
    for (index, part) in parts.iter().enumerate().skip(1) {
        if index * 16 >= count {
            break;
        }
        mask |= u64::from(part_above(part, limit)) << (index * 16);
    }
    mask
}

/// Bit `i` is set iff number `i` is `wanted`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn equal(numbers: &[u32; 8], wanted: u32) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32,
    };
    let halves = numbers.as_ptr().cast::<__m128i>();
    // SAFETY: every x86-64 has SSE2, and `numbers` holds two halves of 16 bytes.
    unsafe {
        let wanted = _mm_set1_epi32(wanted.cast_signed());
        let same = |half| _mm_cmpeq_epi32(_mm_loadu_si128(halves.add(half)), wanted);
        let both = _mm_packs_epi32(same(0), same(1));
        (_mm_movemask_epi8(_mm_packs_epi16(both, both)) & 0xFF).cast_unsigned()
    }
}
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use plain_equal as equal;

#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
pub(crate) fn plain_equal(numbers: &[u32; 8], wanted: u32) -> u32 {
    (0..8).fold(0, |mask, index| mask | u32::from(numbers[index] == wanted) << index)
}

/// Index of the first number that is at least `wanted`, which is not 0.
#[inline]
pub(crate) fn first_at_least(numbers: &[Turned], wanted: u32) -> Option<usize> {
    let (parts, rest) = numbers.as_chunks::<16>();
    for (index, part) in parts.iter().enumerate() {
        let mask = part_above(part, wanted - 1);
        if mask != 0 {
            return Some(index * 16 + mask.trailing_zeros() as usize);
        }
    }
    rest.iter().position(|&number| number >= Turned::of(wanted)).map(|offset| parts.len() * 16 + offset)
}

/// The largest number, 0 of none.
#[inline]
pub(crate) fn largest(numbers: &[Turned]) -> u32 {
    numbers.iter().copied().fold(Turned::LEAST, Turned::max).units()
}

/// Number `at` becomes `units`, if it is less. It is read and written together with its neighbours, as the
/// scan that follows reads it: the processor hands it over from its write only whole.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn raise<const N: usize>(numbers: &mut [Turned; N], at: usize, units: u32) {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_andnot_si128, _mm_cmpgt_epi32, _mm_loadu_si128, _mm_or_si128, _mm_set1_epi32,
        _mm_storeu_si128,
    };
    static PLACES: [[i32; 4]; 4] = [[-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 0], [0, 0, 0, -1]];
    let quad = &mut numbers.as_chunks_mut::<4>().0[at % N / 4];
    // SAFETY: every x86-64 has SSE2, and `quad` and each of `PLACES` hold 16 bytes.
    unsafe {
        let quad = std::ptr::from_mut(quad).cast::<__m128i>();
        let place = _mm_loadu_si128(PLACES[at % 4].as_ptr().cast());
        let (old, new) = (_mm_loadu_si128(quad), _mm_set1_epi32(Turned::of(units).0));
        let raised = _mm_and_si128(place, _mm_cmpgt_epi32(new, old));
        _mm_storeu_si128(quad, _mm_or_si128(_mm_andnot_si128(raised, old), _mm_and_si128(raised, new)));
    }
}
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use plain_raise as raise;

#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
pub(crate) fn plain_raise<const N: usize>(numbers: &mut [Turned; N], at: usize, units: u32) {
    numbers[at % N] = numbers[at % N].max(Turned::of(units));
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn part_above(numbers: &[Turned; 16], limit: u32) -> u16 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpgt_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32,
    };
    let quarters = numbers.as_ptr().cast::<__m128i>();
    // SAFETY: every x86-64 has SSE2, and `numbers` holds four quarters of 16 bytes.
    unsafe {
        let limit = _mm_set1_epi32(Turned::of(limit).0);
        let above = |quarter| _mm_cmpgt_epi32(_mm_loadu_si128(quarters.add(quarter)), limit);
        let low = _mm_packs_epi32(above(0), above(1));
        let high = _mm_packs_epi32(above(2), above(3));
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u16
    }
}
#[cfg(not(target_arch = "x86_64"))]
use plain_part_above as part_above;

#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn plain_part_above(numbers: &[Turned; 16], limit: u32) -> u16 {
    (0..16).fold(0, |mask, index| mask | u16::from(numbers[index].units() > limit) << index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = [u32; 64]> {
        let number = prop_oneof![0_u32..50, Just(0), u32::MAX - 3..=u32::MAX, (1 << 31) - 3..(1 << 31) + 3_u32];
        prop::collection::vec(number, 64).prop_map(|row| std::array::from_fn(|index| row[index]))
    }

    proptest! {
        #[test]
        fn scans_agree_with_the_plain_search(row in row(), count in 0_usize..64, other in row()) {
            let limit = other[count];
            let numbers = row.map(Turned::of);
            let mask = above(&numbers, count, limit);
            for (index, &number) in row.iter().enumerate().take(count.max(1).next_multiple_of(16)) {
                prop_assert_eq!(mask >> index & 1 == 1, number > limit);
            }
            for part in numbers.as_chunks::<16>().0 {
                prop_assert_eq!(part_above(part, limit), plain_part_above(part, limit));
            }
            for part in row.as_chunks::<8>().0 {
                prop_assert_eq!(equal(part, row[count]), plain_equal(part, row[count]));
            }
            let (some, wanted) = (&row[..count], limit.max(1));
            prop_assert_eq!(first_at_least(&numbers[..count], wanted), some.iter().position(|&number| number >= wanted));
            prop_assert_eq!(largest(&numbers[..count]), some.iter().copied().max().unwrap_or(0));
            let (mut raised, mut plainly) = (numbers, numbers);
            raise(&mut raised, count, limit);
            plain_raise(&mut plainly, count, limit);
            prop_assert_eq!(raised, plainly);
        }
    }
}
