//! An address of a reservation. It is a number, not a pointer: nobody may read through it here.

use std::fmt;

/// An absolute address in the range that the driver reserves from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Address(pub u64);

impl Address {
    /// The address `bytes` further on, or `None` past the end of the address space.
    #[must_use]
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }

    /// Whether this is a multiple of `alignment` bytes (a power of two).
    #[must_use]
    pub const fn is_aligned(self, alignment: u64) -> bool {
        self.0 & (alignment - 1) == 0
    }

    /// Bytes from `start` to here. The caller knows that `start` is not above.
    #[must_use]
    pub const fn bytes_from(self, start: Self) -> u64 {
        self.0 - start.0
    }
}

impl std::ops::Add<u64> for Address {
    type Output = Self;
    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
