//! The owner of a contiguous address range, and the token for an empty part of it.

use crate::{Origin, Quarantined, QuarantinedKind};
use std::sync::Arc;
use stitchpool_driver::{Address, Result};

/// A contiguous address range with nothing behind it. It lives while any vacancy or mapping of it
/// lives.
#[derive(Debug)]
pub struct Reservation {
    origin: Arc<Origin>,
    at: Address,
    bytes: u64,
}

impl Reservation {
    /// Reserves `bytes` of addresses aligned to `alignment` bytes (0: the driver's own): one vacancy
    /// over all of it.
    ///
    /// # Errors
    /// The driver's, unchanged.
    pub fn reserve(origin: &Arc<Origin>, bytes: u64, alignment: u64) -> Result<Vacancy> {
        let at = origin.driver().reserve(bytes, alignment)?;
        tracing::debug!(%at, bytes, "reserved addresses");
        let reservation = Arc::new(Self { origin: origin.clone(), at, bytes });
        Ok(Vacancy { reservation, at, bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: this owner, which ends here, holds exactly this reservation; every mapping in it
        // held it alive, so nothing is mapped.
        if let Err(error) = unsafe { self.origin.driver().unreserve(self.at, self.bytes) } {
            self.origin.quarantine().put(Quarantined {
                kind: QuarantinedKind::Reservation,
                device: None,
                bytes: self.bytes,
                error,
            });
        }
    }
}

/// An empty part of a reservation: the right to map there, consumed by a mapping and given back by
/// its unmap.
#[derive(Debug)]
pub struct Vacancy {
    reservation: Arc<Reservation>,
    at: Address,
    bytes: u64,
}

impl Vacancy {
    /// Its first address.
    #[must_use]
    pub const fn at(&self) -> Address {
        self.at
    }

    /// Its length.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The address after its last byte.
    #[must_use]
    pub fn end(&self) -> Address {
        self.at + self.bytes
    }

    /// Cuts it in two after `bytes`. `Err` gives it back whole if there are not more than `bytes` in
    /// it, or `bytes` is 0.
    ///
    /// # Errors
    /// The vacancy itself, unchanged.
    pub fn split(self, bytes: u64) -> std::result::Result<(Self, Self), Self> {
        if bytes == 0 || bytes >= self.bytes {
            return Err(self);
        }
        let high = Self { reservation: self.reservation.clone(), at: self.at + bytes, bytes: self.bytes - bytes };
        Ok((Self { bytes, ..self }, high))
    }

    /// Joins it with the vacancy that follows it in the same reservation.
    ///
    /// # Errors
    /// Both, unchanged, if they are no neighbours of one reservation in this order.
    pub fn join(self, high: Self) -> std::result::Result<Self, (Self, Self)> {
        if !Arc::ptr_eq(&self.reservation, &high.reservation) || self.end() != high.at {
            return Err((self, high));
        }
        Ok(Self { bytes: self.bytes + high.bytes, ..self })
    }

    pub(crate) fn origin(&self) -> &Arc<Origin> {
        &self.reservation.origin
    }
}
