//! How long a random block is.

use proptest::prelude::*;

/// Whole granules, and thousandths of one.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    granules: u64,
    milligranules: u64,
}

impl Size {
    /// In bytes, one at least.
    pub fn bytes(self, granule_bytes: u64) -> u64 {
        (self.granules * granule_bytes + self.milligranules * granule_bytes / 1000).max(1)
    }
}

/// So many granules; half of the time a part of another.
pub fn sizes(granules: impl Strategy<Value = u64>) -> impl Strategy<Value = Size> {
    let part = prop_oneof![Just(0), 1..1000_u64];
    (granules, part).prop_map(|(granules, milligranules)| Size { granules, milligranules })
}
