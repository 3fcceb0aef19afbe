//! A released graph may still be running: its memory passes on behind all that was queued.

use crate::rig::{Application, GRANULE, Shape, Stream, granule_handles};
use crate::{Rig, tight};
use stitchpool::driver::{DeviceId, Grant, Rights};
use stitchpool::{ArenaId, Part, Request, Scope};

/// A graph of six granules that has been launched on `on` and has not run.
fn launched(rig: &Rig, owner: &Stream, on: &Stream) -> ArenaId {
    let arena = rig.arena("graph");
    rig.begin(owner, arena);
    let block = rig.block(owner, 6);
    rig.read(owner, &block, owner);
    rig.free(&block);
    let graph = rig.end(owner);
    rig.host.launch(on.raw, &graph).unwrap();
    arena
}

#[test]
fn others_take_it_behind_the_last_replay() {
    let rig = tight(8);
    let (a, b, c) = (rig.stream(0), rig.stream(0), rig.stream(0));
    let arena = launched(&rig, &a, &b);
    rig.pool.release_graph(arena).unwrap();
    let next = rig.block(&c, 8);
    assert!(rig.pool.stats().stream_waits >= 2, "behind the capture's stream and the replay's");
    rig.read(&c, &next, &c);
    rig.host.run(c.raw).unwrap();
    assert!(rig.host.queued(c.raw).unwrap() > 0, "the replay has not run");
    rig.free(&next);
    rig.over();
}

#[test]
fn what_a_lease_or_a_view_holds_past_the_release_waits_for_the_last_replay_too() {
    for by_view in [false, true] {
        let rig = tight(8);
        let (a, b) = (rig.stream(0), rig.stream(0));
        let arena = rig.arena("graph");
        rig.begin(&a, arena);
        let block = rig.pool.alloc(&Request::new(4 * GRANULE, a.id).exclusive()).unwrap();
        rig.host.fill(a.raw, block.address, block.bytes, 7);
        let grants = [Grant { device: DeviceId(0), rights: Rights::Read }];
        let part = Part { address: block.address, bytes: block.bytes };
        let view = by_view.then(|| rig.pool.view(&[part], &grants).unwrap());
        let lease = (!by_view).then(|| rig.pool.lease(block.address).unwrap());
        rig.free(&block);
        let graph = rig.end(&a);
        rig.host.launch(b.raw, &graph).unwrap();
        rig.pool.release_graph(arena).unwrap();
        drop((lease, view));
        rig.host.run(a.raw).unwrap();
        assert_eq!(rig.pool.trim().released_bytes, 0, "the replay has not run");
        rig.host.run_all();
        assert_eq!(rig.pool.trim().released_bytes, 4 * GRANULE);
        rig.over();
    }
}

#[test]
fn the_arenas_own_stream_does_not_take_it_before_the_last_replay_either() {
    let rig = tight(64);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = launched(&rig, &a, &b);
    rig.pool.release_graph(arena).unwrap();
    let request = Request::new(6 * GRANULE, a.id).in_arena(arena);
    let elsewhere = rig.pool.alloc(&request).unwrap();
    rig.host.touch(a.raw, elsewhere.address, elsewhere.bytes, stitchpool::driver::Rights::ReadWrite).unwrap();
    rig.host.run(a.raw).unwrap();
    rig.free(&elsewhere);
    rig.over();
}

#[test]
fn a_block_freed_after_the_release_waits_for_the_replay_too() {
    let rig = tight(64);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let block = rig.block(&a, 6);
    let graph = rig.end(&a);
    rig.host.launch(b.raw, &graph).unwrap();
    rig.pool.release_graph(arena).unwrap();
    rig.free(&block);
    let request = Request::new(6 * GRANULE, a.id).in_arena(arena);
    let next = rig.pool.alloc(&request).unwrap();
    assert_ne!(next.address, block.address, "the other stream is not past the replay");
    rig.free(&next);
    rig.over();
}

#[test]
fn a_lone_stream_has_it_at_once() {
    let rig = tight(8);
    let a = rig.stream(0);
    let arena = launched(&rig, &a, &a);
    rig.pool.release_graph(arena).unwrap();
    let next = rig.block(&a, 8);
    rig.read(&a, &next, &a);
    rig.free(&next);
    assert_eq!((rig.pool.stats().stream_waits, rig.pool.stats().cpu_waits), (0, 0));
    rig.over();
}

#[test]
fn a_replay_on_a_device_that_got_its_right_by_the_block_is_waited_for() {
    let rig = Rig::new(Shape::new(2, 16), granule_handles(GRANULE));
    let (a, far) = (rig.stream(0), rig.stream(1));
    let arena = rig.arena("graph");
    let request = Request::new(6 * GRANULE, a.id).in_arena(arena).exclusive();
    let block = rig.pool.alloc(&request).unwrap();
    let reader = [Grant { device: DeviceId(1), rights: Rights::ReadWrite }];
    rig.pool.set_rights(Scope::Block(block.address), &reader).unwrap();
    rig.begin(&far, arena);
    rig.read(&far, &block, &a);
    let graph = rig.end(&far);
    rig.host.fill(a.raw, block.address, block.bytes, crate::seed(&a, &block));
    rig.host.order(far.raw, a.raw);
    rig.host.launch(far.raw, &graph).unwrap();
    rig.pool.release_graph(arena).unwrap();
    rig.free(&block);
    let next = rig.pool.alloc(&request).unwrap();
    rig.host.touch(a.raw, next.address, next.bytes, Rights::ReadWrite).unwrap();
    rig.host.run(a.raw).unwrap();
    assert!(rig.host.queued(far.raw).unwrap() > 0, "the replay has not run");
    assert_ne!(next.address, block.address, "what the replay reads is written by nobody");
    rig.free(&next);
    rig.over();
}
