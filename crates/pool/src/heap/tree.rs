//! The tree of extents of one stretch of addresses, whose places are numbers of units in it.
//!
//! It has three floors: extents stand in leaves, leaves in groups. Each floor tells of every part below where its
//! places begin and how long its longest extent is, so that a fit is a scan of lengths, and then of one leaf. Where
//! places begin changes only where an extent would lie across.

use crate::heap::group::{Fit, Group, Taken};
use crate::heap::lanes::{Fours, Lanes};
use crate::heap::leaf::{Added, Leaf, Piece};
use crate::heap::position::Position;
use crate::heap::roll::Roll;
use crate::heap::row::ROW;
use crate::heap::scan::Number;

/// Free extents; two never touch, none is empty, and none ends at the highest place.
#[derive(Debug)]
pub(crate) struct Tree {
    /// In the order of their places; never none, and none is empty but an only one.
    groups: Vec<Group>,
    /// No extent of group `i` is longer than number `i`. Where there is one group it means nothing.
    bounds: Roll,
    /// Number `i` is the fence of the first leaf of group `i`; the first is 0.
    fences: Roll,
}

/// Where a search has found room: of use until the extents change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    pub(crate) start: u32,
    /// When it is taken, so long is the longest extent of its leaf.
    longest: u32,
    position: Position,
}

/// The leaves of so many groups, half a megabyte, are not all at hand.
const FAR: usize = 32;

impl Tree {
    pub(crate) fn new() -> Self {
        let mut tree =
            Self { groups: vec![Group::of(0)], bounds: Roll::new(Number::LEAST), fences: Roll::new(Number::MOST) };
        tree.bounds.insert(0, 0);
        tree.fences.insert(0, 0);
        tree
    }

    /// Finds the lowest extent that has `units` at a multiple of `alignment` units. Bounds that promise too much are
    /// lowered on the way.
    #[inline(always)]
    pub(crate) fn find_first(&mut self, lanes: impl Lanes, units: u32, alignment: u64) -> Option<Found> {
        let several = self.groups.len() > 1;
        let mut group = if several { self.bounds.first_at_least(lanes, 0, units)? } else { 0 };
        loop {
            let part = self.groups.get(group)?;
            if let Some(Fit { start, leaf, slot, longest }) = part.find_first(lanes, units, alignment) {
                return Some(Found { start, longest, position: Position::new(group, leaf, slot) });
            }
            if !several {
                return None;
            }
            self.bounds.set(group, part.largest());
            group = self.bounds.first_at_least(lanes, group + 1, units)?;
        }
    }

    /// Has the processor fetch the leaf that has this place, where the tree is so large that it will not have it.
    #[inline(always)]
    pub(crate) fn foresee(&self, lanes: impl Lanes, place: u32) {
        if self.groups.len() >= FAR {
            let (group, leaf) = self.leaf_of(lanes, place);
            self.groups[group].leaves()[leaf].foresee();
        }
    }

    /// Takes `units` from where they were found. Nothing has changed since.
    #[inline(always)]
    pub(crate) fn take(&mut self, lanes: impl Lanes, found: Found, units: u32) {
        let Found { start, longest, position } = found;
        let (group, leaf) = (position.group(), position.leaf());
        let Some(part) = self.groups.get_mut(group) else { return };
        match part.take(lanes, &Fit { start, leaf, slot: position.slot(), longest }, units) {
            Taken::Part => {}
            Taken::All => self.note_fewer(group, leaf),
            Taken::Not => self.cut(position, Piece { start, units }),
        }
    }

    /// Adds free units, joined with the neighbours they touch. They are not free already.
    #[inline(always)]
    pub(crate) fn insert(&mut self, lanes: impl Lanes, piece: Piece) {
        let (group, leaf) = self.leaf_of(lanes, piece.start);
        let part = &mut self.groups[group];
        if piece.start == part.row.fence(leaf) || piece.end() >= self.fence_behind(group, leaf) {
            return self.insert_across(piece);
        }
        match self.groups[group].add(lanes, leaf, piece) {
            Added::Joined(units) => self.raise_bound(group, units),
            Added::Fewer(units) => {
                self.raise_bound(group, units);
                self.note_fewer(group, leaf);
            }
            Added::Full => self.place(piece),
        }
    }

