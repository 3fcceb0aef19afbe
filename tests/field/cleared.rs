//! What a growable buffer's growth clears from its addresses first, and what it leaves: what is held, pinned, in use, or
//! used by a stream that is being captured; and what a refusal half way leaves.

use crate::regrown::{CHUNK, THERE, at, devices, in_arena, intact, part, two_devices, written};
use crate::rig::{HERE, Rig, Shape, Stream};
use stitchpool::driver::{ErrorKind, Fault, Grant, Rights, Verb};
use stitchpool::{ArenaId, Backup, Error, Growable, Placement, Request, Scope};

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

#[test]
fn what_was_given_back_without_its_content_can_be_sent() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let buffer = half_woken(&rig, stream);
    assert!(matches!(rig.pool().migrate(part(&buffer, 2, 4), THERE), Err(Error::Asleep { .. })));
    buffer.give_back(2 * CHUNK, 2 * CHUNK).unwrap();
    rig.pool().migrate(part(&buffer, 2, 4), THERE).unwrap();
    buffer.grow_to(6 * CHUNK).unwrap();
    assert_eq!(devices(&buffer, 6), [0, 0, 1, 1, 1, 1]);
    (2..4).for_each(|chunk| rig.fill(stream, at(&buffer, chunk), CHUNK, 20 + chunk));
    rig.pool().resume(Scope::All).unwrap();
    (2..4).for_each(|chunk| rig.verify(stream, at(&buffer, chunk), CHUNK, 20 + chunk));
    rig.assert_right();
    rig.pool().check().unwrap();
}
