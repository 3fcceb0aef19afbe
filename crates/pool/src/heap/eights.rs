//! Scans and edits of eight lanes at a time, which guess nothing. Only where the processor has AVX2.

use crate::heap::lanes::Lanes;
use crate::heap::leaf::{Added, LEAF, Leaf, Piece};
use crate::heap::scan::{LANES, Number};
use std::arch::x86_64::{
    __m256i, _mm_cvtsi128_si32, _mm_max_epi32, _mm_shuffle_epi32, _mm256_add_epi32, _mm256_andnot_si256,
    _mm256_blendv_epi8, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32,
    _mm256_extracti128_si256, _mm256_load_si256, _mm256_loadu_si256, _mm256_max_epi32, _mm256_movemask_ps,
    _mm256_or_si256, _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_store_si256,
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
}

impl Lanes for Eights {
    #[inline(always)]
    fn at_least(self, numbers: &[Number; LANES], wanted: u32) -> u32 {
        // SAFETY: there is AVX2.
        unsafe { at_least(numbers, wanted) }
    }

    #[inline(always)]
    fn largest_but(self, numbers: &[Number; LANES], but: usize) -> u32 {
        // SAFETY: there is AVX2.
        unsafe { largest_but(numbers, but) }
    }

    #[inline(always)]
    fn insert(self, leaf: &mut Leaf, at: usize, piece: Piece) {
        // SAFETY: there is AVX2.
        unsafe { shift_both(leaf, at + 1, 1) };
        leaf.set(at, piece);
    }

    #[inline(always)]
    fn remove(self, leaf: &mut Leaf, slot: usize) {
        // SAFETY: there is AVX2.
        unsafe { shift_both(leaf, slot, -1) };
    }

    #[inline(always)]
    fn add(self, leaf: &mut Leaf, piece: Piece) -> Added {
        // SAFETY: there is AVX2.
        unsafe { add(leaf, piece) }
    }
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

/// One way for all that may be.
#[target_feature(enable = "avx2")]
#[inline]
fn add(leaf: &mut Leaf, piece: Piece) -> Added {
    let start = _mm256_set1_epi32(Number::of(piece.start).bits());
    let end = _mm256_set1_epi32(Number::of(piece.end()).bits());
    // Both are turned in their top bit, so their sum is not.
    let plain_start = _mm256_set1_epi32(piece.start.cast_signed());
    let (mut above, mut ends, mut begins) = (0, _mm256_set1_epi32(0), _mm256_set1_epi32(0));
    for eight in 0..EIGHTS {
        let (starts, lengths) = (load(&leaf.starts, eight), load(&leaf.lengths, eight));
        above |= bits(_mm256_cmpgt_epi32(starts, start)) << (eight * EIGHT);
        ends = _mm256_or_si256(ends, _mm256_cmpeq_epi32(_mm256_add_epi32(starts, lengths), plain_start));
        begins = _mm256_or_si256(begins, _mm256_cmpeq_epi32(starts, end));
    }
    let (low, high) = (u32::from(bits(ends) != 0), u32::from(bits(begins) != 0));
    if low + high == 0 && leaf.is_full() {
        return Added::Full;
    }
    // The last slot is empty, so some bit is set.
    let at = above.trailing_zeros() as usize;
    // A product instead of a choice, which would become a branch.
    let low_units = leaf.lengths[at.wrapping_sub(1) % LANES].get() * low;
    let high_units = leaf.lengths[at % LANES].get() * high;
    let units = piece.units + low_units + high_units;
    // What stands behind moves up by one, stays, or moves down by one.
    let up = 1 - (low + high) as isize;
    let from = at + (2 - low as usize - high as usize) / 2;
    shift_both(leaf, from, up);
    leaf.set(at - low as usize, Piece { start: piece.start - low_units, units });
    if up < 0 { Added::Fewer(units) } else { Added::Joined(units) }
}

/// Moves the extents that come to stand in slot `from` and behind it by `up` slots.
#[target_feature(enable = "avx2")]
#[inline]
fn shift_both(leaf: &mut Leaf, from: usize, up: isize) {
    shift(&mut leaf.starts, from, up);
    shift(&mut leaf.lengths, from, up);
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
        let last = _mm256_cmpeq_epi32(slots, _mm256_set1_epi32(LEAF as i32));
        let mask = _mm256_andnot_si256(last, _mm256_cmpgt_epi32(slots, below));
        *moved = _mm256_blendv_epi8(load(numbers, eight), other, mask);
    }
    for (eight, moved) in moved.into_iter().enumerate() {
        // SAFETY: there are so many eights, and leaves lie at whole cache lines.
        unsafe { _mm256_store_si256(numbers.as_mut_ptr().cast::<__m256i>().add(eight), moved) }
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
    // SAFETY: there are so many eights, and rows lie at whole cache lines.
    unsafe { _mm256_load_si256(numbers.as_ptr().cast::<__m256i>().add(eight)) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn bits(mask: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(mask)).cast_unsigned()
}
