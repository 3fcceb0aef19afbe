//! More frees without progress than a heap remembers.

use crate::rig::{GRANULE, Rig, Stream};
use crate::tight;
use stitchpool::{Block, Request};

const FREES: u64 = 5_000;
const BLOCKS_PER_GRANULE: u64 = GRANULE / 512;

/// Fills a device with small blocks of one stream, and frees them in the order of their addresses,
/// sealing now and then. None of it runs.
fn overflow(rig: &Rig, stream: &Stream) {
    let small = || rig.pool.alloc(&Request::new(512, stream.id)).unwrap();
    let blocks: Vec<Block> = (0..FREES).map(|_| small()).collect();
    blocks.iter().for_each(|block| rig.write(stream, block));
    for (block, step) in blocks.iter().zip(0..) {
        // The clock moves, so that ticks seal.
        rig.host.set_now_us(step * 200);
        rig.pool.free(block.address).unwrap();
    }
}

const GRANULES: u64 = FREES.div_ceil(BLOCKS_PER_GRANULE);

#[test]
fn what_a_full_log_has_forgotten_is_waited_for() {
    let rig = tight(GRANULES);
    let (a, b) = (rig.stream(0), rig.stream(0));
    overflow(&rig, &a);
    // The oldest frees, which the log has lost, are first in the order of victims.
    rig.block(&b, 2);
    assert_eq!(rig.pool.stats().stream_waits, 1);
    assert_eq!(rig.run(&b), 0);
    rig.block(&b, GRANULES - 2);
    rig.end();
}

#[test]
fn half_way_through_what_was_forgotten_nothing_counts_as_passed() {
    let rig = tight(GRANULES);
    let (a, b) = (rig.stream(0), rig.stream(0));
    overflow(&rig, &a);
    // The stream is past some of the lost frees, not past all of them.
    rig.host.advance(a.raw, 600).unwrap();
    rig.block(&b, 1);
    assert_eq!(rig.pool.stats().stream_waits, 1);
    rig.host.run(a.raw).unwrap();
    rig.block(&b, GRANULES - 1);
    rig.end();
}
