//! A pool with streams and blocks, whose bytes are known.

use crate::rig::{Application, GRANULE, Rig, Stream};
use crate::scenario::Scenario;
use std::sync::Arc;
use stitchpool::driver::RawStream;
use stitchpool::driver::host::HostDriver;
use stitchpool::{Block, Growable, Placement, Request, Result, Stats};

pub struct Stage {
    pub rig: Rig,
    pub streams: Vec<Stream>,
    pub blocks: Vec<Held>,
    /// Growable buffers: their handles are no blocks of the list, and their bytes are not followed here.
    pub buffers: Vec<Growable>,
    next_seed: u64,
    retired: Vec<RawStream>,
    /// Made for a registration that was refused.
    spare: Option<RawStream>,
}

#[derive(Clone, Copy, Debug)]
pub struct Held {
    block: Block,
    seed: u64,
    stream: RawStream,
}

impl Stage {
    pub fn new(scenario: &Scenario) -> Self {
        let rig = Rig::new(scenario.shape, (scenario.settings)());
        let streams = vec![rig.stream(0)];
        let (blocks, buffers) = (Vec::new(), Vec::new());
        Self { rig, streams, blocks, buffers, next_seed: 1, retired: Vec::new(), spare: None }
    }

    pub fn add_stream(&mut self, device: u16) -> usize {
        self.streams.push(self.rig.stream(device));
        self.streams.len() - 1
    }

    pub fn register(&mut self, device: u16) -> Result<()> {
        let spare = self.spare.take();
        let raw = spare.unwrap_or_else(|| self.rig.host.new_stream(device));
        match self.rig.pool.register(raw) {
            Ok(id) => self.streams.push(Stream { raw, id }),
            Err(error) => {
                self.spare = Some(raw);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Queues nothing more on the stream.
    pub fn retire(&mut self, stream: usize) -> Result<()> {
        let Stream { raw, id } = self.streams[stream];
        self.rig.pool.retire(id)?;
        self.retired.push(raw);
        Ok(())
    }

    pub fn alloc(&mut self, stream: usize, bytes: u64) -> Result<()> {
        self.request(stream, &Request::new(bytes, self.streams[stream].id))
    }

    pub fn place(&mut self, stream: usize, bytes: u64, placement: Placement) -> Result<()> {
        self.request(stream, &Request::new(bytes, self.streams[stream].id).placed(placement))
    }

    /// Allocates, and fills the block on its stream.
    pub fn request(&mut self, stream: usize, request: &Request) -> Result<()> {
        let block = self.rig.pool.alloc(request)?;
        self.next_seed += 1;
        let held = Held { block, seed: self.next_seed, stream: self.streams[stream].raw };
        self.rig.host.fill(held.stream, block.address, block.bytes, held.seed);
        self.blocks.push(held);
        Ok(())
    }

    /// Makes a buffer with handles of a granule, of which `granules` are backed.
    pub fn buffer(&mut self, stream: usize, granules: u64, max_granules: u64) -> Result<()> {
        let request = Request::new(granules * GRANULE, self.streams[stream].id);
        let buffer = self.rig.pool.growable_in_steps(&request, max_granules * GRANULE, GRANULE)?;
        self.buffers.push(buffer);
        Ok(())
    }

    /// Backs granules of the first buffer.
    pub fn back(&self, from: u64, granules: u64) -> Result<()> {
        self.buffers[0].back(from * GRANULE, granules * GRANULE)
    }

    /// Gives granules of the first buffer back: that never fails.
    pub fn give_back(&self, from: u64, granules: u64) {
        self.buffers[0].give_back(from * GRANULE, granules * GRANULE).unwrap();
    }

    /// Reads a block on another stream too.
    pub fn share(&self, block: usize, stream: usize) {
        let (held, stream) = (self.blocks[block], self.streams[stream]);
        self.rig.pool.record_use(held.block.address, stream.id).unwrap();
        self.rig.host.order(stream.raw, held.stream);
        self.rig.host.verify(stream.raw, held.block.address, held.block.bytes, held.seed);
    }

    /// Checks a block's bytes on its stream, and frees it: that never fails.
    pub fn free(&mut self, block: usize) {
        let held = self.blocks.remove(block);
        self.verify(&self.rig.host, &held);
        self.rig.pool.free(held.block.address).unwrap();
    }

    pub fn trim(&self) -> Result<()> {
        self.rig.pool.trim().refusal.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Lets the streams run, after a point at which the pool can see that they have.
    pub fn pass(&self) {
        // The streams stand, so this gives nothing back; but it seals.
        assert_eq!(self.rig.pool.trim().released_bytes, 0);
        self.rig.host.run_all();
    }

    fn verify(&self, host: &HostDriver, held: &Held) {
        if !self.retired.contains(&held.stream) {
            host.verify(held.stream, held.block.address, held.block.bytes, held.seed);
        }
    }

    pub fn figures(&self) -> Stats {
        self.rig.pool.stats()
    }

    /// All is in its place, and the bytes of every block too.
    pub fn check(&self) {
        self.rig.pool.check().unwrap();
        self.blocks.iter().for_each(|held| self.verify(&self.rig.host, held));
    }

    /// What a failed operation leaves: the same blocks, and no memory that is nobody's.
    pub fn compare(&self, before: &Stats) {
        let after = self.figures();
        assert_eq!(after.live_blocks, before.live_blocks);
        assert_eq!((after.allocs, after.frees), (before.allocs, before.frees));
        for (after_on, before_on) in after.devices.iter().zip(&before.devices) {
            let (now, then) = (after_on.holdings, before_on.holdings);
            assert_eq!(now.live_bytes, then.live_bytes);
            assert!(now.physical_bytes <= then.physical_bytes, "{now} and before {then}");
            let usable = |h: stitchpool::Holdings| h.live_bytes + h.free_bytes + h.pending_bytes + h.stranded_bytes;
            // What was stale may have become free, and what was free may have gone back to the driver.
            let given_back_bytes = then.physical_bytes - now.physical_bytes;
            assert!(usable(now) + given_back_bytes >= usable(then), "{now} and before {then}");
            let in_use = self.rig.host.ledger().physical_bytes_on(now.device);
            assert!(in_use <= now.physical_bytes + now.quarantined_bytes, "{in_use} bytes are in use, and {now}");
        }
    }

    /// Frees all and gives all back: only what was quarantined is left.
    pub fn finish(mut self) {
        while !self.blocks.is_empty() {
            self.free(0);
        }
        self.buffers.clear();
        let trimmed = self.rig.pool.trim_and_wait().unwrap();
        assert_eq!((trimmed.waiting_bytes, trimmed.refusal), (0, None));
        self.check();
        let stats = self.figures();
        let Rig { host, faulty, pool } = self.rig;
        drop((pool, Arc::into_inner(faulty)));
        host.run_all();
        host.assert_clean();
        let ledger = host.ledger();
        if stats.quarantined == 0 {
            assert!(ledger.is_empty(), "{ledger:?}");
        }
        for device in stats.devices {
            assert_eq!(device.holdings.live_bytes + device.holdings.pending_bytes, 0);
            let left_bytes = ledger.physical_bytes_on(device.holdings.device);
            assert_eq!(left_bytes, device.holdings.quarantined_bytes, "{ledger:?}");
        }
    }
}
