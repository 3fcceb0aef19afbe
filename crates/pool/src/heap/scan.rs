//! Scans over rows of lengths and addresses: the only loops of the hit path. They know nothing of
//! extents. None leaves early, so that the processor has no branch to guess wrongly.

/// A length in units, kept so that the processor's signed comparison orders it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Length(i32);

impl Length {
    pub(crate) const NOTHING: Self = Self::of(0);

    #[inline(always)]
    pub(crate) const fn of(units: u32) -> Self {
        Self(units.cast_signed() ^ i32::MIN)
    }

    #[inline(always)]
    pub(crate) const fn units(self) -> u32 {
        (self.0 ^ i32::MIN).cast_unsigned()
    }
}

/// Bit `i` is set iff length `i` is at least `wanted`, which is not 0. There are a multiple of 16 of them,
/// at most 64, and none from `count` on is.
#[inline(always)]
pub(crate) fn at_least<const N: usize>(lengths: &[Length; N], count: usize, wanted: u32) -> u64 {
    let parts = lengths.as_chunks::<16>().0;
    let mut mask = u64::from(part_at_least(&parts[0], wanted));
    // Most rows are short, and a row that is stays so for long.
    for (index, part) in parts.iter().enumerate().skip(1) {
        if index * 16 >= count {
            break;
        }
        mask |= u64::from(part_at_least(part, wanted)) << (index * 16);
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

/// Has the processor fetch what will be looked at soon.
#[inline(always)]
pub(crate) fn prefetch<T>(soon: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads nothing, and every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(soon).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = soon;
}

/// Index of the first length that is at least `wanted`, which is not 0.
#[inline]
pub(crate) fn first_at_least(lengths: &[Length], wanted: u32) -> Option<usize> {
    let (parts, rest) = lengths.as_chunks::<16>();
    for (index, part) in parts.iter().enumerate() {
        let mask = part_at_least(part, wanted);
        if mask != 0 {
            return Some(index * 16 + mask.trailing_zeros() as usize);
        }
    }
    let long = |(index, &length): (usize, &Length)| u32::from(length >= Length::of(wanted)) << index;
    let mask = rest.iter().enumerate().map(long).fold(0, |mask, bit| mask | bit);
    (mask != 0).then(|| parts.len() * 16 + mask.trailing_zeros() as usize)
}

/// How many of these rising addresses are at most `address`. There are a multiple of eight of them, and
/// none from `count` on is.
#[inline(always)]
pub(crate) fn rank<const N: usize>(rising: &[u64; N], count: usize, address: u64) -> usize {
    // Two short counts instead of a bisection: its steps would wait for each other.
    let eights = rising.as_chunks::<8>().0;
    let Some((last, passed)) = eights.split_last() else { return 0 };
    let eight = if count <= 8 { 0 } else { passed.iter().map(|eight| usize::from(eight[7] <= address)).sum() };
    let eight_of = passed.get(eight).unwrap_or(last);
    eight * 8 + eight_of.iter().map(|&at| usize::from(at <= address)).sum::<usize>()
}

/// The largest length, 0 of none.
#[inline]
pub(crate) fn largest(lengths: &[Length]) -> Length {
    lengths.iter().copied().fold(Length::NOTHING, Length::max)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn part_at_least(lengths: &[Length; 16], wanted: u32) -> u16 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpgt_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32,
    };
    let quarters = lengths.as_ptr().cast::<__m128i>();
    // SAFETY: every x86-64 has SSE2, and `lengths` holds four quarters of 16 bytes.
    unsafe {
        let below = _mm_set1_epi32(Length::of(wanted - 1).0);
        let long = |quarter| _mm_cmpgt_epi32(_mm_loadu_si128(quarters.add(quarter)), below);
        let low = _mm_packs_epi32(long(0), long(1));
        let high = _mm_packs_epi32(long(2), long(3));
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u16
    }
}
#[cfg(not(target_arch = "x86_64"))]
use plain_part_at_least as part_at_least;

#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn plain_part_at_least(lengths: &[Length; 16], wanted: u32) -> u16 {
    (0..16).fold(0, |mask, index| mask | u16::from(lengths[index].units() >= wanted) << index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = [u32; 64]> {
        let length = prop_oneof![0_u32..50, Just(0), u32::MAX - 3..=u32::MAX, (1 << 31) - 3..(1 << 31) + 3_u32];
        prop::collection::vec(length, 64).prop_map(|row| std::array::from_fn(|index| row[index]))
    }

    proptest! {
        #[test]
        fn scans_agree_with_the_plain_search(row in row(), count in 0_usize..64, other in row()) {
            let wanted = other[count].max(1);
            let lengths = row.map(Length::of);
            let mut short = lengths;
            short[count..].fill(Length::NOTHING);
            let mask = at_least(&short, count, wanted);
            for (index, &length) in short.iter().enumerate() {
                prop_assert_eq!(mask >> index & 1 == 1, length.units() >= wanted);
            }
            for part in lengths.as_chunks::<16>().0 {
                prop_assert_eq!(part_at_least(part, wanted), plain_part_at_least(part, wanted));
            }
            for part in row.as_chunks::<8>().0 {
                prop_assert_eq!(equal(part, row[count]), plain_equal(part, row[count]));
            }
            let some = &row[..count];
            prop_assert_eq!(first_at_least(&lengths[..count], wanted), some.iter().position(|&length| length >= wanted));
            prop_assert_eq!(largest(&lengths[..count]).units(), some.iter().copied().max().unwrap_or(0));
            let mut rising = row.map(u64::from);
            rising.sort_unstable();
            rising[count..].fill(u64::MAX);
            let address = u64::from(wanted);
            prop_assert_eq!(rank(&rising, count, address), rising.iter().filter(|&&at| at <= address).count());
        }
    }
}
