//! A block with the pattern that stands in it.

use crate::work::{Held, Lane};
use std::ops::Range;

/// A block that a thread holds, and what must be in it.
pub struct Holding {
    /// The block.
    pub held: Held,
    /// Whose block it is.
    pub owner: Owner,
    /// Whether every device may use it, and not only the owner's.
    pub is_open: bool,
    /// Whether another stream may still be reading it, so that nobody may write.
    pub is_read_elsewhere: bool,
    seed: u64,
    /// What of it bears the pattern.
    cover: Cover,
}

/// Which stream a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One that all threads share, by number.
    Shared(usize),
    /// The thread's own.
    Private,
}

/// How much of a block bears the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// All of it.
    Whole,
    /// A piece at each of many steps and one at the end: enough to see blocks that overlap, and quick.
    Pieces,
}

const STEP_BYTES: u64 = 256 << 10;
const PIECE_BYTES: u64 = 4 << 10;

impl Holding {
    /// A block just allocated; nothing is in it yet.
    pub const fn new(held: Held, owner: Owner, is_open: bool, cover: Cover) -> Self {
        Self { held, owner, is_open, is_read_elsewhere: false, seed: 0, cover }
    }

    /// How long it is.
    pub const fn bytes(&self) -> u64 {
        self.held.block().bytes
    }

    /// Queues a new pattern.
    pub fn fill(&mut self, lane: &Lane, seed: u64) -> stitchpool_driver::Result<()> {
        self.seed = seed;
        self.parts().try_for_each(|part| lane.fill(&self.held, part.clone(), self.seed ^ part.start))
    }

    /// Queues a look at the pattern.
    pub fn verify(&self, lane: &Lane) -> stitchpool_driver::Result<()> {
        self.parts().try_for_each(|part| lane.verify(&self.held, part.clone(), self.seed ^ part.start))
    }

    fn parts(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        parts(self.bytes(), self.cover)
    }
}

fn parts(bytes: u64, cover: Cover) -> impl Iterator<Item = Range<u64>> {
    let (step_bytes, piece_bytes) = match cover {
        Cover::Whole => (bytes, bytes),
        Cover::Pieces => (STEP_BYTES, PIECE_BYTES),
    };
    let last = bytes.saturating_sub(piece_bytes);
    // A piece that would meet the last one is left out, so that each byte has one pattern.
    let starts = (0..last.saturating_sub(piece_bytes)).step_by(usize::try_from(step_bytes).unwrap_or(usize::MAX));
    starts.chain([last]).map(move |start| start..(start + piece_bytes).min(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_block_lie_apart_and_reach_its_end() {
        for bytes in [512, 4096, 4608, 8192, 256 << 10, (256 << 10) + 512, 1 << 20, (5 << 20) + 1024] {
            for cover in [Cover::Whole, Cover::Pieces] {
                let parts: Vec<Range<u64>> = parts(bytes, cover).collect();
                assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start), "{bytes} {cover:?} {parts:?}");
                assert_eq!(parts.last().map(|part| part.end), Some(bytes), "{bytes} {cover:?}");
                assert!(parts.iter().all(|part| part.start.is_multiple_of(512) && !part.is_empty()), "{parts:?}");
            }
        }
    }
}
