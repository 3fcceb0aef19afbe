//! The free bytes of a heap: extents in address order, served first fit. It knows no handle and no
//! stream, and makes no driver call.
//!
//! A tree of three floors: extents stand in leaves, leaves in groups. Each floor tells of every part below where
//! it starts and how long its longest extent is, so that a fit is a scan of bounds, and then of one leaf. A group's
//! bound is lowered when a search finds it too high, not by every cut.

pub(crate) use crate::heap::extent::Extent;
use crate::heap::group::{Fit, Group};
use crate::heap::leaf::LEAF;
use crate::heap::scan::{Turned, first_at_least};
use crate::unit::{bytes_of, units_of};

/// Free extents in address order; two never touch, none is empty.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// In address order; none is empty but the only one.
    groups: Vec<Group>,
    /// No extent of group `i` is longer than `bounds[i]`. Of an only group it means nothing.
    bounds: Vec<Turned>,
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
}

/// Where an extent stands, or would, by group, leaf and place in it: of use until extents have moved. One number,
/// so that it stays in a register: the parts of a copy in memory would be waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Position(u64);

impl Position {
    #[inline(always)]
    const fn of(group: usize, leaf: usize, at: usize) -> Self {
        Self(((group << 16) | (leaf << 8) | at) as u64)
    }

    #[inline(always)]
    const fn parts(self) -> (usize, usize, usize) {
        ((self.0 >> 16) as usize, (self.0 >> 8) as usize & 0xFF, self.0 as usize & 0xFF)
    }
}

/// What moved when an extent was cut.
enum Moved {
    /// No extent.
    None,
    /// One went, and those behind it in its leaf moved down by one.
    Leaf,
    /// Perhaps all.
    All,
}

impl Extents {
    /// Takes `units` from the lowest extent that has them at a multiple of `alignment` bytes (a power
    /// of two, at least a unit); gives the address.
    pub(crate) fn take_first(&mut self, units: u32, alignment: u64) -> Option<u64> {
        let found = self.find_first(units, alignment)?;
        self.take(found, units);
        Some(found.start)
    }

    /// Finds the lowest extent that has `units` at a multiple of `alignment` bytes.
    #[inline(always)]
    pub(crate) fn find_first(&mut self, units: u32, alignment: u64) -> Option<Found> {
        let (group, fit) = match self.groups.as_slice() {
            [only] => (0, only.find_first(units, alignment)?),
            _ => self.find_among(units, alignment)?,
        };
        Some(Found { start: fit.start, position: Position::of(group, fit.leaf, fit.at) })
    }

    /// The same among several groups.
    #[inline(never)]
    fn find_among(&mut self, units: u32, alignment: u64) -> Option<(usize, Fit)> {
        let mut group = first_at_least(&self.bounds, units)?;
        loop {
            let part = &self.groups[group];
            if let Some(fit) = part.find_first(units, alignment) {
                return Some((group, fit));
            }
            self.bounds[group] = Turned::of(part.longest());
            group += 1 + first_at_least(self.bounds.get(group + 1..)?, units)?;
        }
    }

    /// Takes `units` from where they were found. Nothing has changed since.
    pub(crate) fn take(&mut self, found: Found, units: u32) {
        self.take_beside(found, units, (Position::default(), 0));
    }

    /// The same, where `position` is the one behind `address`; gives which is afterwards.
    #[inline(always)]
    pub(crate) fn take_beside(&mut self, found: Found, units: u32, (position, address): (Position, u64)) -> Position {
        let (group, leaf, at) = found.position.parts();
        let (is_only, part) = match self.groups.as_mut_slice() {
            [only] => (true, only),
            several => (false, &mut several[group]),
        };
        if !part.shorten_low(leaf, at, found.start, units) {
            return self.cut_beside(found, units, position, address);
        }
        self.free_units -= u64::from(units);
        if !is_only {
            self.firsts[group] = part.first();
        }
        position
    }

    /// The same where an extent goes, or stands from now on.
    #[inline(never)]
    fn cut_beside(&mut self, found: Found, units: u32, position: Position, address: u64) -> Position {
        let (group, leaf, at) = found.position.parts();
        let behind = position.parts();
        match self.cut(found.position, found.start, units) {
            Moved::None => position,
            Moved::Leaf if (behind.0, behind.1) != (group, leaf) || behind.2 <= at => position,
            // The first place of a leaf is that behind the last extent of the leaf before.
            Moved::Leaf if behind.2 > 1 => Position::of(group, leaf, behind.2 - 1),
            _ => self.position_behind(address),
        }
    }

