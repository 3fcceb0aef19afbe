//! Our interface against cuda-driver-sys, which somebody else generated from NVIDIA's header of
//! CUDA 10.2. The Rust compiler compares; nothing is linked or called. What came after 10.2 is
//! listed by name, so that nothing is left out unseen; `header.rs` checks that too.

#![allow(clippy::unwrap_used, missing_docs)]

use cuda_driver_sys as theirs;
use std::any::type_name;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::mem::offset_of;
use stitchpool_cuda_sys as ours;
use stitchpool_cuda_sys::{Cuda, FUNCTIONS, NUMBERS, RESULTS};

/// Functions that CUDA 10.2 did not have.
const NEWER_FUNCTIONS: &[&str] = &[
    "cuDeviceGetUuid_v2",
    "cuMemRetainAllocationHandle",
    "cuMemGetHandleForAddressRange",
    "cuStreamGetId",
    "cuGraphInstantiateWithFlags",
];

/// Constants that CUDA 10.2 did not have.
const NEWER_CONSTANTS: &[&str] = &[
    "CUDA_ERROR_STUB_LIBRARY",
    "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_DEVICE_NOT_LICENSED",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "CUDA_ERROR_JIT_COMPILATION_DISABLED",
    "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY",
    "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC",
    "CUDA_ERROR_CONTAINED",
    "CUDA_ERROR_LOSSY_QUERY",
    "CUDA_ERROR_TENSOR_MEMORY_LEAK",
    "CUDA_ERROR_MPS_CONNECTION_FAILED",
    "CUDA_ERROR_MPS_RPC_FAILURE",
    "CUDA_ERROR_MPS_SERVER_NOT_READY",
    "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
    "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
    "CUDA_ERROR_MPS_CLIENT_TERMINATED",
    "CUDA_ERROR_CDP_NOT_SUPPORTED",
    "CUDA_ERROR_CDP_VERSION_MISMATCH",
    "CUDA_ERROR_EXTERNAL_DEVICE",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE",
    "CUDA_ERROR_FUNCTION_NOT_LOADED",
    "CUDA_ERROR_INVALID_RESOURCE_TYPE",
    "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
    "CUDA_ERROR_KEY_ROTATION",
    "CU_MEM_LOCATION_TYPE_HOST",
    "CU_MEM_LOCATION_TYPE_HOST_NUMA",
    "CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT",
    "CU_MEM_ALLOCATION_TYPE_MANAGED",
    "CU_MEM_HANDLE_TYPE_NONE",
    "CU_MEM_HANDLE_TYPE_FABRIC",
    "CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD",
    "CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE",
    "CU_POINTER_ATTRIBUTE_ACCESS_FLAGS",
    "CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE",
    "CU_POINTER_ATTRIBUTE_MAPPING_SIZE",
    "CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR",
    "CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID",
    "CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED",
    "CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED",
    "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
    "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED",
    "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED",
    "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED",
    "CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID",
    "CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
];

/// The type of a function, without naming the function where it would have to be linked.
const fn type_of<F: Copy>(_: F) -> PhantomData<F> {
    PhantomData
}

fn spelt<F>(_: PhantomData<F>) -> String {
    plain(type_name::<F>())
}

/// The type of a field of our table.
fn required<F>(_: fn(&Cuda) -> F) -> String {
    plain(type_name::<F>())
}

fn optional<F>(_: fn(&Cuda) -> Option<F>) -> String {
    plain(type_name::<F>())
}

/// Drops what differs by habit only: paths, and the names C gives to tags behind its typedefs.
fn plain(name: &str) -> String {
    let mut words = name.to_owned();
    for path in [
        "stitchpool_cuda_sys::handle::",
        "stitchpool_cuda_sys::number::",
        "stitchpool_cuda_sys::result::",
        "stitchpool_cuda_sys::structure::",
        "cuda_driver_sys::",
        "core::ffi::",
    ] {
        words = words.replace(path, "");
    }
    for (tag, handle) in [
        ("CUctx_st", "CUcontext"),
        ("CUmod_st", "CUmodule"),
        ("CUfunc_st", "CUfunction"),
        ("CUstream_st", "CUstream"),
        ("CUevent_st", "CUevent"),
        ("CUgraph_st", "CUgraph"),
        ("CUgraphExec_st", "CUgraphExec"),
    ] {
        words = words.replace(&format!("*mut {tag}"), handle);
    }
    words.replace("cudaError_enum", "CUresult").replace("_enum", "").replace("_st", "")
}

macro_rules! signatures {
    ($($need:ident $symbol:ident $(as $older:ident)? ($($argument:tt),*);)*) => {
        vec![$((
            stringify!($symbol),
            $need(|cuda| cuda.$symbol),
            spelt(const { type_of(signatures!(@name $symbol $($older)?) as unsafe extern "C" fn($($argument),*) -> _) }),
        )),*]
    };
    (@name $symbol:ident) => { theirs::$symbol };
    (@name $symbol:ident $older:ident) => { theirs::$older };
}

