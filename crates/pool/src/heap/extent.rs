//! A run of bytes, as the tree of free ones and its neighbours name it. It knows not whose it is.

use crate::unit::bytes_of;

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
