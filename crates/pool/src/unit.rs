//! The unit of block sizes and places. Lengths are counted in 32 bits of it, which is 2 TiB: no chain is
//! longer.

/// A unit, in bytes.
pub(crate) const UNIT_BYTES: u64 = 512;

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
