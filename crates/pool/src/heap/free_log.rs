//! The recent frees of a heap, newest last, each with its epoch: what tells whether freed bytes may
//! still be in use by the GPU. It is read only on a miss.

use crate::heap::live::LiveTable;
use crate::unit::{UNIT_BYTES, bytes_of};
use std::collections::VecDeque;

/// How many frees are remembered at least. Eight frees a millisecond and a GPU 50 ms behind make 400.
const ENTRIES_MIN: usize = 512;
/// And at most.
const ENTRIES_MAX: usize = 4096;
/// So many live blocks get an entry each, and two each those beyond.
const BLOCKS_FEW: usize = 1024;
/// The ring takes host memory for so many entries at once, at least.
const ENTRIES_MORE: usize = 64;
/// An entry's low bits: how many units were freed. Above them stands where, in units from the anchor.
const LENGTH_BITS: u32 = 24;
const LENGTH_MAX: u32 = (1 << LENGTH_BITS) - 1;

/// One free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Freed {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) epoch: u64,
}

/// A ring of the last frees: one or two for each live block that the heap's table has room for, or more where others
/// missed what was lost, between the two limits. Epochs never fall from one entry to the next.
#[derive(Debug, Default)]
pub(crate) struct FreeLog {
    /// The newest entry stands before `next`, the oldest at it, or, if nothing stands there, first of all.
    ring: Vec<u64>,
    /// Where the next entry goes; at most the ring's length.
    next: usize,
    /// So many entries at least, the next time that it ends.
    least: usize,
    /// How many entries there ever were.
    pushed: u64,
    /// The epoch of the newest entry; 0: none yet.
    last_epoch: u64,
    /// Where the first free was. All of a heap's addresses are less than 2^48 bytes from it, as they are of
    /// one reservation.
    anchor: u64,
    /// From which entry on which epoch, oldest first; what the first tells is of an entry that is lost, or the
    /// first of all.
    turns: VecDeque<Turn>,
}

/// A new epoch.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Of all entries there ever were, its first.
    entry: u64,
    epoch: u64,
}

impl FreeLog {
    /// Remembers a free of so many units. An epoch below the newest is taken as the newest. `live` is the heap's table.
    #[inline(always)]
    pub(crate) fn push(&mut self, start: u64, units: u32, epoch: u64, live: &LiveTable) {
        if epoch > self.last_epoch || units > LENGTH_MAX {
            return self.push_otherwise(start, units, epoch, live);
        }
        let offset_units = start.wrapping_sub(self.anchor) / UNIT_BYTES;
        let entry = (offset_units << LENGTH_BITS) | u64::from(units);
        match self.ring.get_mut(self.next) {
            Some(oldest) => *oldest = entry,
            None => self.push_at_end(entry, live),
        }
        self.next += 1;
        self.pushed += 1;
    }

    /// The ring ends here: it grows, or begins anew.
    #[cold]
    #[inline(never)]
    fn push_at_end(&mut self, entry: u64, live: &LiveTable) {
        let (blocks, length) = (live.capacity(), self.ring.len());
        let wanted = blocks + blocks.saturating_sub(BLOCKS_FEW);
        let wanted = wanted.max(self.least).clamp(ENTRIES_MIN, ENTRIES_MAX);
        if length < wanted {
            if length == self.ring.capacity() {
                self.ring.reserve_exact(length.max(ENTRIES_MORE).min(wanted - length));
            }
            return self.ring.push(entry);
        }
        self.next = 0;
        self.ring[0] = entry;
    }

    /// The first free of an epoch, or one so long that it takes several entries.
    #[cold]
    #[inline(never)]
    fn push_otherwise(&mut self, start: u64, units: u32, epoch: u64, live: &LiveTable) {
        if self.pushed == 0 {
            self.anchor = start;
        }
        if epoch > self.last_epoch {
            self.last_epoch = epoch;
            let oldest = self.oldest();
            while self.turns.get(1).is_some_and(|second| second.entry < oldest) {
                self.turns.pop_front();
            }
            self.turns.push_back(Turn { entry: self.pushed, epoch });
        }
        let (mut start, mut units) = (start, units);
        while units > LENGTH_MAX {
            self.push(start, LENGTH_MAX, self.last_epoch, live);
            (start, units) = (start + bytes_of(LENGTH_MAX), units - LENGTH_MAX);
        }
        self.push(start, units, self.last_epoch, live);
    }

    /// The first entry that the ring still has.
    const fn oldest(&self) -> u64 {
        self.pushed - self.ring.len() as u64
    }

