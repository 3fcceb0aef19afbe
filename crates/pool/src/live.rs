//! The live blocks of a heap by address. It knows nothing of free bytes.

use crate::unit::bytes_of;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What is known of a live block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Its first address.
    pub(crate) address: u64,
    /// Its length in units.
    pub(crate) units: u32,
    /// Where its list of other streams stands, plus 1; 0: it has none.
    pub(crate) uses: u32,
}

/// Live blocks by address.
#[derive(Debug, Default)]
pub(crate) struct LiveTable {
    blocks: HashMap<u64, (u32, u32), BuildHasherDefault<Spread>>,
}

impl LiveTable {
    /// Adds a block whose address is not in the table.
    #[inline]
    pub(crate) fn insert(&mut self, block: Block) {
        self.blocks.insert(block.address, (block.units, block.uses));
    }

    /// Takes a block out.
    #[inline]
    pub(crate) fn remove(&mut self, address: u64) -> Option<Block> {
        let (units, uses) = self.blocks.remove(&address)?;
        Some(Block { address, units, uses })
    }

    /// Where the list of other streams of the block at `address` stands.
    pub(crate) fn uses_mut(&mut self, address: u64) -> Option<&mut u32> {
        self.blocks.get_mut(&address).map(|(_, uses)| uses)
    }

    /// The length of the block at `address` in units, and where its list of other streams stands.
    pub(crate) fn entry_mut(&mut self, address: u64) -> Option<(u32, &mut u32)> {
        self.blocks.get_mut(&address).map(|(units, uses)| (*units, uses))
    }

    /// The length of the block at `address` in units, and whether it has a list of other streams.
    pub(crate) fn entry(&self, address: u64) -> Option<(u32, bool)> {
        self.blocks.get(&address).map(|&(units, uses)| (units, uses != 0))
    }

    /// Whether a block starts at `address`.
    pub(crate) fn has(&self, address: u64) -> bool {
        self.blocks.contains_key(&address)
    }

    /// The block that holds `address`; a walk over all of them, for error texts and queries.
    pub(crate) fn holding(&self, address: u64) -> Option<Block> {
        let holds = |block: &Block| address >= block.address && address - block.address < bytes_of(block.units);
        self.iter().find(holds)
    }

    /// All live blocks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Block> + '_ {
        self.blocks.iter().map(|(&address, &(units, uses))| Block { address, units, uses })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes that the table itself takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        // A place takes an entry and a byte; an eighth of them stays empty.
        (self.blocks.capacity() * 8 / 7 * (size_of::<(u64, u32, u32)>() + 1)) as u64
    }
}

/// Spreads addresses over a table: the two halves of a product, so that no bits of it are weak.
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    #[inline]
    fn write_u64(&mut self, address: u64) {
        let product = u128::from(address) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 << 8 | u64::from(byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
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

    #[test]
    fn neighbouring_addresses_spread_over_low_and_high_bits() {
        for step in [512_u64, 2 << 20, 1 << 30] {
            let (mut low, mut high) = ([0_u32; 64], [0_u32; 64]);
            for n in 0..4096 {
                let mut hash = Spread::default();
                hash.write_u64((1 << 45) + n * step);
                low[hash.finish() as usize % 64] += 1;
                high[(hash.finish() >> 58) as usize] += 1;
            }
            for count in low.into_iter().chain(high) {
                assert!((16..=256).contains(&count), "{count} of 4096 in a 64th, at steps of {step}");
            }
        }
    }
}
