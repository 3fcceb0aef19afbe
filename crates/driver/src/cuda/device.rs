//! What the driver says of its devices when it is opened. Makes no context.

use super::failure::call;
use crate::{DeviceId, DeviceInfo, Result, Uuid, Verb};
use std::ffi::{CStr, c_char};
use stitchpool_cuda_sys::{
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CUdevice,
    CUdevice_attribute, CUuuid, Cuda,
};

/// Ordinals above this would collide with the host's own.
const DEVICES_MAX: i32 = 1024;
/// A name longer than this is cut by the driver.
const NAME_BYTES: usize = 256;

/// One GPU.
pub(super) struct Device {
    pub(super) raw: CUdevice,
    pub(super) info: DeviceInfo,
    pub(super) multiprocessors: u32,
    /// Whether it can map memory as this crate needs it.
    pub(super) maps_memory: bool,
}

impl Device {
    /// Every device that the process can see, by ordinal.
    pub(super) fn list(cuda: &Cuda) -> Result<Vec<Self>> {
        let mut count = 0;
        // SAFETY: `count` is a live place for the answer.
        unsafe { call!(cuda, Verb::Open, cuDeviceGetCount(&mut count)) }?;
        (0..count.min(DEVICES_MAX)).map(|ordinal| Self::ask(cuda, ordinal)).collect()
    }

    fn ask(cuda: &Cuda, ordinal: i32) -> Result<Self> {
        let mut raw: CUdevice = 0;
        let mut total_bytes = 0;
        // SAFETY: `raw` is a live place for the answer.
        unsafe { call!(cuda, Verb::Open, cuDeviceGet(&mut raw, ordinal)) }?;
        // SAFETY: `total_bytes` is a live place for the answer; cuDeviceGet gave `raw`.
        unsafe { call!(cuda, Verb::Open, cuDeviceTotalMem_v2(&mut total_bytes, raw)) }?;
        let info = DeviceInfo {
            id: DeviceId(ordinal as u16),
            uuid: uuid(cuda, raw)?,
            name: name(cuda, raw)?,
            total_bytes: total_bytes as u64,
        };
        let multiprocessors = attribute(cuda, raw, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1) as u32;
        let maps_memory = attribute(cuda, raw, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)? != 0;
        Ok(Self { raw, info, multiprocessors, maps_memory })
    }
}

fn name(cuda: &Cuda, device: CUdevice) -> Result<String> {
    let mut name = [0 as c_char; NAME_BYTES];
    // SAFETY: `name` is live and as long as it is said to be; the driver ends it with a zero.
    unsafe { call!(cuda, Verb::Open, cuDeviceGetName(name.as_mut_ptr(), NAME_BYTES as i32, device)) }?;
    let bytes = name.map(|byte| byte as u8);
    Ok(CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned())
}

fn uuid(cuda: &Cuda, device: CUdevice) -> Result<Uuid> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // The second form tells the slices of one card apart; the first gives all of them the card's own.
    let get = cuda.cuDeviceGetUuid_v2.unwrap_or(cuda.cuDeviceGetUuid);
    // SAFETY: `uuid` is a live place for the answer.
    super::failure::answer(Verb::Open, "cuDeviceGetUuid", unsafe { get(&mut uuid, device) })?;
    Ok(Uuid(uuid.bytes.map(|byte| byte as u8)))
}

pub(super) fn attribute(cuda: &Cuda, device: CUdevice, attribute: CUdevice_attribute) -> Result<i32> {
    let mut value = 0;
    // SAFETY: `value` is a live place for the answer.
    unsafe { call!(cuda, Verb::Open, cuDeviceGetAttribute(&mut value, attribute, device)) }?;
    Ok(value)
}
