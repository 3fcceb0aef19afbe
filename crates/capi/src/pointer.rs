//! Pointers that cross the border as numbers: nobody here follows them.

use std::ffi::c_void;
use stitchpool_driver::Address;

/// The address of a block, for the caller.
#[inline]
pub(crate) fn pointer_to(address: Address) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address.0 as usize)
}

/// A handle, for the caller.
pub(crate) const fn handle_to<H>(number: usize) -> *mut H {
    std::ptr::without_provenance_mut(number)
}

/// The address in a pointer of the caller's.
#[inline]
pub(crate) fn address_of(pointer: *const c_void) -> Address {
    Address(pointer.addr() as u64)
}

/// The number in a driver's handle, which may be a pointer of the driver's.
#[inline]
pub(crate) fn value_of(raw_stream: *mut c_void) -> u64 {
    raw_stream.expose_provenance() as u64
}

/// A driver's handle from its number.
pub(crate) const fn raw_stream_of(value: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(value as usize)
}
