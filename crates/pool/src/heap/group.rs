//! A group of leaves: the middle floor of a tree of extents. It knows only its own extents.

use crate::heap::lanes::{Fours, Lanes};
use crate::heap::leaf::{Added, LEAF, Leaf, Piece};
use crate::heap::row::{ROW, Row};

/// A row of leaves: the extents of a stretch of places.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) row: Row,
    /// In the order of their places; none is empty but the tree's only one.
    leaves: Vec<Leaf>,
}

/// A group gets memory for so many leaves at a time.
const ROOM: usize = 4;
/// A leaf of so few extents is joined with a neighbour if both have no more than twice as many.
const THIN: usize = LEAF * 3 / 8;

/// Where a search has found room, and in which extent.
pub(crate) struct Fit {
    pub(crate) start: u32,
    pub(crate) leaf: usize,
    pub(crate) slot: usize,
    /// When it is taken from the extent's low end, this is how long the longest of the leaf is; of an only leaf it means
    /// nothing.
    pub(crate) longest: u32,
}

/// What was taken of an extent.
pub(crate) enum Taken {
    /// Its low end.
    Part,
    /// All of it: the leaf has one extent less.
    All,
    /// Nothing: what was found is not its low end.
    Not,
}

impl Group {
    /// One with one leaf, whose places begin at the fence.
    pub(crate) fn of(fence: u32) -> Self {
        let mut row = Row::EMPTY;
        row.insert(0, fence, 0);
        Self { row, leaves: vec![Leaf::EMPTY] }
    }

    pub(crate) const fn leaves(&self) -> &[Leaf] {
        self.leaves.as_slice()
    }

    /// Finds the lowest extent that has `units` at a multiple of `alignment` units.
    #[inline(always)]
    pub(crate) fn find_first(&self, lanes: impl Lanes, units: u32, alignment: u64) -> Option<Fit> {
        if let [extents] = self.leaves.as_slice() {
            // How long its longest is need not be asked, nor kept.
            let (slot, start) = fit(extents, lanes, units, alignment)?;
            return Some(Fit { start, leaf: 0, slot, longest: 0 });
        }
        let mut hopeful = self.row.hopeful(lanes, units);
        while hopeful != 0 {
            let leaf = hopeful.trailing_zeros() as usize;
            let extents = self.leaves.get(leaf)?;
            // Only where it must be aligned can this be in vain.
            if let Some((slot, start)) = fit(extents, lanes, units, alignment) {
                let longest = extents.largest_but(lanes, slot).max(extents.get(slot).units - units);
                return Some(Fit { start, leaf, slot, longest });
            }
            hopeful &= hopeful - 1;
        }
        None
    }

