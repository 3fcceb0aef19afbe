//! Captures that fail, that nobody ends, and whose stream goes away.

use crate::rig::{Application, GRANULE, Rig, Shape, granule_handles};
use crate::tight;
use stitchpool::driver::{DeviceId, Grant, Rights};
use stitchpool::{Backup, Error, Request, Scope};

#[test]
fn an_aborted_capture_gives_its_memory_back() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    rig.begin(&b, arena);
    let blocks = [rig.block(&a, 3), rig.block(&b, 3)];
    rig.host.invalidate_capture(a.raw).unwrap();
    assert!(rig.host.end_capture(a.raw).is_err());
    rig.pool.abort_capture(a.id).unwrap();
    assert_eq!(rig.pool.graph_arena(b.id), Ok(None), "the stream that joined it too");
    drop(rig.host.end_capture(b.raw));
    blocks.iter().for_each(|block| rig.free(block));
    assert_eq!(rig.pool.trim_and_wait().unwrap().released_bytes, 6 * GRANULE);
    assert!(!rig.is_short(&a, 8) && !rig.is_short(&b, 8));
    let refusals = rig.host.ledger().refusals;
    assert_eq!(refusals, 1, "the end of the broken capture: {:?}", rig.host.ledger().last_refusal);
    rig.pool.dissolve(arena).unwrap();
}

#[test]
fn a_capture_that_the_driver_has_ended_ends_with_the_next_trim() {
    let rig = tight(8);
    let a = rig.stream(0);
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let block = rig.block(&a, 3);
    rig.free(&block);
    drop(rig.host.end_capture(a.raw).unwrap());
    assert_eq!(rig.pool.graph_arena(a.id), Ok(Some(arena)), "nobody has told the pool");
    rig.pool.trim();
    assert_eq!(rig.pool.graph_arena(a.id), Ok(None));
    assert_eq!(rig.pinned_granules(), 3, "whether there is a graph nobody knows");
    rig.pool.release_graph(arena).unwrap();
    rig.over();
}

#[test]
fn a_capture_that_the_driver_has_ended_is_in_no_operations_way() {
    let rig = tight(16);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    let moved = rig.pool.alloc(&Request::new(2 * GRANULE, b.id).exclusive()).unwrap();
    let nothing = [Grant { device: DeviceId(0), rights: Rights::None }];
    let operations: [&dyn Fn() -> stitchpool::Result<()>; 3] = [
        &|| rig.pool.suspend(Scope::Block(moved.address), &Backup::Host).map(drop),
        &|| rig.pool.resume(Scope::Block(moved.address)).map(drop),
        &|| rig.pool.set_rights(Scope::Block(moved.address), &nothing),
    ];
    for operation in operations {
        rig.begin(&a, arena);
        let block = rig.block(&a, 1);
        assert!(matches!(operation(), Err(Error::Capturing { .. })));
        rig.free(&block);
        rig.host.end_capture(a.raw).unwrap();
        operation().unwrap();
        assert_eq!(rig.pool.graph_arena(a.id), Ok(None));
        rig.pool.end_capture(a.id).unwrap();
        rig.pool.release_graph(arena).unwrap();
    }
    rig.pool.free(moved.address).unwrap();
    rig.over();
}

#[test]
fn a_capture_that_has_not_begun_in_the_driver_is_not_taken_for_an_ended_one() {
    let rig = tight(8);
    let a = rig.stream(0);
    let arena = rig.arena("graph");
    rig.pool.begin_capture(a.id, arena).unwrap();
    rig.pool.trim();
    rig.pool.trim_and_wait().unwrap();
    let early = rig.alloc(&a, 2);
    rig.host.begin_capture(a.raw).unwrap();
    rig.pool.trim();
    assert_eq!(rig.pool.graph_arena(a.id), Ok(Some(arena)));
    rig.free(&early);
    rig.end(&a);
    rig.pool.release_graph(arena).unwrap();
    rig.over();
}

