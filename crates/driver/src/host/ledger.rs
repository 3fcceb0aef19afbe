//! What a test sees of the strict ledger: counts at one moment.

use crate::{DeviceId, Error};
use std::collections::BTreeMap;

/// Everything that the driver holds for its caller at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Handles not yet released.
    pub handles: u64,
    /// Bytes of memory in use, by place; places without any are not listed. Memory counts until its
    /// handle is released and its last mapping is gone.
    pub physical_bytes: BTreeMap<DeviceId, u64>,
    /// Bytes of memory that others created and handles or mappings here still name, by place. Named by two
    /// imports it counts once; memory that this driver created itself does not count here.
    pub imported_bytes: BTreeMap<DeviceId, u64>,
    /// Reservations.
    pub reservations: u64,
    /// Bytes of addresses in them.
    pub reserved_bytes: u64,
    /// Mappings.
    pub mappings: u64,
    /// Bytes of addresses in them; memory mapped twice counts twice.
    pub mapped_bytes: u64,
    /// Events not yet forgotten.
    pub events: u64,
    /// File descriptors that exportable and imported memory holds.
    pub descriptors: u64,
    /// Streams, the default streams excepted.
    pub streams: u64,
    /// Items queued on streams that have not run.
    pub queued: u64,
    /// Calls refused because the caller misused the driver; a lack of memory or resources is none.
    pub refusals: u64,
    /// The latest of them.
    pub last_refusal: Option<Error>,
}

impl Ledger {
    /// Whether nothing is left to give back: no handle, memory, reservation, mapping, event or descriptor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let counts = [self.handles, self.reservations, self.mappings, self.events, self.descriptors];
        counts.iter().all(|&count| count == 0) && self.physical_bytes.is_empty() && self.imported_bytes.is_empty()
    }

    /// Bytes of memory in use on one place.
    #[must_use]
    pub fn physical_bytes_on(&self, device: DeviceId) -> u64 {
        self.physical_bytes.get(&device).copied().unwrap_or_default()
    }
}
