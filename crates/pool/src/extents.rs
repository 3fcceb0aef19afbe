//! The free bytes of a heap: extents in address order, served first fit. It knows no handle and no
//! stream, and makes no driver call.
//!
//! Extents stand in leaves of 64, address and length in arrays of their own, so that a fit is a scan of
//! leaf maxima and then of one leaf. Above a hundred leaves a second row of maxima, one for each 64
//! leaves, keeps the scan short.

use crate::scan::{first_at_least, largest};
use crate::unit::{bytes_of, units_of};

const LEAF: usize = 64;
const GROUP: usize = 64;

/// A run of free bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) units: u32,
}

impl Extent {
    pub(crate) const fn bytes(self) -> u64 {
        bytes_of(self.units)
    }

    pub(crate) const fn end(self) -> u64 {
        self.start + self.bytes()
    }
}

/// Free extents in address order; two never touch, none is empty.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// In address order; none is empty. Boxed, because leaves move when one is put between them.
    #[expect(clippy::vec_box)]
    leaves: Vec<Box<Leaf>>,
    /// `firsts[i]` is the start of the first extent of leaf `i`.
    firsts: Vec<u64>,
    /// `maxima[i]` is the largest length in leaf `i`.
    maxima: Vec<u32>,
    /// `summits[i]` is the largest of `maxima[64 * i..64 * i + 64]`.
    summits: Vec<u32>,
    /// The sum of all lengths.
    free_units: u64,
}

#[derive(Debug)]
struct Leaf {
    count: usize,
    lengths: [u32; LEAF],
    starts: [u64; LEAF],
}

impl Leaf {
    fn new() -> Box<Self> {
        Box::new(Self { count: 0, lengths: [0; LEAF], starts: [0; LEAF] })
    }

    fn lengths(&self) -> &[u32] {
        &self.lengths[..self.count]
    }

    fn starts(&self) -> &[u64] {
        &self.starts[..self.count]
    }

    fn extent(&self, at: usize) -> Extent {
        Extent { start: self.starts[at], units: self.lengths[at] }
    }

    fn set(&mut self, at: usize, extent: Extent) {
        self.starts[at] = extent.start;
        self.lengths[at] = extent.units;
    }

    fn insert(&mut self, at: usize, extent: Extent) {
        self.lengths.copy_within(at..self.count, at + 1);
        self.starts.copy_within(at..self.count, at + 1);
        self.count += 1;
        self.set(at, extent);
    }

    fn remove(&mut self, at: usize) {
        self.lengths.copy_within(at + 1..self.count, at);
        self.starts.copy_within(at + 1..self.count, at);
        self.count -= 1;
    }

    fn append(&mut self, from: &Self, range: std::ops::Range<usize>) {
        for at in range {
            self.set(self.count, from.extent(at));
            self.count += 1;
        }
    }
}

/// Where an extent stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Position {
    leaf: usize,
    at: usize,
}

impl Extents {
    /// Takes `units` from the lowest extent that has them at a multiple of `alignment` bytes (a power
    /// of two, at least a unit); gives the address.
    #[inline]
    pub(crate) fn take_first(&mut self, units: u32, alignment: u64) -> Option<u64> {
        let mut leaf = self.next_leaf(0, units)?;
        loop {
            let mut from = 0;
            while let Some(offset) = first_at_least(&self.leaves[leaf].lengths()[from..], units) {
                let position = Position { leaf, at: from + offset };
                let extent = self.leaves[leaf].extent(position.at);
                let start = extent.start.next_multiple_of(alignment);
                if start + bytes_of(units) <= extent.end() {
                    self.cut(position, start, units);
                    return Some(start);
                }
                from = position.at + 1;
            }
            leaf = self.next_leaf(leaf + 1, units)?;
        }
    }

