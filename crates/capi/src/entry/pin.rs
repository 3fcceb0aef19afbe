//! Pins: handles stay where they are, because somebody outside the pool uses them.

use crate::boundary::{PinHandle, PoolHandle, with_pool};
use crate::place::Place;
use crate::pointer::{address_of, handle_to};
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::Pin;

/// Pins the handles behind a part of a live block.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pin_create(
    pool: *const PoolHandle,
    address: *const c_void,
    bytes: u64,
    pin: *mut *mut PinHandle,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `pin`.
        let place = unsafe { Place::of(pin, "pin") }?;
        let made = open.pool.pin(address_of(address), bytes)?;
        place.put(handle_to(open.shelf().put(made)?));
        Ok(())
    })
}

/// The handles may be taken elsewhere again.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pin_drop(pool: *const PoolHandle, pin: *mut PinHandle) -> Status {
    with_pool(pool, |open| open.shelf::<Pin>().take(pin.addr()).map(drop))
}
