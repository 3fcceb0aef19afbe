//! The free bytes of a heap: extents in address order, served first fit. It knows no handle and no
//! stream, and makes no driver call.
//!
//! A tree of three floors: extents stand in leaves, leaves in groups. Each floor tells of every part
//! below where it starts and a bound on its longest extent, so that a fit is a scan of bounds, and
//! then of one leaf. Bounds are lowered by what a search has seen of a leaf, not by every cut.

pub(crate) use crate::heap::extent::Extent;
use crate::heap::group::{Fit, GROUP, Group, LEAF, Leaf};
use crate::heap::position::Position;
use crate::heap::scan::{Length, first_at_least};
use crate::unit::{bytes_of, units_of};

/// Free extents in address order; two never touch, none is empty.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// In address order; none is empty but the only one.
    groups: Vec<Group>,
    /// No extent of group `i` is longer than `bounds[i]`. Where there is one group, its own row says it, and
    /// this means nothing.
    bounds: Vec<Length>,
    /// `firsts[i]` is the start of the first extent of group `i`. Of an only group it means nothing.
    firsts: Vec<u64>,
    /// The sum of all lengths.
    free_units: u64,
}

/// Where a search has found room: of use until the extents change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    pub(crate) start: u64,
    position: Position,
    /// When it is taken, no extent of its leaf is longer than this.
    bound: u32,
}

impl Extents {
    /// Takes `units` from the lowest extent that has them at a multiple of `alignment` bytes (a power
    /// of two, at least a unit); gives the address.
    #[inline(always)]
    pub(crate) fn take_first(&mut self, units: u32, alignment: u64) -> Option<u64> {
        let found = self.find_first(units, alignment)?;
        self.take(found, units);
        Some(found.start)
    }

    /// Finds the lowest extent that has `units` at a multiple of `alignment` bytes.
    #[inline(always)]
    pub(crate) fn find_first(&mut self, units: u32, alignment: u64) -> Option<Found> {
        let mut group = if self.groups.len() == 1 { 0 } else { first_at_least(&self.bounds, units)? };
        loop {
            let part = self.groups.get_mut(group)?;
            if let Some(Fit { start, leaf, at, bound }) = part.find_first(units, alignment) {
                return Some(Found { start, position: Position::new(group, leaf, at), bound });
            }
            self.bounds[group] = Length::of(part.row.largest());
            group += 1 + first_at_least(self.bounds.get(group + 1..)?, units)?;
        }
    }

    /// Takes `units` from where they were found. Nothing has changed since.
    #[inline(always)]
    pub(crate) fn take(&mut self, found: Found, units: u32) {
        let position = found.position;
        let several = self.groups.len() > 1;
        let Some(part) = self.groups.get_mut(position.group()) else { return };
        part.row.lower_length(position.leaf(), found.bound);
        if !part.shorten_low(position.leaf(), position.at(), found.start, units) {
            return self.cut(position, found.start, units);
        }
        self.free_units -= u64::from(units);
        if several && position.at() == 0 {
            self.firsts[position.group()] = part.row.start(0);
        }
    }

    /// Adds free bytes, joined with the neighbours they touch. The bytes are not free already.
    #[inline(always)]
    pub(crate) fn insert(&mut self, start: u64, units: u32) {
        self.free_units += u64::from(units);
        let extent = Extent { start, units };
        let (last, group, part) = match self.groups.as_mut_slice() {
            [] => return self.insert_only(extent),
            [only] => (true, 0, only),
            several => {
                let group = group_of(&self.firsts, start);
                (false, group, &mut several[group])
            }
        };
        let (leaf, at) = part.position_behind(start);
        match part.widen(leaf, at, extent, last) {
            true if last => {}
            true => self.note(group, leaf),
            false => self.insert_at(Position::new(group, leaf, at), extent),
        }
    }

    /// Adds free bytes that touch neither neighbour or both, or lie behind all extents of a leaf.
    #[inline(never)]
    fn insert_at(&mut self, position: Position, extent: Extent) {
        let extents = self.leaf(position);
        let at = position.at();
        let touches_low = at > 0 && extents.end(at - 1) == extent.start;
        if at == extents.count() {
            return self.insert_at_end(position, touches_low, extent);
        }
        if !touches_low {
            return self.insert_new(position, extent);
        }
        let high_units = extents.length(at);
        self.grow(position.before(), extent.units + high_units);
        self.remove(position);
    }

    /// Adds free bytes behind all extents of a leaf; the next one is the first of the next leaf.
    fn insert_at_end(&mut self, position: Position, touches_low: bool, extent: Extent) {
        let next = self.next_leaf(position).filter(|&next| self.get(next).start == extent.end());
        match (touches_low, next) {
            (false, None) => self.insert_new(position, extent),
            (true, None) => self.grow(position.before(), extent.units),
            (false, Some(next)) => {
                self.set_start(next, extent.start);
                self.grow(next, extent.units);
            }
            (true, Some(next)) => {
                self.grow(position.before(), extent.units + self.get(next).units);
                self.remove(next);
            }
        }
    }

