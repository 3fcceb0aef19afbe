//! Captures: a graph's memory is its own until it is released, whatever comes and goes meanwhile, and
//! nothing the pool does breaks a capture. The host driver breaks a capture where CUDA would, and sees
//! every use of the same bytes without an order between them.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod abandoned;
mod asked;
mod faults;
mod moving;
mod pins;
mod quiet;
mod random;
mod release;
mod replay;
#[path = "../rig/mod.rs"]
mod rig;
mod routing;

use rig::{Application, GRANULE, Rig, Shape, Stream, granule_handles};
use stitchpool::driver::Address;
use stitchpool::driver::host::HostGraph;
use stitchpool::{ArenaId, Block, Error, Request};

/// One device of so many granules, each a handle.
fn tight(granules: u64) -> Rig {
    Rig::new(Shape::new(1, granules), granule_handles(GRANULE))
}

impl Rig {
    fn arena(&self, name: &str) -> ArenaId {
        self.pool.arena(name).unwrap()
    }

    /// Tells the pool, then the driver.
    fn begin(&self, stream: &Stream, arena: ArenaId) {
        self.pool.begin_capture(stream.id, arena).unwrap();
        self.host.begin_capture(stream.raw).unwrap();
    }

    /// Ends a capture that must still be valid.
    fn end(&self, stream: &Stream) -> HostGraph {
        let graph = self.host.end_capture(stream.raw).unwrap();
        self.pool.end_capture(stream.id).unwrap();
        graph
    }

    fn alloc(&self, stream: &Stream, granules: u64) -> Block {
        self.pool.alloc(&Request::new(granules * GRANULE, stream.id)).unwrap()
    }

    /// A block, written on its stream: at once, or whenever the graph runs.
    fn block(&self, stream: &Stream, granules: u64) -> Block {
        let block = self.alloc(stream, granules);
        self.host.fill(stream.raw, block.address, block.bytes, seed(stream, &block));
        block
    }

    /// Reads on `stream` what `writer` wrote.
    fn read(&self, stream: &Stream, block: &Block, writer: &Stream) {
        self.host.verify(stream.raw, block.address, block.bytes, seed(writer, block));
    }

    fn free(&self, block: &Block) {
        self.pool.free(block.address).unwrap();
    }

    fn pinned_granules(&self) -> u64 {
        self.pool.stats().devices[0].holdings.pinned_bytes / GRANULE
    }

    fn is_short(&self, stream: &Stream, granules: u64) -> bool {
        match self.pool.alloc(&Request::new(granules * GRANULE, stream.id)) {
            Err(Error::OutOfMemory(_)) => true,
            Err(error) => panic!("{error}"),
            Ok(block) => {
                self.free(&block);
                false
            }
        }
    }

    /// Lets all run, finds all well, and lets the pool go: nothing may be left.
    fn over(self) {
        self.pool.check().unwrap();
        self.host.run_all();
        self.host.assert_clean();
        let Self { host, pool, .. } = self;
        drop(pool);
        let left: u64 = host.ledger().physical_bytes.values().sum();
        assert_eq!((left, host.ledger().refusals), (0, 0), "{:?}", host.ledger().last_refusal);
        host.assert_clean();
    }
}

fn seed(stream: &Stream, block: &Block) -> u64 {
    let Address(at) = block.address;
    at ^ stream.raw.value << 48
}
