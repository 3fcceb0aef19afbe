//! Growable buffers that grow again after a part was given back and memory has moved meanwhile: where it lies,
//! who may use it, and what it holds.

use crate::rig::{HERE, KIB, Rig, Shape, Stream};
use stitchpool::driver::host::Peers;
use stitchpool::driver::{Address, DeviceId, Grant, Rights};
use stitchpool::{ArenaId, Backup, Error, Growable, Placement, Request, Scope};

pub(crate) const CHUNK: u64 = 64 * KIB;
pub(crate) const THERE: DeviceId = DeviceId(1);

pub(crate) fn two_devices() -> Shape {
    Shape { devices: 2, ..Shape::exact(CHUNK, 16) }
}

/// A buffer of eight chunks, of which four have memory and are written, each with its own number.
pub(crate) fn written(rig: &Rig, stream: Stream, request: &Request) -> Growable {
    let buffer = rig.pool().growable_in_steps(request, 8 * CHUNK, CHUNK).unwrap();
    buffer.grow_to(4 * CHUNK).unwrap();
    (0..4).for_each(|chunk| rig.fill(stream, at(&buffer, chunk), CHUNK, chunk));
    buffer
}

pub(crate) fn at(buffer: &Growable, chunk: u64) -> Address {
    buffer.address() + chunk * CHUNK
}

/// So many chunks of a buffer.
pub(crate) fn part(buffer: &Growable, from: u64, chunks: u64) -> Scope {
    Scope::Range { address: at(buffer, from), bytes: chunks * CHUNK }
}

/// The devices of the first chunks, one by one.
#[track_caller]
pub(crate) fn devices(buffer: &Growable, chunks: u64) -> Vec<u16> {
    let segments = buffer.segments(0, chunks * CHUNK).unwrap();
    segments
        .iter()
        .flat_map(|segment| std::iter::repeat_n(segment.device.0, (segment.bytes / CHUNK) as usize))
        .collect()
}

/// The chunks hold what they were written with, and all is sound.
#[track_caller]
pub(crate) fn intact(rig: &Rig, stream: Stream, buffer: &Growable, chunks: &[u64]) {
    chunks.iter().for_each(|&chunk| rig.verify(stream, at(buffer, chunk), CHUNK, chunk));
    rig.assert_right();
    rig.pool().check().unwrap();
    assert_eq!(rig.ledger().refusals, 0, "{:?}", rig.ledger().last_refusal);
}

pub(crate) fn in_arena(rig: &Rig, stream: Stream, name: &str) -> (ArenaId, Request) {
    let arena = rig.pool().arena(name).unwrap();
    (arena, Request::new(0, stream.id).in_arena(arena))
}

#[test]
fn what_grows_after_a_migration_lies_where_the_buffer_was_sent() {
    for given in [1..3, 2..4, 0..4] {
        for whole in ["the arena", "the buffer", "the pool"] {
            let rig = two_devices().build();
            let stream = rig.stream();
            let (arena, request) = in_arena(&rig, stream, "cache");
            let buffer = written(&rig, stream, &request);
            buffer.give_back(given.start * CHUNK, (given.end - given.start) * CHUNK).unwrap();
            let scope = match whole {
                "the arena" => Scope::Arena(arena),
                "the buffer" => part(&buffer, 0, 8),
                _ => Scope::All,
            };
            rig.pool().migrate(scope, THERE).unwrap();
            assert_eq!(rig.ledger().physical_bytes_on(HERE), 0, "{whole}");
            buffer.grow_to(6 * CHUNK).unwrap();
            assert_eq!(devices(&buffer, 6), [1; 6], "{whole}, {given:?}");
            rig.touch(stream.raw, buffer.address(), 6 * CHUNK);
            let kept: Vec<u64> = (0..4).filter(|chunk| !given.contains(chunk)).collect();
            intact(&rig, stream, &buffer, &kept);
            // It goes home in the same way.
            buffer.give_back(4 * CHUNK, 2 * CHUNK).unwrap();
            rig.pool().migrate(scope, HERE).unwrap();
            buffer.grow_to(8 * CHUNK).unwrap();
            assert_eq!(devices(&buffer, 8), [0; 8], "{whole}, {given:?}");
            intact(&rig, stream, &buffer, &kept);
        }
    }
}

#[test]
fn an_arena_that_sleeps_is_sent_nowhere() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let (arena, request) = in_arena(&rig, stream, "cache");
    let buffer = written(&rig, stream, &request);
    buffer.give_back(0, 4 * CHUNK).unwrap();
    let block = rig.ask(&Request { bytes: CHUNK, ..request }.exclusive()).unwrap();
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    let refused = rig.pool().migrate(Scope::Arena(arena), THERE).unwrap_err();
    assert!(matches!(refused, Error::Asleep { .. }), "{refused}");
    rig.pool().migrate(Scope::All, THERE).unwrap();
    // One of its blocks is awake, and goes alone.
    rig.pool().resume(Scope::Block(block)).unwrap();
    assert_eq!(rig.pool().migrate(Scope::Arena(arena), THERE).unwrap().moved_bytes, CHUNK);
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    buffer.grow_to(2 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 2), [0; 2]);
}

