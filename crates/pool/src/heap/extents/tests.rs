//! The tree of extents beside plain ordered maps.

use super::*;
use crate::heap::lanes::Task;
use crate::heap::width::Width;
use crate::unit::STRETCH_BYTES;
use crate::unit::bytes_of;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Takes as a hit does.
struct Take<'a>(&'a mut Extents, u32, u64);

impl Task for Take<'_> {
    type Output = Option<u64>;

    fn run(self, lanes: impl Lanes) -> Option<u64> {
        let Self(extents, units, alignment) = self;
        let found = extents.find_first(lanes, units, alignment)?;
        extents.take(lanes, found, units);
        Some(found.start)
    }
}

/// Gives back as a hit does.
struct Insert<'a>(&'a mut Extents, u64, u32);

impl Task for Insert<'_> {
    type Output = ();

    fn run(self, lanes: impl Lanes) {
        self.0.insert_with(lanes, self.1, self.2);
    }
}

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
                assert!(self.0.insert(at, ()).is_none(), "{at} was free");
            } else {
                assert!(self.0.remove(&at).is_some());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn extents_agree_with_a_map_of_units(width in 0_usize..3, ops in prop::collection::vec((0_u8..5, 1_u32..40, 0_u32..4), 1..600)) {
        let (mut extents, mut shadow) = (Extents::default(), Shadow::default());
        let mut taken: Vec<(u64, u32)> = (0..200).map(|i| (i * 50 * UNIT_BYTES, 40)).collect();
        for (op, units, power) in ops {
            let alignment = UNIT_BYTES << power;
            if op < 2 {
                let expected = shadow.first(units, alignment);
                prop_assert_eq!(Width::any(width).play(Take(&mut extents, units, alignment)), expected);
                if let Some(start) = expected {
                    shadow.set(start, units, false);
                    taken.push((start, units));
                }
            } else if op < 4 {
                if !taken.is_empty() {
                    let (start, units) = taken.swap_remove(units as usize * 7 % taken.len());
                    Width::any(width).play(Insert(&mut extents, start, units));
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

/// First fit, freeing and taking apart on a plain ordered map.
#[derive(Default)]
struct Runs(BTreeMap<u64, u32>);

impl Runs {
    fn insert(&mut self, start: u64, units: u32) {
        let (mut start, mut units) = (start, units);
        units += self.0.remove(&(start + bytes_of(units))).unwrap_or(0);
        let before = self.0.range(..start).next_back().map(|(&at, &length)| (at, length));
        if let Some((at, length)) = before.filter(|&(at, length)| at + bytes_of(length) == start) {
            (start, units) = (at, length + units);
        }
        self.0.insert(start, units);
    }
    fn take_first(&mut self, units: u32) -> Option<u64> {
        let (&start, &length) = self.0.iter().find(|&(_, &length)| length >= units)?;
        self.0.remove(&start);
        if length > units {
            self.0.insert(start + bytes_of(units), length - units);
        }
        Some(start)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn thousands_of_extents_agree_with_an_ordered_map(width in 0_usize..3, ops in prop::collection::vec((any::<bool>(), any::<u16>()), 2000)) {
        let (mut extents, mut runs) = (Extents::default(), Runs::default());
        // Islands of 8 units that never touch, a tenth of them in another stretch: the other tree gets several groups.
        let island = |at: u16| u64::from(at % 4000) * 10 * UNIT_BYTES + u64::from(at / 3600) * STRETCH_BYTES;
        let mut live: Vec<(u64, u32)> = (0..4000).map(|at| (island(at), 8)).collect();
        for (step, (free, pick)) in ops.into_iter().enumerate() {
            // First most are freed, in no order, and then most taken again.
            if !live.is_empty() && (step < 1000 || free) {
                for _ in 0..3.min(live.len()) {
                    let (start, units) = live.swap_remove(usize::from(pick) * 31 % live.len());
                    Width::any(width).play(Insert(&mut extents, start, units));
                    runs.insert(start, units);
                }
            } else {
                let units = u32::from(pick % 8) + 1;
                let expected = runs.take_first(units);
                prop_assert_eq!(Width::any(width).play(Take(&mut extents, units, UNIT_BYTES)), expected);
                live.extend(expected.map(|start| (start, units)));
            }
            if step % 100 == 0 {
                prop_assert_eq!(extents.check(), Ok(()));
                let all: Vec<_> = extents.iter().map(|extent| (extent.start, extent.units)).collect();
                prop_assert_eq!(all, runs.0.iter().map(|(&start, &units)| (start, units)).collect::<Vec<_>>());
            }
        }
        prop_assert_eq!(extents.check(), Ok(()));
    }
}

#[test]
fn many_holes_are_found_through_the_bounds() {
    let mut extents = Extents::default();
    for hole in 0..20_000_u64 {
        extents.insert(hole * 10 * UNIT_BYTES, if hole == 19_000 { 5 } else { 1 });
    }
    assert_eq!(extents.check(), Ok(()));
    assert_eq!(extents.take_first(3, UNIT_BYTES), Some(190_000 * UNIT_BYTES));
    assert_eq!(extents.take_first(3, UNIT_BYTES), None);
    assert_eq!(extents.check(), Ok(()));
}

#[test]
fn extents_of_two_leaves_are_joined_over_their_fence() {
    let mut extents = Extents::default();
    // Of every other unit, until there are two leaves.
    let place = |n: u64| (1 + 2 * n) * UNIT_BYTES;
    let many = 2 * crate::heap::leaf::LEAF as u64;
    (0..many).for_each(|n| extents.insert(place(n), 1));
    let leaves = |extents: &Extents| extents.own_bytes();
    let full_bytes = leaves(&extents);
    // The gaps are filled from the top: each joins two, some of them of two leaves.
    for n in (1..many).rev() {
        extents.insert(place(n) - UNIT_BYTES, 1);
        assert_eq!(extents.check(), Ok(()), "gap {n}");
    }
    let all = 2 * many as u32 - 1;
    assert_eq!(extents.iter().collect::<Vec<_>>(), [Extent { start: place(0), units: all }]);
    assert!(leaves(&extents) <= full_bytes);
    assert_eq!(extents.take_first(all, UNIT_BYTES), Some(place(0)));
    assert_eq!(extents.free_units(), 0);
}

#[test]
fn a_search_knows_how_long_the_longest_of_each_leaf_is() {
    let mut extents = Extents::default();
    // Two leaves of short extents, and a long one among those of the first.
    for n in 0..2 * crate::heap::leaf::LEAF as u64 {
        extents.insert(n * 64 * UNIT_BYTES, if n == 3 { 20 } else { 1 + n as u32 % 4 });
    }
    assert_eq!(extents.take_first(12, UNIT_BYTES), Some(3 * 64 * UNIT_BYTES));
    assert_eq!(extents.check(), Ok(()), "what is left is the longest");
    assert_eq!(extents.take_first(9, UNIT_BYTES), None);
    assert_eq!(extents.take_first(3, UNIT_BYTES), Some(2 * 64 * UNIT_BYTES));
    assert_eq!(extents.check(), Ok(()));
}

#[test]
fn what_ends_where_a_stretch_begins_is_asked_for_in_vain() {
    let mut extents = Extents::default();
    let line = 3 * STRETCH_BYTES;
    // Some in the stretch before, in more than one leaf, and one that begins at the line.
    (1..100).for_each(|n| extents.insert(line - n * 8 * UNIT_BYTES, 1));
    extents.insert(line, 2);
    assert_eq!((extents.ending_at(line), extents.holding(line - UNIT_BYTES)), (None, None));
    assert_eq!(extents.starting_at(line), Some(Extent { start: line, units: 2 }));
    assert_eq!(extents.check(), Ok(()));
}
