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

/// So many entries are moved at a time.
const STEP: usize = 8;
type Step = ([Length; STEP], [u64; STEP]);

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

    /// The same without a look at how many there are, which nobody can guess where each search looks at another row.
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

    /// Moves what stands from `at` on up by one, in steps from the top: a call that copies any number of bytes has more
    /// to guess. What stands behind the entries moves along.
    #[inline(always)]
    fn open(&mut self, at: usize) {
        if at + STEP >= N {
            self.lengths.copy_within(at..self.count, at + 1);
            self.starts.copy_within(at..self.count, at + 1);
            return;
        }
        // The lowest step may lie across the one above: it is read before that is moved.
        let lowest = self.step(at);
        let mut low = self.count.saturating_sub(STEP);
        while low > at {
            self.put_step(low + 1, self.step(low));
            low = low.saturating_sub(STEP);
        }
        self.put_step(at + 1, lowest);
    }

    /// Moves what stands behind `at` down by one, in steps as well.
    #[inline(always)]
    fn close(&mut self, at: usize) {
        let mut from = at + 1;
        while from < self.count && from + STEP <= N {
            self.put_step(from - 1, self.step(from));
            from += STEP;
        }
        if from < self.count {
            self.lengths.copy_within(from..self.count, from - 1);
            self.starts.copy_within(from..self.count, from - 1);
        }
    }

    #[inline(always)]
    fn step(&self, at: usize) -> Step {
        (std::array::from_fn(|index| self.lengths[at + index]), std::array::from_fn(|index| self.starts[at + index]))
    }

    #[inline(always)]
    fn put_step(&mut self, at: usize, (lengths, starts): Step) {
        self.lengths[at..][..STEP].copy_from_slice(&lengths);
        self.starts[at..][..STEP].copy_from_slice(&starts);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_agrees_with_a_plain_list(ops in prop::collection::vec((any::<bool>(), 0_usize..64), 1..400)) {
            let (mut row, mut list) = (Row::<32>::EMPTY, Vec::<(u64, u32)>::new());
            for (length, (add, pick)) in (1..).zip(ops) {
                let at = pick % (list.len() + 1);
                // Gaps halve, so that there is a number between any two.
                let low = if at == 0 { 0 } else { list[at - 1].0 };
                let start = low + (list.get(at).map_or(1 << 60, |next| next.0) - low) / 2;
                if add && list.len() < 32 && start > low {
                    row.insert(at, start, length);
                    list.insert(at, (start, length));
                } else if at < list.len() {
                    row.remove(at);
                    list.remove(at);
                }
                prop_assert_eq!(row.check(), Ok(()));
                let entries: Vec<_> = (0..row.count()).map(|at| (row.start(at), row.length(at))).collect();
                prop_assert_eq!(&entries, &list);
            }
        }
    }
}
