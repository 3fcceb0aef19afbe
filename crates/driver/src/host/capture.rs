//! Captures, as an application opens and ends them.

use super::HostDriver;
use super::work::Work;
use crate::{Capture, Error, ErrorKind, RawStream, Result, Verb};

/// Work that a capture has recorded. It names addresses, and may be launched again and again.
#[derive(Clone, Debug)]
pub struct HostGraph {
    work: Vec<Work>,
}

impl HostDriver {
    /// From now on the stream's work is recorded and does not run.
    ///
    /// # Errors
    /// `InvalidValue` where the stream does not live; `Capture` where it is being captured already.
    pub fn begin_capture(&self, stream: RawStream) -> Result<()> {
        self.with(|state| {
            let id = state.timeline.id(Verb::Kernel, stream)?;
            let lane = state.timeline.lane_mut(id);
            if lane.capture != Capture::None || stream.value == 0 {
                return Err(refused(stream, "is a default stream or is being captured"));
            }
            lane.capture = Capture::Active;
            Ok(())
        })
    }

    /// Ends the capture, whether it held or not.
    ///
    /// # Errors
    /// `Capture` where the stream was not being captured, or something has broken the capture.
    pub fn end_capture(&self, stream: RawStream) -> Result<HostGraph> {
        self.with(|state| {
            let id = state.timeline.id(Verb::Kernel, stream)?;
            let lane = state.timeline.lane_mut(id);
            let work = std::mem::take(&mut lane.captured);
            match std::mem::take(&mut lane.capture) {
                Capture::Active => Ok(HostGraph { work }),
                Capture::Invalidated => Err(refused(stream, "had its capture broken")),
                Capture::None => Err(refused(stream, "was not being captured")),
            }
        })
    }

    /// Breaks the capture of a stream, as some calls of other threads do on a GPU.
    ///
    /// # Errors
    /// `Capture` where the stream is not being captured.
    pub fn invalidate_capture(&self, stream: RawStream) -> Result<()> {
        self.with(|state| {
            let id = state.timeline.id(Verb::Kernel, stream)?;
            let lane = state.timeline.lane_mut(id);
            if lane.capture == Capture::None {
                return Err(refused(stream, "is not being captured"));
            }
            lane.capture = Capture::Invalidated;
            Ok(())
        })
    }

    /// Queues all that a capture has recorded.
    ///
    /// # Errors
    /// `InvalidValue` where the stream does not live; `Capture` where it is being captured itself.
    pub fn launch(&self, stream: RawStream, graph: &HostGraph) -> Result<()> {
        self.with(|state| {
            let id = state.uncaptured(Verb::Kernel, stream)?;
            for work in &graph.work {
                state.queue(id, work.clone());
            }
            Ok(())
        })
    }
}

fn refused(stream: RawStream, what: &str) -> Error {
    Error::new(Verb::Kernel, ErrorKind::Capture, format!("stream {} {what}", stream.value)).on(stream.device)
}
