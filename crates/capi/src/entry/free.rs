//! Freeing, and saying which other streams use a block.

use crate::boundary::{PoolHandle, at_once, with_pool};
use crate::pointer::{address_of, value_of};
use crate::shape::device_of;
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::StreamId;

/// Frees a block in the order of the stream it was allocated for. From any thread; null is nothing.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_free(pool: *const PoolHandle, address: *mut c_void) -> Status {
    // Null is no block's address.
    at_once(pool, |open| open.pool.free_at_once(address_of(address))).unwrap_or_else(|| free_otherwise(pool, address))
}

#[cold]
fn free_otherwise(pool: *const PoolHandle, address: *mut c_void) -> Status {
    with_pool(pool, |open| match address.is_null() {
        true => Ok(()),
        false => Ok(open.pool.free(address_of(address))?),
    })
}

/// Frees a block after what is queued so far on its own stream and on `stream`.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_free_on(pool: *const PoolHandle, address: *mut c_void, stream: u64) -> Status {
    with_pool(pool, |open| Ok(open.pool.free_on(address_of(address), StreamId::of_number(stream))?))
}

/// The same, by the driver's handle; registers the stream if it is new.
///
/// # Safety
/// - As the header's rules say; `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_free_raw(
    pool: *const PoolHandle,
    device: i32,
    raw_stream: *mut c_void,
    address: *mut c_void,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller says that the stream is live.
        let stream = unsafe { open.raw_stream(device_of(device)?, value_of(raw_stream)) }?;
        Ok(open.pool.free_on(address_of(address), stream)?)
    })
}

/// The block is used on `stream` too: once freed, it is not reused before that use is done.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_record_use(pool: *const PoolHandle, address: *mut c_void, stream: u64) -> Status {
    with_pool(pool, |open| Ok(open.pool.record_use(address_of(address), StreamId::of_number(stream))?))
}

/// The same, by the driver's handle; registers the stream if it is new.
///
/// # Safety
/// - As the header's rules say; `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_record_use_raw(
    pool: *const PoolHandle,
    device: i32,
    raw_stream: *mut c_void,
    address: *mut c_void,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller says that the stream is live.
        let stream = unsafe { open.raw_stream(device_of(device)?, value_of(raw_stream)) }?;
        Ok(open.pool.record_use(address_of(address), stream)?)
    })
}
