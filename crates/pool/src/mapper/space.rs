//! The pool's addresses: one reservation cut into plots, and the table that tells whose a plot is.

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
    /// Free plots by start; two never touch.
    free: BTreeMap<u64, Vacancy>,
    /// Where the last chain ended: the next takes higher addresses while there are any.
    cursor: u64,
}

impl Space {
    /// Reserves `bytes`, or half of it where that is refused, and so on down to `floor_bytes`.
    pub(crate) fn reserve(origin: &Arc<Origin>, plot_bytes: u64, bytes: u64, floor_bytes: u64) -> Result<Self, Error> {
        let mut wanted_bytes = bytes.next_multiple_of(plot_bytes);
        let vacancy = loop {
            match Reservation::reserve(origin, wanted_bytes, plot_bytes) {
                Ok(vacancy) => break vacancy,
                Err(error) if wanted_bytes / 2 < floor_bytes.max(plot_bytes) => return Err(error),
                Err(_) => wanted_bytes = (wanted_bytes / 2).next_multiple_of(plot_bytes),
            }
        };
        let plots = usize::try_from(wanted_bytes / plot_bytes).unwrap_or(usize::MAX);
        let owners = (0..plots).map(|_| AtomicU16::new(0)).collect();
        let base = vacancy.at().0;
        let table = PlotTable { base, plot_shift: plot_bytes.trailing_zeros(), owners };
        Ok(Self { table, plot_bytes, free: BTreeMap::from([(base, vacancy)]), cursor: base })
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
        bytes.saturating_mul(4).max(self.plot_bytes)
    }

    /// Whether addresses are many, compared with what a chain for `bytes` is given.
    pub(crate) fn is_roomy(&self, bytes: u64) -> bool {
        self.free_bytes() / 8 > self.generous_bytes(bytes)
    }
}
