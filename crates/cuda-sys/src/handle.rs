//! Opaque handles of the driver, and the integers it uses as handles. Nobody reads through them.

use std::ffi::{c_int, c_ulonglong, c_void};

/// A device by the driver's number.
pub type CUdevice = c_int;
/// An address that devices use.
pub type CUdeviceptr = c_ulonglong;
/// A physical allocation.
pub type CUmemGenericAllocationHandle = c_ulonglong;
/// C's name of a 64-bit number.
pub type cuuint64_t = u64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(pub *mut c_void);

        impl $name {
            /// The handle that names nothing (for a stream: the legacy default stream).
            pub const NULL: Self = Self(std::ptr::null_mut());
        }

        // SAFETY: the pointer is a name that only the driver resolves; the driver takes it on every thread.
        unsafe impl Send for $name {}
        // SAFETY: as above; no method reads through the pointer.
        unsafe impl Sync for $name {}
    )*};
}

handles! {
    /// A context: a process's state on one device.
    CUcontext;
    /// Loaded code.
    CUmodule;
    /// A kernel of a module.
    CUfunction;
    /// A queue of work.
    CUstream;
    /// A point in a stream's work.
    CUevent;
    /// A graph as captured or built.
    CUgraph;
    /// A graph made ready to run.
    CUgraphExec;
}

/// The legacy default stream, named whatever the default is.
pub const CU_STREAM_LEGACY: CUstream = CUstream(std::ptr::without_provenance_mut(1));
/// The calling thread's default stream.
pub const CU_STREAM_PER_THREAD: CUstream = CUstream(std::ptr::without_provenance_mut(2));
/// The number that stands for the CPU where a device is asked for.
pub const CU_DEVICE_CPU: CUdevice = -1;
/// The number of no device.
pub const CU_DEVICE_INVALID: CUdevice = -2;