#[test]
fn a_capture_never_ended_gives_way_to_the_next() {
    let rig = tight(8);
    let a = rig.stream(0);
    let (first, second) = (rig.arena("first"), rig.arena("second"));
    rig.begin(&a, first);
    drop(rig.host.end_capture(a.raw).unwrap());
    rig.begin(&a, second);
    assert_eq!(rig.pool.graph_arena(a.id), Ok(Some(second)));
    rig.end(&a);
    rig.pool.release_graph(first).unwrap();
    rig.pool.release_graph(second).unwrap();
    rig.over();
}

#[test]
fn a_stream_is_retired_only_when_its_capture_is_over() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let block = rig.block(&a, 4);
    assert!(matches!(rig.pool.retire(a.id), Err(Error::Capturing { .. })));
    let graph = rig.host.end_capture(a.raw).unwrap();
    rig.pool.retire(a.id).unwrap();
    rig.host.destroy(a.raw);
    assert!(rig.pool.end_capture(a.id).is_err(), "it has ended with its stream");
    rig.host.launch(b.raw, &graph).unwrap();
    rig.free(&block);
    assert!(rig.is_short(&b, 5), "the graph outlives its stream");
    rig.pool.release_graph(arena).unwrap();
    assert!(!rig.is_short(&b, 8));
    rig.over();
}

#[test]
fn a_capture_ends_although_its_stream_is_gone() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let block = rig.block(&a, 4);
    drop(rig.host.end_capture(a.raw).unwrap());
    rig.host.destroy(a.raw);
    rig.pool.end_capture(a.id).unwrap();
    rig.pool.release_graph(arena).unwrap();
    rig.free(&block);
    assert!(!rig.is_short(&b, 4), "the rest of the device");
    assert_eq!(rig.pool.stats().live_blocks, 0);
    rig.pool.check().unwrap();
}

#[test]
fn a_pool_that_goes_during_a_capture_leaves_the_memory_standing() {
    let rig = tight(8);
    let a = rig.stream(0);
    rig.begin(&a, rig.arena("graph"));
    let block = rig.block(&a, 4);
    rig.free(&block);
    let Rig { host, pool, .. } = rig;
    drop(pool);
    let graph = host.end_capture(a.raw).unwrap();
    host.launch(a.raw, &graph).unwrap();
    host.run_all();
    host.assert_clean();
    assert_eq!(host.ledger().physical_bytes_on(DeviceId(0)), 4 * GRANULE);
}

#[test]
fn a_pool_that_goes_after_a_capture_nobody_ended_leaves_the_graphs_memory() {
    let rig = tight(8);
    let a = rig.stream(0);
    rig.begin(&a, rig.arena("graph"));
    let block = rig.block(&a, 4);
    rig.free(&block);
    let graph = rig.host.end_capture(a.raw).unwrap();
    let Rig { host, pool, .. } = rig;
    drop(pool);
    host.launch(a.raw, &graph).unwrap();
    host.run_all();
    host.assert_clean();
}

#[test]
fn relief_is_not_asked_for_by_a_capture() {
    let rig = Rig::new(Shape::new(1, 4), granule_handles(GRANULE));
    let a = rig.stream(0);
    rig.pool.on_shortage(std::sync::Arc::new(|_, _| panic!("a callback may do what breaks a capture")));
    rig.begin(&a, rig.arena("graph"));
    let refused = rig.pool.alloc(&Request::new(8 * GRANULE, a.id));
    assert!(matches!(refused, Err(Error::OutOfMemory(shortage)) if shortage.capturing));
    let refused = rig.pool.alloc(&Request::new(3 * GRANULE, a.id)).and_then(|block| {
        let second = rig.pool.alloc(&Request::new(2 * GRANULE, a.id));
        rig.free(&block);
        second
    });
    assert!(matches!(refused, Err(Error::OutOfMemory(_))));
    rig.end(&a);
    rig.pool.release_graph(rig.arena("graph")).unwrap();
    rig.over();
}