    /// The leaf that has this place.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, lanes: impl Lanes, place: u32) -> usize {
        if self.leaves.len() == 1 { 0 } else { self.row.leaf_of(lanes, place) }
    }

    /// Adds an extent to a leaf, joined with those it touches there.
    #[inline(always)]
    pub(crate) fn add<L: Lanes>(&mut self, lanes: L, leaf: usize, piece: Piece) -> Added {
        // What an only leaf is used for repeats itself.
        if let [only] = self.leaves.as_mut_slice() {
            return only.add(lanes, piece);
        }
        let extents = &mut self.leaves[leaf];
        let added = if L::EVEN { extents.add_even(lanes, piece) } else { extents.add(lanes, piece) };
        if let Added::Joined(units) | Added::Fewer(units) = added {
            self.row.raise_longest(leaf, units);
        }
        added
    }

    /// Takes units off the low end of an extent that was found.
    #[inline(always)]
    pub(crate) fn take(&mut self, lanes: impl Lanes, fit: &Fit, units: u32) -> Taken {
        let Some(extents) = self.leaves.get_mut(fit.leaf) else { return Taken::Not };
        let whole = extents.get(fit.slot);
        if whole.start != fit.start {
            return Taken::Not;
        }
        self.row.set_longest(fit.leaf, fit.longest);
        if whole.units != units {
            extents.set(fit.slot, Piece { start: whole.start + units, units: whole.units - units });
            return Taken::Part;
        }
        extents.remove(lanes, fit.slot);
        Taken::All
    }

    /// Writes an extent of a leaf anew.
    pub(crate) fn set(&mut self, leaf: usize, slot: usize, piece: Piece) {
        self.leaves[leaf].set(slot, piece);
        self.measure(leaf);
    }

    /// Takes an extent out of a leaf.
    pub(crate) fn remove(&mut self, leaf: usize, slot: usize) {
        self.leaves[leaf].remove(Fours, slot);
        self.measure(leaf);
    }

    /// Puts an extent that touches no other into a leaf. There is room.
    pub(crate) fn insert(&mut self, leaf: usize, piece: Piece) {
        let extents = &mut self.leaves[leaf];
        extents.insert(Fours, extents.rank(Fours, piece.start), piece);
        self.measure(leaf);
    }

    /// Sees how long the longest extent of a leaf is now.
    fn measure(&mut self, leaf: usize) {
        self.row.set_longest(leaf, self.leaves[leaf].largest());
    }

    /// Takes a leaf out.
    pub(crate) fn remove_leaf(&mut self, leaf: usize) {
        self.leaves.remove(leaf);
        self.row.remove(leaf);
    }

    /// Halves a full leaf.
    pub(crate) fn split_leaf(&mut self, leaf: usize) {
        let high = self.leaves[leaf].split();
        self.measure(leaf);
        self.row.insert(leaf + 1, high.get(0).start, high.largest());
        if self.leaves.len() == self.leaves.capacity() {
            self.leaves.reserve_exact(ROOM);
        }
        self.leaves.insert(leaf + 1, high);
    }

    /// Joins a leaf that has become thin with a neighbour, so that leaves stay three eighths full at least on average.
    pub(crate) fn thicken(&mut self, leaf: usize) {
        let count = |leaf: usize| self.leaves.get(leaf).map_or(LEAF, Leaf::count);
        let fits = |low: &usize| count(*low) + count(low.wrapping_add(1)) <= 2 * THIN;
        let Some(low) = [leaf, leaf.wrapping_sub(1)].into_iter().find(fits) else { return };
        let high = self.leaves.remove(low + 1);
        self.row.remove(low + 1);
        self.leaves[low].append(&high);
        self.measure(low);
    }

    /// Whether a leaf has so few extents that a neighbour may take them; an only leaf has none.
    #[inline(always)]
    pub(crate) fn is_thin(&self, leaf: usize) -> bool {
        self.leaves.len() > 1 && self.leaves[leaf].has_at_most(THIN)
    }

    /// Adds the leaves of the group behind this one; there is room.
    pub(crate) fn append(&mut self, next: Self) {
        let mut next = next;
        [&mut *self, &mut next].into_iter().for_each(|group| group.measure(0));
        let Self { mut row, mut leaves } = next;
        row.move_from(0, &mut self.row);
        self.leaves.append(&mut leaves);
    }

    /// Cuts off the upper half.
    pub(crate) fn split(&mut self) -> Self {
        let mut high = Self { row: Row::EMPTY, leaves: self.leaves.split_off(ROW / 2) };
        self.row.move_from(ROW / 2, &mut high.row);
        high
    }

    /// The length of its longest extent.
    pub(crate) fn largest(&self) -> u32 {
        match self.leaves.as_slice() {
            [only] => only.largest(),
            _ => self.row.largest(),
        }
    }

    /// Bytes that its leaves take.
    pub(crate) const fn leaf_bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<Leaf>()
    }

    /// Checks the invariants at the fields; `behind`: the fence of the next group.
    pub(crate) fn check(&self, behind: u32) -> Result<(), String> {
        self.row.check()?;
        if self.leaves.is_empty() || self.row.count() != self.leaves.len() {
            return Err(format!("{} leaves, {} in the row", self.leaves.len(), self.row.count()));
        }
        for (index, leaf) in self.leaves.iter().enumerate() {
            leaf.check().map_err(|broken| format!("leaf {index}: {broken}"))?;
            if leaf.is_empty() && self.leaves.len() > 1 {
                return Err(format!("leaf {index} is empty"));
            }
            let fences = self.row.fence(index)..=self.row.fence_behind(index).unwrap_or(behind);
            let astray = leaf.iter().find(|piece| !fences.contains(&piece.start) || !fences.contains(&piece.end()));
            if let Some(piece) = astray {
                return Err(format!("{piece:?} of leaf {index} is outside its fences {fences:?}"));
            }
            if self.leaves.len() > 1 && self.row.longest(index) != leaf.largest() {
                return Err(format!("the longest of leaf {index} is not {}", self.row.longest(index)));
            }
        }
        Ok(())
    }
}

/// The first extent that has `units` at a multiple of `alignment` units, and where it has them.
#[inline(always)]
fn fit(extents: &Leaf, lanes: impl Lanes, units: u32, alignment: u64) -> Option<(usize, u32)> {
    let mut long = extents.with(lanes, units);
    while long != 0 {
        let slot = long.trailing_zeros() as usize;
        let Piece { start, units: length } = extents.get(slot);
        if alignment == 1 {
            return Some((slot, start));
        }
        let aligned = u64::from(start).next_multiple_of(alignment);
        if aligned - u64::from(start) <= u64::from(length - units) {
            return Some((slot, aligned as u32));
        }
        long &= long - 1;
    }
    None
}