    /// Adds free units that may touch extents of another leaf.
    #[inline(never)]
    fn insert_across(&mut self, piece: Piece) {
        let mut piece = piece;
        if let Some((position, low)) = piece.start.checked_sub(1).and_then(|last| self.holding(last)) {
            piece = Piece { start: low.start, units: low.units + piece.units };
            self.remove(position);
        }
        if let Some((position, high)) = self.holding(piece.end()) {
            piece.units += high.units;
            self.remove(position);
        }
        self.place(piece);
    }

    /// Adds an extent that touches no other.
    #[inline(never)]
    fn place(&mut self, piece: Piece) {
        let (mut group, mut leaf) = self.leaf_of(Fours, piece.start);
        if piece.end() > self.fence_behind(group, leaf) {
            // All that is behind the fence is behind the extent.
            self.set_fence_behind(group, leaf, piece.end());
        }
        if self.groups[group].leaves()[leaf].is_full() {
            self.make_room(group, leaf);
            (group, leaf) = self.leaf_of(Fours, piece.start);
        }
        self.groups[group].insert(leaf, piece);
        self.raise_bound(group, piece.units);
    }

    /// Takes exactly these units out, if all of them are free.
    pub(crate) fn remove_range(&mut self, piece: Piece) -> bool {
        let Some((position, whole)) = self.holding(piece.start) else { return false };
        let inside = piece.units <= whole.end() - piece.start;
        if inside {
            self.cut(position, piece);
        }
        inside
    }

    /// The extent that has this unit, and where it stands.
    pub(crate) fn holding(&self, place: u32) -> Option<(Position, Piece)> {
        let (group, leaf) = self.leaf_of(Fours, place);
        let extents = &self.groups[group].leaves()[leaf];
        let slot = extents.rank(Fours, place).checked_sub(1)?;
        let piece = extents.get(slot);
        (place < piece.end()).then(|| (Position::new(group, leaf, slot), piece))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups[0].leaves()[0].is_empty()
    }

