//! The recent frees of a heap, newest last, each with its epoch: what tells whether freed bytes may
//! still be in use by the GPU. It is read only on a miss.

/// How many frees are remembered. Eight frees a millisecond and a GPU 50 ms behind make 400.
const ENTRIES_MAX: usize = 4096;

/// One free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Freed {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) epoch: u64,
}

/// A ring of the last frees. Epochs never fall from one entry to the next.
#[derive(Debug, Default)]
pub(crate) struct FreeLog {
    ring: Vec<Freed>,
    /// Where the next entry goes: behind the last one, or iff the ring is full on the oldest.
    next: usize,
    /// The epoch of the newest entry that the ring has lost; 0: none yet.
    lost_epoch: u64,
    /// The epoch of the newest entry; 0: none yet.
    last_epoch: u64,
}

impl FreeLog {
    /// Remembers a free of `[start, end)`. An epoch below the newest is taken as the newest.
    #[inline(always)]
    pub(crate) fn push(&mut self, start: u64, end: u64, epoch: u64) {
        let epoch = epoch.max(self.last_epoch);
        self.last_epoch = epoch;
        match self.ring.get_mut(self.next) {
            Some(oldest) => {
                self.lost_epoch = oldest.epoch;
                (oldest.start, oldest.end, oldest.epoch) = (start, end, epoch);
            }
            None => self.add(start, end, epoch),
        }
        self.next = (self.next + 1) % ENTRIES_MAX;
    }

    #[inline(never)]
    fn add(&mut self, start: u64, end: u64, epoch: u64) {
        self.ring.push(Freed { start, end, epoch });
    }

    /// The frees with an epoch above `passed`, newest first.
    pub(crate) fn newer_than(&self, passed: u64) -> impl Iterator<Item = Freed> + '_ {
        let (newer, older) = self.ring.split_at(self.next);
        newer.iter().rev().chain(older.iter().rev()).copied().take_while(move |freed| freed.epoch > passed)
    }

    /// The newest epoch of a free that the ring has lost; 0: none.
    pub(crate) const fn lost_epoch(&self) -> u64 {
        self.lost_epoch
    }

    /// The newest epoch of any free; 0: none.
    pub(crate) const fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    /// Bytes that the log itself takes.
    pub(crate) const fn own_bytes(&self) -> u64 {
        (self.ring.capacity() * size_of::<Freed>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_says_what_it_lost() {
        let mut log = FreeLog::default();
        for n in 0..ENTRIES_MAX as u64 {
            log.push(n * 10, n * 10 + 10, 1 + n / 1000);
        }
        assert_eq!((log.lost_epoch(), log.last_epoch()), (0, 5));
        log.push(0, 1, 6);
        assert_eq!((log.lost_epoch(), log.last_epoch()), (1, 6));
        assert_eq!(log.newer_than(0).next(), Some(Freed { start: 0, end: 1, epoch: 6 }));
        assert_eq!(log.newer_than(4).count(), 1 + 96, "newest first, down to the first old one");
        assert_eq!(log.newer_than(0).count(), ENTRIES_MAX);
    }

    #[test]
    fn a_late_entry_of_an_old_epoch_does_not_hide_newer_ones() {
        let mut log = FreeLog::default();
        log.push(0, 10, 7);
        log.push(10, 20, 3);
        let newer: Vec<Freed> = log.newer_than(5).collect();
        let expected = [Freed { start: 10, end: 20, epoch: 7 }, Freed { start: 0, end: 10, epoch: 7 }];
        assert_eq!(newer, expected, "the late one is taken as newer than it is: later, never too early");
    }
}
