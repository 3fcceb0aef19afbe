//! Where an extent stands in the tree of a heap's free bytes.

/// Where an extent stands: group, leaf, and slot in it. One number, so that it is handed on in a register: parts
/// that are written apart and read together would be waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Position(u64);

impl Position {
    /// So many bits has the slot in a leaf, and so many the leaf in a group.
    const BITS: u32 = 8;

    #[inline(always)]
    pub(crate) const fn new(group: usize, leaf: usize, slot: usize) -> Self {
        Self(((group as u64) << Self::BITS | leaf as u64) << Self::BITS | slot as u64)
    }

    #[inline(always)]
    pub(crate) const fn group(self) -> usize {
        (self.0 >> (2 * Self::BITS)) as usize
    }

    #[inline(always)]
    pub(crate) const fn leaf(self) -> usize {
        (self.0 >> Self::BITS) as usize % (1 << Self::BITS)
    }

    #[inline(always)]
    pub(crate) const fn slot(self) -> usize {
        self.0 as usize % (1 << Self::BITS)
    }
}
