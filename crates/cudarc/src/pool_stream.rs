//! A stream of cudarc's that a pool knows. It makes no stream, and no context.

use crate::error::{Error, Result};
use cudarc::driver::CudaStream;
use std::ops::Deref;
use std::sync::Arc;
use stitchpool_driver::{DeviceId, RawStream};
use stitchpool_pool::{Pool, StreamId};

/// A stream that is registered with a pool: what it allocates lies there.
///
/// Cheap to clone. It is retired with its last clone, and every slice is one. All of [`CudaStream`]'s methods are its
/// own too; `alloc`, `alloc_zeros`, `clone_htod` and `clone_dtod` take the pool's memory instead of CUDA's.
#[derive(Clone, Debug)]
pub struct PoolStream(Arc<Registered>);

#[derive(Debug)]
struct Registered {
    pool: Pool,
    id: StreamId,
    /// After the rest of the drop: the stream lives until it is retired.
    stream: Arc<CudaStream>,
}

/// CUDA's name for each thread's own default stream.
const PER_THREAD: u64 = 2;

impl PoolStream {
    /// Registers a stream of a primary context with a pool on CUDA.
    ///
    /// # Errors
    /// [`Error::NotCuda`], [`Error::Context`], or the pool's, as [`Pool::register`].
    pub fn new(pool: &Pool, stream: Arc<CudaStream>) -> Result<Self> {
        let driver = pool.driver_name();
        if driver != "cuda" {
            return Err(Error::NotCuda { driver });
        }
        let context = stream.context();
        if !context.is_primary() {
            return Err(Error::Context { ordinal: context.ordinal() });
        }
        // SAFETY: the driver of that name maps its memory for all contexts of the process, and orders its streams in
        // the primary ones.
        unsafe { Self::over(pool, stream) }
    }

    /// The same for a pool on a driver of your own, unchecked.
    ///
    /// # Errors
    /// The pool's, as [`Pool::register`].
    ///
    /// # Safety
    /// - What the pool gives out is memory at these addresses for the work of `stream`.
    /// - The pool's driver numbers the devices as CUDA does, and knows the stream by its handle value.
    pub unsafe fn over(pool: &Pool, stream: Arc<CudaStream>) -> Result<Self> {
        let ordinal = stream.context().ordinal();
        let device = u16::try_from(ordinal).ok().map(DeviceId).filter(|device| !device.is_host());
        let device = device.ok_or(Error::Device { ordinal })?;
        // Another thread cannot name this thread's default stream, but the legacy stream waits for it and it for the
        // legacy one: an event there is an event on both.
        let value = Some(stream.cu_stream() as u64).filter(|value| *value != PER_THREAD).unwrap_or(0);
        let id = pool.register(RawStream { device, value })?;
        Ok(Self(Arc::new(Registered { pool: pool.clone(), id, stream })))
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// The pool's identity of the stream, for calls of the pool's own.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.0.id
    }
}

impl Deref for PoolStream {
    type Target = Arc<CudaStream>;

    fn deref(&self) -> &Arc<CudaStream> {
        &self.0.stream
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Err(error) = self.pool.retire(self.id) {
            tracing::warn!(%error, "a stream of cudarc's goes without having been retired");
        }
    }
}