#[test]
fn a_part_grows_again_where_it_was_sent_last_and_the_rest_as_placed() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let buffer = written(&rig, stream, &Request::new(0, stream.id));
    rig.pool().migrate(part(&buffer, 0, 2), THERE).unwrap();
    rig.pool().migrate(Scope::Block(at(&buffer, 3)), THERE).unwrap();
    assert_eq!(devices(&buffer, 4), [1, 1, 0, 1]);
    buffer.give_back(CHUNK, 3 * CHUNK).unwrap();
    rig.pool().migrate(part(&buffer, 0, 1), HERE).unwrap();
    // Where nothing stands, a part can be sent as well.
    rig.pool().migrate(part(&buffer, 5, 2), THERE).unwrap();
    rig.done(stream);
    rig.pool().trim();
    buffer.grow_to(8 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 8), [0, 1, 0, 1, 0, 1, 1, 0]);
    intact(&rig, stream, &buffer, &[0]);
}

#[test]
fn what_an_exchange_brought_is_not_taken_back_where_it_does_not_belong() {
    let rig = two_devices().build();
    let (stream, other) = (rig.stream(), rig.stream_on(THERE));
    let one = written(&rig, stream, &Request::new(0, stream.id).open_to(&[HERE, THERE]));
    let two = written(&rig, other, &Request::new(0, other.id).open_to(&[HERE, THERE]));
    rig.assert_right();
    rig.pool().exchange(part(&one, 0, 4), part(&two, 0, 4)).unwrap();
    assert_eq!((devices(&one, 4), devices(&two, 4)), (vec![1; 4], vec![0; 4]));
    one.give_back(CHUNK, 3 * CHUNK).unwrap();
    one.grow_to(4 * CHUNK).unwrap();
    assert_eq!(devices(&one, 4), [1, 0, 0, 0], "what stays lies where it was brought, the rest at home");
    rig.touch(stream.raw, one.address(), 4 * CHUNK);
    intact(&rig, stream, &one, &[0]);
    intact(&rig, other, &two, &[0, 1, 2, 3]);
    rig.pool().exchange(part(&one, 0, 1), part(&two, 0, 1)).unwrap();
    assert_eq!((devices(&one, 4), devices(&two, 4)), (vec![0; 4], vec![1, 0, 0, 0]));
}

#[test]
fn a_gap_has_nothing_to_exchange() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let (one, two) = [1, 2].map(|_| written(&rig, stream, &Request::new(0, stream.id))).into();
    two.give_back(CHUNK, CHUNK).unwrap();
    let exchange = |from: u64, chunks: u64| rig.pool().exchange(part(&one, 0, chunks), part(&two, from, chunks));
    // Whether what was given back still has its memory makes no difference.
    for _ in 0..2 {
        assert_eq!(exchange(0, 2), Err(Error::NotBacked { offset_bytes: CHUNK }));
        assert_eq!(exchange(1, 1), Err(Error::NotBacked { offset_bytes: CHUNK }));
        assert_eq!(exchange(6, 2), Err(Error::NotBacked { offset_bytes: 6 * CHUNK }));
        rig.pool().trim_and_wait().unwrap();
    }
    rig.pool().suspend(part(&two, 3, 1), &Backup::Host).unwrap();
    assert!(matches!(exchange(2, 2), Err(Error::Asleep { .. })));
    intact(&rig, stream, &one, &[0, 1, 2, 3]);
    intact(&rig, stream, &two, &[0, 2]);
}

#[test]
fn shares_that_were_exchanged_grow_again_as_they_were_dealt() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let dealt = Placement::RoundRobin { devices: vec![HERE, THERE], stripe_bytes: CHUNK };
    let buffer = written(&rig, stream, &Request::new(0, stream.id).placed(dealt));
    rig.pool().exchange(part(&buffer, 0, 1), part(&buffer, 1, 1)).unwrap();
    assert_eq!(devices(&buffer, 4), [1, 0, 0, 1]);
    buffer.give_back(0, 3 * CHUNK).unwrap();
    buffer.grow_to(4 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 4), [0, 1, 0, 1]);
    intact(&rig, stream, &buffer, &[3]);
}

#[test]
fn what_was_suspended_and_given_back_grows_again_without_a_resume() {
    for moved in [false, true] {
        let rig = two_devices().build();
        let stream = rig.stream();
        let buffer = written(&rig, stream, &Request::new(0, stream.id));
        if moved {
            rig.pool().migrate(part(&buffer, 0, 8), THERE).unwrap();
        }
        rig.pool().suspend(part(&buffer, 1, 3), &Backup::Host).unwrap();
        buffer.give_back(2 * CHUNK, 2 * CHUNK).unwrap();
        buffer.back(2 * CHUNK, 3 * CHUNK).unwrap();
        rig.touch(stream.raw, at(&buffer, 2), 3 * CHUNK);
        rig.pool().resume(part(&buffer, 0, 8)).unwrap();
        assert_eq!(devices(&buffer, 5), [u16::from(moved); 5]);
        intact(&rig, stream, &buffer, &[0, 1]);
    }
}

