//! A stream of cudarc's that a pool knows. It makes no stream, and no context.

use crate::error::{Error, Result};
use crate::pool_slice::PoolSlice;
use cudarc::driver::{CudaStream, DevicePtr, DeviceRepr, HostSlice, ValidAsZeroBits};
use std::ops::Deref;
use std::sync::Arc;
use stitchpool_driver::{DeviceId, RawStream};
use stitchpool_pool::{Buffer, Pool, Request, StreamId};

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

    /// A slice of `len` elements with undefined content.
    ///
    /// # Errors
    /// [`Error::Length`], CUDA's, or the pool's, as [`Pool::alloc`].
    ///
    /// # Safety
    /// - Nothing reads an element as a `T` before it was written.
    pub unsafe fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<PoolSlice<T>> {
        // SAFETY: the caller answers for the content.
        unsafe { self.alloc_as(len, |request| request) }
    }

    /// The same with a request that says more: an arena, a placement, further readers, handles of its own.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    ///
    /// # Safety
    /// - Nothing reads an element as a `T` before it was written.
    pub unsafe fn alloc_as<T: DeviceRepr>(
        &self,
        len: usize,
        shape: impl FnOnce(Request) -> Request,
    ) -> Result<PoolSlice<T>> {
        let (bytes, stream) = (bytes::<T>(len)?, self.id());
        let request = Request { bytes, stream, ..shape(Request::new(bytes, stream)) };
        let buffer = Buffer::new(self.pool(), &request)?;
        // SAFETY: the buffer is as long as `request` says, and on its stream; the caller answers for the content.
        unsafe { PoolSlice::new(self.clone(), buffer, len) }
    }

    /// A slice of `len` elements that are all zero.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<PoolSlice<T>> {
        // SAFETY: it is written before anybody has it.
        let mut slice = unsafe { self.alloc(len) }?;
        self.memset_zeros(&mut slice)?;
        Ok(slice)
    }

    /// A slice with a copy of what is on the host.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn clone_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(&self, source: &Src) -> Result<PoolSlice<T>> {
        // SAFETY: it is written before anybody has it.
        let mut slice = unsafe { self.alloc(source.len()) }?;
        self.memcpy_htod(source, &mut slice)?;
        Ok(slice)
    }

    /// A slice with a copy of what is on a device.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn clone_dtod<T: DeviceRepr, Src: DevicePtr<T>>(&self, source: &Src) -> Result<PoolSlice<T>> {
        // SAFETY: it is written before anybody has it.
        let mut slice = unsafe { self.alloc(source.len()) }?;
        self.memcpy_dtod(source, &mut slice)?;
        Ok(slice)
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

/// The length of a slice; a slice of nothing has an address too.
fn bytes<T>(len: usize) -> Result<u64> {
    let element_bytes = size_of::<T>();
    let bytes = len.checked_mul(element_bytes).ok_or(Error::Length { len, element_bytes })?;
    Ok(bytes.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_nothing_has_a_place_and_one_beyond_all_addresses_is_refused() {
        assert_eq!(bytes::<f32>(0).unwrap(), 1);
        assert_eq!(bytes::<f32>(3).unwrap(), 12);
        let refused = bytes::<f32>(usize::MAX / 2).unwrap_err();
        assert!(refused.to_string().contains("elements of 4 bytes"), "{refused}");
    }
}
