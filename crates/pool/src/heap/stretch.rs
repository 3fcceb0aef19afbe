//! Lengths of blocks by 32-bit numbers, in buckets of one cache line each. It knows no address.

use crate::heap::scan::{equal, prefetch};
use std::collections::BTreeMap;

/// A block stands in the bucket that its number names or, where that is full, in the spill.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// None, or a power of two of them.
    buckets: Vec<Bucket>,
    /// How far a product is shifted to give a bucket's index.
    shift: u32,
    /// How many more blocks it takes before it must be made larger.
    room: usize,
    spill: BTreeMap<u32, u32>,
}

/// So many blocks a bucket holds.
const PLACES: usize = 8;
/// So many it holds on average at most: then one in forty finds its bucket full.
const FULL: usize = 4;
const BUCKETS_MIN: usize = 4;
/// So many buckets are more than the processor's nearest cache holds.
const FAR: usize = 4096;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Bucket {
    /// `nobody` iff the place is empty.
    numbers: [u32; PLACES],
    /// Their blocks' lengths; 0 iff the place is empty.
    units: [u32; PLACES],
}

impl Bucket {
    /// An empty one at this index.
    const fn empty(index: usize) -> Self {
        Self { numbers: [nobody(index); PLACES], units: [0; PLACES] }
    }

    /// The first place with this number; `PLACES` or more if there is none.
    #[inline(always)]
    fn place_of(&self, number: u32) -> usize {
        equal(&self.numbers, number).trailing_zeros() as usize
    }
}

/// The number in empty places of the bucket with this index: one that belongs to another bucket, of which
/// there are four at least.
#[inline(always)]
const fn nobody(index: usize) -> u32 {
    (index == 0) as u32
}

impl Stretch {
    /// Whether another block can be added.
    #[inline(always)]
    pub(crate) const fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Sees to it that another block can be added.
    pub(crate) fn make_room(&mut self) {
        if !self.has_room() {
            self.grow();
        }
    }

    /// The block with this number will soon be added or taken out: where it stands is fetched meanwhile, if there is so
    /// much that it may be far.
    #[inline(always)]
    pub(crate) fn foresee(&self, number: u32) {
        if self.buckets.len() < FAR {
            return;
        }
        if let Some(bucket) = self.buckets.get(self.index(number)) {
            prefetch(bucket);
        }
    }

    /// Adds a block whose number is not there, where there is room; `units` is not 0.
    #[inline(always)]
    pub(crate) fn insert(&mut self, number: u32, units: u32) {
        self.room -= 1;
        self.put(number, units);
    }

    #[inline(always)]
    fn put(&mut self, number: u32, units: u32) {
        let index = self.index(number);
        let bucket = &mut self.buckets[index];
        let place = bucket.place_of(nobody(index));
        if place >= PLACES {
            return self.spill(number, units);
        }
        (bucket.numbers[place], bucket.units[place]) = (number, units);
    }

    /// Takes a block out; gives its length.
    #[inline(always)]
    pub(crate) fn remove(&mut self, number: u32) -> Option<u32> {
        let index = self.index(number);
        let bucket = self.buckets.get_mut(index)?;
        let place = bucket.place_of(number);
        let units = match bucket.units.get_mut(place) {
            Some(units) => {
                bucket.numbers[place] = nobody(index);
                std::mem::take(units)
            }
            None => self.remove_spilt(number)?,
        };
        self.room += 1;
        Some(units)
    }

    #[cold]
    fn spill(&mut self, number: u32, units: u32) {
        self.spill.insert(number, units);
    }

    #[cold]
    fn remove_spilt(&mut self, number: u32) -> Option<u32> {
        self.spill.remove(&number)
    }

    /// The length of the block with this number.
    pub(crate) fn units_at(&self, number: u32) -> Option<u32> {
        let bucket = self.buckets.get(self.index(number))?;
        bucket.units.get(bucket.place_of(number)).or_else(|| self.spill.get(&number)).copied()
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.units_at(number).is_some()
    }

    /// How many blocks there are.
    pub(crate) const fn count(&self) -> usize {
        self.capacity() - self.room
    }

    /// How many it holds without growing.
    pub(crate) const fn capacity(&self) -> usize {
        self.buckets.len() * FULL
    }

    /// All blocks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let places = self.buckets.iter().flat_map(|bucket| bucket.numbers.into_iter().zip(bucket.units));
        places.filter(|&(_, units)| units != 0).chain(self.spill.iter().map(|(&number, &units)| (number, units)))
    }

    /// Bytes that it takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let spill = self.spill.len() * 2 * size_of::<(u32, u32)>();
        (self.buckets.capacity() * size_of::<Bucket>() + spill) as u64
    }

    /// The top bits of a product, which all bits of the number have a part in.
    #[inline(always)]
    const fn index(&self, number: u32) -> usize {
        (number.wrapping_mul(0x9E37_79B9) >> self.shift) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let blocks: Vec<(u32, u32)> = self.iter().collect();
        let buckets = (self.buckets.len() * 2).max(BUCKETS_MIN);
        self.room = buckets * FULL - blocks.len();
        self.buckets = (0..buckets).map(Bucket::empty).collect();
        self.shift = u32::BITS - buckets.trailing_zeros();
        self.spill.clear();
        blocks.into_iter().for_each(|(number, units)| self.put(number, units));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_are_spilt() {
        for step in [1_u32, 3, 4096, 4099, 1 << 18] {
            let mut stretch = Stretch::default();
            for n in 0..4096 {
                stretch.make_room();
                stretch.insert(n * step, 1);
            }
            assert!(stretch.spill.len() < 256, "{} of 4096 are spilt, at steps of {step}", stretch.spill.len());
        }
    }
}
