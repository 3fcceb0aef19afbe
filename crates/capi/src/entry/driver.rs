//! Drivers: opening, closing, what they know of devices, and streams for programs that have no other.

use crate::boundary::{DriverHandle, answer, with_driver};
use crate::fork;
use crate::open_driver::{DRIVERS, OpenDriver};
use crate::place::Place;
use crate::pointer::{handle_to, raw_stream_of, value_of};
use crate::record::{RecordPlace, read};
use crate::refusal::remember;
use crate::shape::{CDeviceInfo, CDriverInfo, CDriverOptions, device_of};
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_driver::{HandleKind, Link, RawStream};

/// Opens a driver. `options` may be null. Where `auto` takes the host driver, the last error says why.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_driver_open(
    options: *const CDriverOptions,
    driver: *mut *mut DriverHandle,
) -> Status {
    answer(|| {
        // SAFETY: the caller answers for `driver`.
        let place = unsafe { Place::of(driver, "driver") }?;
        let options = match options.is_null() {
            true => CDriverOptions::DEFAULT,
            // SAFETY: the caller answers for `options`.
            false => unsafe { read(options, CDriverOptions::DEFAULT) }?,
        };
        fork::prepare();
        let (opened, why_not_cuda) = OpenDriver::open(&options.understood()?)?;
        place.put(handle_to(DRIVERS.open(opened)?));
        remember(Status::Ok, why_not_cuda.as_deref().unwrap_or_default());
        Ok(())
    })
}

/// Closes a driver. Pools that were made with it go on.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_driver_close(driver: *mut DriverHandle) -> Status {
    answer(|| DRIVERS.close(driver.addr(), |_| Ok(())).map(drop))
}

/// Which driver it is, and how many devices it has.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_driver_describe(driver: *const DriverHandle, info: *mut CDriverInfo) -> Status {
    with_driver(driver, |open| {
        // SAFETY: the caller answers for `info`.
        let place = unsafe { RecordPlace::of(info) }?;
        place.put(open.info()?);
        Ok(())
    })
}

/// What does not change about a device. Makes no context.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_device_describe(
    driver: *const DriverHandle,
    device: i32,
    info: *mut CDeviceInfo,
) -> Status {
    with_driver(driver, |open| {
        // SAFETY: the caller answers for `info`.
        let place = unsafe { RecordPlace::of(info) }?;
        let found = open.device(device_of(device)?)?;
        let granule_bytes = open.driver.granularity(found.id, HandleKind::Private)?;
        place.put(CDeviceInfo::of(&found, granule_bytes));
        Ok(())
    })
}

/// A device's free and total bytes now, other processes included. On CUDA it makes the device's context.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_device_memory(
    driver: *const DriverHandle,
    device: i32,
    free_bytes: *mut u64,
    total_bytes: *mut u64,
) -> Status {
    with_driver(driver, |open| {
        // SAFETY: the caller answers for both places.
        let (free, total) = unsafe { (Place::of(free_bytes, "free_bytes")?, Place::of(total_bytes, "total_bytes")?) };
        let memory = open.driver.memory(device_of(device)?)?;
        free.put(memory.free_bytes);
        total.put(memory.total_bytes);
        Ok(())
    })
}

/// How `from` reaches memory that lies on `to`.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_device_link(
    driver: *const DriverHandle,
    from: i32,
    to: i32,
    link: *mut i32,
) -> Status {
    with_driver(driver, |open| {
        // SAFETY: the caller answers for `link`.
        let place = unsafe { Place::of(link, "link") }?;
        place.put(match open.driver.link(device_of(from)?, device_of(to)?)? {
            Link::None => 0,
            Link::Bus => 1,
            Link::Direct => 2,
            Link::Own => 3,
        });
        Ok(())
    })
}

/// Makes a stream in the device's primary context.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_driver_stream_create(
    driver: *const DriverHandle,
    device: i32,
    raw_stream: *mut *mut c_void,
) -> Status {
    with_driver(driver, |open| {
        // SAFETY: the caller answers for `raw_stream`.
        let place = unsafe { Place::of(raw_stream, "raw_stream") }?;
        let stream = open.streams.create_stream(device_of(device)?)?;
        place.put(raw_stream_of(stream.value));
        Ok(())
    })
}

/// Destroys such a stream. What is queued on it still runs.
///
/// # Safety
/// - As the header's rules say; the stream came from `stitchpool_driver_stream_create`, and is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_driver_stream_destroy(
    driver: *const DriverHandle,
    device: i32,
    raw_stream: *mut c_void,
) -> Status {
    with_driver(driver, |open| {
        let stream = RawStream { device: device_of(device)?, value: value_of(raw_stream) };
        // SAFETY: the caller answers for the stream.
        Ok(unsafe { open.streams.destroy_stream(stream) }?)
    })
}

/// Waits (the CPU) until all that is queued on a stream is done.
///
/// # Safety
/// - As the header's rules say; the stream is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_driver_stream_finish(
    driver: *const DriverHandle,
    device: i32,
    raw_stream: *mut c_void,
) -> Status {
    with_driver(driver, |open| {
        let stream = RawStream { device: device_of(device)?, value: value_of(raw_stream) };
        // SAFETY: the caller answers for the stream.
        Ok(unsafe { open.streams.finish_stream(stream) }?)
    })
}
