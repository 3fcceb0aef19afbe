//! The unit of block sizes and places. Lengths, and places in a stretch of addresses, are counted in 32 bits of it.

/// A unit, in bytes.
pub(crate) const UNIT_BYTES: u64 = 512;

/// So long is a stretch of addresses, and so often one begins: 2 TiB. Every chain lies in one.
pub(crate) const STRETCH_BYTES: u64 = UNIT_BYTES << 32;

/// How many units `bytes` take, rounded up. More than 32 bits of them cannot be: requests are limited.
#[inline]
pub(crate) fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

/// How many bytes so many units are.
#[inline]
pub(crate) const fn bytes_of(units: u32) -> u64 {
    units as u64 * UNIT_BYTES
}

/// An address as the number of its stretch, and of its unit there. What an address inside a unit has below the
/// unit counts to the stretch, so that nothing is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) stretch: u32,
    pub(crate) unit: u32,
}

impl Place {
    const UNIT_BITS: u32 = UNIT_BYTES.trailing_zeros();

    #[inline(always)]
    pub(crate) const fn of(address: u64) -> Self {
        let turned = address.rotate_right(Self::UNIT_BITS);
        Self { stretch: (turned >> 32) as u32, unit: turned as u32 }
    }

    #[inline(always)]
    pub(crate) const fn address(self) -> u64 {
        ((self.stretch as u64) << 32 | self.unit as u64).rotate_left(Self::UNIT_BITS)
    }
}
