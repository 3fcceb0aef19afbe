//! What can go wrong between cudarc and the pool.

use cudarc::driver::DriverError;

/// What this crate's calls answer.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool's, or its driver's.
    #[error(transparent)]
    Pool(#[from] stitchpool_pool::Error),
    /// CUDA's, to a call of cudarc's.
    #[error("CUDA refused a call of cudarc's: {0}")]
    Cuda(#[from] DriverError),
    /// The pool's memory is not CUDA's.
    #[error(
        "the pool runs on the driver {driver:?}, whose addresses mean nothing to CUDA: open it on CudaDriver::open()"
    )]
    NotCuda {
        /// The name of the pool's driver.
        driver: &'static str,
    },
    /// The stream is not of its device's primary context.
    #[error(
        "the stream belongs to a context of its own on device {ordinal}, and the pool orders work in primary contexts: \
         make it with CudaContext::new({ordinal})"
    )]
    Context {
        /// CUDA's number of the device.
        ordinal: usize,
    },
    /// The device's number is beyond those that a pool has.
    #[error("device {ordinal} is beyond the devices that a pool can have, at most 65,534")]
    Device {
        /// CUDA's number of the device.
        ordinal: usize,
    },
    /// So many elements have no length in bytes.
    #[error("{len} elements of {element_bytes} bytes each are more than any address space holds")]
    Length {
        /// Elements asked for.
        len: usize,
        /// Bytes of each.
        element_bytes: usize,
    },
}
