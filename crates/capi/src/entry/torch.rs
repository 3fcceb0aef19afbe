//! The functions that PyTorch's pluggable allocator calls. They use the process's pool, and have the
//! signatures that PyTorch demands: no status, so a refusal is null, or an exception where that was set up.

use crate::boundary::{PoolHandle, answer, at_once};
use crate::open_pool::{OpenPool, POOLS};
use crate::place::Place;
use crate::pointer::{address_of, handle_to, pointer_to, value_of};
use crate::process_pool::{self, Plan, Raise, note, note_unknown_free};
use crate::record::read;
use crate::refusal::{Refusal, Result};
use crate::shape::{CDriverOptions, CSettings, device_of};
use crate::status::Status;
use std::ffi::{CString, c_void};
use stitchpool_driver::{Capture, DeviceId, RawStream};
use stitchpool_pool::{ArenaId, Request};

/// Allocates for a stream of PyTorch's; null for 0 bytes, and where that is refused.
///
/// # Safety
/// - `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_torch_malloc(bytes: usize, device: i32, raw_stream: *mut c_void) -> *mut c_void {
    // SAFETY: the caller answers for the stream.
    unsafe { malloc(bytes, device, raw_stream, false) }
}

/// The same for a process that has no other allocator: a refusal is raised, where that was set up, and a
/// stream that is being captured is refused.
///
/// # Safety
/// - `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn stitchpool_torch_malloc_or_raise(
    bytes: usize,
    device: i32,
    raw_stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller answers for the stream.
    let address = unsafe { malloc(bytes, device, raw_stream, true) };
    if address.is_null()
        && bytes > 0
        && let Some(raise) = process_pool::raise()
    {
        let words = CString::new(process_pool::last_refusal().replace('\0', "")).unwrap_or_default();
        // SAFETY: `stitchpool_torch_raise_with` demands that it may be called so. The words are dropped
        // while the exception passes.
        unsafe { raise(c"stitchpool".as_ptr(), c"stitchpool".as_ptr(), 0, words.as_ptr()) };
    }
    address
}

/// Allocates from the pool of this process, in the arena that this thread has entered.
///
/// # Safety
/// - As the header's rules say; `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_torch_alloc(
    device: i32,
    raw_stream: *mut c_void,
    bytes: u64,
    address: *mut *mut c_void,
) -> Status {
    let short = at_once(process_pool::opened(), |open| {
        // SAFETY: the caller answers for `address`.
        let (Some(place), Ok(device)) = (unsafe { Place::at(address) }, device_of(device)) else { return false };
        // SAFETY: the caller says that the stream is live.
        let Some(stream) = (unsafe { open.known_stream(device, value_of(raw_stream)) }) else { return false };
        if process_pool::arena() != ArenaId::DEFAULT {
            return false;
        }
        let Some(block) = open.pool.alloc_at_once(bytes, stream) else { return false };
        place.put(pointer_to(block.address));
        true
    });
    // SAFETY: as above.
    short.unwrap_or_else(|| unsafe { alloc_otherwise(device, raw_stream, bytes, address) })
}

/// What is no hit, or lies in an arena.
///
/// # Safety
/// - As for [`stitchpool_torch_alloc`].
#[cold]
unsafe fn alloc_otherwise(device: i32, raw_stream: *mut c_void, bytes: u64, address: *mut *mut c_void) -> Status {
    answer(|| {
        // SAFETY: the caller answers for `address`.
        let place = unsafe { Place::of(address, "address") }?;
        let block = in_process_pool(|open| {
            // SAFETY: the caller says that the stream is live.
            let stream = unsafe { open.raw_stream(device_of(device)?, value_of(raw_stream)) }?;
            Ok(open.pool.alloc(&Request::new(bytes, stream).in_arena(process_pool::arena()))?)
        })?;
        place.put(pointer_to(block.address));
        Ok(())
    })
}

/// Frees a block in its own stream's order. A pointer that the pool does not know is a line on stderr.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_torch_free(
    address: *mut c_void,
    _bytes: usize,
    _device: i32,
    _raw_stream: *mut c_void,
) {
    let _ = answer(|| {
        if address.is_null() {
            return Ok(());
        }
        let freed = in_process_pool(|open| Ok(open.pool.free(address_of(address))?));
        freed.inspect_err(note_unknown_free)
    });
}

