//! The calling thread's capture mode, set to relaxed and put back. Without it an event query or a
//! synchronise breaks the capture of another thread that captures in global mode.

use super::failure::call;
use crate::{Result, Verb};
use std::marker::PhantomData;
use stitchpool_cuda_sys::{CU_STREAM_CAPTURE_MODE_RELAXED, CUstreamCaptureMode, Cuda};

/// As long as this lives, the thread that made it may call what a capture forbids, and no capture
/// of another thread is broken by it. The mode belongs to a thread, so this is not `Send`.
pub(super) struct Relaxed<'a> {
    pub(super) cuda: &'a Cuda,
    before: CUstreamCaptureMode,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl<'a> Relaxed<'a> {
    pub(super) fn enter(cuda: &'a Cuda, verb: Verb) -> Result<Self> {
        let mut mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` is a live place that the driver reads the new mode from and writes the old one to.
        unsafe { call!(cuda, verb, cuThreadExchangeStreamCaptureMode(&mut mode)) }?;
        Ok(Self { cuda, before: mode, stays_on_its_thread: PhantomData })
    }
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `enter`; `before` is what this thread had. There is nobody to tell of a refusal,
        // and the only one is that the driver has shut down, when modes no longer matter.
        let _ = unsafe { (self.cuda.cuThreadExchangeStreamCaptureMode)(&mut self.before) };
    }
}
