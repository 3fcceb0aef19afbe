//! Happens-before: streams stand until they are moved by hand, and the host driver knows the order of
//! all work. Memory never passes to another stream too early, nor later than it must.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod crossing;
mod overflow;
mod random;
mod retiring;
#[path = "../rig/mod.rs"]
mod rig;
mod sharing;

use rig::{Application, GRANULE, Rig, Shape, Stream, granule_handles};
use stitchpool::driver::Address;
use stitchpool::{Block, Request, Settings};

/// So many that growth is tolerated before anybody waits: more than 128 MiB.
const ROOMY: u64 = 4096;

/// One device of so many granules, each a handle.
fn tight(granules: u64) -> Rig {
    Rig::new(Shape::new(1, granules), granule_handles(GRANULE))
}

fn tight_without_stream_waits(granules: u64) -> Rig {
    Rig::new(Shape::new(1, granules), Settings { stream_waits: false, ..granule_handles(GRANULE) })
}

impl Rig {
    /// A block of so many granules, filled on its stream.
    fn block(&self, stream: &Stream, granules: u64) -> Block {
        let block = self.pool.alloc(&Request::new(granules * GRANULE, stream.id)).unwrap();
        self.write(stream, &block);
        block
    }

    /// Every block is filled with a pattern of its address and stream.
    fn write(&self, stream: &Stream, block: &Block) {
        self.host.fill(stream.raw, block.address, block.bytes, seed(stream, block));
    }

    /// Checks on `stream` what `writer` wrote.
    fn read(&self, stream: &Stream, block: &Block, writer: &Stream) {
        self.host.verify(stream.raw, block.address, block.bytes, seed(writer, block));
    }

    /// Checks a block on its own stream a last time, and frees it.
    fn free(&self, stream: &Stream, block: &Block) {
        self.read(stream, block, stream);
        self.pool.free(block.address).unwrap();
    }

    fn queued(&self, stream: &Stream) -> u64 {
        self.host.queued(stream.raw).unwrap()
    }

    fn run(&self, stream: &Stream) -> u64 {
        self.host.run(stream.raw).unwrap()
    }

    /// Lets all run, and finds all well.
    fn end(self) {
        self.host.run_all();
        assert_eq!(self.host.ledger().queued, 0);
        self.pool.check().unwrap();
        self.host.assert_clean();
    }
}

fn seed(stream: &Stream, block: &Block) -> u64 {
    let Address(at) = block.address;
    at ^ stream.raw.value << 48
}
