//! Scans and edits of sixteen lanes at a time, which guess nothing and need no gathering of bits: a comparison gives a
//! mask. Only where the processor has AVX-512.

use crate::heap::eights::{Eights, lanes_of_functions};
use crate::heap::lanes::{Lanes, Task};
use crate::heap::scan::{LANES, Number};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_cmpeq_epi32_mask, _mm512_cmpgt_epi32_mask, _mm512_loadu_si512,
    _mm512_mask_blend_epi32, _mm512_mask_loadu_epi32, _mm512_max_epi32, _mm512_reduce_max_epi32, _mm512_set1_epi32,
    _mm512_storeu_si512,
};

/// Whoever has one runs on a processor with AVX-512 and what came with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sixteens(());

/// So many numbers are looked at at a time: half of all.
const SIXTEEN: usize = LANES / 2;

impl Sixteens {
    /// `None` where the processor has not what it takes.
    pub(crate) fn find() -> Option<Self> {
        let has_more = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        Eights::find().filter(|_| has_more).map(|_| Self(()))
    }

    /// Does work that is compiled for such a processor.
    #[inline(always)]
    pub(crate) fn play<T: Task>(self, task: T) -> T::Output {
        // SAFETY: there are sixteens, so the processor has what they take.
        unsafe { play(self, task) }
    }
}

lanes_of_functions!(Sixteens);

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,lzcnt")]
fn play<T: Task>(sixteens: Sixteens, task: T) -> T::Output {
    task.run(sixteens)
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn at_least(numbers: &[Number; LANES], wanted: u32) -> u32 {
    let below = _mm512_set1_epi32(Number::of(wanted - 1).bits());
    let above = |half| u32::from(_mm512_cmpgt_epi32_mask(load(numbers, half), below));
    above(0) | above(1) << SIXTEEN
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn has(numbers: &[Number; LANES], wanted: u32) -> bool {
    let wanted = _mm512_set1_epi32(Number::of(wanted).bits());
    let same = |half| _mm512_cmpeq_epi32_mask(load(numbers, half), wanted);
    same(0) | same(1) != 0
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn has_sum(numbers: &[Number; LANES], others: &[Number; LANES], wanted: u32) -> bool {
    // Both are turned in their top bit, so their sum is not.
    let wanted = _mm512_set1_epi32(wanted.cast_signed());
    let same = |half| {
        let sum = _mm512_add_epi32(load(numbers, half), load(others, half));
        _mm512_cmpeq_epi32_mask(sum, wanted)
    };
    same(0) | same(1) != 0
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn largest_but(numbers: &[Number; LANES], but: usize) -> u32 {
    let least = _mm512_set1_epi32(Number::LEAST.bits());
    let but = 1_u32 << (but % LANES);
    let others = |half: usize| _mm512_mask_blend_epi32(part(but, half), load(numbers, half), least);
    Number::kept(_mm512_reduce_max_epi32(_mm512_max_epi32(others(0), others(1)))).get()
}

/// Moves the numbers that come to stand in slot `from` and behind it by `up` slots, one at most. The last slot stays
/// as it is.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn shift(numbers: &mut [Number; LANES], from: usize, up: isize) {
    let slots = (u32::MAX << (from % LANES)) & (u32::MAX >> 1);
    let moved = |half: usize| {
        let source = numbers.as_ptr().cast::<i32>().wrapping_add(half * SIXTEEN).wrapping_offset(-up);
        // SAFETY: only what comes to stand in those slots is read, and all of that is within the numbers: slot 0 is none
        // of them where numbers move up, and the last is none ever.
        unsafe { _mm512_mask_loadu_epi32(load(numbers, half), part(slots, half), source) }
    };
    let halves = [moved(0), moved(1)];
    for (half, moved) in halves.into_iter().enumerate() {
        // SAFETY: there are two halves.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast::<__m512i>().add(half), moved) }
    }
}

/// What of a mask is about a half.
#[inline(always)]
const fn part(mask: u32, half: usize) -> u16 {
    (mask >> (half * SIXTEEN)) as u16
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn load(numbers: &[Number; LANES], half: usize) -> __m512i {
    // SAFETY: there are two halves.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast::<__m512i>().add(half)) }
}
