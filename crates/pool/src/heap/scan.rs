//! Scans over rows of lengths and addresses: the only loops of the hit path. They know nothing of
//! extents. None leaves early, so that the processor has no branch to guess wrongly.

/// A number of 32 bits, kept so that the processor's signed comparison orders it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub(crate) struct Number(i32);

impl Number {
    pub(crate) const LEAST: Self = Self::of(0);
    pub(crate) const MOST: Self = Self::of(u32::MAX);

    #[inline(always)]
    pub(crate) const fn of(number: u32) -> Self {
        Self(number.cast_signed() ^ i32::MIN)
    }

    #[inline(always)]
    pub(crate) const fn kept(bits: i32) -> Self {
        Self(bits)
    }

    /// As it is kept.
    #[inline(always)]
    pub(crate) const fn bits(self) -> i32 {
        self.0
    }

    #[inline(always)]
    pub(crate) const fn get(self) -> u32 {
        (self.0 ^ i32::MIN).cast_unsigned()
    }
}

/// So many numbers a scan looks at, all of them at once.
pub(crate) const LANES: usize = 32;

/// Bit `i` is set iff number `i` is at least `wanted`, which is not 0.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn at_least(numbers: &[Number; LANES], wanted: u32) -> u32 {
    use std::arch::x86_64::{_mm_cmpgt_epi32, _mm_set1_epi32};
    // SAFETY: every x86-64 has SSE2.
    unsafe {
        let below = _mm_set1_epi32(Number::of(wanted - 1).0);
        mask_of(|lane| _mm_cmpgt_epi32(load(numbers, lane), below))
    }
}

/// Bit `i` is set iff lane `i` of the eight fours is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn mask_of(lanes: impl Fn(usize) -> std::arch::x86_64::__m128i) -> u32 {
    use std::arch::x86_64::{_mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32};
    // SAFETY: every x86-64 has SSE2.
    unsafe {
        let pair = |lane| _mm_packs_epi32(lanes(lane), lanes(lane + 1));
        let half = |lane| _mm_movemask_epi8(_mm_packs_epi16(pair(lane), pair(lane + 2))).cast_unsigned();
        half(0) | half(4) << 16
    }
}

/// Four numbers.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn load(numbers: &[Number; LANES], lane: usize) -> std::arch::x86_64::__m128i {
    // SAFETY: there are eight fours, and every x86-64 has SSE2.
    unsafe { std::arch::x86_64::_mm_loadu_si128(numbers.as_ptr().cast::<std::arch::x86_64::__m128i>().add(lane)) }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use plain_at_least as at_least;

#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
pub(crate) fn plain_at_least(numbers: &[Number; LANES], wanted: u32) -> u32 {
    (0..LANES).fold(0, |mask, index| mask | u32::from(numbers[index].get() >= wanted) << index)
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

/// The largest number, 0 of none.
#[inline]
pub(crate) fn largest(numbers: &[Number]) -> u32 {
    numbers.iter().copied().fold(Number::LEAST, Number::max).get()
}
