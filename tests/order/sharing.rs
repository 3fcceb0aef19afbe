//! Blocks that several streams use.

use crate::rig::{Application, GRANULE, Rig, Stream};
use crate::{ROOMY, tight};
use stitchpool::{Block, Request};

/// Reads a block of `owner` on `user`, and tells the pool.
fn share(rig: &Rig, block: &Block, owner: &Stream, user: &Stream) {
    rig.pool.record_use(block.address, user.id).unwrap();
    rig.host.order(user.raw, owner.raw);
    rig.read(user, block, owner);
}

#[test]
fn a_block_in_use_elsewhere_is_not_reused_by_its_own_stream_either() {
    let rig = tight(ROOMY);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 4);
    share(&rig, &block, &a, &b);
    rig.free(&a, &block);
    rig.run(&a);
    let next = rig.block(&a, 4);
    assert_ne!(next.address, block.address, "the other stream still reads it");
    assert_eq!(rig.pool.stats().stream_waits, 0, "the device had room");
    rig.end();
}

#[test]
fn with_no_room_left_its_own_stream_waits_for_the_other() {
    let rig = tight(4);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 4);
    share(&rig, &block, &a, &b);
    rig.free(&a, &block);
    rig.block(&a, 4);
    assert_eq!(rig.pool.stats().stream_waits, 1);
    rig.run(&a);
    assert!(rig.queued(&a) > 0, "the new block's use stands behind the other stream");
    rig.end();
}

#[test]
fn what_is_queued_elsewhere_until_the_free_is_covered() {
    let rig = tight(4);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 4);
    share(&rig, &block, &a, &b);
    rig.host.run_all();
    rig.pool.trim();
    rig.host.run_all();
    // The use that counts is the last one before the free, not the one that was told.
    rig.read(&b, &block, &a);
    rig.free(&a, &block);
    rig.block(&a, 4);
    rig.run(&a);
    assert!(rig.queued(&a) > 0);
    rig.end();
}

#[test]
fn a_free_on_another_stream_comes_after_that_streams_work() {
    let rig = tight(4);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 4);
    rig.host.order(b.raw, a.raw);
    rig.read(&b, &block, &a);
    rig.pool.free_on(block.address, b.id).unwrap();
    rig.run(&a);
    assert!(rig.pool.stats().devices[0].holdings.pending_bytes > 0);
    rig.block(&a, 4);
    rig.run(&a);
    assert!(rig.queued(&a) > 0);
    rig.end();
}

#[test]
fn one_slow_stream_delays_only_its_own_blocks() {
    let rig = tight(64);
    let (a, slow, quick) = (rig.stream(0), rig.stream(0), rig.stream(0));
    let blocks = [rig.block(&a, 4), rig.block(&a, 4), rig.block(&a, 4)];
    let users = [&slow, &quick, &slow];
    for (block, user) in blocks.iter().zip(users) {
        share(&rig, block, &a, user);
    }
    blocks.iter().for_each(|block| rig.free(&a, block));
    rig.host.run(a.raw).unwrap();
    rig.host.stall(slow.raw, true).unwrap();
    rig.pool.trim();
    rig.host.run_all();
    rig.pool.trim();
    assert_eq!(rig.pool.stats().devices[0].holdings.pending_bytes, 8 * GRANULE, "two blocks wait, one has gone");
    rig.host.stall(slow.raw, false).unwrap();
    rig.host.run_all();
    rig.pool.trim();
    assert_eq!(rig.pool.stats().devices[0].holdings.pending_bytes, 0);
    rig.end();
}

#[test]
fn a_third_stream_may_take_a_pending_block_behind_all_its_users() {
    let rig = tight(4);
    let (a, b, c) = (rig.stream(0), rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 4);
    share(&rig, &block, &a, &b);
    rig.free(&a, &block);
    rig.block(&c, 4);
    assert_eq!(rig.pool.stats().stream_waits, 2, "behind the owner and behind the user");
    rig.run(&a);
    assert_eq!(rig.queued(&c), 3, "two waits and its own work");
    assert_eq!(rig.run(&c), 1, "one of the waits is over");
    rig.end();
}

#[test]
fn a_use_on_ones_own_stream_costs_nothing() {
    let rig = tight(4);
    let (a, _b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 4);
    rig.pool.record_use(block.address, a.id).unwrap();
    rig.pool.record_use(block.address + 512, a.id).unwrap_err();
    rig.free(&a, &block);
    let again = rig.pool.alloc(&Request::new(4 * GRANULE, a.id)).unwrap();
    assert_eq!(again.address, block.address);
    rig.end();
}