#[test]
fn every_function_has_the_signature_that_cuda_driver_sys_gives_it() {
    let compared = signatures! {
        required cuInit(_);
        required cuDriverGetVersion(_);
        required cuGetErrorName(_, _);
        required cuGetErrorString(_, _);
        required cuDeviceGet(_, _);
        required cuDeviceGetCount(_);
        required cuDeviceGetName(_, _, _);
        required cuDeviceGetUuid(_, _);
        required cuDeviceTotalMem_v2(_, _);
        required cuDeviceGetAttribute(_, _, _);
        required cuDeviceCanAccessPeer(_, _, _);
        required cuDeviceGetP2PAttribute(_, _, _, _);
        required cuDevicePrimaryCtxRetain(_, _);
        required cuDevicePrimaryCtxRelease_v2 as cuDevicePrimaryCtxRelease(_);
        required cuDevicePrimaryCtxGetState(_, _, _);
        required cuCtxGetCurrent(_);
        required cuCtxSetCurrent(_);
        required cuCtxPushCurrent_v2(_);
        required cuCtxPopCurrent_v2(_);
        required cuCtxGetDevice(_);
        required cuCtxSynchronize();
        required cuMemGetInfo_v2(_, _);
        required cuMemAddressReserve(_, _, _, _, _);
        required cuMemAddressFree(_, _);
        required cuMemCreate(_, _, _, _);
        required cuMemRelease(_);
        required cuMemMap(_, _, _, _, _);
        required cuMemUnmap(_, _);
        required cuMemSetAccess(_, _, _, _);
        required cuMemGetAccess(_, _, _);
        required cuMemGetAllocationGranularity(_, _, _);
        required cuMemExportToShareableHandle(_, _, _, _);
        required cuMemImportFromShareableHandle(_, _, _);
        required cuMemGetAllocationPropertiesFromHandle(_, _);
        required cuPointerGetAttribute(_, _, _);
        required cuStreamCreate(_, _);
        required cuStreamDestroy_v2(_);
        required cuStreamQuery(_);
        required cuStreamSynchronize(_);
        required cuStreamWaitEvent(_, _, _);
        required cuStreamGetCtx(_, _);
        required cuStreamIsCapturing(_, _);
        optional cuStreamGetCaptureInfo(_, _, _);
        required cuStreamBeginCapture_v2(_, _);
        required cuStreamEndCapture(_, _);
        required cuThreadExchangeStreamCaptureMode(_);
        required cuEventCreate(_, _);
        required cuEventRecord(_, _);
        required cuEventQuery(_);
        required cuEventSynchronize(_);
        required cuEventDestroy_v2(_);
        required cuEventElapsedTime(_, _, _);
        required cuMemAlloc_v2(_, _);
        required cuMemFree_v2(_);
        required cuMemHostAlloc(_, _, _);
        required cuMemFreeHost(_);
        required cuMemcpy(_, _, _);
        required cuMemcpyAsync(_, _, _, _);
        required cuMemcpyDtoD_v2(_, _, _);
        required cuMemcpyDtoDAsync_v2(_, _, _, _);
        required cuMemcpyHtoD_v2(_, _, _);
        required cuMemcpyHtoDAsync_v2(_, _, _, _);
        required cuMemcpyDtoH_v2(_, _, _);
        required cuMemcpyDtoHAsync_v2(_, _, _, _);
        required cuMemsetD8Async(_, _, _, _);
        required cuMemsetD32Async(_, _, _, _);
        required cuModuleLoadData(_, _);
        required cuModuleUnload(_);
        required cuModuleGetFunction(_, _, _);
        required cuLaunchKernel(_, _, _, _, _, _, _, _, _, _, _);
        required cuGraphLaunch(_, _);
        required cuGraphExecDestroy(_);
        required cuGraphDestroy(_);
    };
    for (symbol, ours, theirs) in &compared {
        assert_eq!(ours, theirs, "{symbol}");
    }
    let all: BTreeSet<&str> = FUNCTIONS.iter().map(|function| function.symbol).collect();
    let seen: BTreeSet<&str> = compared.iter().map(|row| row.0).chain(NEWER_FUNCTIONS.iter().copied()).collect();
    assert_eq!(all, seen, "each function of the table is either compared or named as newer");
}

macro_rules! values {
    ($($number:ident { $($constant:ident),* $(,)? })*) => {
        vec![$($((stringify!($constant), ours::$constant.0, theirs::$number::$constant as u32)),*),*]
    };
}

