//! Where the requests of a captured stream go, and where everybody else's.

use crate::rig::{GRANULE, Rig, Shape, granule_handles};
use crate::tight;
use stitchpool::driver::DeviceId;
use stitchpool::{Error, Placement, Request};

#[test]
fn a_captured_streams_requests_go_to_the_graphs_arena_and_come_back_after() {
    let rig = tight(64);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    let (own, other) = (rig.alloc(&a, 4), rig.alloc(&b, 4));
    rig.free(&own);
    rig.free(&other);
    rig.begin(&a, arena);
    let inside = rig.alloc(&a, 4);
    assert_ne!(inside.address, own.address, "its own free memory is not the graph's");
    assert_eq!(rig.alloc(&b, 4), other, "another stream sees nothing of it");
    assert!(matches!(rig.pool.dissolve(arena), Err(Error::InUse { why, .. }) if why.contains("1 blocks")));
    rig.end(&a);
    assert_eq!(rig.alloc(&a, 4), own);
    [inside, own, other].iter().for_each(|block| rig.free(block));
    rig.pool.release_graph(arena).unwrap();
    rig.over();
}

#[test]
fn a_block_freed_in_a_capture_serves_it_again_and_nobody_else() {
    let rig = tight(12);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let first = rig.alloc(&a, 8);
    rig.free(&first);
    assert_eq!(rig.pinned_granules(), 8);
    assert!(rig.is_short(&b, 5), "four are left");
    let again = rig.alloc(&a, 8);
    assert_eq!(again.address, first.address);
    rig.end(&a);
    rig.free(&again);
    assert!(rig.is_short(&b, 5) && rig.is_short(&a, 5), "also when the capture has ended");
    assert_eq!(rig.pool.trim_and_wait().unwrap().released_bytes, 0);
    rig.begin(&a, arena);
    assert_eq!(rig.alloc(&a, 8).address, first.address, "a later capture into the arena has it");
    rig.end(&a);
    rig.free(&first);
    rig.pool.release_graph(arena).unwrap();
    assert_eq!(rig.pinned_granules(), 8, "the second graph is still there");
    rig.pool.release_graph(arena).unwrap();
    assert_eq!(rig.pinned_granules(), 0);
    assert!(!rig.is_short(&b, 12));
    rig.over();
}

#[test]
fn a_request_that_names_an_arena_goes_there_also_in_a_capture() {
    let rig = tight(64);
    let a = rig.stream(0);
    let (graph, named) = (rig.arena("graph"), rig.arena("named"));
    rig.begin(&a, graph);
    let request = Request::new(2 * GRANULE, a.id).in_arena(named);
    let block = rig.pool.alloc(&request).unwrap();
    rig.end(&a);
    assert!(matches!(rig.pool.dissolve(named), Err(Error::InUse { .. })));
    rig.free(&block);
    rig.pool.dissolve(named).unwrap();
    rig.pool.release_graph(graph).unwrap();
    rig.pool.dissolve(graph).unwrap();
    assert_eq!(rig.pool.alloc(&request), Err(unknown(rig.pool.dissolve(named).unwrap_err())));
    rig.over();
}

fn unknown(error: Error) -> Error {
    assert!(matches!(error, Error::UnknownArena { .. }), "{error}");
    error
}

#[test]
fn placed_requests_of_a_captured_stream_belong_to_the_graph_too() {
    let rig = Rig::new(Shape::new(2, 16), granule_handles(GRANULE));
    let a = rig.stream(0);
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let peer = Request::new(3 * GRANULE, a.id).placed(Placement::Home(DeviceId(1)));
    let spilling = Request::new(20 * GRANULE, a.id).placed(Placement::Spill(vec![DeviceId(0), DeviceId(1)]));
    let blocks = [rig.pool.alloc(&peer).unwrap(), rig.pool.alloc(&spilling).unwrap()];
    rig.end(&a);
    blocks.iter().for_each(|block| rig.free(block));
    let pinned =
        rig.pool.stats().devices.iter().map(|device| device.holdings.pinned_bytes / GRANULE).collect::<Vec<_>>();
    assert_eq!(pinned, [16, 7], "sixteen at home, three and four at the peer");
    rig.pool.release_graph(arena).unwrap();
    rig.over();
}

#[test]
fn a_stream_that_joins_a_capture_belongs_to_the_same_graph() {
    let rig = tight(32);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    rig.begin(&b, arena);
    let blocks = [rig.alloc(&a, 3), rig.alloc(&b, 3)];
    rig.end(&b);
    assert!(matches!(rig.pool.release_graph(arena), Err(Error::Capturing { .. })), "one is still open");
    rig.end(&a);
    blocks.iter().for_each(|block| rig.free(block));
    assert_eq!(rig.pinned_granules(), 6);
    rig.pool.release_graph(arena).unwrap();
    assert!(matches!(rig.pool.release_graph(arena), Err(Error::NoGraph { .. })), "one graph, one release");
    assert_eq!(rig.pinned_granules(), 0);
    rig.over();
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let rig = tight(32);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let (arena, default) = (rig.arena("graph"), stitchpool::ArenaId::DEFAULT);
    assert!(matches!(rig.pool.begin_capture(a.id, default), Err(Error::InUse { .. })));
    assert!(matches!(rig.pool.dissolve(default), Err(Error::InUse { .. })));
    assert!(matches!(rig.pool.end_capture(a.id), Err(Error::NotCapturing { .. })));
    assert!(matches!(rig.pool.abort_capture(a.id), Err(Error::NotCapturing { .. })));
    assert!(matches!(rig.pool.release_graph(arena), Err(Error::NoGraph { .. })));
    rig.begin(&a, arena);
    assert!(matches!(rig.pool.begin_capture(a.id, arena), Err(Error::Capturing { .. })));
    assert!(matches!(rig.pool.release_graph(arena), Err(Error::Capturing { .. })));
    assert!(matches!(rig.pool.dissolve(arena), Err(Error::InUse { why, .. }) if why.contains("graphs")));
    assert!(matches!(rig.pool.retire(a.id), Err(Error::Capturing { .. })));
    rig.end(&a);
    rig.pool.release_graph(arena).unwrap();
    rig.pool.dissolve(arena).unwrap();
    let gone = rig.pool.begin_capture(b.id, arena);
    assert!(matches!(gone, Err(Error::UnknownArena { .. })));
    assert_ne!(rig.arena("graph"), arena, "a new arena may have its name");
    rig.over();
}

#[test]
fn a_dissolved_arenas_heaps_serve_others() {
    let rig = tight(12);
    let (a, b) = (rig.stream(0), rig.stream(0));
    for round in 0..8000 {
        let arena = rig.arena("passing");
        let block = rig.pool.alloc(&Request::new(4 * GRANULE, a.id).in_arena(arena)).unwrap();
        rig.free(&block);
        rig.pool.dissolve(arena).unwrap();
        if round % 100 == 0 {
            assert!(!rig.is_short(&b, 12), "its memory is not lost");
        }
        rig.host.run_all();
        rig.pool.trim_and_wait().unwrap();
    }
    rig.over();
}