    /// Takes exactly these bytes out, if all of them are free.
    pub(crate) fn remove_range(&mut self, start: u64, units: u32) -> bool {
        let Some(position) = self.position_of(start) else { return false };
        let inside = start + bytes_of(units) <= self.get(position).end();
        if inside {
            self.cut(position, start, units);
        }
        inside
    }

    /// The extent that holds `address`.
    pub(crate) fn holding(&self, address: u64) -> Option<Extent> {
        let extent = self.get(self.position_of(address)?);
        (address < extent.end()).then_some(extent)
    }

    /// The extent that ends at `end`.
    pub(crate) fn ending_at(&self, end: u64) -> Option<Extent> {
        let extent = self.get(self.position_of(end - 1)?);
        (extent.end() == end).then_some(extent)
    }

    /// The extent that starts at `start`.
    pub(crate) fn starting_at(&self, start: u64) -> Option<Extent> {
        let extent = self.get(self.position_of(start)?);
        (extent.start == start).then_some(extent)
    }

    /// All extents in address order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        let leaves = self.groups.iter().flat_map(|group| &group.leaves);
        leaves.flat_map(|leaf| (0..leaf.count()).map(|at| Extent { start: leaf.start(at), units: leaf.length(at) }))
    }

    /// Free units in all.
    pub(crate) const fn free_units(&self) -> u64 {
        self.free_units
    }

    /// Bytes that the index itself takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let leaves: usize = self.groups.iter().map(Group::leaf_bytes).sum();
        (leaves + self.groups.capacity() * size_of::<(Group, u32, u64)>()) as u64
    }

    /// Checks the invariants at the fields.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut last_end = None;
        let mut free_units = 0;
        for extent in self.iter() {
            if extent.units == 0 || last_end.is_some_and(|end| end >= extent.start) {
                return Err(format!("extent {extent:?} is empty or touches the end {last_end:?} of the one before"));
            }
            last_end = Some(extent.end());
            free_units += u64::from(extent.units);
        }
        if free_units != self.free_units {
            return Err(format!("{free_units} units stand in extents, {} are counted", self.free_units));
        }
        if self.bounds.len() != self.groups.len() || self.firsts.len() != self.groups.len() {
            let (bounds, firsts) = (self.bounds.len(), self.firsts.len());
            return Err(format!("{} groups, {bounds} bounds, {firsts} firsts", self.groups.len()));
        }
        for (index, group) in self.groups.iter().enumerate() {
            group.check().map_err(|broken| format!("group {index}: {broken}"))?;
            if self.groups.len() > 1 && group.leaves[0].count() == 0 {
                return Err(format!("group {index} is empty"));
            }
            let stale = self.firsts[index] != group.row.start(0) || self.bounds[index].units() < group.row.largest();
            if self.groups.len() > 1 && stale {
                return Err(format!("the first of group {index} is stale, or its bound too low"));
            }
        }
        Ok(())
    }

    /// Where an extent that starts right behind `address` would stand, in the leaf of those before it;
    /// `None` if there is no extent at all.
    #[inline(always)]
    fn position_behind(&self, address: u64) -> Option<Position> {
        let group = match self.groups.len() {
            0 => return None,
            1 => 0,
            _ => group_of(&self.firsts, address),
        };
        let (leaf, at) = self.groups[group].position_behind(address);
        Some(Position::new(group, leaf, at))
    }

    /// The last extent that starts at or before `address`.
    fn position_of(&self, address: u64) -> Option<Position> {
        let behind = self.position_behind(address)?;
        (behind.at() > 0).then(|| behind.before())
    }

    /// Where the next leaf's first extent stands.
    fn next_leaf(&self, position: Position) -> Option<Position> {
        let (group, leaf) = (position.group(), position.leaf());
        if leaf + 1 < self.groups[group].leaves.len() {
            return Some(Position::new(group, leaf + 1, 0));
        }
        (group + 1 < self.groups.len()).then_some(Position::new(group + 1, 0, 0))
    }

    #[inline]
    fn leaf(&self, position: Position) -> &Leaf {
        &self.groups[position.group()].leaves[position.leaf()]
    }

    #[inline]
    fn get(&self, position: Position) -> Extent {
        let leaf = self.leaf(position);
        Extent { start: leaf.start(position.at()), units: leaf.length(position.at()) }
    }

    /// Takes `[start, start + units)` out of the extent at `position`, which holds it.
    #[inline]
    fn cut(&mut self, position: Position, start: u64, units: u32) {
        let whole = self.get(position);
        self.free_units -= u64::from(units);
        let low_units = units_of(start - whole.start);
        let high = Extent { start: start + bytes_of(units), units: whole.units - units - low_units };
        match (low_units, high.units) {
            (0, 0) => self.remove(position),
            (0, _) => {
                self.set_start(position, high.start);
                self.shorten(position, high.units);
            }
            (_, 0) => self.shorten(position, low_units),
            _ => {
                self.shorten(position, low_units);
                self.insert_new(position.behind(), high);
            }
        }
    }

    #[inline]
    fn set_start(&mut self, position: Position, start: u64) {
        let Group { row, leaves } = &mut self.groups[position.group()];
        let leaf = position.leaf();
        leaves[leaf].set_start(position.at(), start);
        if position.at() == 0 {
            row.set_start(leaf, start);
            self.firsts[position.group()] = row.start(0);
        }
    }

    /// Bounds may stay as they are.
    #[inline]
    fn shorten(&mut self, position: Position, units: u32) {
        self.groups[position.group()].leaves[position.leaf()].set_length(position.at(), units);
    }

    #[inline]
    fn grow(&mut self, position: Position, by_units: u32) {
        let (group, leaf, at) = (position.group(), position.leaf(), position.at());
        let extents = &mut self.groups[group].leaves[leaf];
        let units = extents.length(at) + by_units;
        extents.set_length(at, units);
        self.raise_bounds(group, leaf, units);
    }

    #[inline]
    fn raise_bounds(&mut self, group: usize, leaf: usize, units: u32) {
        let row = &mut self.groups[group].row;
        row.raise_length(leaf, units);
        self.bounds[group] = self.bounds[group].max(Length::of(units));
    }

    /// Takes note that an extent of a leaf, perhaps its first, has begun earlier or become longer.
    fn note(&mut self, group: usize, leaf: usize) {
        let row = &self.groups[group].row;
        self.firsts[group] = row.start(0);
        self.bounds[group] = self.bounds[group].max(Length::of(row.length(leaf)));
    }

    fn remove(&mut self, position: Position) {
        let (group, leaf, at) = (position.group(), position.leaf(), position.at());
        let Group { row, leaves } = &mut self.groups[group];
        leaves[leaf].remove(at);
        if leaves[leaf].count() == 0 && leaves.len() > 1 {
            leaves.remove(leaf);
            row.remove(leaf);
        } else {
            row.set_start(leaf, leaves[leaf].start(0));
            self.groups[group].merge_with_next(leaf);
        }
        let row = &self.groups[group].row;
        if row.start(0) == u64::MAX && self.groups.len() > 1 {
            self.groups.remove(group);
            self.bounds.remove(group);
            self.firsts.remove(group);
            return;
        }
        self.firsts[group] = row.start(0);
        self.merge_with_next(group);
    }

    /// Adds the first extent there ever was.
    #[cold]
    fn insert_only(&mut self, extent: Extent) {
        self.groups.push(Group::of(extent.start, extent.units));
        self.bounds.push(Length::of(extent.units));
        self.firsts.push(extent.start);
    }

    /// Adds an extent that touches no other at `position`.
    #[inline(always)]
    fn insert_new(&mut self, position: Position, extent: Extent) {
        let mut position = position;
        if self.leaf(position).count() == LEAF {
            position = self.make_room(position);
        }
        let (group, leaf, at) = (position.group(), position.leaf(), position.at());
        let Group { row, leaves } = &mut self.groups[group];
        leaves[leaf].insert(at, extent.start, extent.units);
        if at == 0 {
            row.set_start(leaf, extent.start);
            self.firsts[group] = row.start(0);
        }
        self.raise_bounds(group, leaf, extent.units);
    }

    /// Splits the full leaf at `position`, and its group if that is full too; gives the place where
    /// `position` is now.
    #[cold]
    fn make_room(&mut self, position: Position) -> Position {
        let (mut group, mut leaf, at) = (position.group(), position.leaf(), position.at());
        if self.groups[group].row.count() == GROUP {
            let high = self.groups[group].split();
            let low = &self.groups[group].row;
            (self.firsts[group], self.bounds[group]) = (low.start(0), Length::of(low.largest()));
            self.firsts.insert(group + 1, high.row.start(0));
            self.bounds.insert(group + 1, Length::of(high.row.largest()));
            self.groups.insert(group + 1, high);
            if leaf >= GROUP / 2 {
                (group, leaf) = (group + 1, leaf - GROUP / 2);
            }
        }
        self.groups[group].split_leaf(leaf);
        if at > LEAF / 2 {
            return Position::new(group, leaf + 1, at - LEAF / 2);
        }
        Position::new(group, leaf, at)
    }

    /// Joins two thin neighbours.
    fn merge_with_next(&mut self, group: usize) {
        let Some(next) = self.groups.get(group + 1) else { return };
        if self.groups[group].row.count() + next.row.count() > GROUP / 2 {
            return;
        }
        let next = self.groups.remove(group + 1);
        self.firsts.remove(group + 1);
        let bound = self.bounds.remove(group + 1);
        self.bounds[group] = self.bounds[group].max(bound);
        self.groups[group].append(next);
    }
}

/// The group among several that an extent right behind `address` would stand in.
#[inline]
fn group_of(firsts: &[u64], address: u64) -> usize {
    firsts.partition_point(|&first| first <= address).saturating_sub(1)
}

#[cfg(test)]
mod tests;
