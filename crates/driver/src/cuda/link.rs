//! How one device reaches the memory of another.

use super::failure::call;
use crate::{Link, Result, Verb};
use stitchpool_cuda_sys::{
    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, CUdevice,
    CUdevice_P2PAttribute, Cuda,
};

/// The link between two different GPUs. `Direct` is where the link carries the GPU's own atomics: NVLink does, PCIe
/// does not. The performance rank cannot tell them apart, because it only orders a device's peers
/// among themselves: the best peer has rank 0, whatever lies between.
pub(super) fn between(cuda: &Cuda, from: CUdevice, to: CUdevice) -> Result<Link> {
    if !holds(cuda, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, from, to)? {
        return Ok(Link::None);
    }
    let direct = holds(cuda, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, from, to)?;
    Ok(if direct { Link::Direct } else { Link::Bus })
}

fn holds(cuda: &Cuda, attribute: CUdevice_P2PAttribute, from: CUdevice, to: CUdevice) -> Result<bool> {
    let mut value = 0;
    // SAFETY: `value` is a live place for the answer; cuDeviceGet gave both devices.
    unsafe { call!(cuda, Verb::LinkBetween, cuDeviceGetP2PAttribute(&mut value, attribute, from, to)) }?;
    Ok(value != 0)
}
