//! With the setting `ask_capture`: applications that capture without a word to the pool.

use crate::rig::{GRANULE, Rig, Shape, granule_handles};
use stitchpool::driver::Verb;
use stitchpool::{Error, Request, Settings};

fn asking(granules: u64) -> Rig {
    Rig::new(Shape::new(1, granules), Settings { ask_capture: true, ..granule_handles(GRANULE) })
}

#[test]
fn a_captured_stream_is_found_out_by_its_first_request() {
    let rig = asking(16);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let own = rig.block(&a, 4);
    rig.read(&a, &own, &a);
    rig.free(&own);
    rig.host.begin_capture(a.raw).unwrap();
    assert_eq!(rig.pool.graph_arena(a.id), Ok(None));
    let inside = rig.block(&a, 4);
    let arena = rig.pool.graph_arena(a.id).unwrap().unwrap();
    assert_ne!(inside.address, own.address, "a hit would have given it");
    rig.read(&a, &inside, &a);
    rig.free(&inside);
    let graph = rig.host.end_capture(a.raw).unwrap();
    let after = rig.block(&a, 4);
    assert_eq!((after.address, rig.pool.graph_arena(a.id)), (own.address, Ok(None)));
    let other = rig.block(&b, 8);
    assert!(rig.is_short(&b, 1), "four are the graph's");
    rig.host.launch(a.raw, &graph).unwrap();
    rig.read(&a, &after, &a);
    rig.read(&b, &other, &b);
    [after, other].iter().for_each(|block| rig.free(block));
    rig.pool.release_graph(arena).unwrap();
    rig.pool.retire(b.id).unwrap();
    assert!(matches!(rig.pool.record_use(other.address, b.id), Err(Error::UnknownStream { .. })));
    rig.over();
}

#[test]
fn an_application_may_still_end_what_a_request_has_found_ended() {
    let rig = asking(16);
    let a = rig.stream(0);
    let arena = rig.pool.arena("graph").unwrap();
    rig.pool.begin_capture(a.id, arena).unwrap();
    rig.host.begin_capture(a.raw).unwrap();
    let inside = rig.block(&a, 1);
    rig.free(&inside);
    drop(rig.host.end_capture(a.raw).unwrap());
    // Another thread asks for something just now.
    let after = rig.block(&a, 1);
    assert_eq!(rig.pool.graph_arena(a.id), Ok(None));
    rig.pool.end_capture(a.id).unwrap();
    assert!(matches!(rig.pool.end_capture(a.id), Err(Error::NotCapturing { .. })));
    rig.free(&after);
    rig.pool.release_graph(arena).unwrap();
    rig.over();
}

#[test]
fn a_buffer_learns_of_a_capture_and_of_its_end_as_requests_do() {
    let rig = asking(16);
    let a = rig.stream(0);
    let buffer = rig.pool.growable_in_steps(&Request::new(GRANULE, a.id), 8 * GRANULE, GRANULE).unwrap();
    rig.host.begin_capture(a.raw).unwrap();
    assert!(matches!(buffer.grow_to(2 * GRANULE), Err(Error::Capturing { .. })));
    let arena = rig.pool.graph_arena(a.id).unwrap().unwrap();
    drop(rig.host.end_capture(a.raw).unwrap());
    buffer.grow_to(2 * GRANULE).unwrap();
    assert_eq!(rig.pool.graph_arena(a.id), Ok(None));
    rig.pool.release_graph(arena).unwrap();
    drop(buffer);
    rig.over();
}

#[test]
fn each_request_asks_once_and_no_free_does() {
    let rig = asking(16);
    let a = rig.stream(0);
    let before = rig.faulty.calls(Verb::CaptureOf);
    for _ in 0..100 {
        let block = rig.alloc(&a, 1);
        rig.free(&block);
    }
    assert_eq!(rig.faulty.calls(Verb::CaptureOf) - before, 100);
    let silent = Rig::new(Shape::new(1, 16), granule_handles(GRANULE));
    let a = silent.stream(0);
    let before = silent.faulty.total_calls();
    silent.free(&silent.alloc(&a, 1));
    let missed = silent.faulty.total_calls();
    (0..100).for_each(|_| silent.free(&silent.alloc(&a, 1)));
    assert!(missed > before && silent.faulty.calls(Verb::CaptureOf) == 0, "nobody asks without the setting");
    rig.over();
    silent.over();
}
