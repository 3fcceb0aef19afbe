//! Arenas, and memory that leaves its address and comes back.

use crate::boundary::{PoolHandle, with_pool};
use crate::place::Place;
use crate::record::{RecordPlace, read};
use crate::refusal::{Refusal, Result};
use crate::shape::{CBackup, CMoved, CScope, device_of};
use crate::status::Status;
use std::ffi::{CStr, c_char};
use stitchpool_pool::{ArenaId, Backup, Scope};

/// # Safety
/// - `scope` is null, or a record.
pub(crate) unsafe fn scope_of(scope: *const CScope) -> Result<Scope> {
    if scope.is_null() {
        return Ok(Scope::All);
    }
    // SAFETY: the caller answers for `scope`.
    unsafe { read(scope, CScope::ALL) }?.understood()
}

/// # Safety
/// - `backup` is null, or a record with what it points to.
unsafe fn backup_of(backup: *const CBackup) -> Result<Backup> {
    if backup.is_null() {
        return Ok(Backup::Host);
    }
    // SAFETY: the caller answers for `backup`.
    unsafe { read(backup, CBackup::HOST)?.understood() }
}

/// The number of the arena of this name, made if there is none.
///
/// # Safety
/// - As the header's rules say; `name` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_arena(pool: *const PoolHandle, name: *const c_char, arena: *mut u32) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `arena`.
        let place = unsafe { Place::of(arena, "arena") }?;
        if name.is_null() {
            return Err(Refusal::null("name"));
        }
        // SAFETY: not null, and the caller answers for the text.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        place.put(open.pool.arena(&name)?.number());
        Ok(())
    })
}

/// Gives the memory of a scope back; addresses stay.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_suspend(
    pool: *const PoolHandle,
    scope: *const CScope,
    backup: *const CBackup,
    moved: *mut CMoved,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for all three.
        let (scope, backup, place) = unsafe { (scope_of(scope)?, backup_of(backup)?, RecordPlace::wanted(moved)?) };
        let done = open.pool.suspend(scope, &backup)?;
        place.into_iter().for_each(|place| place.put(CMoved::suspended(done)));
        Ok(())
    })
}

/// Takes memory for a scope that sleeps.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_resume(
    pool: *const PoolHandle,
    scope: *const CScope,
    moved: *mut CMoved,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for both.
        let (scope, place) = unsafe { (scope_of(scope)?, RecordPlace::wanted(moved)?) };
        let done = open.pool.resume(scope)?;
        place.into_iter().for_each(|place| place.put(CMoved::resumed(done)));
        Ok(())
    })
}

/// Moves the memory of a scope to a device.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_migrate(
    pool: *const PoolHandle,
    scope: *const CScope,
    device: i32,
    moved: *mut CMoved,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for both.
        let (scope, place) = unsafe { (scope_of(scope)?, RecordPlace::wanted(moved)?) };
        let done = open.pool.migrate(scope, device_of(device)?)?;
        place.into_iter().for_each(|place| place.put(CMoved::migrated(done)));
        Ok(())
    })
}

/// From now on exclusive blocks of an arena may be put out while memory is short; null: no more.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_evictable_set(
    pool: *const PoolHandle,
    arena: u32,
    refuge: *const CBackup,
) -> Status {
    with_pool(pool, |open| {
        let refuge = match refuge.is_null() {
            true => None,
            // SAFETY: the caller answers for `refuge`.
            false => Some(unsafe { backup_of(refuge) }?),
        };
        Ok(open.pool.set_evictable(ArenaId::of_number(arena), refuge)?)
    })
}

/// Exchanges the memory of two scopes.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_exchange(
    pool: *const PoolHandle,
    one: *const CScope,
    other: *const CScope,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for both.
        let (one, other) = unsafe { (scope_of(one)?, scope_of(other)?) };
        Ok(open.pool.exchange(one, other)?)
    })
}
