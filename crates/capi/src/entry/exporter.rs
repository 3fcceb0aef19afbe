//! Exporters and offers: memory of a pool for other processes.

use crate::boundary::{ExporterHandle, OfferHandle, PoolHandle, answer, with_pool};
use crate::place::{Place, items};
use crate::pointer::handle_to;
use crate::record::RecordPlace;
use crate::refusal::Result;
use crate::shape::{CPart, CTicket, CTicketInfo, rights_of};
use crate::status::Status;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use stitchpool_pool::Part;
use stitchpool_share::{Exporter, Offer, Together};

/// Listens for other processes, at a path or, where it is null, under a name of its own.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_exporter_create(
    pool: *const PoolHandle,
    path: *const c_char,
    exporter: *mut *mut ExporterHandle,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `exporter`.
        let place = unsafe { Place::of(exporter, "exporter") }?;
        let made = match path.is_null() {
            true => Exporter::new(&open.pool)?,
            false => {
                // SAFETY: not null, and the caller answers for the text.
                let path = unsafe { CStr::from_ptr(path) };
                Exporter::at_path(&open.pool, Path::new(OsStr::from_bytes(path.to_bytes())))?
            }
        };
        place.put(handle_to(open.shelf().put(made)?));
        Ok(())
    })
}

/// Answers on a thread of its own from now on.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_exporter_serve(pool: *const PoolHandle, exporter: *const ExporterHandle) -> Status {
    with_pool(pool, |open| Ok(open.shelf::<Exporter>().find(exporter.addr())?.serve()?))
}

/// Answers those who come, for a while at most; `answered` may be null.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_exporter_answer(
    pool: *const PoolHandle,
    exporter: *const ExporterHandle,
    wait_us: u64,
    answered: *mut u64,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `answered`.
        let place = unsafe { Place::wanted(answered, "answered") }?;
        let count = open.shelf::<Exporter>().find(exporter.addr())?.answer(Duration::from_micros(wait_us))?;
        place.into_iter().for_each(|place| place.put(count));
        Ok(())
    })
}

/// The exporter is no more: what it offers is recalled.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_exporter_drop(pool: *const PoolHandle, exporter: *mut ExporterHandle) -> Status {
    with_pool(pool, |open| open.shelf::<Exporter>().take(exporter.addr()).map(drop))
}

/// Offers parts of live blocks to other processes.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_offer_create(
    pool: *const PoolHandle,
    exporter: *const ExporterHandle,
    parts: *const CPart,
    part_count: usize,
    rights: i32,
    offer: *mut *mut OfferHandle,
    ticket: *mut CTicket,
) -> Status {
    // SAFETY: the caller answers for all of them.
    unsafe { offered(pool, exporter, (parts, part_count, rights), None, (offer, ticket)) }
}

/// Offers parts of live blocks to a group of processes, which import them all or not at all.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_offer_create_together(
    pool: *const PoolHandle,
    exporter: *const ExporterHandle,
    parts: *const CPart,
    part_count: usize,
    rights: i32,
    ranks: u32,
    within_us: u64,
    offer: *mut *mut OfferHandle,
    ticket: *mut CTicket,
) -> Status {
    let together = Some(Together { ranks, within: Duration::from_micros(within_us) });
    // SAFETY: the caller answers for all of them.
    unsafe { offered(pool, exporter, (parts, part_count, rights), together, (offer, ticket)) }
}

/// # Safety
/// - As the header's rules say.
unsafe fn offered(
    pool: *const PoolHandle,
    exporter: *const ExporterHandle,
    (parts, part_count, rights): (*const CPart, usize, i32),
    together: Option<Together>,
    (offer, ticket): (*mut *mut OfferHandle, *mut CTicket),
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for both places.
        let (place, ticket) = unsafe { (Place::of(offer, "offer")?, Place::of(ticket, "ticket")?) };
        // SAFETY: the caller answers for the list.
        let parts = unsafe { items(parts, part_count, "parts") }?;
        let parts: Vec<Part> = parts.iter().map(|part| part.understood()).collect();
        let (exporter, rights) = (open.shelf::<Exporter>().find(exporter.addr())?, rights_of(rights)?);
        let made = match together {
            Some(together) => exporter.offer_together(&parts, rights, together)?,
            None => exporter.offer(&parts, rights)?,
        };
        let bytes = CTicket::of(made.ticket());
        place.put(handle_to(open.shelf().put(made)?));
        ticket.put(bytes);
        Ok(())
    })
}

/// Takes an offer back, and waits until all who have imported it have let go.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_offer_recall(
    pool: *const PoolHandle,
    exporter: *const ExporterHandle,
    offer: *const OfferHandle,
    within_us: u64,
) -> Status {
    with_pool(pool, |open| {
        let exporter = open.shelf::<Exporter>().find(exporter.addr())?;
        let offer = open.shelf::<Offer>().find(offer.addr())?;
        Ok(exporter.recall(&offer, Duration::from_micros(within_us))?)
    })
}

/// The memory is offered no longer.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_offer_drop(pool: *const PoolHandle, offer: *mut OfferHandle) -> Status {
    with_pool(pool, |open| open.shelf::<Offer>().take(offer.addr()).map(drop))
}

/// What a ticket says.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_ticket_describe(ticket: *const CTicket, info: *mut CTicketInfo) -> Status {
    answer(|| {
        // SAFETY: the caller answers for `info`.
        let place = unsafe { RecordPlace::of(info) }?;
        // SAFETY: the caller answers for `ticket`.
        let ticket = unsafe { ticket_of(ticket) }?;
        place.put(CTicketInfo::of(&ticket));
        Ok(())
    })
}

/// # Safety
/// - `ticket` is null, or one can be read there.
pub(crate) unsafe fn ticket_of(ticket: *const CTicket) -> Result<stitchpool_share::Ticket> {
    // SAFETY: the caller answers for it.
    let one = unsafe { items(ticket, 1, "ticket") }?;
    one.first().map_or_else(|| Err(crate::refusal::Refusal::null("ticket")), CTicket::understood)
}
