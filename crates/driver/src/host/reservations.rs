//! Reserved ranges of addresses, and how much is mapped in each.

use super::ballast::Ballast;
use super::physical::MemoryId;
use super::span::Span;
use crate::{Error, ErrorKind, Result, Verb};
use std::collections::{BTreeMap, BTreeSet};

/// All live reservations by their first address.
#[derive(Debug)]
pub(super) struct Reservations {
    all: BTreeMap<u64, Reservation>,
    reserved_bytes: u64,
    limit_bytes: u64,
    granularity_bytes: u64,
}

#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) bytes: u64,
    /// Mappings that stand in it.
    pub(super) mappings: u64,
    /// Memory that is not given back before this reservation is.
    pub(super) withheld: BTreeSet<MemoryId>,
}

impl Reservations {
    pub(super) fn new(limit_bytes: u64, granularity_bytes: u64) -> Self {
        Self { all: BTreeMap::new(), reserved_bytes: 0, limit_bytes, granularity_bytes }
    }

    pub(super) fn reserve(&mut self, bytes: u64, alignment: u64) -> Result<Span> {
        let refused = |kind, detail: String| Err(Error::new(Verb::Reserve, kind, detail).of(bytes));
        let granularity_bytes = self.granularity_bytes;
        if bytes == 0 || !bytes.is_multiple_of(granularity_bytes) {
            let detail = format!("the size must be a multiple of the granularity of {granularity_bytes} bytes, not 0");
            return refused(ErrorKind::InvalidValue, detail);
        }
        if alignment != 0 && !alignment.is_power_of_two() {
            return refused(ErrorKind::InvalidValue, format!("an alignment of {alignment} bytes is no power of two"));
        }
        let left_bytes = self.limit_bytes - self.reserved_bytes;
        if bytes > left_bytes {
            return refused(ErrorKind::OutOfResources, format!("{left_bytes} bytes of addresses are left"));
        }
        let span = match Span::reserve(bytes, alignment.max(granularity_bytes)) {
            Ok(span) => span,
            Err(error) => {
                return refused(ErrorKind::OutOfResources, format!("the system has no such addresses: {error}"));
            }
        };
        self.reserved_bytes += bytes;
        self.all.insert(span.at, Reservation { bytes, mappings: 0, withheld: BTreeSet::new() });
        Ok(span)
    }

    /// Gives exactly one reservation back, and says what memory it withheld.
    pub(super) fn unreserve(&mut self, span: Span, ballast: &Ballast) -> Result<BTreeSet<MemoryId>> {
        let refused = |kind, detail: String| Err(Error::new(Verb::Unreserve, kind, detail).of(span.bytes));
        let Some(found) = self.all.get_mut(&span.at).filter(|found| found.bytes == span.bytes) else {
            return refused(ErrorKind::InvalidValue, format!("no live reservation is exactly {}", Shown(span)));
        };
        if found.mappings > 0 {
            return refused(ErrorKind::InvalidValue, format!("{} mappings stand in it; unmap them", found.mappings));
        }
        // SAFETY: `found` is this very reservation, and nothing is mapped in it.
        if let Err(error) = ballast.spare(|| unsafe { span.give_back() }) {
            return refused(ErrorKind::OutOfResources, format!("the system kept the addresses: {error}"));
        }
        let withheld = std::mem::take(&mut found.withheld);
        self.all.remove(&span.at);
        self.reserved_bytes -= span.bytes;
        Ok(withheld)
    }

    /// The one reservation that the whole span lies in.
    pub(super) fn around(&mut self, verb: Verb, span: Span) -> Result<&mut Reservation> {
        let below = self.all.range_mut(..=span.at).next_back();
        let end = span.at.checked_add(span.bytes);
        below.filter(|(at, found)| end.is_some_and(|end| end <= **at + found.bytes)).map(|(_, found)| found).ok_or_else(
            || {
                let detail = format!("{} lies in no reservation", Shown(span));
                Error::new(verb, ErrorKind::InvalidValue, detail).of(span.bytes)
            },
        )
    }

    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    pub(super) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }
}

impl Drop for Reservations {
    fn drop(&mut self) {
        for (&at, reservation) in &self.all {
            // SAFETY: the driver is going, and with it the right to name its addresses.
            if let Err(error) = unsafe { Span { at, bytes: reservation.bytes }.give_back() } {
                tracing::warn!(at, bytes = reservation.bytes, %error, "addresses did not go back to the system");
            }
        }
    }
}

/// A span as errors show it.
pub(super) struct Shown(pub(super) Span);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{:#x}, {:#x})", self.0.at, self.0.at.saturating_add(self.0.bytes))
    }
}
