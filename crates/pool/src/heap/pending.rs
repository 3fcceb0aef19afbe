//! Blocks that are freed, but that the GPU may still be using on other streams.

use crate::clock::Fence;
use crate::heap::extent::Extent;

/// A freed block that other streams may still be using.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) start: u64,
    pub(crate) units: u32,
    /// The owner's epoch at the free.
    pub(crate) epoch: u64,
    /// Where the other streams must be.
    pub(crate) fences: Vec<Fence>,
}

impl Pending {
    pub(crate) const fn extent(&self) -> Extent {
        Extent { start: self.start, units: self.units }
    }
}
