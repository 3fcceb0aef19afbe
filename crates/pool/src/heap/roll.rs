//! A roll: a number for each of any number of groups, in whole blocks of lanes. It knows no group.

use crate::heap::lanes::Lanes;
use crate::heap::scan::{LANES, Number};

/// Numbers by index.
#[derive(Debug)]
pub(crate) struct Roll {
    /// Behind the numbers stands `filler`.
    blocks: Vec<Block>,
    count: usize,
    filler: Number,
}

#[derive(Debug)]
#[repr(align(64))]
struct Block([Number; LANES]);

impl Roll {
    /// One that holds nothing. What stands behind its numbers is `filler`.
    pub(crate) const fn new(filler: Number) -> Self {
        Self { blocks: Vec::new(), count: 0, filler }
    }

    #[inline(always)]
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn get(&self, at: usize) -> Option<u32> {
        (at < self.count).then(|| self.blocks[at / LANES].0[at % LANES].get())
    }

    pub(crate) fn set(&mut self, at: usize, number: u32) {
        self.blocks[at / LANES].0[at % LANES] = Number::of(number);
    }

    #[inline(always)]
    pub(crate) fn raise(&mut self, at: usize, number: u32) {
        let old = &mut self.blocks[at / LANES].0[at % LANES];
        *old = (*old).max(Number::of(number));
    }

    /// Index of the first number from `from` on that is at least `wanted`, which is not 0. What stands behind the
    /// numbers counts.
    #[inline(always)]
    pub(crate) fn first_at_least(&self, lanes: impl Lanes, from: usize, wanted: u32) -> Option<usize> {
        let mut skipped = from % LANES;
        for (index, block) in self.blocks.iter().enumerate().skip(from / LANES) {
            let mask = lanes.at_least(&block.0, wanted) >> skipped << skipped;
            if mask != 0 {
                return Some(index * LANES + mask.trailing_zeros() as usize);
            }
            skipped = 0;
        }
        None
    }

    pub(crate) fn insert(&mut self, at: usize, number: u32) {
        if self.count == self.blocks.len() * LANES {
            self.blocks.push(Block([self.filler; LANES]));
        }
        for index in (at..self.count).rev() {
            let moved = self.blocks[index / LANES].0[index % LANES];
            self.blocks[(index + 1) / LANES].0[(index + 1) % LANES] = moved;
        }
        self.count += 1;
        self.set(at, number);
    }

    pub(crate) fn remove(&mut self, at: usize) {
        for index in at + 1..self.count {
            let moved = self.blocks[index / LANES].0[index % LANES];
            self.blocks[(index - 1) / LANES].0[(index - 1) % LANES] = moved;
        }
        self.count -= 1;
        self.blocks[self.count / LANES].0[self.count % LANES] = self.filler;
    }

    /// Bytes that it takes.
    pub(crate) const fn own_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }
}
