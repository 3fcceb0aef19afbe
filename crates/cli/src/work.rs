//! Streams and blocks of the program's own, and the work it queues on them. The only file here with
//! `unsafe`: owner types prove what the seam asks for.

use crate::session::Session;
use std::sync::Arc;
use stitchpool_driver::{DeviceId, Driver, Error, ErrorKind, Kernels, RawStream, Verb};
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
    /// at the free is done. The first is the owner.
    users: Vec<RawStream>,
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

    /// Queues a pattern into the block.
    pub fn fill(&self, held: &Held, seed: u64) -> stitchpool_driver::Result<()> {
        let Block { address, bytes } = held.demand_use(self.raw)?;
        // SAFETY: the block is live and cut in 512 bytes; `users` names this stream.
        unsafe { self.kernels.fill(self.raw, address, bytes, seed) }
    }

    /// Queues a look at the pattern; the driver's tally tells what was found.
    pub fn verify(&self, held: &Held, seed: u64) -> stitchpool_driver::Result<()> {
        let Block { address, bytes } = held.demand_use(self.raw)?;
        // SAFETY: the block is live and cut in 512 bytes; `users` names this stream.
        unsafe { self.kernels.verify(self.raw, address, bytes, seed) }
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
        Ok(Self { block: pool.alloc(&request)?, users: vec![lane.raw] })
    }

    /// How long it is.
    pub const fn bytes(&self) -> u64 {
        self.block.bytes
    }

    /// Lends it to another stream until it is freed.
    pub fn lend(&mut self, pool: &Pool, to: &Lane) -> stitchpool_pool::Result<()> {
        pool.record_use(self.block.address, to.id)?;
        self.users.push(to.raw);
        Ok(())
    }

    /// Gives it back.
    pub fn free(self, pool: &Pool) -> stitchpool_pool::Result<()> {
        pool.free(self.block.address)
    }

    fn demand_use(&self, stream: RawStream) -> stitchpool_driver::Result<Block> {
        if self.users.contains(&stream) {
            return Ok(self.block);
        }
        let detail = format!("the block at {} was not lent to stream {}", self.block.address, stream.value);
        Err(Error::new(Verb::Kernel, ErrorKind::InvalidValue, detail).on(stream.device))
    }
}
