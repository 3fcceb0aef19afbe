//! One piece of what stands behind an address range, as NCCL, RDMA and dma-buf want to hear of it.

use stitchpool_driver::{Address, DeviceId, RawHandle};

/// A run of addresses that one physical handle stands behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First address of the run.
    pub at: Address,
    /// Length of the run.
    pub bytes: u64,
    /// Whose memory it is.
    pub device: DeviceId,
    /// The driver's value of the handle.
    pub handle: RawHandle,
    /// Where in the handle the run begins.
    pub offset_bytes: u64,
}

impl Segment {
    /// The part of `mapping` that lies in `[at, at + bytes)`, if any does.
    #[must_use]
    pub fn of(mapping: &crate::Mapping, at: Address, bytes: u64) -> Option<Self> {
        let start = mapping.at().max(at);
        let end = mapping.end().min(at.checked_add(bytes)?);
        (start < end).then(|| Self {
            at: start,
            bytes: end.bytes_from(start),
            device: mapping.device(),
            handle: mapping.handle().raw(),
            offset_bytes: start.bytes_from(mapping.at()),
        })
    }
}
