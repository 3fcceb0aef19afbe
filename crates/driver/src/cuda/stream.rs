//! Streams: what they are, what they capture, and copies on them. It never makes the CPU wait but
//! in `finish_stream`.

use super::context::Entered;
use super::failure::call;
use crate::{Address, Capture, RawStream, Result, Verb};
use stitchpool_cuda_sys::{
    CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_NON_BLOCKING, CUstream, Cuda,
};

/// Handle values up to this one are the default streams (0 the default, 1 legacy, 2 per thread):
/// what they mean depends on the current context. Any greater value knows its own context.
const DEFAULT_STREAM_MAX: u64 = 2;

pub(super) fn handle_of(stream: RawStream) -> CUstream {
    CUstream(std::ptr::with_exposed_provenance_mut(stream.value as usize))
}

/// Whether calls on this stream need its context to be current.
pub(super) fn is_default(stream: RawStream) -> bool {
    stream.value <= DEFAULT_STREAM_MAX
}

/// # Safety
/// - `stream` is live; its context is current if it is a default stream.
pub(super) unsafe fn capture(cuda: &Cuda, stream: RawStream) -> Result<Capture> {
    let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: `status` is a live place; the caller answers for `stream`. No capture mode forbids this call.
    unsafe { call!(cuda, Verb::CaptureOf, cuStreamIsCapturing(handle_of(stream), &mut status)) }?;
    Ok(match status {
        CU_STREAM_CAPTURE_STATUS_NONE => Capture::None,
        CU_STREAM_CAPTURE_STATUS_ACTIVE => Capture::Active,
        _ => Capture::Invalidated,
    })
}

/// The driver's own number of the stream. A driver before CUDA 12.0 has none: then it is made of
/// device and handle value, and a stream that got a destroyed stream's value has its number too.
///
/// # Safety
/// - `stream` is live and not being captured; its context is current if it is a default stream.
pub(super) unsafe fn identity(cuda: &Cuda, stream: RawStream) -> Result<u64> {
    let Some(get) = cuda.cuStreamGetId else { return Ok(identity_of_value(stream)) };
    let mut id = 0;
    // SAFETY: `id` is a live place; the caller answers for `stream`.
    super::failure::answer(Verb::StreamIdentity, "cuStreamGetId", unsafe { get(handle_of(stream), &mut id) })?;
    Ok(id)
}

/// The device above, the 48 bits that an address has below, and the top bit, which no count reaches.
pub(super) fn identity_of_value(stream: RawStream) -> u64 {
    1 << 63 | u64::from(stream.device.0 & 0x7fff) << 48 | (stream.value & ((1 << 48) - 1))
}

impl Entered<'_> {
    /// # Safety
    /// - `stream` is live and belongs to this context.
    /// - Both ranges stay mapped and open to its device until the copy is done.
    pub(super) unsafe fn copy(&self, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller answers for all of it.
        unsafe { call!(self.cuda, Verb::Copy, cuMemcpyAsync(to.0, from.0, bytes as usize, handle_of(stream))) }
    }

    /// # Safety
    /// - `stream` is live and belongs to this context.
    /// - The range stays mapped and open to its device until it is done.
    pub(super) unsafe fn memset(&self, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()> {
        // SAFETY: the caller answers for all of it.
        unsafe { call!(self.cuda, Verb::Memset, cuMemsetD8Async(at.0, value, bytes as usize, handle_of(stream))) }
    }

    /// # Safety
    /// - The range is mapped and open to this device, and no queued work writes it.
    pub(super) unsafe fn read(&self, at: Address, into: &mut [u8]) -> Result<()> {
        // SAFETY: the caller answers for the range; `into` is live, and the call waits until it is written.
        unsafe { call!(self.cuda, Verb::Read, cuMemcpyDtoH_v2(into.as_mut_ptr().cast(), at.0, into.len())) }
    }

    /// # Safety
    /// - The range is mapped and open to this device for writing, and no queued work uses it.
    pub(super) unsafe fn write(&self, at: Address, from: &[u8]) -> Result<()> {
        // SAFETY: the caller answers for the range; `from` is live, and was read when the call returns. The
        // copy to device memory itself may end later on the default stream: `synchronize` waits for it.
        unsafe { call!(self.cuda, Verb::Write, cuMemcpyHtoD_v2(at.0, from.as_ptr().cast(), from.len())) }?;
        // SAFETY: a context is current: `self` proves it; the caller answers for captures.
        unsafe { self.synchronize() }
    }

    /// # Safety
    /// - No stream of this context is being captured.
    pub(super) unsafe fn synchronize(&self) -> Result<()> {
        // SAFETY: a context is current: `self` proves it; the caller answers for captures.
        unsafe { call!(self.cuda, Verb::Synchronize, cuCtxSynchronize()) }
    }

    /// A stream that does not wait for the legacy default stream.
    pub(super) fn create_stream(&self) -> Result<RawStream> {
        let mut stream = CUstream::NULL;
        // SAFETY: `stream` is a live place for the answer, and a context is current: `self` proves it.
        unsafe { call!(self.cuda, Verb::Kernel, cuStreamCreate(&mut stream, CU_STREAM_NON_BLOCKING.0)) }?;
        Ok(RawStream { device: self.device, value: stream.0.expose_provenance() as u64 })
    }

    /// # Safety
    /// - `stream` came from `create_stream` and is live.
    pub(super) unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()> {
        // SAFETY: the caller answers for `stream`.
        unsafe { call!(self.cuda, Verb::Kernel, cuStreamDestroy_v2(handle_of(stream))) }
    }

    /// # Safety
    /// - `stream` is live and belongs to this context.
    pub(super) unsafe fn finish_stream(&self, stream: RawStream) -> Result<()> {
        // SAFETY: the caller answers for `stream`.
        unsafe { call!(self.cuda, Verb::Kernel, cuStreamSynchronize(handle_of(stream))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceId;

    #[test]
    fn where_the_driver_does_not_count_streams_device_and_value_tell_them_apart() {
        let stream = |device, value| RawStream { device: DeviceId(device), value };
        let identities =
            [stream(0, 0), stream(0, 2), stream(1, 0), stream(0, 0x7fff_1234_5678), stream(1, 0x7fff_1234_5678)]
                .map(identity_of_value);
        for (index, identity) in identities.iter().enumerate() {
            assert!(!identities[..index].contains(identity), "{identities:x?}");
            assert!(*identity > u64::MAX / 2, "{identity:x} could be a count of the driver's");
        }
    }
}
