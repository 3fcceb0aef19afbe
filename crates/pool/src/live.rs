//! The live blocks of a heap by address: one open-addressing table. It knows nothing of free bytes.

use crate::unit::bytes_of;

/// What is known of a live block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Its first address; never 0.
    pub(crate) address: u64,
    /// Its length in units.
    pub(crate) units: u32,
    /// Where its list of other streams stands, plus 1; 0: it has none.
    pub(crate) uses: u32,
}

const EMPTY: Block = Block { address: 0, units: 0, uses: 0 };
const CAPACITY_MIN: usize = 64;

/// Live blocks by address.
#[derive(Debug, Default)]
pub(crate) struct LiveTable {
    /// A power of two, or nothing yet. A block stands at or behind its own place with no empty place
    /// between.
    places: Vec<Block>,
    /// How many places are taken: at most three quarters.
    count: usize,
}

impl LiveTable {
    /// Adds a block whose address is not in the table.
    #[inline]
    pub(crate) fn insert(&mut self, block: Block) {
        if (self.count + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let mut place = home(block.address, mask);
        while self.places[place].address != 0 {
            place = (place + 1) & mask;
        }
        self.places[place] = block;
        self.count += 1;
    }

    /// Takes a block out.
    #[inline]
    pub(crate) fn remove(&mut self, address: u64) -> Option<Block> {
        let mut hole = self.find(address)?;
        let block = self.places[hole];
        let mask = self.places.len() - 1;
        // Blocks behind the hole move into it where it lies between their own place and them.
        let mut next = (hole + 1) & mask;
        while self.places[next].address != 0 {
            let distance = next.wrapping_sub(home(self.places[next].address, mask)) & mask;
            if distance >= (next.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.places[hole] = EMPTY;
        self.count -= 1;
        Some(block)
    }

    /// The block that starts at `address`.
    pub(crate) fn get_mut(&mut self, address: u64) -> Option<&mut Block> {
        let place = self.find(address)?;
        self.places.get_mut(place)
    }

    /// The block that holds `address`; a walk over all of them, for error texts and queries.
    pub(crate) fn holding(&self, address: u64) -> Option<Block> {
        let holds = |block: &Block| address >= block.address && address - block.address < bytes_of(block.units);
        self.iter().find(holds)
    }

    /// All live blocks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Block> + '_ {
        self.places.iter().copied().filter(|block| block.address != 0)
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Bytes that the table itself takes.
    pub(crate) const fn own_bytes(&self) -> u64 {
        (self.places.capacity() * size_of::<Block>()) as u64
    }

    fn find(&self, address: u64) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut place = home(address, mask);
        loop {
            match self.places[place].address {
                0 => return None,
                found if found == address => return Some(place),
                _ => place = (place + 1) & mask,
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = vec![EMPTY; (self.places.len() * 2).max(CAPACITY_MIN)];
        let old = std::mem::replace(&mut self.places, places);
        self.count = 0;
        for block in old.into_iter().filter(|block| block.address != 0) {
            self.insert(block);
        }
    }
}

/// The place of an address in an empty table: the top bits of a product spread neighbours apart.
#[inline]
const fn home(address: u64, mask: usize) -> usize {
    let spread = (address >> 9).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (spread >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_table_agrees_with_an_ordered_map(ops in prop::collection::vec((any::<bool>(), 1_u64..200), 1..800)) {
            let (mut table, mut shadow) = (LiveTable::default(), BTreeMap::new());
            for (insert, place) in ops {
                let address = place * 512;
                if insert && !shadow.contains_key(&address) {
                    let block = Block { address, units: place as u32, uses: 0 };
                    table.insert(block);
                    shadow.insert(address, block);
                } else {
                    prop_assert_eq!(table.remove(address), shadow.remove(&address));
                }
                prop_assert_eq!(table.count(), shadow.len());
            }
            let mut all: Vec<_> = table.iter().collect();
            all.sort_by_key(|block| block.address);
            prop_assert_eq!(all, shadow.into_values().collect::<Vec<_>>());
        }
    }
}
