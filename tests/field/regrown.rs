//! Growable buffers that grow again after a part was given back and memory has moved meanwhile: where it lies,
//! who may use it, and what it holds.

use crate::rig::{HERE, KIB, Rig, Shape, Stream};
use stitchpool::driver::host::Peers;
use stitchpool::driver::{Address, DeviceId, ErrorKind, Fault, Grant, Rights, Verb};
use stitchpool::{ArenaId, Backup, Error, Growable, Placement, Request, Scope};

const CHUNK: u64 = 64 * KIB;
const THERE: DeviceId = DeviceId(1);

fn two_devices() -> Shape {
    Shape { devices: 2, ..Shape::exact(CHUNK, 16) }
}

/// A buffer of eight chunks, of which four have memory and are written, each with its own number.
fn written(rig: &Rig, stream: Stream, request: &Request) -> Growable {
    let buffer = rig.pool().growable_in_steps(request, 8 * CHUNK, CHUNK).unwrap();
    buffer.grow_to(4 * CHUNK).unwrap();
    (0..4).for_each(|chunk| rig.fill(stream, at(&buffer, chunk), CHUNK, chunk));
    buffer
}

fn at(buffer: &Growable, chunk: u64) -> Address {
    buffer.address() + chunk * CHUNK
}

/// So many chunks of a buffer.
fn part(buffer: &Growable, from: u64, chunks: u64) -> Scope {
    Scope::Range { address: at(buffer, from), bytes: chunks * CHUNK }
}

/// The devices of the first chunks, one by one.
#[track_caller]
fn devices(buffer: &Growable, chunks: u64) -> Vec<u16> {
    let segments = buffer.segments(0, chunks * CHUNK).unwrap();
    segments
        .iter()
        .flat_map(|segment| std::iter::repeat_n(segment.device.0, (segment.bytes / CHUNK) as usize))
        .collect()
}

/// The chunks hold what they were written with, and all is sound.
#[track_caller]
fn intact(rig: &Rig, stream: Stream, buffer: &Growable, chunks: &[u64]) {
    chunks.iter().for_each(|&chunk| rig.verify(stream, at(buffer, chunk), CHUNK, chunk));
    rig.assert_right();
    rig.pool().check().unwrap();
    assert_eq!(rig.ledger().refusals, 0, "{:?}", rig.ledger().last_refusal);
}

fn in_arena(rig: &Rig, stream: Stream, name: &str) -> (ArenaId, Request) {
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

#[test]
fn what_a_lease_keeps_is_not_backed_again_before_it_ends() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let buffer = written(&rig, stream, &Request::new(0, stream.id));
    let lease = rig.pool().lease(at(&buffer, 2)).unwrap();
    buffer.give_back(CHUNK, 3 * CHUNK).unwrap();
    let refused = buffer.grow_to(4 * CHUNK).unwrap_err();
    assert_eq!(refused, Error::Held { address: at(&buffer, 2), holders: 1 });
    assert_eq!(buffer.backed_bytes(), CHUNK);
    buffer.grow_to(2 * CHUNK).unwrap();
    drop(lease);
    buffer.grow_to(4 * CHUNK).unwrap();
    intact(&rig, stream, &buffer, &[0]);
}

#[test]
fn a_pinned_handle_serves_where_it_is() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let dealt = Placement::RoundRobin { devices: vec![HERE, THERE], stripe_bytes: CHUNK };
    let buffer = written(&rig, stream, &Request::new(0, stream.id).placed(dealt));
    rig.pool().exchange(part(&buffer, 0, 1), part(&buffer, 1, 1)).unwrap();
    let pin = rig.pool().pin(at(&buffer, 0), CHUNK).unwrap();
    buffer.give_back(0, 2 * CHUNK).unwrap();
    buffer.grow_to(4 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 4), [1, 1, 0, 1], "the one that is pinned stays");
    drop(pin);
    buffer.give_back(0, 2 * CHUNK).unwrap();
    buffer.grow_to(4 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 4), [0, 1, 0, 1]);
    intact(&rig, stream, &buffer, &[2, 3]);
}

