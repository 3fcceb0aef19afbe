//! Time that must not grow with the number of holes: F40. Ratios within one run, never absolute time.

use crate::rig::{GIB, MIB, Rig, Shape, Stream};
use std::time::Instant;
use stitchpool::driver::Address;

const GRANULE: u64 = 2 * MIB;

/// A pool with so many holes of one granule between live blocks.
fn f40_holes(holes: usize, hole_bytes: u64) -> (Rig, Stream, Vec<Address>) {
    let rig = Shape { watch_order: false, ..Shape::usual(8 * GIB) }.build();
    let stream = rig.stream();
    let request = stitchpool::Request::new(hole_bytes, stream.id);
    let blocks: Vec<Address> = (0..2 * holes).map(|_| rig.pool().alloc(&request).unwrap().address).collect();
    blocks.iter().step_by(2).for_each(|&block| rig.pool().free(block).unwrap());
    (rig, stream, blocks.into_iter().skip(1).step_by(2).collect())
}

/// The best time of a pair of alloc and free, of many tries.
fn pair_ns(rig: &Rig, stream: Stream, bytes: u64) -> f64 {
    const PAIRS: u32 = 500;
    let request = stitchpool::Request::new(bytes, stream.id);
    let tries = (0..30).map(|_| {
        let start = Instant::now();
        for _ in 0..PAIRS {
            let block = rig.pool().alloc(&request).unwrap();
            rig.pool().free(block.address).unwrap();
        }
        start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
    });
    tries.fold(f64::INFINITY, f64::min)
}

#[test]
fn f40_a_pair_costs_the_same_among_many_holes() {
    // What fits in the first hole, and what fits in none of them but behind them all.
    for bytes in [1024, 8192] {
        let [few, some, many] = [4096, 16_384, 65_536].map(|holes| {
            let (rig, stream, live) = f40_holes(holes, 4096);
            let behind = rig.pool().alloc(&stitchpool::Request::new(GRANULE, stream.id)).unwrap();
            rig.pool().free(behind.address).unwrap();
            let pair_ns = pair_ns(&rig, stream, bytes);
            live.into_iter().for_each(|block| rig.pool().free(block).unwrap());
            pair_ns
        });
        assert!(many <= 2.0 * few && some <= 2.0 * few, "{bytes} bytes: {few:.0}, {some:.0}, {many:.0} ns");
    }
}
