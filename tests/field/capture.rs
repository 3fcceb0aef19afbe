//! Captures that run short or never end, and which arena gets a request: F28, F29.

use crate::rig::{MIB, Rig, Shape, Stream, shortage};
use crate::watchdog::within;
use std::thread;
use std::time::Duration;
use stitchpool::driver::Verb;
use stitchpool::driver::host::StreamMode;
use stitchpool::{ArenaId, Error, Request};

/// Calls that break a capture on a GPU.
fn breaking_calls(rig: &Rig) -> u64 {
    [Verb::Unmap, Verb::Release, Verb::Finish, Verb::IsDone, Verb::Record, Verb::Wait, Verb::Synchronize]
        .iter()
        .map(|&verb| rig.faulty.calls(verb))
        .sum()
}

fn arena(rig: &Rig, name: &str) -> ArenaId {
    rig.pool().arena(name).unwrap()
}

/// Bytes of an arena's live blocks, told by whether it could go.
fn has_blocks(rig: &Rig, arena: ArenaId) -> bool {
    matches!(rig.pool().dissolve(arena), Err(Error::InUse { .. }))
}

fn alloc_in(rig: &Rig, stream: Stream, arena: ArenaId, bytes: u64) -> stitchpool::Block {
    rig.pool().alloc(&Request::new(bytes, stream.id).in_arena(arena)).unwrap()
}

#[test]
fn f28a_a_capture_that_is_short_is_refused_and_goes_on() {
    let rig = Shape::exact(2 * MIB, 512).build();
    let (stream, other) = (rig.stream(), rig.stream());
    let cached = rig.take(stream, 200 * MIB);
    rig.take(other, 724 * MIB);
    rig.free(cached);
    let graph = arena(&rig, "graph");
    rig.pool().begin_capture(stream.id, graph).unwrap();
    rig.host.begin_capture(stream.raw).unwrap();
    let calls = breaking_calls(&rig);
    // 100 MiB are free on the device, 200 are cached: those are not the graph's to take.
    let refused = shortage(rig.pool().alloc(&Request::new(150 * MIB, stream.id)));
    assert!(refused.capturing && refused.missing_bytes == 50 * MIB, "{refused}");
    let fits = rig.pool().alloc(&Request::new(100 * MIB, stream.id)).unwrap();
    rig.fill(stream, fits.address, fits.bytes, 1);
    rig.pool().free(fits.address).unwrap();
    assert_eq!(breaking_calls(&rig), calls, "no call that a capture does not stand");
    let captured = rig.host.end_capture(stream.raw).expect("it is valid still");
    rig.pool().end_capture(stream.id).unwrap();
    rig.host.launch(stream.raw, &captured).unwrap();
    let again = rig.take(stream, 200 * MIB);
    assert_eq!(again, cached, "the cached memory is there after as before");
    rig.host.launch(stream.raw, &captured).unwrap();
    rig.pool().release_graph(graph).unwrap();
}

#[test]
fn f28a_after_a_trim_the_capture_has_what_was_cached() {
    let rig = Shape::exact(2 * MIB, 512).build();
    let (stream, other) = (rig.stream(), rig.stream());
    let cached = rig.take(stream, 200 * MIB);
    rig.take(other, 724 * MIB);
    rig.free(cached);
    rig.pool().trim_and_wait().unwrap();
    let graph = arena(&rig, "graph");
    rig.pool().begin_capture(stream.id, graph).unwrap();
    rig.host.begin_capture(stream.raw).unwrap();
    let block = rig.pool().alloc(&Request::new(150 * MIB, stream.id)).unwrap();
    rig.host.end_capture(stream.raw).unwrap();
    rig.pool().end_capture(stream.id).unwrap();
    rig.pool().free(block.address).unwrap();
    rig.pool().release_graph(graph).unwrap();
}

#[test]
fn f28b_a_capture_that_is_given_up_gives_all_back() {
    for told in [true, false] {
        let rig = Shape::exact(2 * MIB, 128).build();
        let stream = rig.stream();
        let graph = arena(&rig, "graph");
        rig.pool().begin_capture(stream.id, graph).unwrap();
        rig.host.begin_capture(stream.raw).unwrap();
        let block = rig.pool().alloc(&Request::new(100 * MIB, stream.id)).unwrap();
        // The application fails: the driver's capture goes, and capture_end is never called.
        drop(rig.host.end_capture(stream.raw).unwrap());
        rig.pool().free(block.address).unwrap();
        if told {
            rig.pool().abort_capture(stream.id).unwrap();
        } else {
            rig.pool().trim();
            assert_eq!(rig.pool().graph_arena(stream.id), Ok(None), "no capture is under way for ever");
            rig.pool().release_graph(graph).unwrap();
        }
        assert_eq!(rig.pool().trim_and_wait().unwrap().released_bytes, 100 * MIB);
        assert_eq!(rig.physical_bytes(), 0);
        let normal = rig.take(stream, 256 * MIB);
        rig.fill(stream, normal, 4096, 1);
    }
}