#[test]
fn work_on_what_was_given_back_is_over_before_other_memory_stands_there() {
    let rig = two_devices().build();
    let (stream, reader) = (rig.stream(), rig.stream());
    let dealt = Placement::RoundRobin { devices: vec![HERE, THERE], stripe_bytes: CHUNK };
    let buffer = written(&rig, stream, &Request::new(0, stream.id).placed(dealt));
    rig.pool().exchange(part(&buffer, 0, 1), part(&buffer, 1, 1)).unwrap();
    buffer.record_use(0, 2 * CHUNK, reader.id).unwrap();
    rig.busy(reader);
    rig.verify(reader, at(&buffer, 0), CHUNK, 1);
    rig.verify(stream, at(&buffer, 1), CHUNK, 0);
    buffer.give_back(0, 2 * CHUNK).unwrap();
    let waits = rig.pool().stats().cpu_waits;
    buffer.grow_to(4 * CHUNK).unwrap();
    assert!(rig.pool().stats().cpu_waits > waits);
    rig.fill(stream, at(&buffer, 0), 2 * CHUNK, 7);
    rig.verify(stream, at(&buffer, 0), 2 * CHUNK, 7);
    assert_eq!(devices(&buffer, 4), [0, 1, 0, 1]);
    intact(&rig, stream, &buffer, &[2, 3]);
}

#[test]
fn nothing_is_unmapped_or_waited_for_because_of_a_stream_that_is_captured() {
    for named in [false, true] {
        let rig = two_devices().build();
        let (stream, other) = (rig.stream(), rig.stream());
        let graph = rig.pool().arena("graph").unwrap();
        let own = if named { in_arena(&rig, stream, "cache").1 } else { Request::new(0, stream.id) };
        let one = written(&rig, stream, &own.open_to(&[THERE]));
        let two = written(&rig, other, &Request::new(0, other.id).placed(Placement::Home(THERE)));
        rig.assert_right();
        rig.pool().exchange(part(&one, 0, 4), part(&two, 0, 4)).unwrap();
        rig.fill(stream, at(&one, 2), 2 * CHUNK, 9);
        one.give_back(2 * CHUNK, 2 * CHUNK).unwrap();
        rig.pool().begin_capture(stream.id, graph).unwrap();
        rig.host.begin_capture(stream.raw).unwrap();
        let (waits, unmapped) = (rig.pool().stats().cpu_waits, rig.faulty.calls(Verb::Unmap));
        match one.grow_to(4 * CHUNK).unwrap_err() {
            Error::OutOfMemory(short) => assert!(named && short.capturing, "{short}"),
            error => assert!(!named && matches!(error, Error::Capturing { .. }), "{error}"),
        }
        assert_eq!((rig.pool().stats().cpu_waits, rig.faulty.calls(Verb::Unmap)), (waits, unmapped));
        drop(rig.host.end_capture(stream.raw).unwrap());
        rig.pool().end_capture(stream.id).unwrap();
        rig.pool().release_graph(graph).unwrap();
        one.grow_to(4 * CHUNK).unwrap();
        assert_eq!(devices(&one, 4), [1, 1, 0, 0]);
        intact(&rig, stream, &one, &[0, 1]);
    }
}

/// A buffer of one stream, whose first half was used on another that is being captured, and was given back.
struct Captured {
    stream: Stream,
    reader: Stream,
    graph: ArenaId,
    buffer: Growable,
}

/// `elsewhere`: what was given back had been exchanged, and lies where it shall not.
fn given_back_while_captured(rig: &Rig, elsewhere: bool) -> Captured {
    let (stream, reader) = (rig.stream(), rig.stream());
    let graph = rig.pool().arena("graph").unwrap();
    let dealt = Placement::RoundRobin { devices: vec![HERE, THERE], stripe_bytes: CHUNK };
    let buffer = written(rig, stream, &Request::new(0, stream.id).placed(dealt));
    if elsewhere {
        rig.pool().exchange(part(&buffer, 0, 1), part(&buffer, 1, 1)).unwrap();
    }
    rig.pool().begin_capture(reader.id, graph).unwrap();
    rig.host.begin_capture(reader.raw).unwrap();
    buffer.record_use(0, CHUNK, reader.id).unwrap();
    buffer.give_back(0, 2 * CHUNK).unwrap();
    Captured { stream, reader, graph, buffer }
}

#[test]
fn what_a_captured_stream_has_used_is_not_waited_for() {
    let rig = two_devices().build();
    let Captured { stream, reader, graph, buffer } = given_back_while_captured(&rig, true);
    let refused = buffer.grow_to(2 * CHUNK).unwrap_err();
    assert!(matches!(refused, Error::Capturing { .. }), "{refused}");
    drop(rig.host.end_capture(reader.raw).unwrap());
    rig.pool().end_capture(reader.id).unwrap();
    rig.pool().release_graph(graph).unwrap();
    buffer.grow_to(2 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 4), [0, 1, 0, 1]);
    intact(&rig, stream, &buffer, &[2, 3]);
}

