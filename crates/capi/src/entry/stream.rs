//! Streams of a pool.

use crate::boundary::{PoolHandle, with_pool};
use crate::place::Place;
use crate::pointer::value_of;
use crate::shape::device_of;
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::StreamId;

/// Registers a live stream; one that is registered already keeps its number.
///
/// # Safety
/// - As the header's rules say; `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_stream_register(
    pool: *const PoolHandle,
    device: i32,
    raw_stream: *mut c_void,
    stream: *mut u64,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `stream`.
        let place = unsafe { Place::of(stream, "stream") }?;
        // SAFETY: the caller says that the stream is live.
        place.put(unsafe { open.raw_stream(device_of(device)?, value_of(raw_stream)) }?.number());
        Ok(())
    })
}

/// Nothing more will be queued on the stream.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_stream_retire(pool: *const PoolHandle, stream: u64) -> Status {
    with_pool(pool, |open| open.retire(StreamId::of_number(stream)))
}

/// The same, by the driver's handle.
///
/// # Safety
/// - As the header's rules say; `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_stream_retire_raw(
    pool: *const PoolHandle,
    device: i32,
    raw_stream: *mut c_void,
) -> Status {
    // SAFETY: the caller says that the stream is live.
    with_pool(pool, |open| unsafe { open.retire_raw(device_of(device)?, value_of(raw_stream)) })
}
