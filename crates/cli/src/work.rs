//! Streams and blocks of the program's own, and the work it queues on them. The only file here with
//! `unsafe`: owner types prove what the seam asks for.

use crate::session::Session;
use std::ops::Range;
use std::sync::Arc;
use stitchpool_driver::{Address, DeviceId, Driver, Error, ErrorKind, Kernels, RawStream, Verb};
use stitchpool_pool::{Block, Pool, Request, StreamId};

/// A stream of a device, registered with a pool. It lives as long as this, and is to outlive the pool.
pub struct Lane {
    raw: RawStream,
    id: StreamId,
    driver: Arc<dyn Driver>,
    kernels: Arc<dyn Kernels>,
}

/// A live block of a pool: it ends by [`Held::free`] and by nothing else.
pub struct Held {
    block: Block,
    /// Iff a stream is here, the pool keeps the block mapped and open to it until what is queued there
    /// at the free is done.
    users: Vec<StreamId>,
    /// The owner's.
    device: DeviceId,
    /// The stream that its free will name.
    ends_on: Option<StreamId>,
}

impl Lane {
    /// A new stream.
    pub fn open(session: &Session, pool: &Pool, device: DeviceId) -> anyhow::Result<Self> {
        let (driver, kernels) = (session.driver.clone(), session.kernels.clone());
        let raw = kernels.create_stream(device)?;
        match pool.register(raw) {
            Ok(id) => Ok(Self { raw, id, driver, kernels }),
            Err(error) => {
                // SAFETY: `raw` came from `create_stream`, and nobody else knows it.
                unsafe { kernels.destroy_stream(raw) }?;
                Err(error.into())
            }
        }
    }

    /// The stream as the pool knows it.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Where it is.
    pub const fn device(&self) -> DeviceId {
        self.raw.device
    }

    /// Queues a pattern into a part of the block, a multiple of 16 bytes at both ends.
    pub fn fill(&self, held: &Held, part: Range<u64>, seed: u64) -> stitchpool_driver::Result<()> {
        let (at, bytes) = held.demand_use(self, &part)?;
        // SAFETY: the part lies in the live block, whose `users` name this lane; the driver refuses
        // other multiples.
        unsafe { self.kernels.fill(self.raw, at, bytes, seed) }
    }

    /// Queues a look at the pattern; the driver's tally tells what was found.
    pub fn verify(&self, held: &Held, part: Range<u64>, seed: u64) -> stitchpool_driver::Result<()> {
        let (at, bytes) = held.demand_use(self, &part)?;
        // SAFETY: as for `fill`.
        unsafe { self.kernels.verify(self.raw, at, bytes, seed) }
    }

    /// Queues about so many microseconds of nothing.
    pub fn delay(&self, micros: u64) -> stitchpool_driver::Result<()> {
        // SAFETY: `self.raw` lives as long as `self`.
        unsafe { self.kernels.delay(self.raw, micros) }
    }

    /// Makes what is queued here from now on wait for all that is queued on `other` so far.
    pub fn follow(&self, other: &Self) -> stitchpool_driver::Result<()> {
        // SAFETY: `other.raw` lives as long as `other`, and nobody here captures.
        let event = unsafe { self.driver.record(other.raw) }?;
        // SAFETY: `self.raw` lives as long as `self`; `event` was just recorded and is not yet forgotten.
        let waited = unsafe { self.driver.wait(self.raw, event) };
        // SAFETY: `event` is live, and nobody else knows it.
        let forgotten = unsafe { self.driver.forget(event) };
        waited.and(forgotten)
    }

    /// Nothing more is queued here: tells the pool, and ends the stream.
    pub fn retire(self, pool: &Pool) -> Result<(), (stitchpool_pool::Error, Self)> {
        pool.retire(self.id).map_err(|error| (error, self))
    }

    /// Waits (the CPU) until all that is queued here is done.
    pub fn finish(&self) -> stitchpool_driver::Result<()> {
        // SAFETY: `self.raw` lives as long as `self`.
        unsafe { self.kernels.finish_stream(self.raw) }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // SAFETY: `self.raw` came from `create_stream` and is not named again. On the way down nobody can
        // act on a refusal.
        let _ = unsafe { self.kernels.destroy_stream(self.raw) };
    }
}

impl Held {
    /// Allocates one for a lane; the request's stream is the lane's.
    pub fn alloc(pool: &Pool, lane: &Lane, mut request: Request) -> stitchpool_pool::Result<Self> {
        request.stream = lane.id;
        Ok(Self { block: pool.alloc(&request)?, users: vec![lane.id], device: lane.raw.device, ends_on: None })
    }

    /// Where it is, and how long. Whoever keeps this knows nothing of the block's end.
    pub const fn block(&self) -> Block {
        self.block
    }

    /// All of it.
    pub const fn whole(&self) -> Range<u64> {
        0..self.block.bytes
    }

    /// Lends it to another stream until it is freed.
    pub fn lend(&mut self, pool: &Pool, to: &Lane) -> stitchpool_pool::Result<()> {
        pool.record_use(self.block.address, to.id)?;
        self.users.push(to.id);
        Ok(())
    }

    /// Lends it to another stream of the same device, which the pool hears of only when it is freed.
    pub fn end_on(&mut self, last: &Lane) -> bool {
        let is_near = self.device == last.raw.device;
        if is_near && self.ends_on.is_none() {
            self.ends_on = Some(last.id);
            self.users.push(last.id);
        }
        is_near && self.ends_on == Some(last.id)
    }

    /// Gives it back. What is refused is still held.
    pub fn free(self, pool: &Pool) -> Result<(), (stitchpool_pool::Error, Self)> {
        let freed = match self.ends_on {
            Some(stream) => pool.free_on(self.block.address, stream),
            None => pool.free(self.block.address),
        };
        freed.map_err(|error| (error, self))
    }

    fn demand_use(&self, lane: &Lane, part: &Range<u64>) -> stitchpool_driver::Result<(Address, u64)> {
        let Block { address, bytes } = self.block;
        let refused =
            |detail: String| Err(Error::new(Verb::Kernel, ErrorKind::InvalidValue, detail).on(lane.raw.device));
        if !self.users.contains(&lane.id) {
            return refused(format!("the block at {address} was not lent to stream {}", lane.raw.value));
        }
        if part.start > part.end || part.end > bytes {
            return refused(format!("the block at {address} ends after {bytes} bytes, before the part {part:?}"));
        }
        Ok((address + part.start, part.end - part.start))
    }
}
