//! Runs of addresses that have memory.

use super::device::number_of;
use crate::pointer::pointer_to;
use std::ffi::c_void;
use stitchpool_pool::Range;

/// `stitchpool_range`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CRange {
    pub address: *mut c_void,
    pub bytes: u64,
    pub raw_stream: *mut c_void,
    pub device: i32,
    pub reserved: u32,
}

impl CRange {
    pub(crate) fn of(range: &Range) -> Self {
        Self {
            address: pointer_to(range.address),
            bytes: range.bytes,
            raw_stream: std::ptr::without_provenance_mut(range.stream.map_or(0, |stream| stream.value) as usize),
            device: number_of(range.device),
            reserved: 0,
        }
    }
}