    /// The frees with an epoch above `passed`, newest first.
    pub(crate) fn newer_than(&self, passed: u64) -> impl Iterator<Item = Freed> + '_ {
        let mut turns = self.turns.iter().rev().peekable();
        let (newer, older) = self.ring.split_at(self.next);
        let entries = newer.iter().rev().chain(older.iter().rev());
        let freed = (self.oldest()..self.pushed).rev().zip(entries).map(move |(index, &entry)| {
            while turns.peek().is_some_and(|turn| turn.entry > index) {
                turns.next();
            }
            let offset_units = entry.cast_signed() >> LENGTH_BITS;
            let start = self.anchor.wrapping_add_signed(offset_units * UNIT_BYTES.cast_signed());
            let end = start + bytes_of(entry as u32 & LENGTH_MAX);
            Freed { start, end, epoch: turns.peek().map_or(0, |turn| turn.epoch) }
        });
        freed.take_while(move |freed| freed.epoch > passed)
    }

    /// The newest epoch of a free that the ring has lost; 0: none.
    pub(crate) fn lost_epoch(&self) -> u64 {
        let oldest = self.oldest();
        self.turns.iter().rev().find(|turn| turn.entry < oldest).map_or(0, |turn| turn.epoch)
    }

    /// What it has lost was missed: it shall be twice as long.
    pub(crate) const fn lengthen(&mut self) {
        self.least = 2 * self.ring.len();
    }

    /// The newest epoch of any free; 0: none.
    pub(crate) const fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    /// Bytes that the log itself takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        (self.ring.capacity() * size_of::<u64>() + self.turns.capacity() * size_of::<Turn>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::live::Block;

    /// In a place of the address space where frees below the first are possible.
    const BASE: u64 = 1 << 46;

    /// A table that has held so many blocks.
    fn table(count: usize) -> LiveTable {
        let mut live = LiveTable::default();
        (0..count as u64).for_each(|n| live.insert(Block { address: BASE + n * UNIT_BYTES, units: 1 }));
        live
    }

    #[test]
    fn a_full_ring_says_what_it_lost() {
        let (mut log, live) = (FreeLog::default(), table(ENTRIES_MAX));
        for n in 0..ENTRIES_MAX as u64 {
            log.push(BASE + n * 1024, 1, 1 + n / 1000, &live);
        }
        assert_eq!((log.lost_epoch(), log.last_epoch()), (0, 5));
        log.push(BASE - 512, 1, 6, &live);
        assert_eq!((log.lost_epoch(), log.last_epoch()), (1, 6));
        assert_eq!(log.newer_than(0).next(), Some(Freed { start: BASE - 512, end: BASE, epoch: 6 }));
        assert_eq!(log.newer_than(4).count(), 1 + 96, "newest first, down to the first old one");
        assert_eq!(log.newer_than(0).count(), ENTRIES_MAX);
        let oldest = log.newer_than(0).last();
        assert_eq!(oldest, Some(Freed { start: BASE + 1024, end: BASE + 1536, epoch: 1 }));
    }

    #[test]
    fn every_epoch_is_forgotten_with_its_last_free() {
        let (mut log, live) = (FreeLog::default(), LiveTable::default());
        for epoch in 1..=3 * ENTRIES_MIN as u64 {
            log.push(BASE, 1, epoch, &live);
            assert_eq!(log.lost_epoch(), epoch.saturating_sub(ENTRIES_MIN as u64));
            assert!(log.turns.len() <= ENTRIES_MIN + 2);
        }
    }

    #[test]
    fn a_log_grows_with_the_table_of_live_blocks_and_loses_nothing_by_it() {
        let mut log = FreeLog::default();
        let mut pushed = 0..;
        let mut push = |log: &mut FreeLog, count: usize, live: &LiveTable| {
            let starts = pushed.by_ref().take(count).map(|n: u64| BASE + n * UNIT_BYTES);
            starts.for_each(|start| log.push(start, 1, 1, live));
        };
        push(&mut log, 700, &LiveTable::default());
        assert_eq!(log.newer_than(0).count(), ENTRIES_MIN);
        let live = table(1000);
        push(&mut log, ENTRIES_MIN * 2 - 700, &live);
        assert_eq!(log.newer_than(0).count(), ENTRIES_MIN, "only where the ring ends it can grow");
        push(&mut log, 3000, &live);
        let kept: Vec<u64> = log.newer_than(0).map(|freed| (freed.start - BASE) / UNIT_BYTES).collect();
        let newest = ENTRIES_MIN as u64 * 2 + 3000;
        assert_eq!(kept, (newest - live.capacity() as u64..newest).rev().collect::<Vec<u64>>());
        let lengths: Vec<usize> = (0..3)
            .map(|_| {
                log.lengthen();
                push(&mut log, 2 * ENTRIES_MAX, &live);
                log.newer_than(0).count()
            })
            .collect();
        assert_eq!(lengths, [2 * live.capacity(), ENTRIES_MAX, ENTRIES_MAX], "and where it was missed");
    }

    #[test]
    fn a_late_entry_of_an_old_epoch_does_not_hide_newer_ones() {
        let (mut log, live) = (FreeLog::default(), LiveTable::default());
        log.push(0, 1, 7, &live);
        log.push(512, 1, 3, &live);
        let newer: Vec<Freed> = log.newer_than(5).collect();
        let expected = [Freed { start: 512, end: 1024, epoch: 7 }, Freed { start: 0, end: 512, epoch: 7 }];
        assert_eq!(newer, expected, "the late one is taken as newer than it is: later, never too early");
    }

    #[test]
    fn a_long_free_takes_several_entries() {
        let mut log = FreeLog::default();
        log.push(BASE, 2 * LENGTH_MAX + 5, 1, &LiveTable::default());
        let middle = BASE + bytes_of(LENGTH_MAX);
        let spans: Vec<(u64, u64)> = log.newer_than(0).map(|freed| (freed.start, freed.end)).collect();
        let last = middle + bytes_of(LENGTH_MAX);
        assert_eq!(spans, [(last, last + bytes_of(5)), (middle, last), (BASE, middle)]);
    }
}
