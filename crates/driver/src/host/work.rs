//! What can be queued on a stream, and how it is done once its time has come.

use super::point::Point;
use super::span::Span;
use crate::{Rights, Tally, pattern_word};
use std::ptr;

/// One piece of queued work.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Nothing: a point that an event names.
    Record,
    /// Nothing, once the point is passed.
    Wait(Point),
    /// Writes a pattern.
    Fill { to: Span, seed: u64 },
    /// Compares with a pattern.
    Verify { from: Span, seed: u64 },
    /// Copies bytes.
    Copy { to: Span, from: Span },
    /// Sets every byte.
    Set { to: Span, value: u8 },
    /// Nothing, for so long on a clock that lags.
    Delay { micros: u64 },
    /// Looks whether the stream's device could use the range so.
    Touch { on: Span, needs: Rights },
}

/// A range that work uses, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) span: Span,
    pub(super) needs: Rights,
}

impl Work {
    /// The ranges that this work uses.
    pub(super) fn uses(&self) -> impl Iterator<Item = Use> + use<> {
        let write = |span| Some(Use { span, needs: Rights::ReadWrite });
        let read = |span| Some(Use { span, needs: Rights::Read });
        let all = match *self {
            Self::Record | Self::Wait(_) | Self::Delay { .. } => [None, None],
            Self::Fill { to, .. } | Self::Set { to, .. } => [write(to), None],
            Self::Verify { from, .. } => [read(from), None],
            Self::Copy { to, from } => [write(to), read(from)],
            Self::Touch { on, needs } => [Some(Use { span: on, needs }), None],
        };
        all.into_iter().flatten()
    }

    /// How long the work keeps its stream, in microseconds.
    pub(super) const fn micros(&self) -> u64 {
        if let Self::Delay { micros } = self { *micros } else { 0 }
    }

    /// The word that faults name the work by.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Wait(_) => "wait",
            Self::Fill { .. } => "fill",
            Self::Verify { .. } => "verify",
            Self::Copy { .. } => "copy",
            Self::Set { .. } => "memset",
            Self::Delay { .. } => "delay",
            Self::Touch { .. } => "touch",
        }
    }

    /// Does it.
    ///
    /// # Safety
    /// - Every range of [`Work::uses`] is mapped, and this process may use it as it says.
    pub(super) unsafe fn perform(&self, tally: &mut Tally) {
        match *self {
            Self::Record | Self::Wait(_) | Self::Delay { .. } | Self::Touch { .. } => {}
            // SAFETY: `uses` names `to` for writing, and kernels take multiples of 16 only.
            Self::Fill { to, seed } => unsafe { fill(to, seed) },
            Self::Verify { from, seed } => {
                // SAFETY: `uses` names `from` for reading, and kernels take multiples of 16 only.
                tally.wrong_bytes += unsafe { count_wrong(from, seed) } * WORD_BYTES;
                tally.checked_bytes += from.bytes;
            }
            Self::Copy { to, from } => {
                let (source, target) = (words(from).cast::<u8>(), words(to).cast::<u8>());
                // SAFETY: `uses` names both; `ptr::copy` allows aliases of one memory to meet.
                unsafe { ptr::copy(source, target, to.bytes as usize) }
            }
            // SAFETY: `uses` names `to` for writing.
            Self::Set { to, value } => unsafe { ptr::write_bytes(words(to).cast::<u8>(), value, to.bytes as usize) },
        }
    }
}

const WORD_BYTES: u64 = 8;
/// Words that are compared at once, before anybody asks which one differed.
const CHUNK_WORDS: u64 = 1024;

/// # Safety
/// - The span is mapped, open for writing and a multiple of 8 at both ends.
unsafe fn fill(span: Span, seed: u64) {
    let start = words(span);
    let (mut word, step) = (pattern_word(seed, 0), pattern_step(seed));
    for index in 0..(span.bytes / WORD_BYTES) as usize {
        // SAFETY: `index` is within the span.
        unsafe { start.add(index).write(word) };
        word = word.wrapping_add(step);
    }
}

/// # Safety
/// - The span is mapped, open for reading and a multiple of 8 at both ends.
unsafe fn count_wrong(span: Span, seed: u64) -> u64 {
    let (start, total) = (words(span), span.bytes / WORD_BYTES);
    let step = pattern_step(seed);
    let mut wrong = 0;
    for first in (0..total).step_by(CHUNK_WORDS as usize) {
        let count = CHUNK_WORDS.min(total - first) as usize;
        // SAFETY: the chunk lies within the span.
        let chunk = unsafe { start.add(first as usize) };
        let mut expected = pattern_word(seed, first);
        let mut differing_bits = 0;
        for index in 0..count {
            // SAFETY: `index` is within the chunk.
            differing_bits |= unsafe { chunk.add(index).read() } ^ expected;
            expected = expected.wrapping_add(step);
        }
        if differing_bits == 0 {
            continue;
        }
        // SAFETY: `index` is within the chunk.
        let differs = |index: usize| unsafe { chunk.add(index).read() } != pattern_word(seed, first + index as u64);
        wrong += (0..count).filter(|&index| differs(index)).count() as u64;
    }
    wrong
}

/// Neighbouring words of a pattern differ by this.
const fn pattern_step(seed: u64) -> u64 {
    pattern_word(seed, 1).wrapping_sub(pattern_word(seed, 0))
}

fn words(span: Span) -> *mut u64 {
    ptr::with_exposed_provenance_mut(span.at as usize)
}