    /// Adds free bytes, joined with the neighbours they touch. The bytes are not free already.
    pub(crate) fn insert(&mut self, start: u64, units: u32) {
        self.insert_at(self.position_behind(start), Extent { start, units });
    }

    /// Where an extent that starts right behind `address` would stand, in the leaf of those before it.
    #[inline(always)]
    pub(crate) fn position_behind(&self, address: u64) -> Position {
        let (group, part) = match self.groups.as_slice() {
            [] => return Position::default(),
            [only] => (0, only),
            several => {
                let group = group_of(&self.firsts, address);
                (group, &several[group])
            }
        };
        let (leaf, at) = part.position_behind(address);
        Position::of(group, leaf, at)
    }

    /// Adds free bytes whose position is known, joined with the neighbours they touch.
    #[inline(always)]
    pub(crate) fn insert_at(&mut self, position: Position, free: Extent) {
        let (group, leaf, at) = position.parts();
        self.free_units += u64::from(free.units);
        let (is_only, part) = match self.groups.as_mut_slice() {
            [] => return self.insert_new(free),
            [only] => (true, only),
            several => (false, &mut several[group]),
        };
        if !part.join((leaf, at), free, is_only) {
            return self.insert_anywhere(free);
        }
        if !is_only {
            self.firsts[group] = part.first();
            self.bounds[group] = self.bounds[group].max(Turned::of(part.bound(leaf)));
        }
    }

    /// The same where more than one leaf is concerned.
    #[inline(never)]
    fn insert_anywhere(&mut self, free: Extent) {
        let mut whole = free;
        if let Some((position, low)) = self.at_or_before(free.start).filter(|(_, low)| low.end() == free.start) {
            whole = Extent { start: low.start, units: low.units + whole.units };
            self.remove(position);
        }
        if let Some((position, high)) = self.at_or_before(free.end()).filter(|(_, high)| high.start == free.end()) {
            whole.units += high.units;
            self.remove(position);
        }
        self.insert_new(whole);
    }

    /// Takes exactly these bytes out, if all of them are free.
    pub(crate) fn remove_range(&mut self, start: u64, units: u32) -> bool {
        let Some((position, extent)) = self.at_or_before(start) else { return false };
        let inside = start + bytes_of(units) <= extent.end();
        if inside {
            self.cut(position, start, units);
        }
        inside
    }

    /// The extent that holds `address`.
    pub(crate) fn holding(&self, address: u64) -> Option<Extent> {
        let (_, extent) = self.at_or_before(address)?;
        (address < extent.end()).then_some(extent)
    }

    /// The extent that ends at `end`.
    pub(crate) fn ending_at(&self, end: u64) -> Option<Extent> {
        let (_, extent) = self.at_or_before(end - 1)?;
        (extent.end() == end).then_some(extent)
    }

    /// The extent that starts at `start`.
    pub(crate) fn starting_at(&self, start: u64) -> Option<Extent> {
        let (_, extent) = self.at_or_before(start)?;
        (extent.start == start).then_some(extent)
    }

