//! Pools: opening, closing, and giving memory back.

use crate::boundary::{DriverHandle, PoolHandle, answer, with_pool};
use crate::open_driver::DRIVERS;
use crate::place::Place;
use crate::pointer::handle_to;
use crate::record::{RecordPlace, read};
use crate::refusal::{Refusal, Result};
use crate::shape::{CRelief, CSettings, CTrimmed, Relief};
use crate::shared_pool::SharedPool;
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::Trimmed;

/// Fills in the default settings; `struct_size` is set before.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_settings_default(settings: *mut CSettings) -> Status {
    answer(|| {
        // SAFETY: the caller answers for `settings`.
        unsafe { RecordPlace::of(settings) }?.put(CSettings::default_of_pool());
        Ok(())
    })
}

/// Makes a pool. `settings` may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pool_create(
    driver: *const DriverHandle,
    settings: *const CSettings,
    pool: *mut *mut PoolHandle,
) -> Status {
    answer(|| {
        // SAFETY: the caller answers for `pool`.
        let place = unsafe { Place::of(pool, "pool") }?;
        let settings = match settings.is_null() {
            true => CSettings::default_of_pool(),
            // SAFETY: the caller answers for `settings`.
            false => unsafe { read(settings, CSettings::default_of_pool()) }?,
        };
        // SAFETY: the caller answers for the list of devices.
        let settings = unsafe { settings.understood() }?;
        let open_driver = DRIVERS.with(driver.addr(), |open| Ok(open.clone()))?;
        let opened = SharedPool::open(open_driver, settings)?;
        place.put(handle_to(opened.handle()));
        Ok(())
    })
}

/// A handle of its own to the driver that a pool is on.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pool_driver(pool: *const PoolHandle, driver: *mut *mut DriverHandle) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `driver`.
        let place = unsafe { Place::of(driver, "driver") }?;
        place.put(handle_to(DRIVERS.open(open.driver.clone())?));
        Ok(())
    })
}

/// Destroys a pool that has no live block, after its streams have done what is queued.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pool_destroy(pool: *mut PoolHandle) -> Status {
    answer(|| SharedPool::of(pool.addr()).close())
}

/// Destroys a pool whatever is live. Memory that may be in use is left standing.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_pool_destroy_leaking(pool: *mut PoolHandle) -> Status {
    answer(|| SharedPool::of(pool.addr()).leave())
}

/// Gives back to the driver what is wholly free and past every stream. Waits for nothing.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_trim(pool: *const PoolHandle, trimmed: *mut CTrimmed) -> Status {
    // SAFETY: the caller answers for `trimmed`.
    with_pool(pool, |open| unsafe { trim(trimmed, || Ok(open.pool.trim())) })
}

/// Waits until the streams have done what is queued so far, then trims.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_trim_and_wait(pool: *const PoolHandle, trimmed: *mut CTrimmed) -> Status {
    // SAFETY: the caller answers for `trimmed`.
    with_pool(pool, |open| unsafe { trim(trimmed, || Ok(open.pool.trim_and_wait()?)) })
}

/// # Safety
/// - `trimmed` is null or a record.
unsafe fn trim(trimmed: *mut CTrimmed, trim: impl FnOnce() -> Result<Trimmed>) -> Result<()> {
    // SAFETY: the caller answers for `trimmed`.
    let place = unsafe { RecordPlace::wanted(trimmed) }?;
    let done = trim()?;
    if let Some(place) = place {
        place.put(CTrimmed::of(&done));
    }
    done.refusal.map_or(Ok(()), |refusal| Err(Refusal::from(refusal)))
}

/// Asks `relief` (null: nobody) before a request fails for want of memory.
///
/// # Safety
/// - As the header's rules say. `relief` may be called with `user_data` on any thread, by several at
///   once, until it was replaced and the last such call has returned; it does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_on_shortage(
    pool: *const PoolHandle,
    relief: Option<CRelief>,
    user_data: *mut c_void,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for the function and its data.
        open.relay.set(relief.map(|relief| unsafe { Relief::new(relief, user_data) }));
        Ok(())
    })
}
