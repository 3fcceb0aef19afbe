//! What an open driver is.

use crate::record::Record;

/// `stitchpool_driver_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CDriverInfo {
    pub struct_size: usize,
    pub kind: i32,
    pub device_count: u32,
}

// SAFETY: the size, then numbers, without padding.
unsafe impl Record for CDriverInfo {
    const NAME: &'static str = "stitchpool_driver_info";
    const FIRST_BYTES: usize = 16;
}

impl CDriverInfo {
    pub(crate) fn of(name: &str, device_count: usize) -> Self {
        let kind = if name == "cuda" { 1 } else { 2 };
        Self { struct_size: size_of::<Self>(), kind, device_count: u32::try_from(device_count).unwrap_or(u32::MAX) }
    }
}
