//! The border to C: the one place where a panic is stopped, and where a refusal becomes a status and
//! kept words.

use crate::open_driver::{DRIVERS, OpenDriver};
use crate::open_importer::{IMPORTERS, OpenImporter};
use crate::open_pool::{OpenPool, POOLS};
use crate::refusal::{Result, remember};
use crate::status::Status;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What C sees of a pool: nothing. A pointer to one is a handle and is never followed.
#[derive(Debug)]
pub enum PoolHandle {}

/// What C sees of a driver.
#[derive(Debug)]
pub enum DriverHandle {}

/// What C sees of a lease.
#[derive(Debug)]
pub enum LeaseHandle {}

/// What C sees of a view.
#[derive(Debug)]
pub enum ViewHandle {}

/// What C sees of a growable buffer.
#[derive(Debug)]
pub enum GrowableHandle {}

/// What C sees of a pin.
#[derive(Debug)]
pub enum PinHandle {}

/// What C sees of a listener.
#[derive(Debug)]
pub enum ListenerHandle {}

/// What C sees of an exporter.
#[derive(Debug)]
pub enum ExporterHandle {}

/// What C sees of an offer.
#[derive(Debug)]
pub enum OfferHandle {}

/// What C sees of an importer.
#[derive(Debug)]
pub enum ImporterHandle {}

/// What C sees of an import.
#[derive(Debug)]
pub enum ImportHandle {}

/// What C sees of a hold on an import.
#[derive(Debug)]
pub enum HoldHandle {}

/// Runs a function's body.
#[inline]
pub(crate) fn answer(body: impl FnOnce() -> Result<()>) -> Status {
    // What a panic left half done lies behind locks that do not poison; the caller is told not to go on.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(refusal)) => {
            remember(refusal.status, &refusal.words);
            refusal.status
        }
        Err(panic) => after(&*panic),
    }
}

/// Runs a function's body on the pool that a handle names.
#[inline]
pub(crate) fn with_pool(pool: *const PoolHandle, body: impl FnOnce(&OpenPool) -> Result<()>) -> Status {
    answer(|| POOLS.with(pool.addr(), body))
}

/// Runs the short way of a function, which says whether it served. `None`: nothing was done, and the
/// function's body goes on from the start.
#[inline(always)]
pub(crate) fn at_once(pool: *const PoolHandle, short: impl FnOnce(&OpenPool) -> bool) -> Option<Status> {
    match catch_unwind(AssertUnwindSafe(|| POOLS.with_at_once(pool.addr(), short))) {
        Ok(true) => Some(Status::Ok),
        Ok(false) => None,
        Err(panic) => Some(after(&*panic)),
    }
}

/// Runs a function's body on the driver that a handle names.
pub(crate) fn with_driver(driver: *const DriverHandle, body: impl FnOnce(&OpenDriver) -> Result<()>) -> Status {
    answer(|| DRIVERS.with(driver.addr(), body))
}

/// Runs a function's body on the importer that a handle names.
pub(crate) fn with_importer(importer: *const ImporterHandle, body: impl FnOnce(&OpenImporter) -> Result<()>) -> Status {
    answer(|| IMPORTERS.with(importer.addr(), body))
}

#[cold]
fn after(panic: &(dyn Any + Send)) -> Status {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
    let words = format!("a fault of this library, please report it: {text}; open a new pool and do not use this one");
    remember(Status::Internal, &words);
    Status::Internal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::{Refusal, last_words};
    use std::ffi::CStr;

    #[test]
    fn neither_a_panic_nor_a_refusal_crosses() {
        assert_eq!(answer(|| Ok(())), Status::Ok);
        assert_eq!(answer(|| Err(Refusal::new(Status::Timeout, "slow"))), Status::Timeout);
        assert_eq!(answer(|| panic!("on purpose, {}", 7)), Status::Internal);
        // SAFETY: `last_words` points to a string of this thread.
        let words = unsafe { CStr::from_ptr(last_words()) }.to_string_lossy();
        assert!(words.contains("on purpose, 7"), "{words}");
    }

    #[test]
    fn a_panic_leaves_the_visit() {
        assert_eq!(
            answer(|| {
                let _visit = crate::presence::Visit::enter();
                panic!("inside")
            }),
            Status::Internal
        );
        assert!(!crate::presence::is_inside());
    }
}
