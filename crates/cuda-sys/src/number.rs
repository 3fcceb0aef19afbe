//! Numbers of the interface, each with its own type: open sets, as C means them.

use std::ffi::c_uint;

/// One type of number and the constants of it that this crate names, for checks against other sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    /// C's name of the type.
    pub name: &'static str,
    /// C's names and values.
    pub constants: &'static [(&'static str, c_uint)],
}

macro_rules! numbers {
    ($all:ident: $($(#[$doc:meta])* $name:ident { $($constant:ident = $value:literal;)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            #[repr(transparent)]
            pub struct $name(pub c_uint);
            $(
                #[doc = concat!("[`", stringify!($name), "`] ", stringify!($value))]
                pub const $constant: $name = $name($value);
            )*
        )*

        /// Every type of number in this file, with its constants.
        pub const $all: &[Number] =
            &[$(Number { name: stringify!($name), constants: &[$((stringify!($constant), $value)),*] }),*];
    };
}
pub(crate) use numbers;

numbers! { NUMBERS:
    /// A kind of place.
    CUmemLocationType {
        CU_MEM_LOCATION_TYPE_INVALID = 0;
        CU_MEM_LOCATION_TYPE_DEVICE = 1;
        CU_MEM_LOCATION_TYPE_HOST = 2;
        CU_MEM_LOCATION_TYPE_HOST_NUMA = 3;
        CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4;
    }

    /// A kind of memory.
    CUmemAllocationType {
        CU_MEM_ALLOCATION_TYPE_INVALID = 0;
        CU_MEM_ALLOCATION_TYPE_PINNED = 1;
        CU_MEM_ALLOCATION_TYPE_MANAGED = 2;
    }

    /// How an allocation may leave its process.
    CUmemAllocationHandleType {
        CU_MEM_HANDLE_TYPE_NONE = 0;
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1;
        CU_MEM_HANDLE_TYPE_FABRIC = 8;
    }

    /// What a place may do with a mapping.
    CUmemAccess_flags {
        CU_MEM_ACCESS_FLAGS_PROT_NONE = 0;
        CU_MEM_ACCESS_FLAGS_PROT_READ = 1;
        CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3;
    }

    /// Which granularity is asked for.
    CUmemAllocationGranularity_flags {
        CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0;
        CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1;
    }

    /// What stands for an address range outside the process.
    CUmemRangeHandleType {
        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1;
    }

    /// Whether a stream is being captured.
    CUstreamCaptureStatus {
        CU_STREAM_CAPTURE_STATUS_NONE = 0;
        CU_STREAM_CAPTURE_STATUS_ACTIVE = 1;
        CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2;
    }

    /// Which calls a capture forbids, and on which threads.
    CUstreamCaptureMode {
        CU_STREAM_CAPTURE_MODE_GLOBAL = 0;
        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1;
        CU_STREAM_CAPTURE_MODE_RELAXED = 2;
    }

    /// How an event is made.
    CUevent_flags {
        CU_EVENT_DEFAULT = 0;
        CU_EVENT_BLOCKING_SYNC = 1;
        CU_EVENT_DISABLE_TIMING = 2;
        CU_EVENT_INTERPROCESS = 4;
    }

    /// How a stream is made.
    CUstream_flags {
        CU_STREAM_DEFAULT = 0;
        CU_STREAM_NON_BLOCKING = 1;
    }

    /// What can be asked about an address.
    CUpointer_attribute {
        CU_POINTER_ATTRIBUTE_CONTEXT = 1;
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3;
        CU_POINTER_ATTRIBUTE_HOST_POINTER = 4;
        CU_POINTER_ATTRIBUTE_P2P_TOKENS = 5;
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6;
        CU_POINTER_ATTRIBUTE_BUFFER_ID = 7;
        CU_POINTER_ATTRIBUTE_IS_MANAGED = 8;
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10;
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11;
        CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12;
        CU_POINTER_ATTRIBUTE_MAPPED = 13;
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14;
        CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15;
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16;
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17;
        CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18;
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19;
        CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20;
    }

    /// What can be asked about two devices.
    CUdevice_P2PAttribute {
        CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1;
        CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 2;
        CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3;
        CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 4;
        CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 5;
    }

    /// What can be asked about a device.
    CUdevice_attribute {
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16;
        CU_DEVICE_ATTRIBUTE_INTEGRATED = 18;
        CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33;
        CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34;
        CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41;
        CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50;
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75;
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102;
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103;
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110;
        CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124;
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128;
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134;
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141;
    }
}

/// Flag of `cuMemHostAlloc`: pinned for every context.
pub const CU_MEMHOSTALLOC_PORTABLE: c_uint = 1;
/// Flag of `cuMemHostAlloc`: mapped for devices too.
pub const CU_MEMHOSTALLOC_DEVICEMAP: c_uint = 2;
/// Flag of `cuMemHostAlloc`: written fast by the CPU, read slowly.
pub const CU_MEMHOSTALLOC_WRITECOMBINED: c_uint = 4;
