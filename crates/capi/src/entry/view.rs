//! Views: memory of parts of blocks under a second, contiguous range of addresses.

use crate::boundary::{PoolHandle, ViewHandle, with_pool};
use crate::place::{Place, items};
use crate::pointer::{handle_to, pointer_to};
use crate::shape::{CGrant, CPart, grants_of};
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::{Part, StreamId, View};

/// Maps the memory behind parts of live blocks, one after the other, at addresses of its own.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_view_create(
    pool: *const PoolHandle,
    parts: *const CPart,
    part_count: usize,
    grants: *const CGrant,
    grant_count: usize,
    view: *mut *mut ViewHandle,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `view`.
        let place = unsafe { Place::of(view, "view") }?;
        // SAFETY: the caller answers for both lists.
        let (parts, grants) = unsafe { (items(parts, part_count, "parts")?, grants_of(grants, grant_count)?) };
        let parts: Vec<Part> = parts.iter().map(|part| part.understood()).collect();
        let made = open.pool.view(&parts, &grants)?;
        place.put(handle_to(open.shelf().put(made)?));
        Ok(())
    })
}

/// A view's first address and its length; each may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_view_range(
    pool: *const PoolHandle,
    view: *const ViewHandle,
    address: *mut *mut c_void,
    bytes: *mut u64,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for both places.
        let (start, length) = unsafe { (Place::wanted(address, "address")?, Place::wanted(bytes, "bytes")?) };
        let held = open.shelf::<View>().find(view.addr())?;
        start.into_iter().for_each(|place| place.put(pointer_to(held.address())));
        length.into_iter().for_each(|place| place.put(held.bytes()));
        Ok(())
    })
}

/// Work on the stream uses the view: what is queued there until it is dropped.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_view_record_use(
    pool: *const PoolHandle,
    view: *const ViewHandle,
    stream: u64,
) -> Status {
    with_pool(pool, |open| {
        let held = open.shelf::<View>().find(view.addr())?;
        Ok(held.record_use(StreamId::of_number(stream))?)
    })
}

/// The view is no more; its addresses go when the streams it was told of are past.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_view_drop(pool: *const PoolHandle, view: *mut ViewHandle) -> Status {
    with_pool(pool, |open| open.shelf::<View>().take(view.addr()).map(drop))
}
