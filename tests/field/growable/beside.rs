//! Growable buffers beside what they depend on: other streams that use them, their own that ends, arenas.

use super::{at, growable, sound};
use crate::rig::{HERE, KIB, Shape};
use stitchpool::driver::{Address, Verb};
use stitchpool::{Backup, Error, Request, Scope};

#[test]
fn a_part_in_use_on_another_stream_is_not_reused_before() {
    let rig = Shape::exact(4 * KIB, 4).build();
    let (stream, reader) = (rig.stream(), rig.stream());
    let buffer = growable(&rig, stream, 64 * KIB);
    buffer.grow_to(16 * KIB).unwrap();
    rig.fill(stream, at(&buffer, 8 * KIB), 8 * KIB, 1);
    rig.assert_right();
    assert_eq!(buffer.record_use(8 * KIB, 16 * KIB, reader.id), Err(Error::NotBacked { offset_bytes: 16 * KIB }));
    buffer.record_use(8 * KIB, 8 * KIB, reader.id).unwrap();
    rig.verify(reader, at(&buffer, 8 * KIB), 8 * KIB, 1);
    buffer.give_back(8 * KIB, 8 * KIB).unwrap();
    assert_eq!(rig.figures().holdings.pending_bytes, 8 * KIB);
    sound(&rig, &[&buffer]);
    // In place again: the buffer's stream waits for the reader, and the driver maps nothing.
    let mapped = rig.faulty.calls(Verb::Map);
    buffer.grow_to(16 * KIB).unwrap();
    assert_eq!((rig.faulty.calls(Verb::Map), rig.pool().stats().stream_waits), (mapped, 1));
    rig.fill(stream, at(&buffer, 8 * KIB), 8 * KIB, 2);
    sound(&rig, &[&buffer]);
    rig.assert_right();
}

#[test]
fn a_buffer_outlives_its_stream_but_grows_no_more() {
    let rig = Shape::exact(4 * KIB, 8).build();
    let (stream, other) = (rig.stream(), rig.stream());
    let (empty, full) = (growable(&rig, stream, 64 * KIB), growable(&rig, stream, 64 * KIB));
    full.grow_to(8 * KIB).unwrap();
    rig.end_stream(stream);
    assert!(matches!(full.grow_to(12 * KIB), Err(Error::UnknownStream { .. })));
    assert_eq!(full.give_back(0, 4 * KIB).unwrap(), 4 * KIB);
    drop(full);
    // The heap has a new tenant; the empty buffer's addresses are not its.
    rig.pool().trim_and_wait().unwrap();
    let blocks: Vec<Address> = (0..8).map(|_| rig.take(other, 4 * KIB)).collect();
    let own = rig.ask(&Request::new(4 * KIB, other.id).exclusive());
    assert!(matches!(own, Err(Error::OutOfMemory(_))));
    let span = empty.address().0..empty.address().0 + 64 * KIB;
    assert!(blocks.iter().all(|block| !span.contains(&block.0)));
    assert!(matches!(empty.grow_to(4 * KIB), Err(Error::UnknownStream { .. })));
}

#[test]
fn a_buffer_of_an_arena_sleeps_and_wakes_with_it() {
    let rig = Shape::exact(4 * KIB, 16).build();
    let stream = rig.stream();
    let arena = rig.pool().arena("cache").unwrap();
    let request = Request::new(8 * KIB, stream.id).in_arena(arena);
    let buffer = rig.pool().growable_in_steps(&request, 64 * KIB, 4 * KIB).unwrap();
    buffer.back(24 * KIB, 8 * KIB).unwrap();
    rig.mark(buffer.address(), 8 * KIB, 1);
    rig.mark(at(&buffer, 24 * KIB), 8 * KIB, 2);
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    assert_eq!(rig.ledger().physical_bytes_on(HERE), 0);
    assert!(matches!(buffer.grow_to(12 * KIB), Err(Error::Asleep { .. })));
    assert!(matches!(buffer.segments(0, 8 * KIB), Err(Error::Asleep { .. })));
    assert!(matches!(rig.pool().growable(&request, 8 * KIB), Err(Error::Asleep { .. })));
    // A part that is given back meanwhile has no memory to give, and is not there afterwards.
    assert_eq!(buffer.give_back(28 * KIB, 4 * KIB).unwrap(), 4 * KIB);
    assert_eq!(buffer.backed(), [0..8 * KIB, 24 * KIB..28 * KIB]);
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    rig.pool().check().unwrap();
    assert!(rig.is_marked(buffer.address(), 8 * KIB, 1));
    rig.mark(at(&buffer, 24 * KIB), 4 * KIB, 3);
    buffer.grow_to(32 * KIB).unwrap();
    assert!(rig.is_marked(buffer.address(), 8 * KIB, 1) && rig.is_marked(at(&buffer, 24 * KIB), 4 * KIB, 3));
    rig.touch(stream.raw, buffer.address(), 32 * KIB);
    rig.assert_right();
    rig.pool().check().unwrap();
}

#[test]
fn f29d_an_arena_with_a_buffer_or_with_something_held_is_not_dissolved() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let stream = rig.stream();
    let arena = rig.pool().arena("cache").unwrap();
    let buffer = rig.pool().growable(&Request::new(0, stream.id).in_arena(arena), 256 * KIB).unwrap();
    let refused = rig.pool().dissolve(arena).unwrap_err();
    assert!(refused.to_string().contains("growable buffers are in it"), "{refused}");
    buffer.grow_to(128 * KIB).unwrap();
    drop(buffer);
    let block = rig.ask(&Request::new(64 * KIB, stream.id).in_arena(arena)).unwrap();
    let lease = rig.pool().lease(block).unwrap();
    rig.free(block);
    let refused = rig.pool().dissolve(arena).unwrap_err();
    assert!(refused.to_string().contains("leases or views hold"), "{refused}");
    drop(lease);
    rig.pool().dissolve(arena).unwrap();
    assert!(matches!(rig.pool().dissolve(arena), Err(Error::UnknownArena { .. })));
    rig.take(stream, 8 * 64 * KIB);
}
