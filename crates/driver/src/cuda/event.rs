//! Events: made in their stream's own context, without timing, one for each point recorded. Once
//! made an event knows its context; asking about it only takes a capture mode that harms nobody.

use super::capture_mode::Relaxed;
use super::context::Entered;
use super::failure::{call, refusal};
use super::stream::handle_of;
use crate::{Error, ErrorKind, RawEvent, RawStream, Result, Verb};
use std::time::{Duration, Instant};
use stitchpool_cuda_sys::{CU_EVENT_DISABLE_TIMING, CUDA_ERROR_NOT_READY, CUDA_SUCCESS, CUevent};

/// So long a wait does not sleep: most are for work that is nearly done, a sleep is 50 us longer than it is asked to
/// be, and a copy of half a GiB over NVLink takes 1.3 ms.
const AWAKE: Duration = Duration::from_millis(2);
/// After that it sleeps so long between two looks.
const PAUSE: Duration = Duration::from_micros(50);

fn name_of(event: RawEvent) -> CUevent {
    CUevent(std::ptr::with_exposed_provenance_mut(event.value as usize))
}

impl Entered<'_> {
    /// # Safety
    /// - `stream` is live, belongs to this context and is not being captured.
    pub(super) unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        let mut event = CUevent::NULL;
        // SAFETY: `event` is a live place for the answer, and a context is current: `self` proves it.
        unsafe { call!(self.cuda, Verb::Record, cuEventCreate(&mut event, CU_EVENT_DISABLE_TIMING.0)) }?;
        // SAFETY: `event` was just made in this context; the caller answers for `stream`.
        let recorded = unsafe { call!(self.cuda, Verb::Record, cuEventRecord(event, handle_of(stream))) };
        if let Err(error) = recorded {
            // SAFETY: `event` is ours and nobody else knows it. The first refusal is the one to tell.
            let _ = unsafe { (self.cuda.cuEventDestroy_v2)(event) };
            return Err(error);
        }
        Ok(RawEvent { device: self.device, value: event.0.expose_provenance() as u64 })
    }

    /// # Safety
    /// - `stream` is live, belongs to this context and is not being captured; `event` is live.
    pub(super) unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        // SAFETY: the caller answers for both.
        unsafe { call!(self.cuda, Verb::Wait, cuStreamWaitEvent(handle_of(stream), name_of(event), 0)) }
    }
}

impl Relaxed<'_> {
    /// # Safety
    /// - `event` is live.
    pub(super) unsafe fn is_done(&self, event: RawEvent, verb: Verb) -> Result<bool> {
        // SAFETY: the caller answers for `event`.
        match unsafe { (self.cuda.cuEventQuery)(name_of(event)) } {
            CUDA_SUCCESS => Ok(true),
            CUDA_ERROR_NOT_READY => Ok(false),
            code => Err(refusal(verb, "cuEventQuery", code)),
        }
    }

    /// # Safety
    /// - `event` is live.
    pub(super) unsafe fn finish(&self, event: RawEvent, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            // SAFETY: the caller answers for `event`.
            if unsafe { self.is_done(event, Verb::Finish) }? {
                return Ok(());
            }
            let waited = start.elapsed();
            if waited >= limit {
                let detail = format!(
                    "the event was not done after {} us, the limit; allow more time, or look for work that never ends",
                    limit.as_micros()
                );
                return Err(Error::new(Verb::Finish, ErrorKind::Timeout, detail));
            }
            if waited < AWAKE { std::thread::yield_now() } else { std::thread::sleep(PAUSE.min(limit - waited)) }
        }
    }

    /// # Safety
    /// - `event` is live; nobody names it afterwards.
    pub(super) unsafe fn forget(&self, event: RawEvent) -> Result<()> {
        // SAFETY: the caller answers for `event`.
        unsafe { call!(self.cuda, Verb::Forget, cuEventDestroy_v2(name_of(event))) }
    }
}
