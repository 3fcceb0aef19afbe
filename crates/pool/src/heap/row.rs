//! A row: a few lengths with their addresses, in address order, in arrays of fixed size that are
//! scanned whole. It knows no extent and no heap.

use crate::heap::scan::{Length, at_least, largest, rank};
use crate::unit::bytes_of;

/// At most `N` entries; `N` is a power of two, at most 64. Laid out so that no load of a scan lies across two cache
/// lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Row<const N: usize> {
    /// Of the entries; behind them 0, which no search wants.
    lengths: [Length; N],
    /// Rising; behind the entries the highest address, which no search reaches.
    starts: [u64; N],
    count: usize,
}

impl<const N: usize> Row<N> {
    pub(crate) const EMPTY: Self = Self { count: 0, lengths: [Length::NOTHING; N], starts: [u64::MAX; N] };

    #[inline]
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) const fn start(&self, at: usize) -> u64 {
        self.starts[at % N]
    }

    #[inline]
    pub(crate) const fn length(&self, at: usize) -> u32 {
        self.lengths[at % N].units()
    }

    /// Where the entry ends, its length in units.
    #[inline]
    pub(crate) const fn end(&self, at: usize) -> u64 {
        self.start(at) + bytes_of(self.length(at))
    }

    /// How many entries start at or before `address`.
    #[inline]
    pub(crate) fn rank(&self, address: u64) -> usize {
        rank(&self.starts, self.count, address)
    }

    /// Bit `i` is set iff entry `i` is at least `wanted` long.
    #[inline(always)]
    pub(crate) fn at_least(&self, wanted: u32) -> u64 {
        at_least(&self.lengths, self.count, wanted)
    }

    /// The same, and it takes as long for each row.
    #[inline(always)]
    pub(crate) fn at_least_steady(&self, wanted: u32) -> u64 {
        at_least(&self.lengths, N, wanted)
    }

    pub(crate) fn largest(&self) -> u32 {
        largest(&self.lengths).units()
    }

    #[inline]
    pub(crate) const fn set(&mut self, at: usize, start: u64, length: u32) {
        self.set_start(at, start);
        self.set_length(at, length);
    }

    #[inline]
    pub(crate) const fn set_start(&mut self, at: usize, start: u64) {
        self.starts[at % N] = start;
    }

    #[inline]
    pub(crate) const fn set_length(&mut self, at: usize, length: u32) {
        self.lengths[at % N] = Length::of(length);
    }

    /// The length of the entry becomes at least this.
    #[inline(always)]
    pub(crate) fn raise_length(&mut self, at: usize, length: u32) {
        self.lengths[at % N] = self.lengths[at % N].max(Length::of(length));
    }

    /// The length of the entry becomes at most this.
    #[inline(always)]
    pub(crate) fn lower_length(&mut self, at: usize, length: u32) {
        self.lengths[at % N] = self.lengths[at % N].min(Length::of(length));
    }

    /// Puts an entry before entry `at`. There is room.
    #[inline]
    pub(crate) fn insert(&mut self, at: usize, start: u64, length: u32) {
        self.open(at);
        self.count += 1;
        self.set_start(at, start);
        self.set_length(at, length);
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: usize) {
        self.close(at);
        self.count -= 1;
        self.set_start(self.count, u64::MAX);
        self.set_length(self.count, 0);
    }

    /// Moves what stands from `at` on up by one, in steps of a fixed size from the top. What stands behind the entries
    /// moves along.
    #[inline(always)]
    fn open(&mut self, at: usize) {
        let mut low = self.count.saturating_sub(STEP);
        if at + STEP >= N || self.count == N {
            self.lengths.copy_within(at..self.count, at + 1);
            self.starts.copy_within(at..self.count, at + 1);
            return;
        }
        let (last_lengths, last_starts) = (step(&self.lengths, at), step(&self.starts, at));
        while low > at {
            let (lengths, starts) = (step(&self.lengths, low), step(&self.starts, low));
            self.lengths[low + 1..][..STEP].copy_from_slice(&lengths);
            self.starts[low + 1..][..STEP].copy_from_slice(&starts);
            low = low.saturating_sub(STEP);
        }
        self.lengths[at + 1..][..STEP].copy_from_slice(&last_lengths);
        self.starts[at + 1..][..STEP].copy_from_slice(&last_starts);
    }

    /// Moves what stands behind `at` down by one, in steps as well.
    #[inline(always)]
    fn close(&mut self, at: usize) {
        let mut from = at + 1;
        while from < self.count && from + STEP <= N {
            let (lengths, starts) = (step(&self.lengths, from), step(&self.starts, from));
            self.lengths[from - 1..][..STEP].copy_from_slice(&lengths);
            self.starts[from - 1..][..STEP].copy_from_slice(&starts);
            from += STEP;
        }
        if from < self.count {
            self.lengths.copy_within(from..self.count, from - 1);
            self.starts.copy_within(from..self.count, from - 1);
        }
    }

    /// Moves the entries from `at` on to the end of another row, which has room for them.
    pub(crate) fn move_from(&mut self, at: usize, to: &mut Self) {
        for index in at..self.count {
            to.insert(to.count, self.starts[index], self.lengths[index].units());
        }
        self.lengths[at..].fill(Length::NOTHING);
        self.starts[at..].fill(u64::MAX);
        self.count = at;
    }

    /// Checks the invariants at the fields.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (starts, behind) = self.starts.split_at(self.count);
        let rises = starts.windows(2).all(|pair| pair[0] < pair[1]);
        let clear = behind.iter().all(|&start| start == u64::MAX);
        if rises && clear && self.lengths[self.count..].iter().all(|&length| length == Length::NOTHING) {
            return Ok(());
        }
        Err(format!("a row of {} does not rise, or is not clear behind its entries: {starts:x?}", self.count))
    }
}

/// So many entries are moved at a time.
const STEP: usize = 8;

#[inline(always)]
fn step<T: Copy>(from: &[T], at: usize) -> [T; STEP] {
    std::array::from_fn(|index| from[at + index])
}
