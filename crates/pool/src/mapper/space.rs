//! The pool's addresses: one reservation cut into plots, and the table that tells whose a plot is.

use crate::unit::STRETCH_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use stitchpool_chunks::{Origin, Reservation, Vacancy};
use stitchpool_driver::{Address, Error};

/// Stands for a heap where plots are views': no heap has this index, which is the highest that 16 bits can tell of.
pub(crate) const VIEWS: u32 = u16::MAX as u32 - 1;

/// Tells from an address which heap it belongs to, without a lock. Clones tell the same: who asks on a hit has one, so
/// that there is one place less to look at.
#[derive(Clone, Debug)]
pub(crate) struct PlotTable {
    base: u64,
    plot_shift: u32,
    /// The heap's index plus 1; 0: the plot is free.
    owners: Arc<[AtomicU16]>,
}

impl PlotTable {
    /// The heap that `address` belongs to.
    #[inline(always)]
    pub(crate) fn heap_of(&self, address: u64) -> Option<u32> {
        let plot = usize::try_from(address.checked_sub(self.base)? >> self.plot_shift).ok()?;
        let owner = self.owners.get(plot)?.load(Ordering::Acquire);
        u32::from(owner).checked_sub(1)
    }

    /// Bytes of host memory that the table takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        size_of_val(&*self.owners) as u64
    }

    fn set(&self, at: Address, bytes: u64, owner: u16) {
        let plots = |address: u64| usize::try_from((address - self.base) >> self.plot_shift).unwrap_or(usize::MAX);
        for plot in plots(at.0)..plots(at.0 + bytes) {
            if let Some(entry) = self.owners.get(plot) {
                entry.store(owner, Ordering::Release);
            }
        }
    }
}

/// The addresses that no chain has.
#[derive(Debug)]
pub(crate) struct Space {
    table: PlotTable,
    plot_bytes: u64,
    /// Free plots by start; two never touch, and each lies in one stretch.
    free: BTreeMap<u64, Vacancy>,
    /// Where the last chain ended: the next takes higher addresses while there are any.
    cursor: u64,
}

impl Space {
    /// Reserves `bytes`, or half of it where that is refused, and so on down to `floor_bytes`.
    pub(crate) fn reserve(origin: &Arc<Origin>, plot_bytes: u64, bytes: u64, floor_bytes: u64) -> Result<Self, Error> {
        let mut wanted_bytes = bytes.next_multiple_of(plot_bytes);
        let vacancy = loop {
            // One plot more, for the one below a line.
            match Reservation::reserve(origin, wanted_bytes + plot_bytes, plot_bytes) {
                Ok(vacancy) => break vacancy,
                Err(error) if wanted_bytes / 2 < floor_bytes.max(plot_bytes) => return Err(error),
                Err(_) => wanted_bytes = (wanted_bytes / 2).next_multiple_of(plot_bytes),
            }
        };
        let plots = usize::try_from(vacancy.bytes() / plot_bytes).unwrap_or(usize::MAX);
        let owners = (0..plots).map(|_| AtomicU16::new(0)).collect();
        let base = vacancy.at().0;
        let table = PlotTable { base, plot_shift: plot_bytes.trailing_zeros(), owners };
        let pieces = in_stretches(vacancy, wanted_bytes, plot_bytes);
        let free = pieces.into_iter().map(|piece| (piece.at().0, piece)).collect();
        Ok(Self { table, plot_bytes, free, cursor: base })
    }

    pub(crate) const fn table(&self) -> &PlotTable {
        &self.table
    }

    /// Takes whole plots of at least `bytes` for `heap`: above the cursor, else the lowest.
    pub(crate) fn take(&mut self, bytes: u64, heap: u32) -> Option<Vacancy> {
        let bytes = bytes.checked_next_multiple_of(self.plot_bytes)?;
        let fits = |(_, vacancy): &(&u64, &Vacancy)| vacancy.bytes() >= bytes;
        let above = self.free.range(self.cursor..).find(fits);
        let start = *above.or_else(|| self.free.iter().find(fits))?.0;
        let vacancy = self.free.remove(&start)?;
        let taken = match vacancy.split(bytes) {
            Ok((low, high)) => {
                self.free.insert(high.at().0, high);
                low
            }
            Err(whole) => whole,
        };
        self.cursor = taken.end().0;
        self.table.set(taken.at(), taken.bytes(), heap as u16 + 1);
        Some(taken)
    }

    /// Takes plots back.
    pub(crate) fn give_back(&mut self, vacancy: Vacancy) {
        self.table.set(vacancy.at(), vacancy.bytes(), 0);
        let mut whole = vacancy;
        let before = self.free.range(..whole.at().0).next_back().map(|(&start, _)| start);
        if let Some(low) = before.and_then(|start| self.free.remove(&start)) {
            whole = match low.join(whole) {
                Ok(joined) => joined,
                Err((low, whole)) => {
                    self.free.insert(low.at().0, low);
                    whole
                }
            };
        }
        if let Some(high) = self.free.remove(&whole.end().0) {
            whole = match whole.join(high) {
                Ok(joined) => joined,
                Err((whole, high)) => {
                    self.free.insert(high.at().0, high);
                    whole
                }
            };
        }
        self.free.insert(whole.at().0, whole);
    }

