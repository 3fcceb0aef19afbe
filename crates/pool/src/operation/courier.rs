//! Carries content between addresses: queues copies on the devices' default streams, joins those that
//! continue each other, and marks how far it is. It maps nothing.

use std::sync::Arc;
use std::time::Duration;
use stitchpool_chunks::{Event, Origin, copy};
use stitchpool_driver::{Address, DeviceId, Error, RawStream};

/// One copy from one device's memory to another's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) stream: RawStream,
    /// Where the memory behind `from` and `to` lies: a copy may not cross from host to device memory.
    pub(crate) devices: (DeviceId, DeviceId),
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) bytes: u64,
}

/// Queues loads in order.
#[derive(Debug)]
pub(crate) struct Courier<'a> {
    origin: &'a Arc<Origin>,
    /// Not queued yet: the next may continue it.
    held: Option<Load>,
    /// Streams with loads since the last mark.
    streams: Vec<RawStream>,
}

/// A point after all loads so far.
#[derive(Debug, Default)]
pub(crate) struct Milestone {
    events: Vec<Event>,
    bytes: u64,
}

impl Load {
    fn is_continued_by(&self, next: &Self) -> bool {
        let same = self.stream == next.stream && self.devices == next.devices;
        same && self.from + self.bytes == next.from && self.to + self.bytes == next.to
    }
}

impl<'a> Courier<'a> {
    pub(crate) const fn new(origin: &'a Arc<Origin>) -> Self {
        Self { origin, held: None, streams: Vec::new() }
    }

    /// Takes a load on; it is queued when the next does not continue it.
    pub(crate) fn take(&mut self, load: Load) -> Result<(), Error> {
        if let Some(held) = &mut self.held
            && held.is_continued_by(&load)
        {
            held.bytes += load.bytes;
            return Ok(());
        }
        self.send()?;
        self.held = Some(load);
        Ok(())
    }

    /// Takes note that something else was queued on a stream: the next mark comes after it.
    pub(crate) fn note(&mut self, stream: RawStream) {
        if !self.streams.contains(&stream) {
            self.streams.push(stream);
        }
    }

    fn send(&mut self) -> Result<(), Error> {
        let Some(load) = self.held.take() else { return Ok(()) };
        self.note(load.stream);
        copy(self.origin, load.stream, load.to, load.from, load.bytes)
    }

    /// A point after all loads so far, `bytes` of them since the last.
    pub(crate) fn mark(&mut self, bytes: u64) -> Result<Milestone, Error> {
        self.send()?;
        let streams = std::mem::take(&mut self.streams);
        let events: Result<_, _> = streams.into_iter().map(|stream| Event::record(self.origin, stream)).collect();
        Ok(Milestone { events: events?, bytes })
    }
}

/// A copy slower than this stands still.
const BYTES_PER_US_MIN: u64 = 100;

impl Milestone {
    /// Whether the loads before it are done.
    pub(crate) fn is_reached(&self) -> Result<bool, Error> {
        for event in &self.events {
            if !event.is_done()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits (the CPU) until the loads before it are done; `grace` and what a slow bus needs, at most.
    pub(crate) fn reach(&self, grace: Duration) -> Result<(), Error> {
        let limit = grace + Duration::from_micros(self.bytes / BYTES_PER_US_MIN);
        self.events.iter().try_for_each(|event| event.finish(limit))
    }
}
