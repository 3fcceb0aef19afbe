//! Scans and edits of eight lanes at a time, which guess nothing. Only where the processor has AVX2.

use crate::heap::lanes::{Lanes, Task};
use crate::heap::scan::{LANES, Number};
use std::arch::x86_64::{
    __m256i, _mm_cvtsi128_si32, _mm_max_epi32, _mm_shuffle_epi32, _mm256_add_epi32, _mm256_andnot_si256,
    _mm256_blendv_epi8, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32,
    _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_max_epi32, _mm256_movemask_ps, _mm256_or_si256,
    _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_storeu_si256,
};

/// Whoever has one runs on a processor with AVX2 and BMI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eights(());

/// So many numbers are looked at at a time.
const EIGHT: usize = 8;
const EIGHTS: usize = LANES / EIGHT;

impl Eights {
    /// `None` where the processor has not what it takes.
    pub(crate) fn find() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt");
        has_all.then_some(Self(()))
    }

    /// Does work that is compiled for such a processor.
    #[inline(always)]
    pub(crate) fn play<T: Task>(self, task: T) -> T::Output {
        // SAFETY: there are eights, so the processor has what they take.
        unsafe { play(self, task) }
    }
}

/// Lanes whose functions stand beside them, compiled for a processor that has more than all of its kind. Whoever has such
/// lanes runs on one.
macro_rules! lanes_of_functions {
    ($lanes:ident) => {
        impl Lanes for $lanes {
            const EVEN: bool = true;

            #[inline(always)]
            fn at_least(self, numbers: &[Number; LANES], wanted: u32) -> u32 {
                // SAFETY: there are such lanes.
                unsafe { at_least(numbers, wanted) }
            }

            #[inline(always)]
            fn has(self, numbers: &[Number; LANES], wanted: u32) -> bool {
                // SAFETY: there are such lanes.
                unsafe { has(numbers, wanted) }
            }

            #[inline(always)]
            fn has_sum(self, numbers: &[Number; LANES], others: &[Number; LANES], wanted: u32) -> bool {
                // SAFETY: there are such lanes.
                unsafe { has_sum(numbers, others, wanted) }
            }

            #[inline(always)]
            fn largest_but(self, numbers: &[Number; LANES], but: usize) -> u32 {
                // SAFETY: there are such lanes.
                unsafe { largest_but(numbers, but) }
            }

            #[inline(always)]
            fn shift(self, numbers: &mut [Number; LANES], from: usize, up: isize) {
                // SAFETY: there are such lanes.
                unsafe { shift(numbers, from, up) }
            }
        }
    };
}
pub(crate) use lanes_of_functions;

lanes_of_functions!(Eights);

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn play<T: Task>(eights: Eights, task: T) -> T::Output {
    task.run(eights)
}

#[target_feature(enable = "avx2")]
#[inline]
fn at_least(numbers: &[Number; LANES], wanted: u32) -> u32 {
    let below = _mm256_set1_epi32(Number::of(wanted - 1).bits());
    let mut mask = 0;
    for eight in 0..EIGHTS {
        mask |= bits(_mm256_cmpgt_epi32(load(numbers, eight), below)) << (eight * EIGHT);
    }
    mask
}

#[target_feature(enable = "avx2")]
#[inline]
fn largest_but(numbers: &[Number; LANES], but: usize) -> u32 {
    let but = _mm256_set1_epi32(but as i32);
    let mut largest = _mm256_set1_epi32(Number::LEAST.bits());
    for eight in 0..EIGHTS {
        let others = _mm256_blendv_epi8(load(numbers, eight), largest, _mm256_cmpeq_epi32(slots(eight), but));
        largest = _mm256_max_epi32(largest, others);
    }
    let half = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256::<1>(largest));
    let half = _mm_max_epi32(half, _mm_shuffle_epi32::<0b0100_1110>(half));
    let half = _mm_max_epi32(half, _mm_shuffle_epi32::<0b1011_0001>(half));
    Number::kept(_mm_cvtsi128_si32(half)).get()
}

#[target_feature(enable = "avx2")]
#[inline]
fn has(numbers: &[Number; LANES], wanted: u32) -> bool {
    let wanted = _mm256_set1_epi32(Number::of(wanted).bits());
    let mut same = _mm256_set1_epi32(0);
    for eight in 0..EIGHTS {
        same = _mm256_or_si256(same, _mm256_cmpeq_epi32(load(numbers, eight), wanted));
    }
    bits(same) != 0
}

#[target_feature(enable = "avx2")]
#[inline]
fn has_sum(numbers: &[Number; LANES], others: &[Number; LANES], wanted: u32) -> bool {
    // Both are turned in their top bit, so their sum is not.
    let wanted = _mm256_set1_epi32(wanted.cast_signed());
    let mut same = _mm256_set1_epi32(0);
    for eight in 0..EIGHTS {
        let sum = _mm256_add_epi32(load(numbers, eight), load(others, eight));
        same = _mm256_or_si256(same, _mm256_cmpeq_epi32(sum, wanted));
    }
    bits(same) != 0
}

/// Moves the numbers that come to stand in slot `from` and behind it by `up` slots, one at most. The last slot stays
/// empty.
#[target_feature(enable = "avx2")]
#[inline]
fn shift(numbers: &mut [Number; LANES], from: usize, up: isize) {
    let below = _mm256_set1_epi32(from as i32 - 1);
    // What is before the first number and behind the last is not loaded: there the lanes move, not the place.
    let (rise, fall) = (up.max(0), (-up).max(0));
    let mut moved = [_mm256_set1_epi32(0); EIGHTS];
    for (eight, moved) in moved.iter_mut().enumerate() {
        let (place, lanes) = match eight {
            0 => (fall, -rise),
            _ if eight == EIGHTS - 1 => (-rise, fall),
            _ => (-up, 0),
        };
        let source = numbers.as_ptr().cast::<i32>().wrapping_add(eight * EIGHT).wrapping_offset(place);
        // SAFETY: all of it is within the numbers.
        let mut other = unsafe { _mm256_loadu_si256(source.cast()) };
        if eight == 0 || eight == EIGHTS - 1 {
            other = _mm256_permutevar8x32_epi32(other, _mm256_add_epi32(slots(0), _mm256_set1_epi32(lanes as i32)));
        }
        let slots = slots(eight);
        let last = _mm256_cmpeq_epi32(slots, _mm256_set1_epi32(LANES as i32 - 1));
        let mask = _mm256_andnot_si256(last, _mm256_cmpgt_epi32(slots, below));
        *moved = _mm256_blendv_epi8(load(numbers, eight), other, mask);
    }
    for (eight, moved) in moved.into_iter().enumerate() {
        // SAFETY: there are so many eights.
        unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast::<__m256i>().add(eight), moved) }
    }
}

/// The numbers of the slots that an eight has.
#[target_feature(enable = "avx2")]
#[inline]
fn slots(eight: usize) -> __m256i {
    _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((eight * EIGHT) as i32))
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(numbers: &[Number; LANES], eight: usize) -> __m256i {
    // SAFETY: there are so many eights.
    unsafe { _mm256_loadu_si256(numbers.as_ptr().cast::<__m256i>().add(eight)) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn bits(mask: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(mask)).cast_unsigned()
}