    /// Bytes of addresses that no chain has.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.values().map(Vacancy::bytes).sum()
    }

    /// What a chain for `bytes` is given as long as addresses are many: room to grow in place.
    pub(crate) fn generous_bytes(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(4).min(STRETCH_BYTES - self.plot_bytes).max(bytes).max(self.plot_bytes)
    }

    /// Whether addresses are many, compared with what a chain for `bytes` is given.
    pub(crate) fn is_roomy(&self, bytes: u64) -> bool {
        self.free_bytes() / 8 > self.generous_bytes(bytes)
    }
}

/// Cuts addresses where stretches begin, and leaves out the last plot of each: so no chain lies in two, no extents of
/// two chains touch there, and none ends at a stretch's last unit. At most `wanted_bytes` are given.
fn in_stretches(vacancy: Vacancy, wanted_bytes: u64, plot_bytes: u64) -> Vec<Vacancy> {
    let (mut pieces, mut missing_bytes) = (Vec::new(), wanted_bytes);
    let mut rest = Some(vacancy);
    while let Some(whole) = rest.take() {
        let line = (whole.at().0 + 1).next_multiple_of(STRETCH_BYTES);
        let low;
        (low, rest) = cut(whole, line);
        let used = low.end().0.min(line - plot_bytes).min(low.at().0 + missing_bytes);
        // Of one plot that is the last of its stretch nothing is used.
        if used > low.at().0 {
            let (piece, _) = cut(low, used);
            missing_bytes -= piece.bytes();
            pieces.push(piece);
        }
    }
    pieces
}

/// What is below an address, which is above the first, and what is above, if anything is.
fn cut(vacancy: Vacancy, at: u64) -> (Vacancy, Option<Vacancy>) {
    let bytes = at - vacancy.at().0;
    match vacancy.split(bytes) {
        Ok((low, high)) => (low, Some(high)),
        Err(low) => (low, None),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stitchpool_driver::host::{HostConfig, HostDriver};

    const PLOT_BYTES: u64 = 1 << 30;

    #[test]
    fn small_reservations_have_what_was_asked_for() {
        let origin = Origin::new(HostDriver::new(HostConfig::default()).unwrap());
        for plots in 1..5 {
            let space = Space::reserve(&origin, PLOT_BYTES, plots * PLOT_BYTES, PLOT_BYTES).unwrap();
            assert_eq!(space.free_bytes(), plots * PLOT_BYTES);
        }
    }

    #[test]
    fn the_last_plot_of_a_stretch_is_left_out() {
        let origin = Origin::new(HostDriver::new(HostConfig::default()).unwrap());
        for (plots_below, expected) in [(1, vec![3]), (2, vec![1, 2]), (3, vec![2, 1])] {
            let whole = Reservation::reserve(&origin, STRETCH_BYTES + 8 * PLOT_BYTES, PLOT_BYTES).unwrap();
            let line = (whole.at().0 + 3 * PLOT_BYTES).next_multiple_of(STRETCH_BYTES);
            let (_, above) = cut(whole, line - plots_below * PLOT_BYTES);
            let (four, _) = cut(above.unwrap(), line + (4 - plots_below) * PLOT_BYTES);
            let plots =
                |pieces: Vec<Vacancy>| pieces.iter().map(|piece| piece.bytes() / PLOT_BYTES).collect::<Vec<_>>();
            assert_eq!(plots(in_stretches(four, 3 * PLOT_BYTES, PLOT_BYTES)), expected);
        }
    }

    #[test]
    fn no_chain_lies_in_two_stretches_or_ends_at_the_end_of_one() {
        let origin = Origin::new(HostDriver::new(HostConfig::default()).unwrap());
        let mut space = Space::reserve(&origin, PLOT_BYTES, 5 * STRETCH_BYTES, PLOT_BYTES).unwrap();
        let mut taken: Vec<Vacancy> = Vec::new();
        while let Some(vacancy) = space.take(300 * PLOT_BYTES, 0).or_else(|| space.take(PLOT_BYTES, 0)) {
            let (first, end) = (vacancy.at().0, vacancy.end().0);
            assert_eq!(first / STRETCH_BYTES, end / STRETCH_BYTES, "{first:#x} to {end:#x}");
            taken.push(vacancy);
        }
        let bytes: u64 = taken.iter().map(Vacancy::bytes).sum();
        assert!(space.free.is_empty(), "all is taken");
        // One plot was reserved on top.
        let lost_bytes = 5 * STRETCH_BYTES - bytes;
        assert!((4 * PLOT_BYTES..=5 * PLOT_BYTES).contains(&lost_bytes), "{lost_bytes}");
        taken.into_iter().for_each(|vacancy| space.give_back(vacancy));
        assert!(space.free.values().all(|vacancy| vacancy.at().0 / STRETCH_BYTES == vacancy.end().0 / STRETCH_BYTES));
        assert!((5..=6).contains(&space.free.len()), "all are joined again, and none over a line");
        assert!(space.take(STRETCH_BYTES, 0).is_none());
        assert!(space.take(STRETCH_BYTES - PLOT_BYTES, 0).is_some());
    }
}