#[test]
fn a_capture_that_the_driver_has_ended_is_in_no_growths_way() {
    for elsewhere in [false, true] {
        let rig = two_devices().build();
        let Captured { stream, reader, graph, buffer } = given_back_while_captured(&rig, elsewhere);
        let refused = buffer.grow_to(2 * CHUNK).unwrap_err();
        let expected = match refused {
            Error::Capturing { .. } => elsewhere,
            Error::OutOfMemory(_) => !elsewhere,
            _ => false,
        };
        assert!(expected, "{refused}");
        // The pool is not told.
        drop(rig.host.end_capture(reader.raw).unwrap());
        buffer.grow_to(2 * CHUNK).unwrap();
        assert_eq!(devices(&buffer, 4), [0, 1, 0, 1]);
        intact(&rig, stream, &buffer, &[2, 3]);
        rig.pool().end_capture(reader.id).unwrap();
        rig.pool().release_graph(graph).unwrap();
    }
}

#[test]
fn a_refusal_of_any_call_of_a_growth_that_makes_room_changes_nothing() {
    for lasting in [false, true] {
        for nth in 1.. {
            let mut rig = two_devices().build();
            let stream = rig.stream();
            let buffer = written(&rig, stream, &Request::new(0, stream.id));
            rig.pool().suspend(part(&buffer, 3, 1), &Backup::Host).unwrap();
            rig.pool().migrate(part(&buffer, 2, 1), THERE).unwrap();
            rig.pool().exchange(part(&buffer, 1, 1), part(&buffer, 2, 1)).unwrap();
            buffer.give_back(CHUNK, 3 * CHUNK).unwrap();
            match lasting {
                true => rig.faulty.fail_all_from(nth, ErrorKind::Unknown),
                false => rig.faulty.fail_any(nth, ErrorKind::Unknown),
            }
            let grown = buffer.grow_to(5 * CHUNK);
            let met = rig.faulty.failed() > 0;
            rig.faulty.clear();
            rig.scarred = rig.pool().stats().quarantined > 0;
            if let Err(error) = &grown {
                assert!(met, "{error}");
                assert_eq!(buffer.backed_bytes(), CHUNK, "{error}");
                rig.pool().check().unwrap();
            }
            if !rig.scarred {
                buffer.grow_to(5 * CHUNK).unwrap();
                assert_eq!(devices(&buffer, 5), [0, 0, 1, 0, 0]);
                rig.touch(stream.raw, buffer.address(), 5 * CHUNK);
            }
            intact(&rig, stream, &buffer, &[0]);
            drop(buffer);
            if !met {
                assert!(nth > 1, "no call was made");
                break;
            }
        }
    }
}

/// A buffer of which half has memory again after a resume that failed, and not its content: the driver neither
/// opened it nor took it back.
fn half_woken(rig: &Rig, stream: Stream) -> Growable {
    let buffer = written(rig, stream, &Request::new(0, stream.id));
    rig.pool().suspend(part(&buffer, 2, 2), &Backup::Host).unwrap();
    rig.faulty.fail(Verb::SetRights, 1, ErrorKind::Unknown);
    rig.faulty.arm(Fault { verb: Some(Verb::Unmap), nth: 1, lasting: true, kind: ErrorKind::Unknown });
    assert!(rig.pool().resume(part(&buffer, 2, 2)).is_err());
    rig.faulty.clear();
    assert!(buffer.segments(0, 4 * CHUNK).is_ok(), "it stands");
    buffer
}

#[test]
fn what_was_given_back_without_its_content_is_owed_none() {
    for taken in [false, true] {
        let rig = Shape::exact(CHUNK, 4).build();
        let (stream, other) = (rig.stream(), rig.stream());
        let buffer = half_woken(&rig, stream);
        buffer.give_back(2 * CHUNK, 2 * CHUNK).unwrap();
        if taken {
            // Its memory serves somebody else in between.
            let block = rig.take(other, 2 * CHUNK);
            rig.touch(other.raw, block, 2 * CHUNK);
            rig.free(block);
            rig.assert_right();
        }
        rig.pool().set_rights(part(&buffer, 2, 2), &[Grant { device: HERE, rights: Rights::ReadWrite }]).unwrap();
        buffer.grow_to(4 * CHUNK).unwrap();
        (2..4).for_each(|chunk| rig.fill(stream, at(&buffer, chunk), CHUNK, 20 + chunk));
        rig.pool().lease(at(&buffer, 3)).unwrap();
        rig.pool().resume(part(&buffer, 0, 4)).unwrap();
        rig.pool().resume(Scope::All).unwrap();
        (2..4).for_each(|chunk| rig.verify(stream, at(&buffer, chunk), CHUNK, 20 + chunk));
        intact(&rig, stream, &buffer, &[0, 1]);
    }
}
