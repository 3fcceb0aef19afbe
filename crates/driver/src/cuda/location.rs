//! Where memory lies, and whose access is meant, as the driver spells it.

use crate::{DeviceId, Grant, Rights};
use stitchpool_cuda_sys::{
    CU_MEM_ACCESS_FLAGS_PROT_NONE, CU_MEM_ACCESS_FLAGS_PROT_READ, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST_NUMA, CUmemAccessDesc, CUmemLocation,
};

/// The NUMA node that host memory is taken from.
const HOST_NODE: i32 = 0;

/// A device's place; the host's is one NUMA node, because that is what can be mapped like device
/// memory on every driver that can map host memory at all.
pub(super) fn location_of(device: DeviceId) -> CUmemLocation {
    if device.is_host() {
        CUmemLocation { kind: CU_MEM_LOCATION_TYPE_HOST_NUMA, id: HOST_NODE }
    } else {
        CUmemLocation { kind: CU_MEM_LOCATION_TYPE_DEVICE, id: i32::from(device.0) }
    }
}

/// One device's rights.
pub(super) fn access_of(grant: Grant) -> CUmemAccessDesc {
    CUmemAccessDesc {
        location: location_of(grant.device),
        flags: match grant.rights {
            Rights::None => CU_MEM_ACCESS_FLAGS_PROT_NONE,
            Rights::Read => CU_MEM_ACCESS_FLAGS_PROT_READ,
            Rights::ReadWrite => CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        },
    }
}