    /// All extents, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        self.groups.iter().flat_map(Group::leaves).flat_map(Leaf::iter)
    }

    /// Bytes that the tree itself takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let leaves: usize = self.groups.iter().map(Group::leaf_bytes).sum();
        let groups = self.groups.capacity() * size_of::<Group>();
        (leaves + groups + self.bounds.own_bytes() + self.fences.own_bytes()) as u64
    }

    /// Checks the invariants at the fields.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut last_end = None;
        for piece in self.iter() {
            if piece.units == 0 || last_end.is_some_and(|end| end >= piece.start) {
                return Err(format!("{piece:?} is empty or touches the end {last_end:?} of the one before"));
            }
            last_end = Some(piece.end());
        }
        let (bounds, fences) = (self.bounds.count(), self.fences.count());
        if bounds != self.groups.len() || fences != self.groups.len() {
            return Err(format!("{} groups, {bounds} bounds, {fences} fences", self.groups.len()));
        }
        for (index, group) in self.groups.iter().enumerate() {
            let behind = self.fences.get(index + 1).unwrap_or(u32::MAX);
            group.check(behind).map_err(|broken| format!("group {index}: {broken}"))?;
            let several = self.groups.len() > 1;
            if several && group.leaves()[0].is_empty() {
                return Err(format!("group {index} is empty"));
            }
            let first = if index == 0 { Some(0) } else { self.fences.get(index) };
            if Some(group.row.fence(0)) != first || self.fences.get(index) != first {
                return Err(format!("the fence of group {index} is not its first leaf's"));
            }
            if several && self.bounds.get(index) < Some(group.largest()) {
                return Err(format!("the bound of group {index} is too low"));
            }
        }
        Ok(())
    }

    /// The group, and the leaf in it, that have this place.
    #[inline(always)]
    fn leaf_of(&self, lanes: impl Lanes, place: u32) -> (usize, usize) {
        let mut group = 0;
        if self.groups.len() > 1 {
            let behind = self.fences.first_at_least(lanes, 0, place.saturating_add(1)).unwrap_or(usize::MAX);
            group = behind.min(self.groups.len()) - 1;
        }
        (group, self.groups[group].leaf_of(lanes, place))
    }

    /// Where the places of the next leaf begin.
    #[inline(always)]
    fn fence_behind(&self, group: usize, leaf: usize) -> u32 {
        let next_group = || self.fences.get(group + 1).unwrap_or(u32::MAX);
        self.groups[group].row.fence_behind(leaf).unwrap_or_else(next_group)
    }

    fn set_fence_behind(&mut self, group: usize, leaf: usize, place: u32) {
        let row = &mut self.groups[group].row;
        if leaf + 1 < row.count() {
            return row.set_fence(leaf + 1, place);
        }
        if let Some(next) = self.groups.get_mut(group + 1) {
            next.row.set_fence(0, place);
            self.fences.set(group + 1, place);
        }
    }

    #[inline(always)]
    fn raise_bound(&mut self, group: usize, units: u32) {
        if self.groups.len() > 1 {
            self.bounds.raise(group, units);
        }
    }

    /// Takes a piece out of the extent at `position`, which holds it.
    #[inline(never)]
    fn cut(&mut self, position: Position, piece: Piece) {
        let (group, leaf, slot) = (position.group(), position.leaf(), position.slot());
        let part = &mut self.groups[group];
        let whole = part.leaves()[leaf].get(slot);
        let low = Piece { start: whole.start, units: piece.start - whole.start };
        let high = Piece { start: piece.end(), units: whole.end() - piece.end() };
        match (low.units, high.units) {
            (0, 0) => self.remove(position),
            (0, _) => part.set(leaf, slot, high),
            (_, 0) => part.set(leaf, slot, low),
            _ => {
                part.set(leaf, slot, low);
                self.place(high);
            }
        }
    }

    fn remove(&mut self, position: Position) {
        let (group, leaf) = (position.group(), position.leaf());
        self.groups[group].remove(leaf, position.slot());
        self.note_fewer(group, leaf);
    }

    /// A leaf has one extent less than before.
    #[inline(always)]
    fn note_fewer(&mut self, group: usize, leaf: usize) {
        let part = &self.groups[group];
        // An only leaf of one of several groups is rare.
        if part.is_thin(leaf) || (self.groups.len() > 1 && part.leaves().len() == 1) {
            self.thicken(group, leaf);
        }
    }

    /// Joins a leaf, or its group, with a neighbour where both are thin; an empty one goes.
    #[inline(never)]
    fn thicken(&mut self, group: usize, leaf: usize) {
        let part = &mut self.groups[group];
        if !part.leaves()[leaf].is_empty() {
            part.thicken(leaf);
        } else if part.leaves().len() > 1 {
            part.remove_leaf(leaf);
        } else if self.groups.len() > 1 {
            return self.remove_group(group);
        }
        self.merge_with_next(group);
    }

    /// Takes an empty group out; its places are those of the one before, or if it was the first, of the next.
    fn remove_group(&mut self, group: usize) {
        self.groups.remove(group);
        self.bounds.remove(group);
        self.fences.remove(group);
        self.fences.set(0, 0);
        self.groups[0].row.set_fence(0, 0);
    }

    /// Splits a full leaf, and its group if that is full too.
    #[cold]
    fn make_room(&mut self, group: usize, leaf: usize) {
        let (mut group, mut leaf) = (group, leaf);
        if self.groups[group].row.count() == ROW {
            let high = self.groups[group].split();
            self.bounds.set(group, self.groups[group].largest());
            self.fences.insert(group + 1, high.row.fence(0));
            self.bounds.insert(group + 1, high.largest());
            self.groups.insert(group + 1, high);
            if leaf >= ROW / 2 {
                (group, leaf) = (group + 1, leaf - ROW / 2);
            }
        }
        self.groups[group].split_leaf(leaf);
    }

    /// Joins two thin neighbours.
    fn merge_with_next(&mut self, group: usize) {
        let Some(next) = self.groups.get(group + 1) else { return };
        if self.groups[group].row.count() + next.row.count() > ROW / 2 {
            return;
        }
        let next = self.groups.remove(group + 1);
        self.groups[group].append(next);
        self.fences.remove(group + 1);
        self.bounds.remove(group + 1);
        self.bounds.set(group, self.groups[group].largest());
    }
}
