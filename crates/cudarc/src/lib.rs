//! Slices of cudarc's in the memory of a pool: they go wherever cudarc asks for device memory (kernels, copies, its
//! other libraries), and return to the pool when they are dropped. Translates, decides nothing.
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use stitchpool_cudarc::PoolStream;
//! use stitchpool_driver::cuda::CudaDriver;
//! use stitchpool_pool::{Pool, Settings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::new(CudaDriver::open()?, Settings::default())?;
//! let context = CudaContext::new(0)?; // the primary context, as the pool's
//! let stream = PoolStream::new(&pool, context.new_stream()?)?;
//!
//! let ones = stream.clone_htod(&[1.0_f32; 1024])?; // in the pool
//! let mut sums = stream.alloc_zeros::<f32>(1024)?;
//! stream.memcpy_dtod(&ones, &mut sums)?; // cudarc's own calls
//! assert_eq!(stream.clone_dtoh(&sums)?, [1.0; 1024]);
//! # Ok(())
//! # } // both slices are back in the pool, in the stream's order
//! ```
//!
//! A program that has chosen a version of CUDA's interface for its own cudarc depends on this crate with
//! `default-features = false`; without a choice it is that of CUDA 12.0, which newer drivers have too.

mod error;
mod lending;
mod pool_slice;
mod pool_stream;

pub use error::{Error, Result};
pub use pool_slice::PoolSlice;
pub use pool_stream::PoolStream;
