//! The one table of functions. A function that every driver with virtual memory management has is a
//! plain field; what came later is an `Option`. Fields bear the library's symbols, so that nothing
//! is renamed on the way: `_v2` is the 64-bit form, and the forms without a suffix `_ptsz` take
//! stream 0 as the legacy default stream.

use crate::{
    CUcontext, CUdevice, CUdevice_P2PAttribute, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUgraph,
    CUgraphExec, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemRangeHandleType, CUmodule, CUpointer_attribute, CUresult,
    CUstream, CUstreamCaptureMode, CUstreamCaptureStatus, CUuuid, OpenError, cuuint64_t,
};
use libloading::Library;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};

/// One function of the table, for checks against other sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// The library's symbol.
    pub symbol: &'static str,
    /// Each argument's type as Rust spells it; the result is always a `CUresult`.
    pub arguments: &'static [&'static str],
    /// Whether the table can be opened without it.
    pub optional: bool,
}

macro_rules! slot {
    (required, $function:ty) => { $function };
    (optional, $function:ty) => { Option<$function> };
}

macro_rules! take {
    (required, $library:ident, $symbol:ident) => {
        take!(optional, $library, $symbol).ok_or(OpenError::TooOld { symbol: stringify!($symbol) })?
    };
    (optional, $library:ident, $symbol:ident) => {
        // SAFETY: the field's type is the C signature of this very symbol; `stitchpool-parity` checks that.
        // The copy outlives the borrow because `load` takes a library that is never closed.
        unsafe { $library.get(stringify!($symbol)) }.ok().map(|symbol| *symbol)
    };
}

macro_rules! is_optional {
    (required) => {
        false
    };
    (optional) => {
        true
    };
}

macro_rules! table {
    ($($need:ident $symbol:ident($($argument:ident: $ty:ty),*);)*) => {
        /// The driver's functions. Calling one is as unsafe as calling it from C: the driver's
        /// documentation holds.
        #[derive(Clone, Copy, Debug)]
        pub struct Cuda {
            $(
                #[doc = concat!("`", stringify!($symbol), "(", $(stringify!($argument), ": ", stringify!($ty), ", ",)* ")`")]
                pub $symbol: slot!($need, unsafe extern "C" fn($($ty),*) -> CUresult),
            )*
        }

        /// Every function of the table, in its order.
        pub const FUNCTIONS: &[Function] = &[$(Function {
            symbol: stringify!($symbol),
            arguments: &[$(stringify!($ty)),*],
            optional: is_optional!($need),
        }),*];

        impl Cuda {
            pub(crate) fn load(library: &'static Library) -> Result<Self, OpenError> {
                Ok(Self { $($symbol: take!($need, library, $symbol),)* })
            }
        }
    };
}

table! {
    // The driver and its devices.
    required cuInit(flags: c_uint);
    required cuDriverGetVersion(version: *mut c_int);
    required cuGetErrorName(error: CUresult, name: *mut *const c_char);
    required cuGetErrorString(error: CUresult, words: *mut *const c_char);
    required cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    required cuDeviceGetCount(count: *mut c_int);
    required cuDeviceGetName(name: *mut c_char, name_bytes: c_int, device: CUdevice);
    required cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice);
    optional cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    required cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    required cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    required cuDeviceCanAccessPeer(can: *mut c_int, from: CUdevice, to: CUdevice);
    required cuDeviceGetP2PAttribute(value: *mut c_int, attribute: CUdevice_P2PAttribute, from: CUdevice, to: CUdevice);

    // Contexts.
    required cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    required cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    required cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
    required cuCtxGetCurrent(context: *mut CUcontext);
    required cuCtxSetCurrent(context: CUcontext);
    required cuCtxPushCurrent_v2(context: CUcontext);
    required cuCtxPopCurrent_v2(context: *mut CUcontext);
    required cuCtxGetDevice(device: *mut CUdevice);
    required cuCtxSynchronize();
    required cuMemGetInfo_v2(free_bytes: *mut usize, total_bytes: *mut usize);

    // Virtual memory management.
    required cuMemAddressReserve(at: *mut CUdeviceptr, bytes: usize, alignment: usize, hint: CUdeviceptr, flags: c_ulonglong);
    required cuMemAddressFree(at: CUdeviceptr, bytes: usize);
    required cuMemCreate(handle: *mut CUmemGenericAllocationHandle, bytes: usize, prop: *const CUmemAllocationProp, flags: c_ulonglong);
    required cuMemRelease(handle: CUmemGenericAllocationHandle);
    required cuMemMap(at: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: c_ulonglong);
    required cuMemUnmap(at: CUdeviceptr, bytes: usize);
    required cuMemSetAccess(at: CUdeviceptr, bytes: usize, rights: *const CUmemAccessDesc, count: usize);
    required cuMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, at: CUdeviceptr);
    required cuMemGetAllocationGranularity(bytes: *mut usize, prop: *const CUmemAllocationProp, option: CUmemAllocationGranularity_flags);
    required cuMemExportToShareableHandle(shareable: *mut c_void, handle: CUmemGenericAllocationHandle, kind: CUmemAllocationHandleType, flags: c_ulonglong);
    required cuMemImportFromShareableHandle(handle: *mut CUmemGenericAllocationHandle, shareable: *mut c_void, kind: CUmemAllocationHandleType);
    required cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, at: *mut c_void);
    required cuMemGetAllocationPropertiesFromHandle(prop: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle);
    optional cuMemGetHandleForAddressRange(handle: *mut c_void, at: CUdeviceptr, bytes: usize, kind: CUmemRangeHandleType, flags: c_ulonglong);
    required cuPointerGetAttribute(value: *mut c_void, attribute: CUpointer_attribute, at: CUdeviceptr);

    // Streams and capture.
    required cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    required cuStreamDestroy_v2(stream: CUstream);
    required cuStreamQuery(stream: CUstream);
    required cuStreamSynchronize(stream: CUstream);
    required cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    required cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    optional cuStreamGetId(stream: CUstream, id: *mut c_ulonglong);
    required cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus);
    optional cuStreamGetCaptureInfo(stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut cuuint64_t);
    required cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    required cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    required cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);

    // Events.
    required cuEventCreate(event: *mut CUevent, flags: c_uint);
    required cuEventRecord(event: CUevent, stream: CUstream);
    required cuEventQuery(event: CUevent);
    required cuEventSynchronize(event: CUevent);
    required cuEventDestroy_v2(event: CUevent);
    required cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);

    // Plain memory, copies and fills.
    required cuMemAlloc_v2(at: *mut CUdeviceptr, bytes: usize);
    required cuMemFree_v2(at: CUdeviceptr);
    required cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
    required cuMemFreeHost(memory: *mut c_void);
    required cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize);
    required cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    required cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize);
    required cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    required cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize);
    required cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    required cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize);
    required cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    required cuMemsetD8Async(at: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream);
    required cuMemsetD32Async(at: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);

    // Code and graphs.
    required cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    required cuModuleUnload(module: CUmodule);
    required cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    required cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream, arguments: *mut *mut c_void, extra: *mut *mut c_void);
    optional cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    required cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    required cuGraphExecDestroy(exec: CUgraphExec);
    required cuGraphDestroy(graph: CUgraph);
}
