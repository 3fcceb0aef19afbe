//! Pinned ranges: their handles stay, whatever becomes of their block.

use crate::rig::GRANULE;
use crate::tight;
use stitchpool::{Error, Pool};

/// What every figure of the first device adds up to.
fn told_granules(pool: &Pool) -> u64 {
    let held = pool.stats().devices[0].holdings;
    let told = held.live_bytes + held.free_bytes + held.pending_bytes + held.stranded_bytes + held.pinned_bytes;
    told / GRANULE
}

#[test]
fn pinned_handles_are_never_taken_also_when_their_block_is_free() {
    let rig = tight(12);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 8);
    let handles = rig.pool.segments(block.address, block.bytes).unwrap();
    let pin = rig.pool.pin(block.address + 2 * GRANULE, 3 * GRANULE).unwrap();
    rig.free(&block);
    rig.host.run_all();
    assert_eq!(rig.pool.trim_and_wait().unwrap().released_bytes, 5 * GRANULE);
    assert_eq!((rig.pinned_granules(), told_granules(&rig.pool)), (3, 3));
    assert!(rig.is_short(&b, 10));
    let rest = rig.block(&b, 9);
    rig.read(&b, &rest, &b);
    // The addresses themselves may serve their own stream.
    let inside = rig.alloc(&a, 3);
    assert_eq!(inside.address, block.address + 2 * GRANULE);
    let now = rig.pool.segments(inside.address, inside.bytes).unwrap();
    assert_eq!(now[..], handles[2..5], "with the same handles");
    rig.free(&inside);
    rig.free(&rest);
    drop(pin);
    assert_eq!((rig.pinned_granules(), told_granules(&rig.pool)), (0, 12));
    assert!(!rig.is_short(&b, 12));
    rig.over();
}

#[test]
fn a_handle_with_two_pins_stays_until_both_are_gone() {
    let rig = tight(4);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 4);
    let whole = rig.pool.pin(block.address, block.bytes).unwrap();
    let part = rig.pool.pin(block.address + 512, 512).unwrap();
    assert_eq!((part.address(), part.bytes()), (block.address, GRANULE), "whole granules");
    rig.free(&block);
    drop(whole);
    assert_eq!(rig.pinned_granules(), 1);
    assert!(rig.is_short(&b, 4) && !rig.is_short(&b, 3));
    drop(part);
    assert!(!rig.is_short(&b, 4));
    rig.over();
}

#[test]
fn only_live_memory_can_be_pinned() {
    let rig = tight(4);
    let a = rig.stream(0);
    let block = rig.block(&a, 2);
    for (at, bytes) in [(block.address, 0), (block.address, 2 * GRANULE + 1), (block.address + 512, u64::MAX)] {
        assert!(matches!(rig.pool.pin(at, bytes), Err(Error::OutOfRange { .. })));
    }
    rig.free(&block);
    assert!(matches!(rig.pool.pin(block.address, 512), Err(Error::UnknownAddress { .. })));
    assert_eq!(rig.pinned_granules(), 0);
    rig.over();
}

#[test]
fn a_pin_keeps_its_pools_memory_when_the_pool_is_gone() {
    let rig = tight(4);
    let a = rig.stream(0);
    let block = rig.block(&a, 2);
    let pin = rig.pool.pin(block.address, block.bytes).unwrap();
    rig.free(&block);
    let crate::rig::Rig { host, pool, .. } = rig;
    drop(pool);
    assert_eq!(host.ledger().handles, 2);
    host.run_all();
    drop(pin);
    assert_eq!(host.ledger().handles, 0);
}
