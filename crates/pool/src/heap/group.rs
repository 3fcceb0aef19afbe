//! A group of leaves: the middle floor of a heap's tree of extents. It knows only its own extents.

use crate::heap::extent::Extent;
use crate::heap::row::Row;
use crate::unit::{UNIT_BYTES, bytes_of};

/// A row of leaves: the extents of a stretch of addresses.
#[derive(Debug)]
pub(crate) struct Group {
    /// For each leaf the start of its first extent, and a length that none of its extents exceeds.
    pub(crate) row: Row<GROUP>,
    /// In address order; none is empty but the only one.
    pub(crate) leaves: Vec<Leaf>,
}

/// So many extents a leaf has at most, and so many leaves a group.
pub(crate) const LEAF: usize = 64;
pub(crate) const GROUP: usize = 64;
/// A group gets memory for so many leaves at a time.
const ROOM: usize = 4;

/// Extents in address order.
pub(crate) type Leaf = Row<LEAF>;

/// Where a search has found room, and in which extent, by leaf and place in it.
pub(crate) struct Fit {
    pub(crate) start: u64,
    pub(crate) leaf: usize,
    pub(crate) at: usize,
    /// When it is taken, no extent of the leaf is longer than this.
    pub(crate) bound: u32,
}

impl Group {
    /// One that holds one extent.
    pub(crate) fn of(start: u64, units: u32) -> Self {
        let mut group = Self { row: Row::EMPTY, leaves: vec![Row::EMPTY] };
        group.leaves[0].insert(0, start, units);
        group.row.insert(0, start, units);
        group
    }

    /// Finds the lowest extent that has `units` at a multiple of `alignment`. Bounds that promise too much are
    /// lowered on the way.
    #[inline(always)]
    pub(crate) fn find_first(&mut self, units: u32, alignment: u64) -> Option<Fit> {
        if let [extents] = self.leaves.as_slice() {
            // Its bound need not be asked, nor kept.
            let (at, start) = fit(extents, extents.at_least(units), units, alignment)?;
            return Some(Fit { start, leaf: 0, at, bound: u32::MAX });
        }
        let mut hopeful = self.row.at_least(units);
        while hopeful != 0 {
            let leaf = hopeful.trailing_zeros() as usize;
            let extents = &self.leaves[leaf];
            let long = extents.at_least_steady(units);
            if let Some((at, start)) = fit(extents, long, units, alignment) {
                // What is not in `long` is shorter than `units`.
                let only = long & (long - 1) == 0 && start == extents.start(at);
                let bound = if only { (extents.length(at) - units).max(units - 1) } else { u32::MAX };
                return Some(Fit { start, leaf, at, bound });
            }
            if long == 0 {
                self.row.set_length(leaf, units - 1);
            }
            hopeful &= hopeful - 1;
        }
        None
    }

    /// Takes `units` off the low end of an extent, if they begin there and are not all of it.
    #[inline(always)]
    pub(crate) fn shorten_low(&mut self, leaf: usize, at: usize, start: u64, units: u32) -> bool {
        let extents = &mut self.leaves[leaf];
        let length = extents.length(at);
        if extents.start(at) != start || length == units {
            return false;
        }
        extents.set(at, start + bytes_of(units), length - units);
        if at == 0 {
            self.row.set_start(leaf, start + bytes_of(units));
        }
        true
    }

    /// The leaf of the extents that start at or before `address`, and how many of its extents do.
    #[inline(always)]
    pub(crate) fn position_behind(&self, address: u64) -> (usize, usize) {
        let leaf = if self.row.count() == 1 { 0 } else { self.row.rank(address).saturating_sub(1) };
        (leaf, self.leaves[leaf].rank(address))
    }

