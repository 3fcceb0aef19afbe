//! Growable buffers: addresses for a maximum, memory where it is asked for.

use crate::boundary::{GrowableHandle, PoolHandle, with_pool};
use crate::place::Place;
use crate::pointer::{handle_to, pointer_to};
use crate::record::read;
use crate::shape::CRequest;
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::{Growable, StreamId};

/// Reserves addresses for `max_bytes`, and backs the first bytes of them that the request asks for.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_growable_create(
    pool: *const PoolHandle,
    request: *const CRequest,
    max_bytes: u64,
    step_bytes: u64,
    growable: *mut *mut GrowableHandle,
    address: *mut *mut c_void,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for both places.
        let (place, start) = unsafe { (Place::of(growable, "growable")?, Place::of(address, "address")?) };
        // SAFETY: the caller answers for `request`.
        let asked = unsafe { read(request, CRequest::NOTHING) }?;
        let stream = StreamId::of_number(asked.stream);
        // SAFETY: the caller answers for its lists.
        let asked = unsafe { asked.understood(stream) }?;
        let made = match step_bytes {
            0 => open.pool.growable(&asked, max_bytes)?,
            step_bytes => open.pool.growable_in_steps(&asked, max_bytes, step_bytes)?,
        };
        let at = made.address();
        place.put(handle_to(open.shelf().put(made)?));
        start.put(pointer_to(at));
        Ok(())
    })
}

/// Backs the first bytes of a buffer.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_growable_grow_to(
    pool: *const PoolHandle,
    growable: *const GrowableHandle,
    bytes: u64,
) -> Status {
    with_pool(pool, |open| Ok(open.shelf::<Growable>().find(growable.addr())?.grow_to(bytes)?))
}

/// Backs a part of a buffer.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_growable_back(
    pool: *const PoolHandle,
    growable: *const GrowableHandle,
    offset_bytes: u64,
    bytes: u64,
) -> Status {
    with_pool(pool, |open| Ok(open.shelf::<Growable>().find(growable.addr())?.back(offset_bytes, bytes)?))
}

/// Gives back what is backed of a part. `given_bytes` may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_growable_give_back(
    pool: *const PoolHandle,
    growable: *const GrowableHandle,
    offset_bytes: u64,
    bytes: u64,
    given_bytes: *mut u64,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `given_bytes`.
        let place = unsafe { Place::wanted(given_bytes, "given_bytes") }?;
        let given = open.shelf::<Growable>().find(growable.addr())?.give_back(offset_bytes, bytes)?;
        place.into_iter().for_each(|place| place.put(given));
        Ok(())
    })
}

/// How many bytes of a buffer are backed.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_growable_backed_bytes(
    pool: *const PoolHandle,
    growable: *const GrowableHandle,
    backed_bytes: *mut u64,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `backed_bytes`.
        let place = unsafe { Place::of(backed_bytes, "backed_bytes") }?;
        place.put(open.shelf::<Growable>().find(growable.addr())?.backed_bytes());
        Ok(())
    })
}

/// A backed part is used on `stream` too.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_growable_record_use(
    pool: *const PoolHandle,
    growable: *const GrowableHandle,
    offset_bytes: u64,
    bytes: u64,
    stream: u64,
) -> Status {
    with_pool(pool, |open| {
        let held = open.shelf::<Growable>().find(growable.addr())?;
        Ok(held.record_use(offset_bytes, bytes, StreamId::of_number(stream))?)
    })
}

/// Gives a buffer back in the order of its stream.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_growable_drop(pool: *const PoolHandle, growable: *mut GrowableHandle) -> Status {
    with_pool(pool, |open| open.shelf::<Growable>().take(growable.addr()).map(drop))
}
