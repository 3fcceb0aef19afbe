//! A group of leaves: the middle floor of a heap's tree of extents. It knows only its own extents.

use crate::heap::extent::Extent;
use crate::heap::leaf::{LEAF, Leaf};
use crate::heap::row::{GROUP, Row};
use crate::unit::{UNIT_BYTES, bytes_of};
use std::hint::select_unpredictable;

/// The extents of a stretch of addresses, in leaves. Inside, places are in units from the base, in 32 bits.
#[derive(Debug)]
pub(crate) struct Group {
    /// No extent starts below it, and none ends more than 2^32 - 1 units behind it.
    base: u64,
    /// For each leaf the start of its first extent and the length of its longest.
    row: Row,
    /// In address order; none is empty but the only one.
    leaves: Vec<Leaf>,
}

/// A group gets memory for so many leaves at a time.
const ROOM: usize = 4;
/// So far below its first extent a group's base is, in units, where it can be.
const BELOW: u32 = 1 << 31;

/// Where a search has found room, and in which extent, by leaf and place in it.
pub(crate) struct Fit {
    pub(crate) start: u64,
    pub(crate) leaf: usize,
    pub(crate) at: usize,
}

impl Group {
    /// One that holds one extent.
    pub(crate) fn of(Extent { start, units }: Extent) -> Self {
        let base = start.saturating_sub(bytes_of(BELOW.min(u32::MAX - units)));
        let mut group = Self { base, row: Row::EMPTY, leaves: vec![Leaf::EMPTY] };
        let place = group.place(start);
        group.leaves[0].insert(0, place, units);
        group.row.insert(0, place, units);
        group
    }

    /// Where an address is; the highest number for all that are out of reach.
    #[inline(always)]
    const fn place(&self, address: u64) -> u32 {
        let units = address.wrapping_sub(self.base) / UNIT_BYTES;
        if units > u32::MAX as u64 { u32::MAX } else { units as u32 }
    }

    #[inline(always)]
    const fn address(&self, place: u32) -> u64 {
        self.base + bytes_of(place)
    }

    /// Whether the extent could stand here.
    #[inline(always)]
    pub(crate) const fn reaches(&self, extent: Extent) -> bool {
        extent.start.wrapping_sub(self.base) / UNIT_BYTES + extent.units as u64 <= u32::MAX as u64
    }

    /// The first extent's start. There is one.
    #[inline(always)]
    pub(crate) const fn first(&self) -> u64 {
        self.address(self.row.start(0))
    }

    #[inline(always)]
    pub(crate) const fn bound(&self, leaf: usize) -> u32 {
        self.row.bound(leaf)
    }

    /// The longest extent's length, 0 of none.
    pub(crate) fn longest(&self) -> u32 {
        self.row.longest()
    }

    pub(crate) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// How many extents a leaf has.
    pub(crate) fn count(&self, leaf: usize) -> usize {
        self.leaves[leaf].count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.leaves[0].count() == 0
    }

    pub(crate) fn get(&self, leaf: usize, at: usize) -> Extent {
        let extents = &self.leaves[leaf];
        Extent { start: self.address(extents.start(at)), units: extents.length(at) }
    }

