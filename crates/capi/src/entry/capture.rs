//! Captures: streams whose requests are served in a graph's arena, and the end of such arenas.

use crate::boundary::{PoolHandle, with_pool};
use crate::pointer::value_of;
use crate::shape::device_of;
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::{ArenaId, StreamId};

/// From now on the stream's requests are served in the arena, which is a graph's.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_capture_begin(pool: *const PoolHandle, stream: u64, arena: u32) -> Status {
    with_pool(pool, |open| Ok(open.pool.begin_capture(StreamId::of_number(stream), ArenaId::of_number(arena))?))
}

/// The same, by the driver's handle; registers the stream if it is new.
///
/// # Safety
/// - As the header's rules say; `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_capture_begin_raw(
    pool: *const PoolHandle,
    device: i32,
    raw_stream: *mut c_void,
    arena: u32,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller says that the stream is live.
        let stream = unsafe { open.raw_stream(device_of(device)?, value_of(raw_stream)) }?;
        Ok(open.pool.begin_capture(stream, ArenaId::of_number(arena))?)
    })
}

/// The stream's requests are served as before; the arena stays the graph's.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_capture_end(pool: *const PoolHandle, stream: u64) -> Status {
    with_pool(pool, |open| Ok(open.pool.end_capture(StreamId::of_number(stream))?))
}

/// The same, by the driver's handle.
///
/// # Safety
/// - As the header's rules say; `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_capture_end_raw(
    pool: *const PoolHandle,
    device: i32,
    raw_stream: *mut c_void,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller says that the stream is live.
        let stream = unsafe { open.raw_stream(device_of(device)?, value_of(raw_stream)) }?;
        Ok(open.pool.end_capture(stream)?)
    })
}

/// Ends a capture of which no graph has come, with all streams that joined it.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_capture_abort(pool: *const PoolHandle, stream: u64) -> Status {
    with_pool(pool, |open| Ok(open.pool.abort_capture(StreamId::of_number(stream))?))
}

/// A graph with memory in the arena is destroyed.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_graph_release(pool: *const PoolHandle, arena: u32) -> Status {
    with_pool(pool, |open| Ok(open.pool.release_graph(ArenaId::of_number(arena))?))
}

/// Forgets an arena that has neither blocks nor graphs.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_arena_dissolve(pool: *const PoolHandle, arena: u32) -> Status {
    with_pool(pool, |open| Ok(open.pool.dissolve(ArenaId::of_number(arena))?))
}
