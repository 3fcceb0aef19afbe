//! From one stream to another.

use crate::rig::GRANULE;
use crate::{ROOMY, tight, tight_without_stream_waits};
use stitchpool::Request;

#[test]
fn a_block_freed_on_its_own_stream_is_reused_there_without_a_driver_call() {
    let rig = tight(8);
    let (a, _other) = (rig.stream(0), rig.stream(0));
    let first = rig.block(&a, 4);
    let calls = rig.faulty.total_calls();
    rig.free(&a, &first);
    let second = rig.block(&a, 4);
    assert_eq!((second.address, rig.faulty.total_calls()), (first.address, calls));
    rig.end();
}

#[test]
fn memory_that_another_stream_still_uses_comes_with_a_wait_of_the_stream_alone() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 8);
    rig.free(&a, &block);
    rig.block(&b, 8);
    let stats = rig.pool.stats();
    assert_eq!((stats.stream_waits, stats.cpu_waits), (1, 0));
    assert_eq!(rig.run(&b), 0, "it stands behind the other stream");
    rig.run(&a);
    assert!(rig.run(&b) > 0);
    rig.end();
}

#[test]
fn the_wait_is_for_the_oldest_event_that_covers_the_memory() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let (old, kept) = (rig.block(&a, 4), rig.block(&a, 4));
    rig.free(&a, &old);
    // A trim seals: it records the event that covers `old`.
    rig.pool.trim();
    let until_sealed = rig.queued(&a);
    (0..5).for_each(|_| rig.write(&a, &kept));
    rig.pool.trim();
    rig.block(&b, 4);
    assert_eq!(rig.pool.stats().stream_waits, 1);
    rig.host.advance(a.raw, until_sealed).unwrap();
    rig.run(&b);
    assert_eq!(rig.queued(&b), 0, "it did not wait for the later work");
    assert!(rig.queued(&a) > 5);
    rig.end();
}

#[test]
fn memory_that_a_stream_is_past_comes_without_a_wait() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 8);
    rig.free(&a, &block);
    rig.pool.trim();
    rig.run(&a);
    rig.block(&b, 8);
    let stats = rig.pool.stats();
    assert_eq!((stats.stream_waits, stats.cpu_waits), (0, 0));
    assert!(rig.run(&b) > 0);
    rig.end();
}

#[test]
fn a_stream_that_has_waited_once_need_not_wait_again() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let blocks = [rig.block(&a, 4), rig.block(&a, 4)];
    blocks.iter().for_each(|block| rig.free(&a, block));
    rig.block(&b, 4);
    rig.block(&b, 4);
    assert_eq!(rig.pool.stats().stream_waits, 1);
    rig.end();
}

#[test]
fn nothing_is_waited_for_while_the_device_has_room() {
    let rig = tight(ROOMY);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 8);
    rig.free(&a, &block);
    rig.block(&b, 8);
    let stats = rig.pool.stats();
    assert_eq!((stats.stream_waits, stats.cpu_waits), (0, 0));
    assert!(rig.run(&b) > 0, "it stands behind nothing");
    rig.end();
}

#[test]
fn the_cpu_waits_only_when_nothing_else_helps_and_only_for_the_stream_concerned() {
    let rig = tight_without_stream_waits(12);
    let (a, b, bystander) = (rig.stream(0), rig.stream(0), rig.stream(0));
    let (old, kept) = (rig.block(&a, 4), rig.block(&bystander, 4));
    rig.read(&bystander, &kept, &bystander);
    rig.free(&a, &old);
    rig.block(&b, 4);
    assert_eq!(rig.pool.stats().cpu_waits, 0, "the device had room");
    rig.block(&b, 4);
    let stats = rig.pool.stats();
    assert_eq!(stats.stream_waits, 0, "the setting is off");
    assert!(stats.cpu_waits > 0);
    assert_eq!(rig.queued(&a), 0);
    assert!(rig.queued(&bystander) >= 2, "nobody waited for it");
    rig.end();
}

#[test]
fn a_stream_that_stands_still_makes_a_refusal_that_names_the_wait() {
    let rig = tight_without_stream_waits(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 8);
    rig.free(&a, &block);
    rig.host.stall(a.raw, true).unwrap();
    let Err(stitchpool::Error::OutOfMemory(shortage)) = rig.pool.alloc(&Request::new(GRANULE, b.id)) else {
        panic!("the only memory is in use by a stream that stands still");
    };
    assert!(!shortage.waits.is_empty(), "{shortage}");
    rig.host.stall(a.raw, false).unwrap();
    rig.block(&b, 8);
    rig.end();
}

#[test]
fn a_third_stream_sees_what_a_handle_has_to_wait_for() {
    let rig = tight(8);
    let (a, b, c) = (rig.stream(0), rig.stream(0), rig.stream(0));
    let first = rig.block(&a, 8);
    rig.free(&a, &first);
    let second = rig.block(&b, 8);
    assert_eq!(rig.pool.stats().stream_waits, 1);
    rig.free(&b, &second);
    rig.block(&c, 8);
    assert_eq!(rig.pool.stats().stream_waits, 3, "behind the second stream, and behind the first");
    assert_eq!(rig.run(&c), 0);
    assert_eq!(rig.run(&b), 0);
    rig.run(&a);
    assert_eq!(rig.run(&c), 1, "the wait for the first is over");
    rig.run(&b);
    assert!(rig.run(&c) > 0);
    rig.end();
}
