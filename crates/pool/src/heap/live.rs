//! The live blocks of a heap: how long each is, by its address. It knows nothing of free bytes.

use crate::heap::stretch::Stretch;
use crate::unit::{Place, bytes_of};

/// A live block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Its first address.
    pub(crate) address: u64,
    /// Its length in units.
    pub(crate) units: u32,
}

/// Live blocks by address.
#[derive(Debug, Default)]
pub(crate) struct LiveTable {
    /// The number of the first stretch; it means nothing before there ever was a block.
    high: u32,
    first: Stretch,
    /// Further stretches, with their numbers, in no order. A heap has none, or a few.
    others: Vec<(u32, Stretch)>,
}

impl LiveTable {
    /// The block at `address` will soon be added or taken out. Where it stands is fetched meanwhile.
    #[inline(always)]
    pub(crate) fn foresee(&self, address: u64) {
        let Place { stretch: high, unit: low } = Place::of(address);
        if high == self.high {
            self.first.foresee(low);
        }
    }

    /// Adds a block whose address is not in the table.
    #[inline(always)]
    pub(crate) fn insert(&mut self, block: Block) {
        let Place { stretch: high, unit: low } = Place::of(block.address);
        if high != self.high || !self.first.has_room() {
            return self.insert_otherwise(high, low, block.units);
        }
        self.first.insert(low, block.units);
    }

    #[cold]
    #[inline(never)]
    fn insert_otherwise(&mut self, high: u32, low: u32, units: u32) {
        if high != self.high && self.first.count() == 0 {
            self.bring_forward(high);
        }
        let stretch = match high == self.high {
            true => &mut self.first,
            false => self.other(high),
        };
        stretch.make_room();
        stretch.insert(low, units);
    }

    /// The first stretch is found without a search, and has no block: another takes its place.
    fn bring_forward(&mut self, high: u32) {
        self.high = high;
        if let Some(at) = self.others.iter().position(|(number, _)| *number == high) {
            (_, self.first) = self.others.swap_remove(at);
        }
    }

    /// A stretch that is not the first. Those that have no block go when one is added.
    fn other(&mut self, high: u32) -> &mut Stretch {
        let at = self.others.iter().position(|(number, _)| *number == high).unwrap_or_else(|| {
            self.others.retain(|(_, stretch)| stretch.count() > 0);
            self.others.push((high, Stretch::default()));
            self.others.len() - 1
        });
        &mut self.others[at].1
    }

    /// Takes a block out; gives its length in units.
    #[inline(always)]
    pub(crate) fn remove(&mut self, address: u64) -> Option<u32> {
        let Place { stretch: high, unit: low } = Place::of(address);
        if high == self.high { self.first.remove(low) } else { self.remove_otherwise(high, low) }
    }

    #[cold]
    #[inline(never)]
    fn remove_otherwise(&mut self, high: u32, low: u32) -> Option<u32> {
        let (_, stretch) = self.others.iter_mut().find(|(number, _)| *number == high)?;
        stretch.remove(low)
    }

    /// Every stretch with its number.
    fn stretches(&self) -> impl Iterator<Item = (u32, &Stretch)> {
        let others = self.others.iter().map(|(number, stretch)| (*number, stretch));
        std::iter::once((self.high, &self.first)).chain(others)
    }

    /// The length in units of the block that starts at `address`.
    pub(crate) fn units_at(&self, address: u64) -> Option<u32> {
        let Place { stretch: high, unit: low } = Place::of(address);
        let (_, stretch) = self.stretches().find(|(number, _)| *number == high)?;
        stretch.units_at(low)
    }

    /// Whether a block starts at `address`.
    pub(crate) fn has(&self, address: u64) -> bool {
        let Place { stretch: high, unit: low } = Place::of(address);
        self.stretches().any(|(number, stretch)| number == high && stretch.has(low))
    }

    /// The block that holds `address`; a walk over all of them, for error texts and queries.
    pub(crate) fn holding(&self, address: u64) -> Option<Block> {
        let holds = |block: &Block| address >= block.address && address - block.address < bytes_of(block.units);
        self.iter().find(holds)
    }

    /// All live blocks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Block> + '_ {
        self.stretches().flat_map(|(high, stretch)| {
            stretch
                .iter()
                .map(move |(low, units)| Block { address: Place { stretch: high, unit: low }.address(), units })
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.stretches().map(|(_, stretch)| stretch.count()).sum()
    }

    /// How many it holds without growing.
    pub(crate) fn capacity(&self) -> usize {
        self.stretches().map(|(_, stretch)| stretch.capacity()).sum()
    }

    /// Bytes that the table itself takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.stretches().map(|(_, stretch)| stretch.own_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A few hundred addresses in three stretches, some of them inside a unit.
    fn address() -> impl Strategy<Value = u64> {
        (0_u64..3, 0_u64..120, 0_u64..8).prop_map(|(stretch, unit, inside)| {
            (stretch << 41) + (1 << 45) + unit * 512 + if inside == 7 { 256 } else { 0 }
        })
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_an_ordered_map(ops in prop::collection::vec((any::<bool>(), address()), 1..800)) {
            let (mut table, mut shadow) = (LiveTable::default(), BTreeMap::new());
            for (units, (insert, address)) in (1..).zip(ops) {
                if insert && address % 512 == 0 && !shadow.contains_key(&address) {
                    table.insert(Block { address, units });
                    shadow.insert(address, units);
                } else {
                    prop_assert_eq!(table.has(address), shadow.contains_key(&address));
                    prop_assert_eq!(table.remove(address), shadow.remove(&address));
                    prop_assert!(!table.has(address));
                }
                prop_assert_eq!(table.count(), shadow.len());
            }
            let mut all: Vec<_> = table.iter().map(|block| (block.address, block.units)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, shadow.into_iter().collect::<Vec<_>>());
        }
    }
}
