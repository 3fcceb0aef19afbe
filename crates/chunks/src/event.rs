//! The owner of a recorded event: one point in a stream's order of work.

use crate::{Origin, Quarantined, QuarantinedKind};
use std::sync::Arc;
use std::time::Duration;
use stitchpool_driver::{Capture, Error, ErrorKind, RawEvent, RawStream, Result, Verb};

/// A point in a stream's work, after all that was queued when it was recorded.
#[derive(Debug)]
pub struct Event {
    origin: Arc<Origin>,
    raw: RawEvent,
}

impl Event {
    /// Records one on a live stream. (On a capturing one CUDA would record it into the graph, and the
    /// first question after it would break the capture.)
    ///
    /// # Errors
    /// The driver's; `Capture`, without a call, while the stream is being captured.
    pub fn record(origin: &Arc<Origin>, stream: RawStream) -> Result<Self> {
        refuse_capturing(origin, stream, Verb::Record)?;
        // SAFETY: the pool registers streams and is told before they are destroyed; a dead one is
        // refused by the driver, and it is not being captured.
        let raw = unsafe { origin.driver().record(stream)? };
        Ok(Self { origin: origin.clone(), raw })
    }

    /// Whether the GPU is past it.
    ///
    /// # Errors
    /// The driver's, unchanged.
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: this owner keeps the event alive.
        unsafe { self.origin.driver().is_done(self.raw) }
    }

    /// Makes the CPU wait until the GPU is past it, for `limit` at most.
    ///
    /// # Errors
    /// The driver's; `Timeout` after `limit`.
    pub fn finish(&self, limit: Duration) -> Result<()> {
        // SAFETY: this owner keeps the event alive.
        unsafe { self.origin.driver().finish(self.raw, limit) }
    }

    /// Makes `stream` wait for it; the CPU does not.
    ///
    /// # Errors
    /// The driver's; `Capture`, without a call, while the stream is being captured.
    pub fn hold_back(&self, stream: RawStream) -> Result<()> {
        refuse_capturing(&self.origin, stream, Verb::Wait)?;
        // SAFETY: this owner keeps the event alive; for the stream see `record`.
        unsafe { self.origin.driver().wait(stream, self.raw) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: only this owner, which ends here, names the event.
        if let Err(error) = unsafe { self.origin.driver().forget(self.raw) } {
            let entry = Quarantined { kind: QuarantinedKind::Event, device: Some(self.raw.device), bytes: 0, error };
            self.origin.quarantine().put(entry);
        }
    }
}

/// The driver's own number of a live stream, which no other stream has or had.
///
/// # Errors
/// The driver's, unchanged.
pub fn stream_identity(origin: &Origin, stream: RawStream) -> Result<u64> {
    // SAFETY: the pool is told before a stream is destroyed; of a dead one the driver may know nothing.
    unsafe { origin.driver().stream_identity(stream) }
}

/// Whether a live stream is being captured.
///
/// # Errors
/// The driver's, unchanged.
pub fn capture_of(origin: &Origin, stream: RawStream) -> Result<Capture> {
    // SAFETY: the pool is told before a stream is destroyed; a dead one is refused by the driver.
    unsafe { origin.driver().capture(stream) }
}

fn refuse_capturing(origin: &Origin, stream: RawStream, verb: Verb) -> Result<()> {
    if capture_of(origin, stream)? == Capture::None {
        return Ok(());
    }
    let detail =
        format!("stream {:#x} is being captured, and this would break the capture: end it first", stream.value);
    Err(Error::new(verb, ErrorKind::Capture, detail).on(stream.device))
}