/// The block is used on this stream too, which is one of the block's own device.
///
/// # Safety
/// - `raw_stream` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_torch_record_stream(address: *mut c_void, raw_stream: *mut c_void) {
    let _ = answer(|| {
        if address.is_null() {
            return Ok(());
        }
        let recorded = in_process_pool(|open| {
            let device = open.pool.segments(address_of(address), 1)?.first().map(|segment| segment.device);
            // SAFETY: the caller says that the stream is live.
            let stream = unsafe { open.raw_stream(device.unwrap_or(DeviceId(0)), value_of(raw_stream)) }?;
            Ok(open.pool.record_use(address_of(address), stream)?)
        });
        recorded.inspect_err(note)
    });
}

/// Gives back to the driver what is wholly free and past every stream.
#[unsafe(no_mangle)]
pub extern "C" fn stitchpool_torch_empty_cache() {
    let _ = answer(|| in_process_pool(|open| Ok(open.pool.trim())).map(drop));
}

/// Says how a refusal of `stitchpool_torch_malloc_or_raise` becomes an exception; null: it does not.
///
/// # Safety
/// - `raise` may be called on any thread until it was replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_torch_raise_with(raise: Option<Raise>) -> Status {
    answer(|| {
        process_pool::raise_with(raise);
        Ok(())
    })
}

/// Says how the pool of this process shall be opened, when it is first asked for. Both may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_torch_configure(
    driver: *const CDriverOptions,
    settings: *const CSettings,
) -> Status {
    answer(|| {
        let mut plan = Plan::default();
        if !driver.is_null() {
            // SAFETY: the caller answers for `driver`.
            plan.driver = unsafe { read(driver, CDriverOptions::DEFAULT) }?.understood()?;
        }
        if !settings.is_null() {
            // SAFETY: the caller answers for `settings` and the list of devices.
            plan.settings = unsafe { read(settings, CSettings::default_of_pool())?.understood() }?;
        }
        process_pool::configure(plan)
    })
}

/// The pool of this process; opens it if it is not there yet.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_torch_pool(pool: *mut *mut PoolHandle) -> Status {
    answer(|| {
        // SAFETY: the caller answers for `pool`.
        let place = unsafe { Place::of(pool, "pool") }?;
        place.put(handle_to(process_pool::handle()?));
        Ok(())
    })
}

fn in_process_pool<R>(body: impl FnOnce(&OpenPool) -> Result<R>) -> Result<R> {
    POOLS.with(process_pool::handle()?, body)
}

/// # Safety
/// - `raw_stream` is live.
unsafe fn malloc(bytes: usize, device: i32, raw_stream: *mut c_void, is_alone: bool) -> *mut c_void {
    let mut address = std::ptr::null_mut();
    if bytes == 0 {
        return address;
    }
    let _ = answer(|| {
        let served = in_process_pool(|open| {
            let (device, value) = (device_of(device)?, value_of(raw_stream));
            if is_alone {
                // SAFETY: the caller says that the stream is live.
                unsafe { demand_no_capture(open, device, value) }?;
            }
            // SAFETY: as above.
            let stream = unsafe { open.raw_stream(device, value) }?;
            Ok(open.pool.alloc(&Request::new(bytes as u64, stream).in_arena(process_pool::arena()))?)
        });
        address = pointer_to(served.inspect_err(note)?.address);
        Ok(())
    });
    address
}

/// A captured graph uses its memory at every replay; the pool would give it to others in between.
///
/// # Safety
/// - `value` names a live stream of the device's primary context.
unsafe fn demand_no_capture(open: &OpenPool, device: DeviceId, value: u64) -> Result<()> {
    // The default streams, which are never captured.
    if value <= 2 {
        return Ok(());
    }
    // SAFETY: the caller answers for the stream.
    match unsafe { open.driver.driver.capture(RawStream { device, value }) }? {
        Capture::None => Ok(()),
        _ => {
            let words = "memory was asked for on a stream that is being captured: graphs need the full backend, \
                         or a torch.cuda.MemPool of this pool";
            Err(Refusal::new(Status::Capture, words))
        }
    }
}
