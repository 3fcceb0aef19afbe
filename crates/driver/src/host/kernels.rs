//! Work of an application, for tests and replays.

use super::HostDriver;
use super::span::Span;
use super::work::Work;
use crate::{Address, DeviceId, Error, ErrorKind, Kernels, RawStream, Result, Tally, Verb};

impl Kernels for HostDriver {
    fn create_stream(&self, device: DeviceId) -> Result<RawStream> {
        self.with(|state| {
            state.books.places.index(Verb::Kernel, device)?;
            if device.is_host() {
                return Err(Error::new(Verb::Kernel, ErrorKind::InvalidDevice, "the host has no streams").on(device));
            }
            Ok(state.timeline.create_stream(device))
        })
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()> {
        self.with(|state| state.timeline.destroy_stream(stream))
    }

    unsafe fn fill(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) -> Result<()> {
        self.with(|state| state.queue_or_capture(stream, Work::Fill { to: whole_words(at, bytes)?, seed }))
    }

    unsafe fn verify(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) -> Result<()> {
        self.with(|state| state.queue_or_capture(stream, Work::Verify { from: whole_words(at, bytes)?, seed }))
    }

    unsafe fn delay(&self, stream: RawStream, micros: u64) -> Result<()> {
        self.with(|state| state.queue_or_capture(stream, Work::Delay { micros }))
    }

    unsafe fn finish_stream(&self, stream: RawStream) -> Result<()> {
        self.with(|state| {
            let id = state.uncaptured(Verb::Kernel, stream)?;
            let point = state.timeline.end(id);
            state.run_due();
            state.run_until(point).map_err(|stuck| {
                let detail = format!("stream {} stands still", stuck.value);
                Error::new(Verb::Kernel, ErrorKind::Timeout, detail).on(stuck.device)
            })?;
            state.timeline.cpu_saw_all(id);
            Ok(())
        })
    }

    fn tally(&self) -> Result<Tally> {
        Ok(self.state.lock().tally.clone())
    }
}

fn whole_words(at: Address, bytes: u64) -> Result<Span> {
    if at.0.is_multiple_of(UNIT_BYTES) && bytes.is_multiple_of(UNIT_BYTES) && at.checked_add(bytes).is_some() {
        return Ok(Span { at: at.0, bytes });
    }
    let detail = format!("a pattern at {at} must begin and end at multiples of {UNIT_BYTES} bytes");
    Err(Error::new(Verb::Kernel, ErrorKind::InvalidValue, detail).of(bytes))
}

/// The smallest pattern, as on a GPU, whose threads write 16 bytes each.
const UNIT_BYTES: u64 = 16;
