//! While a capture is open: which driver calls the pool still makes, and for whom.

use crate::rig::{GRANULE, Stream};
use crate::{Rig, tight};
use stitchpool::driver::{DeviceId, RawStream, Verb};
use stitchpool::{Error, Request};

/// What breaks a capture, or might: everything but mapping and creating.
const LOUD: [Verb; 9] = [
    Verb::Record,
    Verb::Wait,
    Verb::IsDone,
    Verb::Finish,
    Verb::Unmap,
    Verb::Release,
    Verb::Unreserve,
    Verb::Copy,
    Verb::Synchronize,
];

fn loud_calls(rig: &Rig) -> u64 {
    LOUD.iter().map(|&verb| rig.faulty.calls(verb)).sum()
}

/// A legacy default stream, registered with the pool.
fn legacy(rig: &Rig) -> Stream {
    let raw = RawStream { device: DeviceId(0), value: 0 };
    Stream { raw, id: rig.pool.register(raw).unwrap() }
}

#[test]
fn a_capture_that_runs_out_of_memory_is_told_so_and_stays_valid() {
    let rig = tight(16);
    let (a, b) = (rig.stream(0), rig.stream(0));
    // Free memory of its own and of another stream, and stale mappings besides.
    let (own, other) = (rig.block(&a, 6), rig.block(&b, 6));
    rig.free(&own);
    rig.free(&other);
    rig.begin(&a, rig.arena("graph"));
    let calls = loud_calls(&rig);
    let block = rig.block(&a, 4);
    let refused = rig.pool.alloc(&Request::new(GRANULE, a.id));
    let Err(Error::OutOfMemory(shortage)) = refused else { panic!("{refused:?}") };
    assert!(shortage.capturing && shortage.advice().contains("trim the pool before"), "{shortage}");
    assert_eq!(loud_calls(&rig), calls, "nothing was waited for, nor given back");
    rig.free(&block);
    for step in 0..200 {
        rig.host.set_now_us(step * 100_000_000);
        let passing = rig.pool.alloc(&Request::new(512, a.id)).unwrap();
        rig.free(&passing);
    }
    assert_eq!(loud_calls(&rig), calls, "nor by the ticks of its frees");
    rig.end(&a);
    rig.pool.release_graph(rig.arena("graph")).unwrap();
    rig.over();
}

#[test]
fn the_legacy_stream_is_quiet_while_any_capture_is_open() {
    let rig = tight(8);
    let (legacy, a, b) = (legacy(&rig), rig.stream(0), rig.stream(0));
    let block = rig.block(&legacy, 8);
    rig.free(&block);
    rig.begin(&a, rig.arena("graph"));
    let calls = loud_calls(&rig);
    rig.pool.trim();
    let records = rig.faulty.calls(Verb::Record);
    assert!(rig.is_short(&b, 8), "what the legacy stream freed cannot be sealed now");
    assert_eq!(rig.alloc(&legacy, 8), block, "it goes on by itself");
    rig.free(&block);
    assert!(rig.faulty.calls(Verb::Record) >= records && loud_calls(&rig) >= calls);
    rig.end(&a);
    rig.pool.release_graph(rig.arena("graph")).unwrap();
    assert!(!rig.is_short(&b, 8));
    rig.over();
}

#[test]
fn a_legacy_stream_that_is_short_is_not_made_to_wait_in_its_queue() {
    let rig = tight(8);
    let (legacy, a, b) = (legacy(&rig), rig.stream(0), rig.stream(0));
    let block = rig.block(&b, 6);
    rig.free(&block);
    rig.begin(&a, rig.arena("graph"));
    let waits = rig.faulty.calls(Verb::Wait);
    // The CPU may wait for the other stream; the legacy queue may not be touched.
    let taken = rig.alloc(&legacy, 8);
    assert_eq!((rig.faulty.calls(Verb::Wait), rig.pool.stats().stream_waits), (waits, 0));
    rig.free(&taken);
    rig.end(&a);
    rig.pool.release_graph(rig.arena("graph")).unwrap();
    rig.over();
}

#[test]
fn other_streams_go_on_taking_each_others_memory() {
    let rig = tight(12);
    let (a, b, c) = (rig.stream(0), rig.stream(0), rig.stream(0));
    rig.begin(&a, rig.arena("graph"));
    let inside = rig.block(&a, 4);
    for _ in 0..10 {
        for stream in [&b, &c] {
            let block = rig.block(stream, 8);
            rig.read(stream, &block, stream);
            rig.free(&block);
        }
    }
    assert!(rig.pool.stats().stream_waits > 0, "they wait for each other");
    rig.free(&inside);
    rig.end(&a);
    rig.pool.release_graph(rig.arena("graph")).unwrap();
    rig.over();
}

#[test]
fn a_block_used_on_a_captured_stream_stays_pending_until_the_capture_ends() {
    let rig = tight(64);
    let (a, b) = (rig.stream(0), rig.stream(0));
    rig.begin(&a, rig.arena("graph"));
    let block = rig.block(&b, 4);
    rig.pool.record_use(block.address, a.id).unwrap();
    rig.free(&block);
    rig.host.run_all();
    rig.pool.trim();
    rig.pool.trim_and_wait().unwrap();
    assert_eq!(rig.pool.stats().devices[0].holdings.pending_bytes, 4 * GRANULE);
    rig.end(&a);
    rig.pool.trim_and_wait().unwrap();
    assert_eq!(rig.pool.stats().devices[0].holdings.pending_bytes, 0);
    rig.pool.release_graph(rig.arena("graph")).unwrap();
    rig.over();
}

#[test]
fn a_graphs_block_used_on_another_stream_waits_for_it_and_stays_the_graphs() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let block = rig.block(&a, 4);
    rig.pool.record_use(block.address, b.id).unwrap();
    rig.free(&block);
    let next = rig.alloc(&a, 4);
    assert_ne!(next.address, block.address, "the other stream may still use it");
    rig.end(&a);
    rig.host.run_all();
    rig.pool.trim_and_wait().unwrap();
    assert_eq!(rig.pinned_granules(), 4, "it came back to the arena");
    assert!(rig.is_short(&b, 1));
    rig.free(&next);
    rig.pool.release_graph(arena).unwrap();
    rig.over();
}
