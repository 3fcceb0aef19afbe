//! Who read and wrote which bytes of memory last, so that two uses without an order are seen, in
//! whichever order they ran.

use super::order::Frontier;
use super::physical::MemoryId;
use super::point::Point;
use std::collections::BTreeMap;
use std::ops::Range;

/// The latest uses of all memory that streams have used, and of each mapping.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    /// Pieces of each memory by their first byte; none overlaps another.
    memories: BTreeMap<MemoryId, BTreeMap<u64, Piece>>,
    /// Uses through each mapping, by the number of its making.
    mappings: BTreeMap<u64, Frontier>,
}

/// Bytes with the same history.
#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    write: Option<Point>,
    /// Reads since that write, of which none is ordered after another.
    reads: Vec<Point>,
}

/// A use by an item, and what the item comes after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access<'a> {
    pub(super) by: Point,
    pub(super) after: &'a Frontier,
    pub(super) writes: bool,
}

impl Accesses {
    /// Notes a use of bytes of a memory, and says which earlier use it has no order with, if there is one.
    pub(super) fn note(&mut self, memory: MemoryId, bytes: Range<u64>, access: Access<'_>) -> Option<Point> {
        let pieces = self.memories.entry(memory).or_default();
        cut(pieces, bytes.start);
        cut(pieces, bytes.end);
        let stranger = pieces.range(bytes.clone()).find_map(|(_, piece)| piece.stranger(access));
        if access.writes {
            pieces.extract_if(bytes.clone(), |_, _| true).for_each(drop);
            pieces.insert(bytes.start, Piece { end: bytes.end, write: Some(access.by), reads: Vec::new() });
            return stranger;
        }
        let mut reached = bytes.start;
        let mut gaps = Vec::new();
        for (&start, piece) in pieces.range_mut(bytes.clone()) {
            gaps.push(reached..start);
            reached = piece.end;
            piece.reads.retain(|&read| !access.after.covers(read));
            piece.reads.push(access.by);
        }
        gaps.push(reached..bytes.end);
        for gap in gaps.into_iter().filter(|gap| !gap.is_empty()) {
            pieces.insert(gap.start, Piece { end: gap.end, write: None, reads: vec![access.by] });
        }
        stranger
    }

    /// Notes a use through a mapping.
    pub(super) fn note_mapping(&mut self, made: u64, by: Point) {
        self.mappings.entry(made).or_default().add(by);
    }

    /// Forgets a mapping and says who used memory through it.
    pub(super) fn drop_mapping(&mut self, made: u64) -> Frontier {
        self.mappings.remove(&made).unwrap_or_default()
    }

    /// Forgets memory that is gone, now and then: its name never comes back.
    pub(super) fn sweep(&mut self, lives: impl Fn(MemoryId) -> bool, live: usize) {
        if self.memories.len() > 2 * live + SLACK {
            self.memories.retain(|&memory, _| lives(memory));
        }
    }
}

/// So many memories that are gone cost nobody anything.
const SLACK: usize = 256;

impl Piece {
    /// An earlier use that the access must come after and does not.
    fn stranger(&self, access: Access<'_>) -> Option<Point> {
        let reads = access.writes.then_some(&self.reads).into_iter().flatten();
        let uses = self.write.iter().chain(reads).copied();
        uses.into_iter().find(|&used| used != access.by && !access.after.covers(used))
    }
}

/// Makes `at` a border between pieces.
fn cut(pieces: &mut BTreeMap<u64, Piece>, at: u64) {
    let Some((_, piece)) = pieces.range_mut(..at).next_back().filter(|(_, piece)| piece.end > at) else { return };
    let tail = piece.clone();
    piece.end = at;
    pieces.insert(at, tail);
}