    /// All extents in address order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        let counts = self.leaves.iter().map(Leaf::count).enumerate();
        counts.flat_map(move |(leaf, count)| (0..count).map(move |at| self.get(leaf, at)))
    }

    /// Finds the lowest extent that has `units` at a multiple of `alignment`.
    #[inline(always)]
    pub(crate) fn find_first(&self, units: u32, alignment: u64) -> Option<Fit> {
        // Of an only leaf its bound need not be asked: its extents are looked at anyway.
        let mut hopeful = if self.row.count() == 1 { 1 } else { self.row.at_least(units) };
        while hopeful != 0 {
            let leaf = hopeful.trailing_zeros() as usize;
            let extents = &self.leaves[leaf];
            let mut long = extents.at_least(units);
            while long != 0 {
                let at = long.trailing_zeros() as usize;
                let low = self.address(extents.start(at));
                // Every extent starts at a whole unit.
                let start = if alignment == UNIT_BYTES { low } else { (low + (alignment - 1)) & !(alignment - 1) };
                if alignment == UNIT_BYTES || start - low <= bytes_of(extents.length(at) - units) {
                    return Some(Fit { start, leaf, at });
                }
                long &= long - 1;
            }
            hopeful &= hopeful - 1;
        }
        None
    }

    /// The leaf of the extents that start at or before `address`, and how many of its extents do. Of an address out
    /// of reach: behind all extents.
    #[inline(always)]
    pub(crate) fn position_behind(&self, address: u64) -> (usize, usize) {
        let place = self.place(address);
        let leaf = if self.row.count() == 1 { 0 } else { self.row.leaf_of(place) };
        (leaf, self.leaves[leaf].rank(place))
    }

    /// Takes `units` off the low end of an extent, if they begin there and are not all of it.
    #[inline(always)]
    pub(crate) fn shorten_low(&mut self, leaf: usize, at: usize, start: u64, units: u32) -> bool {
        let extents = &mut self.leaves[leaf];
        let (place, length) = (extents.start(at), extents.length(at));
        if self.base + bytes_of(place) != start || length == units {
            return false;
        }
        extents.set(at, place + units, length - units);
        if at == 0 {
            self.row.set_start(leaf, place + units);
        }
        if length == self.row.bound(leaf) {
            self.row.set_bound(leaf, extents.longest());
        }
        true
    }

    /// Adds free bytes before extent `at` of a leaf, joined with the neighbours that they touch, if all that this
    /// changes is in the leaf; `last`: the extents behind the group's are none's. Else nothing is done.
    #[inline(always)]
    pub(crate) fn join(&mut self, (leaf, at): (usize, usize), free: Extent, last: bool) -> bool {
        if !self.reaches(free) {
            return false;
        }
        let (start, units) = (self.place(free.start), free.units);
        let count = self.leaves[leaf].count();
        if count == LEAF || (at == count && self.may_touch_next(leaf, start + units, last)) {
            return false;
        }
        // Which neighbours it touches cannot be guessed, so there is one way for all four cases.
        let extents = &mut self.leaves[leaf];
        let low = at.wrapping_sub(1);
        let touches_low = (at > 0) & (extents.end(low) == start);
        let touches_high = (at < count) & (extents.start(at) == start + units);
        let joined = at - usize::from(touches_low);
        let start = select_unpredictable(touches_low, extents.start(joined), start);
        let low_units = select_unpredictable(touches_low, extents.length(low), 0);
        let high_units = select_unpredictable(touches_high, extents.length(at), 0);
        let units = low_units + units + high_units;
        let behind = at + usize::from(touches_high);
        // Recorded runs repeat themselves, so that this can be guessed there.
        if behind != joined + 1 {
            extents.shift(behind, joined + 1);
        }
        extents.set(joined, start, units);
        self.row.raise_bound(leaf, units);
        if joined == 0 {
            self.row.set_start(leaf, start);
        }
        if self.leaves[leaf].count() < LEAF / 4 && self.leaves.len() > 1 {
            self.merge_with_next(leaf);
        }
        true
    }

    /// Whether what ends at `end`, behind all extents of a leaf, might touch the first of another.
    #[inline(always)]
    fn may_touch_next(&self, leaf: usize, end: u32, last: bool) -> bool {
        if leaf + 1 == self.leaves.len() { !last } else { self.row.start(leaf + 1) == end }
    }

    /// Extent `at` of a leaf becomes another in the same place.
    pub(crate) fn set(&mut self, leaf: usize, at: usize, extent: Extent) {
        let place = self.place(extent.start);
        self.leaves[leaf].set(at, place, extent.units);
        self.note(leaf);
    }

    /// Puts an extent that is in reach, and touches no other, before extent `at` of a leaf, which has room.
    pub(crate) fn insert(&mut self, leaf: usize, at: usize, extent: Extent) {
        let place = self.place(extent.start);
        self.leaves[leaf].insert(at, place, extent.units);
        self.note(leaf);
    }

    /// Takes an extent out. Leaves may go with it, but not the last: gives whether one did.
    pub(crate) fn remove(&mut self, leaf: usize, at: usize) -> bool {
        self.leaves[leaf].remove(at);
        let count = self.leaves[leaf].count();
        if count == 0 && self.leaves.len() > 1 {
            self.leaves.remove(leaf);
            self.row.remove(leaf);
            return true;
        }
        self.note(leaf);
        count < LEAF / 4 && self.merge_with_next(leaf)
    }

    /// Takes note of what a leaf has become.
    fn note(&mut self, leaf: usize) {
        let extents = &self.leaves[leaf];
        self.row.set_start(leaf, extents.start(0));
        self.row.set_bound(leaf, extents.longest());
    }

    /// Whether no leaf can be added.
    pub(crate) const fn is_full(&self) -> bool {
        self.row.count() == GROUP
    }

    /// Bytes that its leaves take.
    pub(crate) const fn leaf_bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<Leaf>()
    }

    /// Whether the group behind this one can be appended: both are thin, and count from the same base.
    pub(crate) fn can_append(&self, next: &Self) -> bool {
        self.base == next.base && self.row.count() + next.row.count() <= GROUP / 2
    }

    /// Adds the leaves of the group behind this one.
    pub(crate) fn append(&mut self, next: Self) {
        let Self { mut row, mut leaves, .. } = next;
        row.move_from(0, &mut self.row);
        self.leaves.append(&mut leaves);
    }

    /// Cuts off the upper half.
    pub(crate) fn split(&mut self) -> Self {
        let mut high = Self { base: self.base, row: Row::EMPTY, leaves: self.leaves.split_off(GROUP / 2) };
        self.row.move_from(GROUP / 2, &mut high.row);
        high
    }

    pub(crate) fn split_leaf(&mut self, leaf: usize) {
        let mut high = Leaf::EMPTY;
        self.leaves[leaf].move_from(LEAF / 2, &mut high);
        self.note(leaf);
        self.row.insert(leaf + 1, high.start(0), high.longest());
        if self.leaves.len() == self.leaves.capacity() {
            self.leaves.reserve_exact(ROOM);
        }
        self.leaves.insert(leaf + 1, high);
    }

    /// Joins two neighbours, if both are thin.
    #[inline(never)]
    fn merge_with_next(&mut self, leaf: usize) -> bool {
        let Some(next) = self.leaves.get(leaf + 1) else { return false };
        if self.leaves[leaf].count() + next.count() > LEAF / 2 {
            return false;
        }
        let mut next = self.leaves.remove(leaf + 1);
        next.move_from(0, &mut self.leaves[leaf]);
        self.row.remove(leaf + 1);
        self.note(leaf);
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
            if self.row.start(index) != leaf.start(0) || self.row.bound(index) != leaf.longest() {
                return Err(format!("the first or the longest extent of leaf {index} is stale in the row"));
            }
        }
        match self.iter().find(|&extent| !self.reaches(extent)) {
            Some(far) => Err(format!("{far:?} is out of reach from {:#x}", self.base)),
            None => Ok(()),
        }
    }
}
