//! Kinds of handles as the driver spells them, and how a handle of one kind leaves the process and
//! enters another. It falls back to nothing: a refusal is passed on as it is.

use super::failure::call;
use super::location::location_of;
use crate::{DeviceId, Error, ErrorKind, FabricHandle, HandleKind, HandleSpec, RawHandle, Result, Shareable, Verb};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use stitchpool_cuda_sys::{
    CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_HANDLE_TYPE_FABRIC, CU_MEM_HANDLE_TYPE_NONE,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUmemAllocationFlags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemFabricHandle, CUmemGenericAllocationHandle, CUmemLocation, Cuda,
};

fn handle_type_of(kind: HandleKind) -> CUmemAllocationHandleType {
    match kind {
        HandleKind::Private => CU_MEM_HANDLE_TYPE_NONE,
        HandleKind::FileDescriptor => CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        HandleKind::Fabric => CU_MEM_HANDLE_TYPE_FABRIC,
    }
}

/// What to create.
pub(super) fn properties_of(device: DeviceId, kind: HandleKind) -> CUmemAllocationProp {
    CUmemAllocationProp {
        kind: CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: handle_type_of(kind),
        location: location_of(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: CUmemAllocationFlags { compressionType: 0, gpuDirectRDMACapable: 0, usage: 0, reserved: [0; 4] },
    }
}

/// What stands for the handle outside the process; a descriptor is the caller's.
///
/// # Safety
/// - `handle` is live.
pub(super) unsafe fn export(cuda: &Cuda, handle: RawHandle, kind: HandleKind) -> Result<Shareable> {
    match kind {
        HandleKind::Private => {
            let detail = "a private handle does not leave its process: create it as FileDescriptor or Fabric";
            Err(Error::new(Verb::Export, ErrorKind::InvalidValue, detail))
        }
        // SAFETY: the caller answers for `handle`.
        HandleKind::FileDescriptor => unsafe { descriptor_of(cuda, handle) }.map(Shareable::Descriptor),
        HandleKind::Fabric => {
            let mut name = CUmemFabricHandle { data: [0; FabricHandle::BYTES] };
            let place = std::ptr::from_mut(&mut name).cast();
            // SAFETY: for this kind the driver writes one such structure to `place`; the caller answers for `handle`.
            unsafe {
                call!(cuda, Verb::Export, cuMemExportToShareableHandle(place, handle.0, CU_MEM_HANDLE_TYPE_FABRIC, 0))
            }?;
            Ok(Shareable::Fabric(FabricHandle(name.data)))
        }
    }
}

/// # Safety
/// - `handle` is live.
unsafe fn descriptor_of(cuda: &Cuda, handle: RawHandle) -> Result<OwnedFd> {
    let mut descriptor: c_int = -1;
    let (place, kind) = (std::ptr::from_mut(&mut descriptor).cast(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    // SAFETY: for this kind the driver writes one C int to `place`; the caller answers for `handle`.
    unsafe { call!(cuda, Verb::Export, cuMemExportToShareableHandle(place, handle.0, kind, 0)) }?;
    if descriptor < 0 {
        let detail = "cuMemExportToShareableHandle gave no descriptor; the handle must be of kind FileDescriptor";
        return Err(Error::new(Verb::Export, ErrorKind::NotSupported, detail));
    }
    // SAFETY: the driver just opened `descriptor` for this call, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A handle of this process for what `shareable` stands for, which stays the caller's.
/// The driver tells where the memory lies, so that is compared; it does not tell how much there is.
pub(super) fn import(cuda: &Cuda, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle> {
    let refused = |detail: String| Err(Error::new(Verb::Import, ErrorKind::InvalidValue, detail));
    if spec.kind != shareable.kind() {
        return refused(format!("what is imported is of kind {:?}, not {:?}", shareable.kind(), spec.kind));
    }
    let mut name;
    let place = match shareable {
        // The driver takes the number itself where a pointer stands.
        Shareable::Descriptor(descriptor) => std::ptr::without_provenance_mut(descriptor.as_raw_fd() as usize),
        Shareable::Fabric(FabricHandle(data)) => {
            name = CUmemFabricHandle { data: *data };
            std::ptr::from_mut(&mut name).cast()
        }
    };
    let (kind, mut handle) = (handle_type_of(spec.kind), 0);
    // SAFETY: `handle` is a live place for the answer; what `place` names, a descriptor or `name`, is there for the
    // whole call, and the driver refuses one that is not its own.
    unsafe { call!(cuda, Verb::Import, cuMemImportFromShareableHandle(&mut handle, place, kind)) }?;
    match lies_at(cuda, handle) {
        Ok(location) if location == location_of(spec.device) => Ok(RawHandle(handle)),
        answer => {
            // SAFETY: `handle` was just imported, and nobody else knows it. The refusal to tell is the first one.
            let _ = unsafe { (cuda.cuMemRelease)(handle) };
            let CUmemLocation { kind, id } = answer?;
            refused(format!("the memory that is imported lies elsewhere: location type {}, number {id}", kind.0))
        }
    }
}

fn lies_at(cuda: &Cuda, handle: CUmemGenericAllocationHandle) -> Result<CUmemLocation> {
    let mut properties = properties_of(DeviceId::HOST, HandleKind::Private);
    // SAFETY: `properties` is a live place for the answer; `import` holds `handle`.
    unsafe { call!(cuda, Verb::Import, cuMemGetAllocationPropertiesFromHandle(&mut properties, handle)) }?;
    Ok(properties.location)
}