#[test]
fn f29a_a_thread_that_names_no_arena_gets_the_default_one() {
    let rig = Shape { streams: StreamMode::Immediate, ..Shape::exact(2 * MIB, 64) }.build();
    let (first, second) = (rig.stream(), rig.stream());
    let named = arena(&rig, "a");
    let blocks = thread::scope(|scope| {
        let inside = scope.spawn(|| (0..10).map(|_| alloc_in(&rig, first, named, MIB)).collect::<Vec<_>>());
        let outside = scope.spawn(|| (0..10).map(|_| rig.take(second, MIB)).collect::<Vec<_>>());
        (inside.join().unwrap(), outside.join().unwrap())
    });
    assert!(has_blocks(&rig, named));
    blocks.0.iter().for_each(|block| rig.pool().free(block.address).unwrap());
    rig.pool().dissolve(named).unwrap();
    assert_eq!(rig.pool().stats().live_blocks, 10, "the others were never in it");
}

#[test]
fn f29b_the_inner_arena_and_then_the_outer_again() {
    let rig = Shape::exact(2 * MIB, 64).build();
    let stream = rig.stream();
    let (outer, inner) = (arena(&rig, "outer"), arena(&rig, "inner"));
    // The outer one is a graph's: it gets what names none; the inner is named.
    rig.pool().begin_capture(stream.id, outer).unwrap();
    let before = rig.pool().alloc(&Request::new(MIB, stream.id)).unwrap();
    let within = alloc_in(&rig, stream, inner, MIB);
    let after = rig.pool().alloc(&Request::new(MIB, stream.id)).unwrap();
    rig.pool().end_capture(stream.id).unwrap();
    let last = rig.take(stream, MIB);
    rig.pool().free(within.address).unwrap();
    rig.pool().dissolve(inner).unwrap();
    assert_eq!(after.address, before.address + MIB, "both are the outer one's");
    assert!(last != after.address + MIB);
    for block in [before, after] {
        rig.pool().free(block.address).unwrap();
    }
    rig.pool().release_graph(outer).unwrap();
    rig.pool().dissolve(outer).unwrap();
}

#[test]
fn f29c_two_threads_capture_into_two_arenas_at_once() {
    within(Duration::from_secs(30), || {
        let rig = Shape { streams: StreamMode::Immediate, ..Shape::exact(2 * MIB, 256) }.build();
        let streams = [rig.stream(), rig.stream()];
        thread::scope(|scope| {
            for (index, stream) in streams.into_iter().enumerate() {
                let rig = &rig;
                scope.spawn(move || {
                    for round in 0..50_u64 {
                        let graph = arena(rig, &format!("graph {index}"));
                        rig.pool().trim_and_wait().unwrap();
                        rig.pool().begin_capture(stream.id, graph).unwrap();
                        rig.host.begin_capture(stream.raw).unwrap();
                        let block = rig.pool().alloc(&Request::new((round % 5 + 1) * 2 * MIB, stream.id)).unwrap();
                        rig.fill(stream, block.address, block.bytes, round);
                        rig.verify(stream, block.address, block.bytes, round);
                        let captured = rig.host.end_capture(stream.raw).unwrap();
                        rig.pool().end_capture(stream.id).unwrap();
                        rig.host.launch(stream.raw, &captured).unwrap();
                        rig.pool().free(block.address).unwrap();
                        rig.pool().release_graph(graph).unwrap();
                        rig.pool().dissolve(graph).unwrap();
                    }
                });
            }
        });
    });
}

#[test]
fn f29d_an_arena_that_is_gone_is_asked_for_nothing() {
    let rig = Shape::exact(2 * MIB, 64).build();
    let stream = rig.stream();
    let gone = arena(&rig, "gone");
    rig.pool().free(alloc_in(&rig, stream, gone, MIB).address).unwrap();
    rig.pool().dissolve(gone).unwrap();
    let refused = rig.pool().alloc(&Request::new(MIB, stream.id).in_arena(gone));
    assert!(matches!(refused, Err(Error::UnknownArena { .. })));
    assert!(matches!(rig.pool().begin_capture(stream.id, gone), Err(Error::UnknownArena { .. })));
    rig.take(stream, 128 * MIB);
}

#[test]
fn f29e_blocks_outlive_the_release_of_their_graph() {
    let rig = Shape::exact(2 * MIB, 64).build();
    let stream = rig.stream();
    let graph = arena(&rig, "graph");
    rig.pool().begin_capture(stream.id, graph).unwrap();
    let block = rig.pool().alloc(&Request::new(16 * MIB, stream.id)).unwrap();
    rig.pool().end_capture(stream.id).unwrap();
    rig.pool().release_graph(graph).unwrap();
    rig.mark(block.address, block.bytes, 7);
    assert!(matches!(rig.pool().dissolve(graph), Err(Error::InUse { why, .. }) if why.contains("1 blocks")));
    rig.free(rig.take(stream, 112 * MIB));
    assert!(rig.is_marked(block.address, block.bytes, 7));
    rig.pool().free(block.address).unwrap();
    rig.pool().dissolve(graph).unwrap();
}