#[test]
fn every_constant_has_the_value_that_cuda_driver_sys_gives_it() {
    let compared = values! {
        CUresult {
            CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_INITIALIZED,
            CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_PROFILER_DISABLED, CUDA_ERROR_PROFILER_NOT_INITIALIZED,
            CUDA_ERROR_PROFILER_ALREADY_STARTED, CUDA_ERROR_PROFILER_ALREADY_STOPPED, CUDA_ERROR_NO_DEVICE,
            CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_CONTEXT,
            CUDA_ERROR_CONTEXT_ALREADY_CURRENT, CUDA_ERROR_MAP_FAILED, CUDA_ERROR_UNMAP_FAILED,
            CUDA_ERROR_ARRAY_IS_MAPPED, CUDA_ERROR_ALREADY_MAPPED, CUDA_ERROR_NO_BINARY_FOR_GPU,
            CUDA_ERROR_ALREADY_ACQUIRED, CUDA_ERROR_NOT_MAPPED, CUDA_ERROR_NOT_MAPPED_AS_ARRAY,
            CUDA_ERROR_NOT_MAPPED_AS_POINTER, CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_UNSUPPORTED_LIMIT,
            CUDA_ERROR_CONTEXT_ALREADY_IN_USE, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_INVALID_PTX,
            CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
            CUDA_ERROR_INVALID_SOURCE, CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
            CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_INVALID_HANDLE,
            CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_READY, CUDA_ERROR_ILLEGAL_ADDRESS,
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING,
            CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
            CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT,
            CUDA_ERROR_TOO_MANY_PEERS, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
            CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,
            CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_NOT_PERMITTED,
            CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
            CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_MERGE,
            CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
            CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_CAPTURED_EVENT,
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUDA_ERROR_TIMEOUT, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
            CUDA_ERROR_UNKNOWN,
        }
        CUmemLocationType {
            CU_MEM_LOCATION_TYPE_INVALID, CU_MEM_LOCATION_TYPE_DEVICE,
        }
        CUmemAllocationType {
            CU_MEM_ALLOCATION_TYPE_INVALID, CU_MEM_ALLOCATION_TYPE_PINNED,
        }
        CUmemAllocationHandleType {
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        }
        CUmemAccess_flags {
            CU_MEM_ACCESS_FLAGS_PROT_NONE, CU_MEM_ACCESS_FLAGS_PROT_READ, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        }
        CUmemAllocationGranularity_flags {
            CU_MEM_ALLOC_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
        }
        CUstreamCaptureStatus {
            CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_INVALIDATED,
        }
        CUstreamCaptureMode {
            CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED,
        }
        CUevent_flags {
            CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING, CU_EVENT_INTERPROCESS,
        }
        CUstream_flags {
            CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING,
        }
        CUpointer_attribute {
            CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
            CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_P2P_TOKENS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
            CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
        }
        CUdevice_P2PAttribute {
            CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
            CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
        }
        CUdevice_attribute {
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_INTEGRATED, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
            CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
            CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        }
    };
    for (name, ours, theirs) in &compared {
        assert_eq!(ours, theirs, "{name}");
    }
    let all: BTreeSet<&str> =
        RESULTS.iter().chain(NUMBERS).flat_map(|number| number.constants).map(|(name, _)| *name).collect();
    let seen: BTreeSet<&str> = compared.iter().map(|row| row.0).chain(NEWER_CONSTANTS.iter().copied()).collect();
    assert_eq!(all, seen, "each constant is either compared or named as newer");
    assert_eq!(ours::CU_MEMHOSTALLOC_PORTABLE, theirs::CU_MEMHOSTALLOC_PORTABLE);
    assert_eq!(ours::CU_MEMHOSTALLOC_DEVICEMAP, theirs::CU_MEMHOSTALLOC_DEVICEMAP);
    assert_eq!(ours::CU_MEMHOSTALLOC_WRITECOMBINED, theirs::CU_MEMHOSTALLOC_WRITECOMBINED);
}

macro_rules! same_layout {
    ($name:ident { $($ours:ident = $theirs:ident),* }) => {
        assert_eq!(size_of::<ours::$name>(), size_of::<theirs::$name>(), stringify!($name));
        assert_eq!(align_of::<ours::$name>(), align_of::<theirs::$name>(), stringify!($name));
        $(assert_eq!(
            offset_of!(ours::$name, $ours), offset_of!(theirs::$name, $theirs),
            concat!(stringify!($name), ".", stringify!($theirs))
        );)*
    };
}

#[test]
fn every_structure_lies_in_memory_as_cuda_driver_sys_lays_it() {
    same_layout!(CUmemLocation { kind = type_, id = id });
    // In CUDA 10.2 the details were 8 reserved bytes.
    same_layout!(CUmemAllocationProp {
        kind = type_, requestedHandleTypes = requestedHandleTypes, location = location,
        win32HandleMetaData = win32HandleMetaData, allocFlags = reserved
    });
    assert_eq!(size_of::<ours::CUmemAllocationFlags>(), size_of::<u64>());
    same_layout!(CUmemAccessDesc { location = location, flags = flags });
    same_layout!(CUuuid { bytes = bytes });
    assert_eq!(size_of::<ours::CUresult>(), size_of::<theirs::CUresult>());
    assert_eq!(size_of::<ours::CUstream>(), size_of::<theirs::CUstream>());
}
