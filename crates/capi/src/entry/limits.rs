//! What may be changed about a pool's devices while it runs, and where their memory stands.

use crate::boundary::{PoolHandle, with_pool};
use crate::place::Row;
use crate::shape::{CRange, device_of};
use crate::status::Status;

/// From now on the pool holds at most so many bytes of a device.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_limit_set(pool: *const PoolHandle, device: i32, limit_bytes: u64) -> Status {
    with_pool(pool, |open| {
        Ok(open.pool.set_limit(device_of(device)?, (limit_bytes != u64::MAX).then_some(limit_bytes))?)
    })
}

/// From now on forced growth on a device ends so many bytes below its limit.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_headroom_set(pool: *const PoolHandle, device: i32, headroom_bytes: u64) -> Status {
    with_pool(pool, |open| Ok(open.pool.set_headroom(device_of(device)?, headroom_bytes)?))
}

/// From now on the highest physical bytes of a device are counted anew.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_peaks_reset(pool: *const PoolHandle, device: i32) -> Status {
    with_pool(pool, |open| Ok(open.pool.reset_peaks(device_of(device)?)?))
}

/// Every run of addresses that has memory, in address order.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_ranges(
    pool: *const PoolHandle,
    ranges: *mut CRange,
    capacity: usize,
    count: *mut usize,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for the array and `count`.
        let row = unsafe { Row::of(ranges, capacity, count, "ranges") }?;
        row.put(&open.pool.ranges().iter().map(CRange::of).collect::<Vec<_>>())
    })
}
