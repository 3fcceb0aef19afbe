//! Allocating.

use crate::boundary::{PoolHandle, at_once, with_pool};
use crate::place::Place;
use crate::pointer::{pointer_to, value_of};
use crate::record::read;
use crate::shape::{CRequest, device_of};
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::{Request, StreamId};

/// Allocates a block on the stream's own device.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_alloc(
    pool: *const PoolHandle,
    stream: u64,
    bytes: u64,
    address: *mut *mut c_void,
) -> Status {
    let short = at_once(pool, |open| {
        // SAFETY: the caller answers for `address`.
        let Some(place) = (unsafe { Place::at(address) }) else { return false };
        let Some(block) = open.pool.alloc_at_once(bytes, StreamId::of_number(stream)) else { return false };
        place.put(pointer_to(block.address));
        true
    });
    // SAFETY: as above.
    short.unwrap_or_else(|| unsafe { alloc_otherwise(pool, stream, bytes, address) })
}

/// What is no hit.
///
/// # Safety
/// - As for [`stitchpool_alloc`].
#[cold]
unsafe fn alloc_otherwise(pool: *const PoolHandle, stream: u64, bytes: u64, address: *mut *mut c_void) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `address`.
        let place = unsafe { Place::of(address, "address") }?;
        let block = open.pool.alloc(&Request::new(bytes, StreamId::of_number(stream)))?;
        place.put(pointer_to(block.address));
        Ok(())
    })
}

/// Allocates a block with all that can be asked for. `block_bytes` may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_alloc_request(
    pool: *const PoolHandle,
    request: *const CRequest,
    address: *mut *mut c_void,
    block_bytes: *mut u64,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for both places.
        let (place, length) = unsafe { (Place::of(address, "address")?, Place::wanted(block_bytes, "block_bytes")?) };
        // SAFETY: the caller answers for `request`.
        let request = unsafe { read(request, CRequest::NOTHING) }?;
        let stream = StreamId::of_number(request.stream);
        // SAFETY: the caller answers for its lists.
        let block = open.pool.alloc(&unsafe { request.understood(stream) }?)?;
        place.put(pointer_to(block.address));
        if let Some(length) = length {
            length.put(block.bytes);
        }
        Ok(())
    })
}

/// Allocates a block for a stream by the driver's handle; registers the stream if it is new.
///
/// # Safety
/// - As the header's rules say; `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_alloc_raw(
    pool: *const PoolHandle,
    device: i32,
    raw_stream: *mut c_void,
    bytes: u64,
    address: *mut *mut c_void,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `address`.
        let place = unsafe { Place::of(address, "address") }?;
        // SAFETY: the caller says that the stream is live.
        let stream = unsafe { open.raw_stream(device_of(device)?, value_of(raw_stream)) }?;
        let block = open.pool.alloc(&Request::new(bytes, stream))?;
        place.put(pointer_to(block.address));
        Ok(())
    })
}
