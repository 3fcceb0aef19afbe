//! A part of a live block.

use crate::pointer::address_of;
use std::ffi::c_void;
use stitchpool_pool::Part;

/// `stitchpool_part`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CPart {
    pub address: *const c_void,
    pub bytes: u64,
}

impl CPart {
    pub(crate) fn understood(self) -> Part {
        Part { address: address_of(self.address), bytes: self.bytes }
    }
}
