//! What a pool's own thread does, and what happens where it cannot.

use crate::rig::{MIB, Rig, Shape, Stream};
use std::time::{Duration, Instant};
use stitchpool::driver::{Address, ErrorKind, Verb};

/// Much longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// So many handles move, and one more is part of the new place already.
const MOVED: u64 = 31;

/// A pool with a thread of its own, in which the handles of 32 small blocks were stitched to a large one. They stand at
/// their old places too, and all is free.
fn moved() -> (Rig, Stream, Vec<Address>) {
    let mut shape = Shape::usual(256 * MIB);
    shape.settings.background_thread = true;
    shape.settings.seal_pause = Duration::ZERO;
    let rig = shape.build();
    let stream = rig.stream();
    let small: Vec<Address> = (0..64).map(|_| rig.take(stream, 2 * MIB)).collect();
    let (given, kept): (Vec<_>, Vec<_>) = small.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    given.into_iter().for_each(|(_, block)| rig.free(block));
    let large = rig.take(stream, 64 * MIB);
    rig.free(large);
    assert_eq!(stale(&rig), MOVED);
    (rig, stream, kept.into_iter().map(|(_, block)| block).collect())
}

/// The pool learns that the GPU is past all that was freed before: where a tick asked, the next one hears.
fn pass(rig: &Rig, stream: Stream) {
    tick(rig, stream);
    rig.done(stream);
    tick(rig, stream);
}

/// So many frees that a tick is among them.
fn tick(rig: &Rig, stream: Stream) {
    let blocks: Vec<Address> = (0..16).map(|_| rig.take(stream, 512)).collect();
    blocks.into_iter().for_each(|block| rig.free(block));
}

/// Waits until the pool's thread has done what it can.
#[track_caller]
fn wait_until(rig: &Rig, is_so: impl Fn(&Rig) -> bool) {
    let begun = Instant::now();
    while !is_so(rig) {
        assert!(begun.elapsed() < LONG, "{} stale, {} unmapped", stale(rig), rig.faulty.calls(Verb::Unmap));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn stale(rig: &Rig) -> u64 {
    rig.pool().stats().stale_mappings
}

#[test]
fn the_pools_own_thread_takes_down_what_the_gpu_is_past_and_nothing_before() {
    let (rig, stream, kept) = moved();
    tick(&rig, stream);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((stale(&rig), rig.faulty.calls(Verb::Unmap)), (MOVED, 0), "the stream stands still");
    rig.done(stream);
    // One tick sees how far the stream is, and calls; the rest is not this thread's work.
    tick(&rig, stream);
    wait_until(&rig, |rig| stale(rig) == 0);
    assert_eq!(rig.faulty.calls(Verb::Unmap), MOVED);
    rig.assert_sound();
    kept.into_iter().for_each(|block| rig.free(block));
}

#[test]
fn what_the_driver_refuses_to_the_pools_own_thread_is_tried_again() {
    let (rig, stream, kept) = moved();
    rig.faulty.fail(Verb::Unmap, 3, ErrorKind::Unknown);
    pass(&rig, stream);
    wait_until(&rig, |rig| rig.faulty.failed() == 1);
    tick(&rig, stream);
    wait_until(&rig, |rig| stale(rig) == 0);
    rig.assert_sound();
    kept.into_iter().for_each(|block| rig.free(block));
}

#[test]
fn frees_do_the_work_of_a_thread_that_was_ended() {
    let (rig, stream, kept) = moved();
    rig.pool().end_background_thread();
    rig.pool().end_background_thread();
    pass(&rig, stream);
    assert_eq!(stale(&rig), 0, "before the free returned");
    kept.into_iter().for_each(|block| rig.free(block));
}

#[test]
fn a_pool_that_goes_waits_for_its_thread_and_leaves_nothing() {
    for _ in 0..20 {
        let (rig, stream, kept) = moved();
        pass(&rig, stream);
        kept.into_iter().for_each(|block| rig.free(block));
        // The rig asserts that all went back; the thread may be in the middle of it.
    }
}