    /// Adds free bytes, joined with the neighbours they touch. The bytes are not free already.
    pub(crate) fn insert(&mut self, start: u64, units: u32) {
        self.free_units += u64::from(units);
        let mut extent = Extent { start, units };
        let next = self.position_after(start);
        let before = self.before(next);
        let touches_next = self.get(next).is_some_and(|after| after.start == extent.end());
        let touches_before = before.and_then(|before| self.get(before)).filter(|before| before.end() == start);
        if touches_next {
            extent.units += self.leaves[next.leaf].lengths[next.at];
        }
        match (touches_before, before) {
            (Some(low), Some(before)) => {
                extent = Extent { start: low.start, units: low.units + extent.units };
                self.set(before, extent);
                if touches_next {
                    self.remove(next);
                }
            }
            _ if touches_next => self.set(next, extent),
            _ => self.insert_new(next, extent),
        }
    }

    /// Takes exactly these bytes out, if all of them are free.
    pub(crate) fn remove_range(&mut self, start: u64, units: u32) -> bool {
        let Some(position) = self.before(self.position_after(start)) else { return false };
        let inside = self.get(position).is_some_and(|extent| start + bytes_of(units) <= extent.end());
        if inside {
            self.cut(position, start, units);
        }
        inside
    }

    /// The extent that ends at `end`.
    pub(crate) fn ending_at(&self, end: u64) -> Option<Extent> {
        let extent = self.get(self.before(self.position_after(end - 1))?)?;
        (extent.end() == end).then_some(extent)
    }

    /// The extent that starts at `start`.
    pub(crate) fn starting_at(&self, start: u64) -> Option<Extent> {
        let extent = self.get(self.before(self.position_after(start))?)?;
        (extent.start == start).then_some(extent)
    }