    /// Lengthens the one extent before or at the place that free bytes touch, if there is one and no
    /// other neighbour; `last`: the extents behind the group's are none's. Else nothing is done.
    #[inline(always)]
    pub(crate) fn widen(&mut self, leaf: usize, at: usize, free: Extent, last: bool) -> bool {
        let behind_all = last && leaf + 1 == self.leaves.len();
        let extents = &mut self.leaves[leaf];
        let low = at.wrapping_sub(1);
        let touches_low = at > 0 && extents.end(low) == free.start;
        // Behind the leaf's extents stands an address that nothing ends at.
        let touches_high = extents.start(at) == free.end();
        if touches_low == touches_high || (at == extents.count() && !behind_all) {
            return false;
        }
        // One way for either neighbour: which one it is cannot be guessed.
        let grown = if touches_low { low } else { at };
        let units = extents.length(grown) + free.units;
        let start = extents.start(grown).min(free.start);
        extents.set(grown, start, units);
        if grown == 0 {
            self.row.set_start(leaf, start);
        }
        self.row.raise_length(leaf, units);
        true
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.row.check()?;
        if self.leaves.is_empty() || self.row.count() != self.leaves.len() {
            return Err(format!("{} leaves, {} in the row", self.leaves.len(), self.row.count()));
        }
        for (index, leaf) in self.leaves.iter().enumerate() {
            leaf.check().map_err(|broken| format!("leaf {index}: {broken}"))?;
            if leaf.count() == 0 && self.leaves.len() > 1 {
                return Err(format!("leaf {index} is empty"));
            }
            if self.row.start(index) != leaf.start(0) || self.row.length(index) < leaf.largest() {
                return Err(format!("the first of leaf {index} is stale, or its bound too low"));
            }
        }
        Ok(())
    }

    /// Bytes that its leaves take.
    pub(crate) const fn leaf_bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<Leaf>()
    }

    /// Adds the leaves of the group behind this one; there is room.
    pub(crate) fn append(&mut self, next: Self) {
        let Self { mut row, mut leaves } = next;
        row.move_from(0, &mut self.row);
        self.leaves.append(&mut leaves);
    }

    /// Cuts off the upper half.
    pub(crate) fn split(&mut self) -> Self {
        let mut high = Self { row: Row::EMPTY, leaves: self.leaves.split_off(GROUP / 2) };
        self.row.move_from(GROUP / 2, &mut high.row);
        high
    }

    pub(crate) fn split_leaf(&mut self, leaf: usize) {
        let mut high = Leaf::EMPTY;
        self.leaves[leaf].move_from(LEAF / 2, &mut high);
        self.row.set_length(leaf, self.leaves[leaf].largest());
        self.row.insert(leaf + 1, high.start(0), high.largest());
        if self.leaves.len() == self.leaves.capacity() {
            self.leaves.reserve_exact(ROOM);
        }
        self.leaves.insert(leaf + 1, high);
    }

    /// Joins two thin neighbours, so that leaves stay three eighths full at least on average.
    pub(crate) fn merge_with_next(&mut self, leaf: usize) {
        let Some(next) = self.leaves.get(leaf + 1) else { return };
        if self.leaves[leaf].count() + next.count() > LEAF * 3 / 4 {
            return;
        }
        let mut next = self.leaves.remove(leaf + 1);
        self.row.set_length(leaf, self.row.length(leaf).max(self.row.length(leaf + 1)));
        self.row.remove(leaf + 1);
        next.move_from(0, &mut self.leaves[leaf]);
    }
}

/// The first of the extents named in `long`, all of which have `units`, that has them at a multiple of `alignment`, and
/// where.
#[inline(always)]
fn fit(extents: &Leaf, long: u64, units: u32, alignment: u64) -> Option<(usize, u64)> {
    let mut long = long;
    while long != 0 {
        let at = long.trailing_zeros() as usize;
        let (low, rest) = (extents.start(at), extents.length(at) - units);
        // Every extent starts at a whole unit.
        let start = if alignment == UNIT_BYTES { low } else { (low + (alignment - 1)) & !(alignment - 1) };
        if start - low <= bytes_of(rest) {
            return Some((at, start));
        }
        long &= long - 1;
    }
    None
}
