//! Callbacks of an application that is told of a shortage: F21, F41.

use crate::rig::{KIB, Shape};
use crate::watchdog::within;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use stitchpool::Request;
use stitchpool::driver::Address;
use stitchpool::driver::host::StreamMode;

const CHUNK: u64 = 64 * KIB;

#[test]
fn f21a_spilling_serves_two_threads_that_are_short_at_once() {
    within(Duration::from_secs(20), || {
        let rig = Shape { streams: StreamMode::Immediate, ..Shape::exact(CHUNK, 64) }.build();
        let streams = [rig.stream(), rig.stream()];
        // All memory is in blocks that may be spilled, one after the other.
        let spillable: Vec<Address> =
            (0..64).map(|_| rig.pool().alloc(&Request::new(CHUNK, streams[0].id)).unwrap().address).collect();
        let spillable = Mutex::new(spillable);
        rig.on_shortage(move |pool| match spillable.lock().unwrap().pop() {
            Some(block) => pool.free(block).is_ok(),
            None => false,
        });
        let ask = |index: usize, chunks: u64| {
            let served = (0..200).find_map(|_| rig.pool().alloc(&Request::new(chunks * CHUNK, streams[index].id)).ok());
            rig.pool().free(served.unwrap().address).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(|| ask(0, 40));
            scope.spawn(|| ask(1, 10));
        });
        // What was not spilled is still live.
        let pool = rig.pool();
        while pool.alloc(&Request::new(64 * CHUNK, streams[0].id)).map(|block| pool.free(block.address)).is_err() {}
    });
}

#[test]
fn f21a_relief_is_asked_until_the_request_fits() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let spillable: Vec<_> = (0..64).map(|_| rig.take(stream, CHUNK)).collect();
    let spilled = Arc::new(Mutex::new(Vec::new()));
    let (mut left, done) = (spillable, spilled.clone());
    left.reverse();
    let left = Mutex::new(left);
    rig.on_shortage(move |pool| {
        // One small block each time, as a spill store does that knows nothing of the request.
        let Some(block) = left.lock().unwrap().pop() else { return false };
        done.lock().unwrap().push(block);
        pool.free(block).is_ok()
    });
    let outcome = rig.pool().alloc(&Request::new(8 * CHUNK, stream.id));
    spilled.lock().unwrap().iter().for_each(|&block| rig.shadow.leave(block));
    let block = outcome.unwrap_or_else(|error| panic!("there is more to spill: {error}"));
    assert_eq!(spilled.lock().unwrap().len(), 8, "no more than was needed");
    rig.pool().free(block.address).unwrap();
}

#[test]
fn f21e_relief_may_allocate() {
    within(Duration::from_secs(20), || {
        let rig = Shape::exact(CHUNK, 4).build();
        let stream = rig.stream();
        let first = rig.take(stream, 2 * CHUNK);
        let second = rig.take(stream, CHUNK);
        let told = Arc::new(AtomicU64::new(0));
        let count = told.clone();
        rig.on_shortage(move |pool| {
            // A copy needs a buffer of its own; the callback may be told of its shortage too.
            if count.fetch_add(1, Ordering::Relaxed) > 0 {
                return false;
            }
            let buffer = pool.alloc(&Request::new(CHUNK, stream.id)).unwrap();
            let too_much = pool.alloc(&Request::new(4 * CHUNK, stream.id));
            pool.free(buffer.address).unwrap();
            too_much.is_err() && pool.free(first).is_ok()
        });
        let served = rig.pool().alloc(&Request::new(3 * CHUNK, stream.id)).unwrap();
        rig.shadow.leave(first);
        rig.shadow.enter(served, &Request::new(3 * CHUNK, stream.id));
        assert_eq!(told.load(Ordering::Relaxed), 2, "once for the request, once for the callback's own");
        rig.free(second);
    });
}

#[test]
fn f21f_relief_may_free_and_trim() {
    within(Duration::from_secs(20), || {
        let rig = Shape::exact(CHUNK, 4).build();
        let (stream, other) = (rig.stream(), rig.stream());
        let held = rig.take(other, 4 * CHUNK);
        rig.busy(other);
        rig.on_shortage(move |pool| {
            let freed = pool.free(held).is_ok();
            drop((pool.trim(), pool.stats(), pool.pictures()));
            freed
        });
        let served = rig.pool().alloc(&Request::new(4 * CHUNK, stream.id)).unwrap();
        rig.shadow.leave(held);
        rig.shadow.enter(served, &Request::new(4 * CHUNK, stream.id));
    });
}

#[test]
fn f21b_nobody_to_spill_is_an_error_and_no_loop() {
    within(Duration::from_secs(20), || {
        for says in [true, false] {
            let rig = Shape::exact(CHUNK, 4).build();
            let stream = rig.stream();
            rig.take(stream, 4 * CHUNK);
            let told = Arc::new(AtomicU64::new(0));
            let count = told.clone();
            // It may even claim to have freed something, for ever.
            rig.on_shortage(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                says
            });
            rig.shortage(stream, CHUNK);
            assert!(told.load(Ordering::Relaxed) >= 1);
        }
    });
}

#[test]
fn f41_a_callback_and_a_caller_may_want_the_same_lock() {
    within(Duration::from_secs(20), || {
        let rig = Shape { streams: StreamMode::Immediate, watch_order: false, ..Shape::exact(4 * KIB, 4) }.build();
        let (stream, other) = (rig.stream(), rig.stream());
        let lock = Arc::new(Mutex::new(0_u64));
        let over = AtomicBool::new(false);
        let held = rig.take(other, 4 * KIB);
        let taken = lock.clone();
        rig.on_shortage(move |_| {
            *taken.lock().unwrap() += 1;
            false
        });
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let guard = lock.lock().unwrap();
                    if let Ok(block) = rig.pool().alloc(&Request::new(512, other.id)) {
                        rig.pool().free(block.address).unwrap();
                    }
                    drop(guard);
                }
            });
            for _ in 0..10_000 {
                let asked = rig.pool().alloc(&Request::new(16 * KIB, stream.id));
                assert!(asked.is_err(), "a chunk of four is held");
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(*lock.lock().unwrap(), 10_000, "told of each");
        rig.free(held);
    });
}
