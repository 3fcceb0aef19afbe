//! A slice of device memory that a pool lends. It frees in stream order, and waits for nothing on the CPU.

use crate::error::Result;
use crate::pool_stream::PoolStream;
use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs, PushKernelArg,
    SyncOnDrop,
};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use stitchpool_pool::Buffer;

/// `Vec<T>` on a device, as cudarc's [`CudaSlice`] is, in the memory of a pool.
///
/// It goes wherever [`DevicePtr`] or [`DevicePtrMut`] is asked for, and to kernels. When it is dropped its block is
/// freed in the order of its own stream. That stream is first made to wait for what cudarc's event tracking saw of
/// other streams' work; where the tracking is off, [`record_use`](Self::record_use) says who else uses the slice.
#[derive(Debug)]
pub struct PoolSlice<T> {
    /// Taken iff the slice is being dropped: it would free the memory itself.
    slice: ManuallyDrop<CudaSlice<T>>,
    /// Freed after the drop of this, before the stream is let go.
    buffer: Buffer,
    stream: PoolStream,
}

impl<T> PoolSlice<T> {
    /// A slice over a buffer of the stream's pool.
    ///
    /// # Safety
    /// - The buffer is at least as long as `len` elements, and is allocated for `stream`.
    /// - Nothing reads an element as a `T` before it was written.
    pub(crate) unsafe fn new(stream: PoolStream, buffer: Buffer, len: usize) -> Result<Self> {
        let context = stream.context();
        context.bind_to_thread()?;
        if context.is_event_tracking() {
            // cudarc makes two events with the slice and panics if it cannot. In a broken context none can be made.
            drop(context.new_event(None)?);
        }
        // SAFETY: the caller answers for length and content; the buffer stays as long as the slice.
        let slice = unsafe { stream.upgrade_device_ptr(buffer.address().0, len) };
        Ok(Self { slice: ManuallyDrop::new(slice), buffer, stream })
    }

    /// The stream in whose order it is freed.
    #[must_use]
    pub const fn pool_stream(&self) -> &PoolStream {
        &self.stream
    }

    /// The pool's block behind it, for calls of the pool's own.
    #[must_use]
    pub const fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// All of it, or by [`CudaView::slice`] a part, to be read.
    #[must_use]
    pub fn as_view(&self) -> CudaView<'_, T> {
        self.slice.as_view()
    }

    /// All of it, or by [`CudaViewMut::slice_mut`] a part, to be written.
    #[must_use]
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.as_view_mut()
    }

    /// Notes that it is used on `stream` too: after the drop its memory is nobody's before what is queued there until
    /// then is done. Needed only where cudarc's event tracking is off, or for work that cudarc does not see.
    ///
    /// # Errors
    /// As the pool's `record_use`.
    pub fn record_use(&self, stream: &PoolStream) -> Result<()> {
        Ok(self.stream.pool().record_use(self.buffer.address(), stream.id())?)
    }
}

impl<T> Drop for PoolSlice<T> {
    fn drop(&mut self) {
        // SAFETY: nobody has the slice after its drop, and this is the only place that takes it.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // The stream now waits for other streams' uses; the memory itself is the buffer's, which goes next.
        slice.leak();
    }
}

impl<T> DeviceSlice<T> for PoolSlice<T> {
    fn len(&self) -> usize {
        self.slice.len()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

impl<T> DevicePtr<T> for PoolSlice<T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.slice.device_ptr(stream)
    }
}

impl<T> DevicePtrMut<T> for PoolSlice<T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.slice.device_ptr_mut(stream)
    }
}

// SAFETY: the argument is cudarc's own slice, borrowed as long as the slice here.
unsafe impl<'a, 'b: 'a, T> PushKernelArg<&'b PoolSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, slice: &'b PoolSlice<T>) -> &mut Self {
        PushKernelArg::<&'b CudaSlice<T>>::arg(self, &slice.slice)
    }
}

// SAFETY: as above, and borrowed alone.
unsafe impl<'a, 'b: 'a, T> PushKernelArg<&'b mut PoolSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, slice: &'b mut PoolSlice<T>) -> &mut Self {
        PushKernelArg::<&'b mut CudaSlice<T>>::arg(self, &mut slice.slice)
    }
}
