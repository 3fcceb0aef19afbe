//! Streams and time moved by the test's hand.

use super::HostDriver;
use super::span::Span;
use super::work::Work;
use crate::{Address, Error, ErrorKind, RawStream, Result, Rights, Verb};

impl HostDriver {
    /// Runs the next `items` items of a stream at most, up to the first that cannot run: a wait for
    /// what is not done, or a stalled stream. Says how many ran.
    ///
    /// # Errors
    /// `InvalidValue` where the stream does not live.
    pub fn advance(&self, stream: RawStream, items: u64) -> Result<u64> {
        self.with(|state| {
            let id = state.timeline.id(Verb::Kernel, stream)?;
            let mut ran = 0;
            while ran < items && state.timeline.may_run(id) {
                state.run_head(id, true);
                ran += 1;
            }
            Ok(ran)
        })
    }

    /// Runs a stream up to the first item that cannot run. Says how many ran.
    ///
    /// # Errors
    /// As [`HostDriver::advance`].
    pub fn run(&self, stream: RawStream) -> Result<u64> {
        self.advance(stream, u64::MAX)
    }

    /// Runs all streams, in order of queueing, until none can go on. Says how many items ran.
    pub fn run_all(&self) -> u64 {
        let mut state = self.state.lock();
        let mut ran = 0;
        while let Some(id) = state.timeline.first(u64::MAX) {
            state.run_head(id, true);
            ran += 1;
        }
        ran
    }

    /// How many items of a stream have not run.
    ///
    /// # Errors
    /// `InvalidValue` where the stream does not live.
    pub fn queued(&self, stream: RawStream) -> Result<u64> {
        self.with(|state| {
            let id = state.timeline.id(Verb::Kernel, stream)?;
            Ok(state.timeline.lane(id).queued())
        })
    }

    /// Puts the driver's clock forward to `us` microseconds and runs what is due on lagging streams,
    /// in order of due time. An earlier time than now changes nothing.
    pub fn set_now_us(&self, us: u64) {
        self.time.set_us(us);
        self.state.lock().run_due();
    }

    /// Makes a stream stand still, or go on. While it stands nothing of it runs, and a wait of the CPU
    /// for it ends in `Timeout` at once.
    ///
    /// # Errors
    /// `InvalidValue` where the stream does not live.
    pub fn stall(&self, stream: RawStream, stalled: bool) -> Result<()> {
        self.with(|state| {
            let id = state.timeline.id(Verb::Kernel, stream)?;
            state.timeline.lane_mut(id).stalled = stalled;
            state.run_due();
            Ok(())
        })
    }

    /// Queues a look at whether the stream's device could use a range so. It moves no byte, but counts
    /// as such a use where order is watched; what it finds missing is a fault in the tally.
    ///
    /// # Errors
    /// `InvalidValue` where the stream does not live, or the range is longer than addresses reach.
    pub fn touch(&self, stream: RawStream, at: Address, bytes: u64, needs: Rights) -> Result<()> {
        let on = Span { at: at.0, bytes };
        self.with(|state| {
            if at.checked_add(bytes).is_none() {
                let detail = format!("a range at {at} is not so long");
                return Err(Error::new(Verb::Kernel, ErrorKind::InvalidValue, detail).of(bytes));
            }
            state.queue_or_capture(stream, Work::Touch { on, needs })
        })
    }
}
