//! What does not change about a device.

use super::device::number_of;
use crate::record::Record;
use std::ffi::c_char;
use stitchpool_driver::DeviceInfo;

/// `stitchpool_device_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CDeviceInfo {
    pub struct_size: usize,
    pub device: i32,
    pub reserved: u32,
    pub total_bytes: u64,
    pub granule_bytes: u64,
    pub uuid: [u8; 16],
    pub name: [c_char; 256],
}

// SAFETY: the size, then numbers and bytes, without padding.
unsafe impl Record for CDeviceInfo {
    const NAME: &'static str = "stitchpool_device_info";
    const FIRST_BYTES: usize = 304;
}

impl CDeviceInfo {
    pub(crate) fn of(info: &DeviceInfo, granule_bytes: u64) -> Self {
        let mut name = [0; 256];
        // The last byte stays 0.
        name[..255].iter_mut().zip(info.name.bytes()).for_each(|(place, byte)| *place = byte as c_char);
        Self {
            struct_size: size_of::<Self>(),
            device: number_of(info.id),
            reserved: 0,
            total_bytes: info.total_bytes,
            granule_bytes,
            uuid: info.uuid.0,
            name,
        }
    }
}
