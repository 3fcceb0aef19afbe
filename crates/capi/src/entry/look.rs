//! Looking at a pool: figures, blocks, what stands behind a range.

use crate::boundary::{PoolHandle, with_pool};
use crate::place::{Place, Row};
use crate::pointer::{address_of, pointer_to};
use crate::record::RecordPlace;
use crate::refusal::Refusal;
use crate::shape::{CDeviceStats, CSegment, CStats, device_of, number_of};
use crate::status::Status;
use std::ffi::{c_char, c_void};

/// A pool's figures of now.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pool_stats(pool: *const PoolHandle, stats: *mut CStats) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `stats`.
        unsafe { RecordPlace::of(stats) }?.put(CStats::of(&open.pool.stats()));
        Ok(())
    })
}

/// A pool's figures of one of its devices.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pool_device_stats(
    pool: *const PoolHandle,
    device: i32,
    stats: *mut CDeviceStats,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `stats`.
        let place = unsafe { RecordPlace::of(stats) }?;
        let device = device_of(device)?;
        let found = open.pool.stats().devices.into_iter().find(|figures| figures.holdings.device == device);
        let unknown = || Refusal::new(Status::UnknownDevice, format!("{device} is not one of this pool's devices"));
        place.put(CDeviceStats::of(&found.ok_or_else(unknown)?));
        Ok(())
    })
}

/// The devices that a pool's memory may come from.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pool_devices(
    pool: *const PoolHandle,
    devices: *mut i32,
    capacity: usize,
    count: *mut usize,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for the array and `count`.
        let row = unsafe { Row::of(devices, capacity, count, "devices") }?;
        let stats = open.pool.stats();
        row.put(&stats.devices.iter().map(|figures| number_of(figures.holdings.device)).collect::<Vec<_>>())
    })
}

/// Every piece of memory behind a part of a live block.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_segments(
    pool: *const PoolHandle,
    address: *const c_void,
    bytes: u64,
    segments: *mut CSegment,
    capacity: usize,
    count: *mut usize,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for the array and `count`.
        let row = unsafe { Row::of(segments, capacity, count, "segments") }?;
        let found = open.pool.segments(address_of(address), bytes)?;
        row.put(&found.iter().map(CSegment::of).collect::<Vec<_>>())
    })
}

/// The live block that holds an address. `bytes` may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_block_of(
    pool: *const PoolHandle,
    address: *const c_void,
    start: *mut *mut c_void,
    bytes: *mut u64,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for both places.
        let (place, length) = unsafe { (Place::of(start, "start")?, Place::wanted(bytes, "bytes")?) };
        let block = open.pool.block_holding(address_of(address)).ok_or_else(|| {
            let words = format!("{} lies in no live block of this pool", address_of(address));
            Refusal::new(Status::UnknownAddress, words)
        })?;
        place.put(pointer_to(block.address));
        if let Some(length) = length {
            length.put(block.bytes);
        }
        Ok(())
    })
}

/// The address ranges that have memory, as lines of letters that end with a zero.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pictures(
    pool: *const PoolHandle,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for the array and `length`.
        let row = unsafe { Row::of(text.cast::<u8>(), capacity, length, "text") }?;
        row.put_text(&open.pool.pictures().into_iter().map(|line| line + "\n").collect::<String>())
    })
}
