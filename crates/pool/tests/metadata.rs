//! What the pool takes of the host for each live block, by its own statistics.
#![allow(clippy::unwrap_used, missing_docs)]

use stitchpool_driver::DeviceId;
use stitchpool_driver::Kernels;
use stitchpool_driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool_pool::{Pool, Request, Settings};

const BYTES_A_BLOCK_MAX: f64 = 64.0;
/// How often each block gives way to another.
const ROUNDS: usize = 4;
const CARD: HostDevice = HostDevice { capacity_bytes: 140 << 30, granularity_bytes: 2 << 20 };

/// Host bytes that a pool on one card takes among so many live blocks of 512 B to 64 KiB that were freed and given in
/// no order.
fn metadata_bytes(live_count: usize) -> u64 {
    let driver = HostDriver::new(HostConfig { devices: vec![CARD], ..HostConfig::default() }).unwrap();
    let stream = driver.create_stream(DeviceId(0)).unwrap();
    let pool = Pool::new(driver, Settings::default()).unwrap();
    let stream = pool.register(stream).unwrap();
    let mut dice = 1u32;
    let mut roll = || {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        dice >> 8
    };
    let alloc = |roll: u32| pool.alloc(&Request::new(512 * u64::from(1 + roll % 128), stream)).unwrap().address;
    let mut blocks: Vec<_> = (0..live_count).map(|_| alloc(roll())).collect();
    for _ in 0..ROUNDS * live_count {
        let block = &mut blocks[roll() as usize % live_count];
        pool.free(*block).unwrap();
        *block = alloc(roll());
    }
    let metadata_bytes = pool.stats().metadata_bytes;
    blocks.into_iter().for_each(|address| pool.free(address).unwrap());
    metadata_bytes
}

#[test]
fn a_live_block_costs_the_host_64_bytes_at_most() {
    for live_count in [1000, 2000, 20_000, 100_000] {
        let bytes = metadata_bytes(live_count) as f64 / live_count as f64;
        println!("{live_count} live blocks: {bytes:.1} B of the host each");
        assert!(bytes <= BYTES_A_BLOCK_MAX, "{live_count} live blocks take {bytes:.1} B of the host each");
    }
}
