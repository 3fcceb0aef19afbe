//! Pieces of memory behind a range.

use super::device::number_of;
use crate::pointer::pointer_to;
use std::ffi::c_void;
use stitchpool_pool::Segment;

/// `stitchpool_segment`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CSegment {
    pub address: *mut c_void,
    pub bytes: u64,
    pub handle: u64,
    pub offset_bytes: u64,
    pub device: i32,
    pub reserved: u32,
}

impl CSegment {
    pub(crate) fn of(segment: &Segment) -> Self {
        Self {
            address: pointer_to(segment.at),
            bytes: segment.bytes,
            handle: segment.handle.0,
            offset_bytes: segment.offset_bytes,
            device: number_of(segment.device),
            reserved: 0,
        }
    }
}
