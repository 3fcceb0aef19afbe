//! What the driver says of itself and of a device: versions, what is advertised, contexts. For reports;
//! no decision rests on it, since what is advertised is not always granted.

use super::CudaDriver;
use super::device::attribute;
use super::failure::call;
use super::handle_kind::properties_of;
use crate::{DeviceId, Driver, HandleKind, Result, Verb};
use stitchpool_cuda_sys::{
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, CUcontext,
    CUdevice_attribute,
};

/// The driver as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaFacts {
    /// The CUDA version that it speaks: major, minor.
    pub version: (u32, u32),
    /// The context that is current on the calling thread, as a number; 0: none.
    pub current_context: u64,
}

/// One device as the driver describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Compute capability: major, minor.
    pub capability: (u32, u32),
    /// Whether this process holds the device's primary context now, by whomever.
    pub has_context: bool,
    /// The granularity that it recommends for private handles, in bytes.
    pub recommended_granularity_bytes: u64,
    /// Whether it advertises virtual memory management.
    pub advertises_vmm: bool,
    /// Whether it advertises handles that leave the process as file descriptors.
    pub advertises_descriptors: bool,
    /// Whether it advertises fabric handles.
    pub advertises_fabric: bool,
    /// Whether it advertises memory that other devices on the bus may use.
    pub advertises_rdma: bool,
    /// Whether it advertises DMA buffers.
    pub advertises_dma_buffers: bool,
    /// Whether it advertises mappings of host memory.
    pub advertises_host_memory: bool,
}

impl CudaDriver {
    /// The driver as a whole.
    ///
    /// # Errors
    /// The driver's.
    pub fn facts(&self) -> Result<CudaFacts> {
        let (mut version, mut current) = (0, CUcontext::NULL);
        // SAFETY: `version` is a live place for the answer.
        unsafe { call!(self.cuda, Verb::Devices, cuDriverGetVersion(&mut version)) }?;
        // SAFETY: `current` is a live place for the answer.
        unsafe { call!(self.cuda, Verb::Devices, cuCtxGetCurrent(&mut current)) }?;
        let version = version.unsigned_abs();
        Ok(CudaFacts { version: (version / 1000, version % 1000 / 10), current_context: current.0.addr() as u64 })
    }

    /// A device as the driver describes it. Makes no context.
    ///
    /// # Errors
    /// `InvalidDevice`, or the driver's.
    pub fn device_facts(&self, device: DeviceId) -> Result<DeviceFacts> {
        let raw = self.place(Verb::Devices, device)?.device.raw;
        let says = |of: CUdevice_attribute| attribute(&self.cuda, raw, of).map_err(|error| error.on(device));
        let number = |of| says(of).map(i32::unsigned_abs);
        let (mut flags, mut active) = (0, 0);
        // SAFETY: both are live places for the answer; cuDeviceGet gave `raw`.
        unsafe { call!(self.cuda, Verb::Devices, cuDevicePrimaryCtxGetState(raw, &mut flags, &mut active)) }?;
        let properties = properties_of(device, HandleKind::Private);
        let (mut bytes, option) = (0, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
        // SAFETY: `bytes` is a live place for the answer; `properties` is live and whole.
        unsafe { call!(self.cuda, Verb::Granularity, cuMemGetAllocationGranularity(&mut bytes, &properties, option)) }
            .map_err(|error| error.on(device))?;
        Ok(DeviceFacts {
            capability: (
                number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            has_context: active != 0,
            recommended_granularity_bytes: bytes as u64,
            advertises_vmm: says(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)? != 0,
            advertises_descriptors: says(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)? != 0,
            // A driver that is older than one of these does not know the question.
            advertises_fabric: says(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED).is_ok_and(|yes| yes != 0),
            advertises_rdma: says(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
                .is_ok_and(|yes| yes != 0),
            advertises_dma_buffers: says(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED).is_ok_and(|yes| yes != 0),
            advertises_host_memory: says(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
                .is_ok_and(|yes| yes != 0),
        })
    }

    /// Whether the device grants memory that other devices on the bus may use: one granule is created so
    /// and released.
    ///
    /// # Errors
    /// The driver's refusal, which says why not.
    pub fn probe_rdma(&self, device: DeviceId) -> Result<()> {
        let bytes = self.granularity(device, HandleKind::Private)?;
        let mut properties = properties_of(device, HandleKind::Private);
        properties.allocFlags.gpuDirectRDMACapable = 1;
        let mut handle = 0;
        // SAFETY: `handle` is a live place for the answer; `properties` is live and whole.
        unsafe { call!(self.cuda, Verb::Create, cuMemCreate(&mut handle, bytes as usize, &properties, 0)) }
            .map_err(|error| error.on(device).of(bytes))?;
        // SAFETY: `handle` was just created, and nobody else knows it.
        unsafe { call!(self.cuda, Verb::Release, cuMemRelease(handle)) }
    }
}