    /// All extents in address order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.leaves.iter().flat_map(|leaf| (0..leaf.count).map(|at| leaf.extent(at)))
    }

    /// Free units in all.
    pub(crate) const fn free_units(&self) -> u64 {
        self.free_units
    }

    /// Bytes that the index itself takes.
    pub(crate) const fn own_bytes(&self) -> u64 {
        let leaf = size_of::<Leaf>() + size_of::<(Box<Leaf>, u64, u32)>();
        (self.leaves.capacity() * leaf) as u64
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
        for (index, leaf) in self.leaves.iter().enumerate() {
            if leaf.count == 0 || self.firsts[index] != leaf.starts[0] || self.maxima[index] != largest(leaf.lengths())
            {
                return Err(format!("leaf {index} is empty, or its first or maximum is stale"));
            }
        }
        let summits: Vec<u32> = self.maxima.chunks(GROUP).map(largest).collect();
        if summits != self.summits {
            return Err("the summits are stale".into());
        }
        Ok(())
    }

    fn next_leaf(&self, from: usize, units: u32) -> Option<usize> {
        let group = from / GROUP;
        let group_end = self.maxima.len().min((group + 1) * GROUP);
        if let Some(offset) = first_at_least(self.maxima.get(from..group_end)?, units) {
            return Some(from + offset);
        }
        let group = group + 1 + first_at_least(self.summits.get(group + 1..)?, units)?;
        let maxima = &self.maxima[group * GROUP..self.maxima.len().min((group + 1) * GROUP)];
        first_at_least(maxima, units).map(|offset| group * GROUP + offset)
    }

    /// Where an extent that starts right after `start` would stand: behind all that start at or
    /// before it.
    fn position_after(&self, start: u64) -> Position {
        let leaf = self.firsts.partition_point(|&first| first <= start).saturating_sub(1);
        let at = self.leaves.get(leaf).map_or(0, |leaf| leaf.starts().partition_point(|&other| other <= start));
        if self.leaves.get(leaf).is_some_and(|full| at == full.count && leaf + 1 < self.leaves.len()) {
            return Position { leaf: leaf + 1, at: 0 };
        }
        Position { leaf, at }
    }

    fn before(&self, position: Position) -> Option<Position> {
        match position {
            Position { leaf: 0, at: 0 } => None,
            Position { leaf, at: 0 } => Some(Position { leaf: leaf - 1, at: self.leaves[leaf - 1].count - 1 }),
            Position { leaf, at } => Some(Position { leaf, at: at - 1 }),
        }
    }

    fn get(&self, position: Position) -> Option<Extent> {
        let leaf = self.leaves.get(position.leaf)?;
        (position.at < leaf.count).then(|| leaf.extent(position.at))
    }

    /// Takes `[start, start + units)` out of the extent at `position`, which holds it.
    #[inline]
    fn cut(&mut self, position: Position, start: u64, units: u32) {
        let whole = self.leaves[position.leaf].extent(position.at);
        self.free_units -= u64::from(units);
        let low = Extent { start: whole.start, units: units_of(start - whole.start) };
        let end = start + bytes_of(units);
        let high = Extent { start: end, units: units_of(whole.end() - end) };
        match (low.units, high.units) {
            (0, 0) => self.remove(position),
            (0, _) => self.set(position, high),
            (_, 0) => self.set(position, low),
            _ => {
                self.set(position, low);
                self.insert_new(Position { at: position.at + 1, ..position }, high);
            }
        }
    }

    #[inline]
    fn set(&mut self, position: Position, extent: Extent) {
        let leaf = &mut self.leaves[position.leaf];
        let old_units = leaf.lengths[position.at];
        leaf.set(position.at, extent);
        self.firsts[position.leaf] = leaf.starts[0];
        if extent.units > self.maxima[position.leaf] {
            self.set_maximum(position.leaf, extent.units);
        } else if old_units == self.maxima[position.leaf] {
            self.refresh_maximum(position.leaf);
        }
    }

    fn remove(&mut self, position: Position) {
        let leaf = &mut self.leaves[position.leaf];
        leaf.remove(position.at);
        if leaf.count == 0 {
            self.leaves.remove(position.leaf);
            self.firsts.remove(position.leaf);
            self.maxima.remove(position.leaf);
            self.refresh_summits(position.leaf);
            return;
        }
        self.firsts[position.leaf] = leaf.starts[0];
        self.refresh_maximum(position.leaf);
        self.merge_with_next(position.leaf);
    }

    fn insert_new(&mut self, position: Position, extent: Extent) {
        if self.leaves.is_empty() {
            self.add_leaf(0, Leaf::new());
        }
        let mut position = position;
        if self.leaves[position.leaf].count == LEAF {
            self.split_leaf(position.leaf);
            if position.at > LEAF / 2 {
                position = Position { leaf: position.leaf + 1, at: position.at - LEAF / 2 };
            }
        }
        let leaf = &mut self.leaves[position.leaf];
        leaf.insert(position.at, extent);
        self.firsts[position.leaf] = leaf.starts[0];
        if extent.units > self.maxima[position.leaf] {
            self.set_maximum(position.leaf, extent.units);
        }
    }

    fn add_leaf(&mut self, index: usize, leaf: Box<Leaf>) {
        self.firsts.insert(index, leaf.starts[0]);
        self.maxima.insert(index, largest(leaf.lengths()));
        self.leaves.insert(index, leaf);
        self.refresh_summits(index);
    }

    fn split_leaf(&mut self, index: usize) {
        let mut high = Leaf::new();
        let low = &mut self.leaves[index];
        high.append(low, LEAF / 2..LEAF);
        low.count = LEAF / 2;
        self.refresh_maximum(index);
        self.add_leaf(index + 1, high);
    }

    /// Joins two thin neighbours, so that leaves stay at least a quarter full on average.
    fn merge_with_next(&mut self, index: usize) {
        let Some(next) = self.leaves.get(index + 1) else { return };
        if self.leaves[index].count + next.count > LEAF / 2 {
            return;
        }
        let next = self.leaves.remove(index + 1);
        self.firsts.remove(index + 1);
        self.maxima.remove(index + 1);
        self.leaves[index].append(&next, 0..next.count);
        self.maxima[index] = largest(self.leaves[index].lengths());
        self.refresh_summits(index);
    }

    fn refresh_maximum(&mut self, leaf: usize) {
        self.set_maximum(leaf, largest(self.leaves[leaf].lengths()));
    }

    fn set_maximum(&mut self, leaf: usize, maximum: u32) {
        let old = std::mem::replace(&mut self.maxima[leaf], maximum);
        let group = leaf / GROUP;
        if maximum > self.summits[group] {
            self.summits[group] = maximum;
        } else if old == self.summits[group] {
            let end = self.maxima.len().min((group + 1) * GROUP);
            self.summits[group] = largest(&self.maxima[group * GROUP..end]);
        }
    }

    /// Leaves moved from `leaf` on: their groups' summits are found again.
    fn refresh_summits(&mut self, leaf: usize) {
        let group = leaf / GROUP;
        self.summits.truncate(group);
        let moved = self.maxima.get(group * GROUP..).unwrap_or_default();
        self.summits.extend(moved.chunks(GROUP).map(largest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::UNIT_BYTES;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Free units as a plain ordered map, one entry a unit.
    #[derive(Default)]
    struct Shadow(BTreeMap<u64, ()>);

    impl Shadow {
        fn runs(&self) -> Vec<Extent> {
            let mut runs: Vec<Extent> = Vec::new();
            for &start in self.0.keys() {
                match runs.last_mut() {
                    Some(run) if run.end() == start => run.units += 1,
                    _ => runs.push(Extent { start, units: 1 }),
                }
            }
            runs
        }
        fn first(&self, units: u32, alignment: u64) -> Option<u64> {
            let fits = |run: &Extent| {
                let start = run.start.next_multiple_of(alignment);
                (start + bytes_of(units) <= run.end()).then_some(start)
            };
            self.runs().iter().find_map(fits)
        }
        fn set(&mut self, start: u64, units: u32, free: bool) {
            for unit in 0..u64::from(units) {
                let at = start + unit * UNIT_BYTES;
                if free {
                    self.0.insert(at, ()).map_or((), |()| panic!("{at} was free"))
                } else {
                    self.0.remove(&at).unwrap()
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn extents_agree_with_a_map_of_units(ops in prop::collection::vec((0_u8..5, 1_u32..40, 0_u32..4), 1..600)) {
            let (mut extents, mut shadow) = (Extents::default(), Shadow::default());
            let mut taken: Vec<(u64, u32)> = (0..200).map(|i| (i * 50 * UNIT_BYTES, 40)).collect();
            for (op, units, power) in ops {
                let alignment = UNIT_BYTES << power;
                if op < 2 {
                    let expected = shadow.first(units, alignment);
                    prop_assert_eq!(extents.take_first(units, alignment), expected);
                    if let Some(start) = expected {
                        shadow.set(start, units, false);
                        taken.push((start, units));
                    }
                } else if op < 4 {
                    if !taken.is_empty() {
                        let (start, units) = taken.swap_remove(units as usize * 7 % taken.len());
                        extents.insert(start, units);
                        shadow.set(start, units, true);
                    }
                } else if let Some(run) = shadow.runs().get(units as usize) {
                    let part = run.units.div_ceil(2);
                    prop_assert!(extents.remove_range(run.start, part));
                    prop_assert!(!extents.remove_range(run.start, part));
                    prop_assert_eq!(extents.ending_at(run.end()).is_some(), part < run.units);
                    shadow.set(run.start, part, false);
                    taken.push((run.start, part));
                }
                prop_assert_eq!(extents.check(), Ok(()));
                prop_assert_eq!(extents.iter().collect::<Vec<_>>(), shadow.runs());
            }
        }
    }

    #[test]
    fn many_holes_are_found_through_the_summits() {
        let mut extents = Extents::default();
        for hole in 0..20_000_u64 {
            extents.insert(hole * 10 * UNIT_BYTES, if hole == 19_000 { 5 } else { 1 });
        }
        extents.check().unwrap();
        assert_eq!(extents.take_first(3, UNIT_BYTES), Some(190_000 * UNIT_BYTES));
        assert_eq!(extents.take_first(3, UNIT_BYTES), None);
        extents.check().unwrap();
    }
}