    /// All extents in address order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.groups.iter().flat_map(Group::iter)
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
            if self.groups.len() > 1 && group.is_empty() {
                return Err(format!("group {index} is empty"));
            }
            let stale = self.firsts[index] != group.first() || self.bounds[index].units() < group.longest();
            if self.groups.len() > 1 && stale {
                return Err(format!("the first of group {index} is stale, or its bound too low"));
            }
        }
        Ok(())
    }

    /// The last extent that starts at or before `address`.
    fn at_or_before(&self, address: u64) -> Option<(Position, Extent)> {
        let (group, leaf, behind) = self.position_behind(address).parts();
        let at = behind.checked_sub(1)?;
        let extent = self.groups[group].get(leaf, at);
        // Of an address that is out of its group's reach the position means nothing, if it is below.
        (extent.start <= address).then_some((Position::of(group, leaf, at), extent))
    }

    /// Takes `[start, start + units)` out of the extent at `position`, which holds it.
    fn cut(&mut self, position: Position, start: u64, units: u32) -> Moved {
        let (group, leaf, at) = position.parts();
        let whole = self.groups[group].get(leaf, at);
        self.free_units -= u64::from(units);
        let low = Extent { start: whole.start, units: units_of(start - whole.start) };
        let high = Extent { start: start + bytes_of(units), units: whole.units - units - low.units };
        if low.units == 0 && high.units == 0 {
            return self.remove(position);
        }
        self.groups[group].set(leaf, at, if low.units == 0 { high } else { low });
        self.note(group);
        if low.units == 0 || high.units == 0 {
            return Moved::None;
        }
        self.insert_new(high);
        Moved::All
    }

    fn remove(&mut self, position: Position) -> Moved {
        let (group, leaf, at) = position.parts();
        let leaves_went = self.groups[group].remove(leaf, at);
        if self.groups.len() > 1 {
            if self.groups[group].is_empty() {
                self.groups.remove(group);
                self.bounds.remove(group);
                self.firsts.remove(group);
                return Moved::All;
            }
            self.note(group);
            if leaves_went && self.merge_with_next(group) {
                return Moved::All;
            }
        }
        if leaves_went { Moved::All } else { Moved::Leaf }
    }

    /// Adds an extent that touches no other.
    fn insert_new(&mut self, extent: Extent) {
        let position = self.position_behind(extent.start);
        let (group, leaf, _) = position.parts();
        match self.groups.get_mut(group) {
            None => return self.insert_group(0, Group::of(extent)),
            Some(part) if part.reaches(extent) => {}
            Some(only) if only.is_empty() => {
                *only = Group::of(extent);
                return self.note(group);
            }
            Some(part) => {
                let index = if extent.start < part.first() { group } else { group + 1 };
                return self.insert_group(index, Group::of(extent));
            }
        }
        let is_full = self.groups[group].count(leaf) == LEAF;
        let (group, leaf, at) = if is_full { self.make_room(position) } else { position }.parts();
        self.groups[group].insert(leaf, at, extent);
        self.note(group);
    }

    #[cold]
    fn insert_group(&mut self, index: usize, group: Group) {
        self.groups.insert(index, group);
        self.bounds.insert(index, Turned::LEAST);
        self.firsts.insert(index, 0);
        // What was an only group may never have told of itself.
        (0..self.groups.len()).for_each(|group| self.note(group));
    }

    /// Takes note of what a group among several has become.
    fn note(&mut self, group: usize) {
        let part = &self.groups[group];
        if self.groups.len() == 1 {
            return;
        }
        self.firsts[group] = part.first();
        self.bounds[group] = self.bounds[group].max(Turned::of(part.longest()));
    }

    /// Splits the full leaf at `position`, and its group if that is full too; gives the place where
    /// `position` is now.
    #[cold]
    fn make_room(&mut self, position: Position) -> Position {
        let (mut group, mut leaf, at) = position.parts();
        if self.groups[group].is_full() {
            let high = self.groups[group].split();
            self.bounds[group] = Turned::LEAST;
            self.insert_group(group + 1, high);
            let low_leaves = self.groups[group].leaves();
            if leaf >= low_leaves {
                (group, leaf) = (group + 1, leaf - low_leaves);
            }
        }
        self.groups[group].split_leaf(leaf);
        if at > LEAF / 2 {
            return Position::of(group, leaf + 1, at - LEAF / 2);
        }
        Position::of(group, leaf, at)
    }

    /// Joins two neighbours, if both are thin.
    fn merge_with_next(&mut self, group: usize) -> bool {
        if self.groups.get(group + 1).is_none_or(|next| !self.groups[group].can_append(next)) {
            return false;
        }
        let next = self.groups.remove(group + 1);
        self.firsts.remove(group + 1);
        self.bounds.remove(group + 1);
        self.groups[group].append(next);
        self.note(group);
        true
    }
}

/// The group among several that an extent right behind `address` would stand in.
#[inline]
fn group_of(firsts: &[u64], address: u64) -> usize {
    /// So many are counted faster than searched: the steps of a bisection cannot be guessed.
    const FEW: usize = 32;
    let before = match firsts.len() {
        ..=FEW => firsts.iter().map(|&first| usize::from(first <= address)).sum(),
        _ => firsts.partition_point(|&first| first <= address),
    };
    before.saturating_sub(1)
}

#[cfg(test)]
mod tests;
