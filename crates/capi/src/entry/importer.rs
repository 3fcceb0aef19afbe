//! Importers, imports and holds: memory of other processes.

use crate::boundary::{DriverHandle, HoldHandle, ImportHandle, ImporterHandle, answer, with_driver, with_importer};
use crate::entry::exporter::ticket_of;
use crate::fork;
use crate::open_importer::{IMPORTERS, OpenImporter};
use crate::place::Place;
use crate::pointer::{handle_to, pointer_to};
use crate::refusal::Refusal;
use crate::shape::{CGrant, CTicket, grants_of, number_of};
use crate::status::Status;
use std::ffi::c_void;
use std::time::Duration;
use stitchpool_share::Importer;

/// Connects to the exporter of a ticket.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_importer_connect(
    driver: *const DriverHandle,
    ticket: *const CTicket,
    patience_us: u64,
    importer: *mut *mut ImporterHandle,
) -> Status {
    with_driver(driver, |open| {
        // SAFETY: the caller answers for `importer`.
        let place = unsafe { Place::of(importer, "importer") }?;
        // SAFETY: the caller answers for `ticket`.
        let ticket = unsafe { ticket_of(ticket) }?;
        fork::prepare();
        let patience = Duration::from_micros(patience_us);
        let connected = Importer::connect_within(open.driver.clone(), &ticket, patience)?;
        place.put(handle_to(IMPORTERS.open(OpenImporter::new(connected))?));
        Ok(())
    })
}

/// Hears on a thread of its own from now on what the exporter wants, and when it ends.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_importer_watch(importer: *const ImporterHandle) -> Status {
    with_importer(importer, |open| Ok(open.importer.watch()?))
}

/// Waits for word from the exporter, for a while at most; `gone` may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_importer_poll(
    importer: *const ImporterHandle,
    wait_us: u64,
    gone: *mut u64,
) -> Status {
    with_importer(importer, |open| {
        // SAFETY: the caller answers for `gone`.
        let place = unsafe { Place::wanted(gone, "gone") }?;
        let count = open.importer.poll(Duration::from_micros(wait_us))?;
        place.into_iter().for_each(|place| place.put(count as u64));
        Ok(())
    })
}

/// The importer's own number of the device that a ticket's memory begins on.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_importer_device(
    importer: *const ImporterHandle,
    ticket: *const CTicket,
    device: *mut i32,
) -> Status {
    with_importer(importer, |open| {
        // SAFETY: the caller answers for `device`.
        let place = unsafe { Place::of(device, "device") }?;
        // SAFETY: the caller answers for `ticket`.
        let ticket = unsafe { ticket_of(ticket) }?;
        place.put(number_of(open.importer.device_of(&ticket)?));
        Ok(())
    })
}

/// Closes an importer of which nothing is imported any more.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_importer_close(importer: *mut ImporterHandle) -> Status {
    answer(|| IMPORTERS.close(importer.addr(), OpenImporter::may_go).map(drop))
}

/// Maps the memory of a ticket.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_import_open(
    importer: *const ImporterHandle,
    ticket: *const CTicket,
    grants: *const CGrant,
    grant_count: usize,
    import: *mut *mut ImportHandle,
) -> Status {
    with_importer(importer, |open| {
        // SAFETY: the caller answers for `import`.
        let place = unsafe { Place::of(import, "import") }?;
        // SAFETY: the caller answers for `ticket` and the list.
        let (ticket, grants) = unsafe { (ticket_of(ticket)?, grants_of(grants, grant_count)?) };
        place.put(handle_to(open.imports.put(open.importer.import(&ticket, &grants)?)?));
        Ok(())
    })
}

/// Where a part begins in this process, and its length; each may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_import_part(
    importer: *const ImporterHandle,
    import: *const ImportHandle,
    index: usize,
    address: *mut *mut c_void,
    bytes: *mut u64,
) -> Status {
    with_importer(importer, |open| {
        // SAFETY: the caller answers for both places.
        let (start, length) = unsafe { (Place::wanted(address, "address")?, Place::wanted(bytes, "bytes")?) };
        let hold = open.imports.find(import.addr())?.hold()?;
        let (found, found_bytes) = hold.part(index).ok_or_else(|| {
            let words = format!("part {index} was asked for, and there are {}, counted from 0", hold.parts());
            Refusal::new(Status::OutOfRange, words)
        })?;
        start.into_iter().for_each(|place| place.put(pointer_to(found)));
        length.into_iter().for_each(|place| place.put(found_bytes));
        Ok(())
    })
}

/// Keeps imported memory mapped until the hold is dropped.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_import_hold(
    importer: *const ImporterHandle,
    import: *const ImportHandle,
    hold: *mut *mut HoldHandle,
) -> Status {
    with_importer(importer, |open| {
        // SAFETY: the caller answers for `hold`.
        let place = unsafe { Place::of(hold, "hold") }?;
        place.put(handle_to(open.holds.put(open.imports.find(import.addr())?.hold()?)?));
        Ok(())
    })
}

/// The hold is no more.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_hold_drop(importer: *const ImporterHandle, hold: *mut HoldHandle) -> Status {
    with_importer(importer, |open| open.holds.take(hold.addr()).map(drop))
}

/// The import is no more: its mappings go when nobody holds them.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_import_drop(importer: *const ImporterHandle, import: *mut ImportHandle) -> Status {
    with_importer(importer, |open| open.imports.take(import.addr()).map(drop))
}