#[test]
fn what_was_suspended_and_given_back_can_be_sent_without_a_resume() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let buffer = written(&rig, stream, &Request::new(0, stream.id));
    rig.pool().suspend(part(&buffer, 2, 2), &Backup::Host).unwrap();
    assert!(matches!(rig.pool().migrate(part(&buffer, 2, 4), THERE), Err(Error::Asleep { .. })));
    buffer.give_back(2 * CHUNK, 2 * CHUNK).unwrap();
    rig.pool().migrate(part(&buffer, 2, 4), THERE).unwrap();
    buffer.grow_to(6 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 6), [0, 0, 1, 1, 1, 1]);
    intact(&rig, stream, &buffer, &[0, 1]);
}

#[test]
fn rights_that_were_given_while_a_part_was_away_hold_when_it_is_back() {
    for moved in [false, true] {
        let rig = two_devices().build();
        let (stream, peer) = (rig.stream(), rig.stream_on(THERE));
        let buffer = written(&rig, stream, &Request::new(0, stream.id));
        buffer.give_back(2 * CHUNK, 2 * CHUNK).unwrap();
        rig.pool().set_rights(part(&buffer, 1, 5), &[Grant { device: THERE, rights: Rights::ReadWrite }]).unwrap();
        if moved {
            rig.pool().migrate(part(&buffer, 0, 8), THERE).unwrap();
        }
        buffer.grow_to(8 * CHUNK).unwrap();
        assert_eq!(devices(&buffer, 8), [u16::from(moved); 8]);
        intact(&rig, stream, &buffer, &[0, 1]);
        rig.touch(stream.raw, buffer.address(), 2 * CHUNK);
        rig.touch(stream.raw, at(&buffer, 6), 2 * CHUNK);
        rig.touch(peer.raw, at(&buffer, 4), 2 * CHUNK);
        rig.assert_right();
    }
}

#[test]
fn rights_can_be_set_where_a_part_was_given_back_asleep() {
    let rig = two_devices().build();
    let (stream, peer) = (rig.stream(), rig.stream_on(THERE));
    let buffer = written(&rig, stream, &Request::new(0, stream.id));
    let open = [Grant { device: THERE, rights: Rights::ReadWrite }];
    rig.pool().suspend(part(&buffer, 1, 3), &Backup::Discard).unwrap();
    assert!(matches!(rig.pool().set_rights(part(&buffer, 1, 5), &open), Err(Error::Asleep { .. })));
    buffer.give_back(CHUNK, 3 * CHUNK).unwrap();
    rig.pool().set_rights(part(&buffer, 1, 5), &open).unwrap();
    buffer.grow_to(6 * CHUNK).unwrap();
    rig.touch(peer.raw, at(&buffer, 1), 5 * CHUNK);
    intact(&rig, stream, &buffer, &[0]);
}

#[test]
fn who_cannot_reach_what_a_part_will_get_is_named_before_it_grows() {
    let peers = Peers::Groups(vec![vec![0, 1], vec![1, 2]]);
    let rig = Shape { devices: 3, peers, ..Shape::exact(CHUNK, 16) }.build();
    let stream = rig.stream();
    let (arena, request) = in_arena(&rig, stream, "cache");
    let buffer = rig.pool().growable_in_steps(&request, 8 * CHUNK, CHUNK).unwrap();
    let far = [Grant { device: DeviceId(2), rights: Rights::Read }];
    let unreachable = |owner| Err(Error::Unreachable { reader: DeviceId(2), owner });
    assert_eq!(rig.pool().set_rights(part(&buffer, 0, 8), &far), unreachable(HERE));
    rig.pool().migrate(part(&buffer, 4, 4), THERE).unwrap();
    rig.pool().set_rights(part(&buffer, 4, 4), &far).unwrap();
    assert_eq!(rig.pool().set_rights(part(&buffer, 3, 2), &far), unreachable(HERE));
    assert_eq!(rig.pool().set_rights(Scope::Arena(arena), &far), unreachable(HERE));
    buffer.grow_to(8 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 8), [0, 0, 0, 0, 1, 1, 1, 1]);
    intact(&rig, stream, &buffer, &[]);
}

#[test]
fn rights_can_be_set_within_a_gap() {
    let rig = two_devices().build();
    let (stream, peer) = (rig.stream(), rig.stream_on(THERE));
    let buffer = written(&rig, stream, &Request::new(0, stream.id));
    buffer.back(7 * CHUNK, CHUNK).unwrap();
    rig.pool().set_rights(part(&buffer, 5, 1), &[Grant { device: THERE, rights: Rights::ReadWrite }]).unwrap();
    buffer.grow_to(8 * CHUNK).unwrap();
    rig.touch(peer.raw, at(&buffer, 5), CHUNK);
    intact(&rig, stream, &buffer, &[0, 1, 2, 3]);
}
