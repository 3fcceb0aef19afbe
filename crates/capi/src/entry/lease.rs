//! Leases: a block stays in place between the reading of its address and the launch.

use crate::boundary::{LeaseHandle, PoolHandle, with_pool};
use crate::place::Place;
use crate::pointer::{address_of, handle_to};
use crate::status::Status;
use parking_lot::Mutex;
use std::ffi::c_void;
use stitchpool_driver::Address;
use stitchpool_pool::{Error as PoolError, Lease, Pool, StreamId};

/// Takes a lease of the live block at an address.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_lease_take(
    pool: *const PoolHandle,
    address: *const c_void,
    lease: *mut *mut LeaseHandle,
) -> Status {
    // SAFETY: the caller answers for `lease`.
    unsafe { take(pool, address, lease, Pool::lease) }
}

/// Takes a lease of the block at an address, which is brought back first if it was put out.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_touch(
    pool: *const PoolHandle,
    address: *const c_void,
    lease: *mut *mut LeaseHandle,
) -> Status {
    // SAFETY: the caller answers for `lease`.
    unsafe { take(pool, address, lease, Pool::touch) }
}

/// Takes a lease, one way or the other.
///
/// # Safety
/// - `lease` is null, or a handle may be written there.
unsafe fn take(
    pool: *const PoolHandle,
    address: *const c_void,
    lease: *mut *mut LeaseHandle,
    by: impl FnOnce(&Pool, Address) -> Result<Lease, PoolError>,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `lease`.
        let place = unsafe { Place::of(lease, "lease") }?;
        let taken = by(&open.pool, address_of(address))?;
        place.put(handle_to(open.shelf().put(Mutex::new(taken))?));
        Ok(())
    })
}

/// Work on the stream uses the block: what is queued there until the lease ends.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_lease_record_use(
    pool: *const PoolHandle,
    lease: *const LeaseHandle,
    stream: u64,
) -> Status {
    with_pool(pool, |open| {
        let held = open.shelf::<Mutex<Lease>>().find(lease.addr())?;
        let stream = StreamId::of_number(stream);
        Ok(held.lock().record_use(stream)?)
    })
}

/// Ends a lease. What it was taken for is queued on `stream` by now; 0: on none but those it was told of.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_lease_end(pool: *const PoolHandle, lease: *mut LeaseHandle, stream: u64) -> Status {
    with_pool(pool, |open| {
        let shelf = open.shelf::<Mutex<Lease>>();
        let held = shelf.find(lease.addr())?;
        if stream != 0 {
            let stream = StreamId::of_number(stream);
            held.lock().record_use(stream)?;
        }
        shelf.take(lease.addr()).map(drop)
    })
}
