//! The free bytes of a heap: extents in address order, served first fit. It knows no handle and no
//! stream, and makes no driver call.

pub(crate) use crate::heap::extent::Extent;
use crate::heap::lanes::{Fours, Lanes};
use crate::heap::leaf::Piece;
use crate::heap::tree::{self, Tree};
use crate::unit::{Place, UNIT_BYTES};

/// Free extents; two never touch, none is empty, and each lies in one stretch.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// By number of the stretch, rising. A heap has one, or a few.
    trees: Vec<(u32, Tree)>,
    /// The sum of all lengths.
    free_units: u64,
}

/// Where a search has found room: of use until the extents change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    pub(crate) start: u64,
    tree: usize,
    found: tree::Found,
}

impl Extents {
    /// Takes `units` from the lowest extent that has them at a multiple of `alignment` bytes (a power
    /// of two, at least a unit); gives the address.
    #[inline(always)]
    pub(crate) fn take_first(&mut self, units: u32, alignment: u64) -> Option<u64> {
        let found = self.find_first(Fours, units, alignment)?;
        self.take(Fours, found, units);
        Some(found.start)
    }

    /// Finds the lowest extent that has `units` at a multiple of `alignment` bytes.
    #[inline(always)]
    pub(crate) fn find_first(&mut self, lanes: impl Lanes, units: u32, alignment: u64) -> Option<Found> {
        for (index, (stretch, tree)) in self.trees.iter_mut().enumerate() {
            if let Some(found) = tree.find_first(lanes, units, alignment / UNIT_BYTES) {
                let start = Place { stretch: *stretch, unit: found.start }.address();
                return Some(Found { start, tree: index, found });
            }
        }
        None
    }

    /// Takes `units` from where they were found. Nothing has changed since.
    #[inline(always)]
    pub(crate) fn take(&mut self, lanes: impl Lanes, found: Found, units: u32) {
        if let Some((_, tree)) = self.trees.get_mut(found.tree) {
            tree.take(lanes, found.found, units);
            self.free_units -= u64::from(units);
        }
    }

    /// Has the processor fetch what will be looked at when these bytes become free.
    #[inline(always)]
    pub(crate) fn foresee(&self, lanes: impl Lanes, start: u64) {
        let Place { stretch, unit } = Place::of(start);
        if let Some(tree) = self.tree(stretch) {
            tree.foresee(lanes, unit);
        }
    }

    /// Adds free bytes, joined with the neighbours they touch. The bytes are not free already.
    pub(crate) fn insert(&mut self, start: u64, units: u32) {
        self.insert_with(Fours, start, units);
    }

    /// The same on a hit.
    #[inline(always)]
    pub(crate) fn insert_with(&mut self, lanes: impl Lanes, start: u64, units: u32) {
        self.free_units += u64::from(units);
        let Place { stretch, unit } = Place::of(start);
        let piece = Piece { start: unit, units };
        match self.trees.iter_mut().find(|(number, _)| *number == stretch) {
            Some((_, tree)) => tree.insert(lanes, piece),
            None => self.plant(stretch).insert(Fours, piece),
        }
    }

    /// A new tree, for a stretch that has none; empty ones go.
    #[cold]
    fn plant(&mut self, stretch: u32) -> &mut Tree {
        self.trees.retain(|(_, tree)| !tree.is_empty());
        let at = self.trees.partition_point(|(number, _)| *number < stretch);
        self.trees.insert(at, (stretch, Tree::new()));
        &mut self.trees[at].1
    }

    fn tree(&self, stretch: u32) -> Option<&Tree> {
        self.trees.iter().find(|(number, _)| *number == stretch).map(|(_, tree)| tree)
    }

    /// Takes exactly these bytes out, if all of them are free.
    pub(crate) fn remove_range(&mut self, start: u64, units: u32) -> bool {
        let Place { stretch, unit } = Place::of(start);
        let tree = self.trees.iter_mut().find(|(number, _)| *number == stretch);
        let removed = tree.is_some_and(|(_, tree)| tree.remove_range(Piece { start: unit, units }));
        if removed {
            self.free_units -= u64::from(units);
            // An only one is likely to be used again.
            if self.trees.len() > 1 {
                self.trees.retain(|(_, tree)| !tree.is_empty());
            }
        }
        removed
    }

    /// The extent that holds `address`.
    pub(crate) fn holding(&self, address: u64) -> Option<Extent> {
        let Place { stretch, unit } = Place::of(address - address % UNIT_BYTES);
        let (_, piece) = self.tree(stretch)?.holding(unit)?;
        Some(extent(stretch, piece))
    }

    /// The extent that ends at `end`.
    pub(crate) fn ending_at(&self, end: u64) -> Option<Extent> {
        self.holding(end - 1).filter(|extent| extent.end() == end)
    }

    /// The extent that starts at `start`.
    pub(crate) fn starting_at(&self, start: u64) -> Option<Extent> {
        self.holding(start).filter(|extent| extent.start == start)
    }

    /// All extents in address order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.trees.iter().flat_map(|(stretch, tree)| tree.iter().map(|piece| extent(*stretch, piece)))
    }

    /// Free units in all.
    pub(crate) const fn free_units(&self) -> u64 {
        self.free_units
    }

    /// Bytes that the index itself takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let trees: u64 = self.trees.iter().map(|(_, tree)| tree.own_bytes()).sum();
        trees + (self.trees.capacity() * size_of::<(u32, Tree)>()) as u64
    }

    /// Checks the invariants at the fields.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.trees.is_sorted_by_key(|(stretch, _)| *stretch) {
            return Err("trees do not stand by the number of their stretch".into());
        }
        for (stretch, tree) in &self.trees {
            tree.check().map_err(|broken| format!("stretch {stretch}: {broken}"))?;
        }
        let free_units: u64 = self.iter().map(|extent| u64::from(extent.units)).sum();
        if free_units != self.free_units {
            return Err(format!("{free_units} units stand in extents, {} are counted", self.free_units));
        }
        Ok(())
    }
}

fn extent(stretch: u32, piece: Piece) -> Extent {
    Extent { start: Place { stretch, unit: piece.start }.address(), units: piece.units }
}

#[cfg(test)]
mod tests;
