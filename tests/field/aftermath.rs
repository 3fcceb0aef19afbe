//! What an operation on memory leaves behind, also where it was refused: who is asleep, who has which
//! right, whose work is waited for. F08, F13, F15, F31, F55.

use crate::rig::{HERE, KIB, Rig, Shape, Stream};
use std::sync::{Arc, Mutex};
use stitchpool::driver::{Address, DeviceId, ErrorKind, Fault, Grant, Kernels, Rights, Verb};
use stitchpool::{ArenaId, Backup, Error, Interest, Lease, Listener, Pool, Request, Scope, Segment};

const CHUNK: u64 = 64 * KIB;
const THERE: DeviceId = DeviceId(1);

fn two_devices() -> Rig {
    Shape { devices: 2, ..Shape::exact(CHUNK, 64) }.build()
}

fn own(rig: &Rig, stream: Stream, arena: ArenaId, seed: u64) -> Address {
    let block = rig.ask(&Request::new(2 * CHUNK, stream.id).in_arena(arena).exclusive()).unwrap();
    rig.fill(stream, block, 2 * CHUNK, seed);
    block
}

fn set(rig: &Rig, block: Address, device: DeviceId, rights: Rights) {
    rig.pool().set_rights(Scope::Block(block), &[Grant { device, rights }]).unwrap();
}

#[test]
fn f13_a_migration_that_was_refused_leaves_its_arena_awake() {
    let rig = two_devices();
    let (stream, arena) = (rig.stream(), rig.pool().arena("weights").unwrap());
    let block = own(&rig, stream, arena, 1);
    rig.host.outside(THERE, 63 * CHUNK).unwrap();
    let refused = rig.pool().migrate(Scope::Arena(arena), THERE);
    assert!(refused.is_err(), "there is one chunk, and two are needed");
    own(&rig, stream, arena, 2);
    rig.verify(stream, block, 2 * CHUNK, 1);
    rig.assert_right();
}

#[test]
fn f13_a_suspend_that_was_refused_leaves_awake_what_was_awake() {
    let rig = two_devices();
    let (stream, arena) = (rig.stream(), rig.pool().arena("weights").unwrap());
    let (alone, pinned) = (own(&rig, stream, arena, 1), own(&rig, stream, arena, 2));
    rig.pool().suspend(Scope::Block(alone), &Backup::Host).unwrap();
    let pin = rig.pool().pin(pinned, CHUNK).unwrap();
    let refused = rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    own(&rig, stream, arena, 3);
    drop(pin);
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    rig.verify(stream, alone, 2 * CHUNK, 1);
    rig.assert_right();
}

#[test]
fn f13_an_arena_wakes_and_sleeps_with_what_slept_or_woke_alone() {
    let rig = two_devices();
    let (stream, arena) = (rig.stream(), rig.pool().arena("weights").unwrap());
    let (one, other) = (own(&rig, stream, arena, 1), own(&rig, stream, arena, 2));
    rig.pool().suspend(Scope::Block(one), &Backup::Host).unwrap();
    assert!(!rig.pool().resume(Scope::Arena(arena)).unwrap().already, "a block of it slept");
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    rig.pool().resume(Scope::Block(one)).unwrap();
    rig.verify(stream, one, 2 * CHUNK, 1);
    assert!(!rig.pool().suspend(Scope::All, &Backup::Host).unwrap().already, "a block of it was awake");
    rig.pool().resume(Scope::All).unwrap();
    rig.verify(stream, one, 2 * CHUNK, 1);
    rig.verify(stream, other, 2 * CHUNK, 2);
    rig.assert_right();
}

#[test]
fn f15_a_device_that_got_its_right_later_is_waited_for() {
    let rig = two_devices();
    let (stream, reader) = (rig.stream(), rig.stream_on(THERE));
    let block = own(&rig, stream, ArenaId::DEFAULT, 1);
    // SAFETY: the rig's streams live until its end.
    unsafe { rig.host.finish_stream(stream.raw) }.unwrap();
    set(&rig, block, THERE, Rights::Read);
    rig.pool().record_use(block, reader.id).unwrap();
    rig.busy(reader);
    rig.verify(reader, block, 2 * CHUNK, 1);
    rig.pool().suspend(Scope::Block(block), &Backup::Host).unwrap();
    assert_eq!(rig.host.queued(reader.raw).unwrap(), 0, "the reader was done when its memory went");
    rig.pool().resume(Scope::Block(block)).unwrap();
    rig.assert_right();
}

#[test]
fn f15_freed_memory_is_trimmed_after_the_work_that_uses_it() {
    let rig = Shape::exact(CHUNK, 8).build();
    let (stream, other) = (rig.stream(), rig.stream());
    let block = rig.take(stream, 2 * CHUNK);
    rig.pool().record_use(block, other.id).unwrap();
    rig.busy(other);
    rig.touch(other.raw, block, 2 * CHUNK);
    rig.free(block);
    assert_eq!(rig.pool().trim().released_bytes, 0, "its work is queued");
    rig.done(stream);
    rig.done(other);
    assert_eq!(rig.pool().trim_and_wait().unwrap().released_bytes, 2 * CHUNK);
    rig.assert_right();
}

#[test]
fn f31_what_its_own_device_may_not_read_sleeps_and_moves_with_its_bytes() {
    let rig = two_devices();
    let stream = rig.stream();
    let block = own(&rig, stream, ArenaId::DEFAULT, 7);
    set(&rig, block, HERE, Rights::None);
    let directory = std::env::temp_dir();
    for backup in [Backup::Host, Backup::Peer(THERE), Backup::Disk(directory)] {
        rig.pool().suspend(Scope::Block(block), &backup).unwrap();
        rig.pool().resume(Scope::Block(block)).unwrap();
        assert!(rig.host.peek(block, &mut [0; 16]).is_err(), "nobody may read it again");
    }
    rig.pool().migrate(Scope::Block(block), THERE).unwrap();
    set(&rig, block, HERE, Rights::Read);
    rig.verify(stream, block, 2 * CHUNK, 7);
    rig.assert_right();
}

#[test]
fn f31_rights_end_with_the_block_that_they_were_set_for() {
    let rig = two_devices();
    let stream = rig.stream();
    let block = own(&rig, stream, ArenaId::DEFAULT, 1);
    set(&rig, block, HERE, Rights::Read);
    rig.free(block);
    let next = own(&rig, stream, ArenaId::DEFAULT, 2);
    rig.verify(stream, next, 2 * CHUNK, 2);
    rig.assert_right();
}

#[test]
fn f12_what_was_freed_asleep_or_elsewhere_serves_no_block_as_it_stands() {
    let rig = two_devices();
    let stream = rig.stream();
    for away in [false, true] {
        let block = own(&rig, stream, ArenaId::DEFAULT, 1);
        if away {
            rig.pool().migrate(Scope::Block(block), THERE).unwrap();
        } else {
            rig.pool().suspend(Scope::Block(block), &Backup::Host).unwrap();
        }
        rig.free(block);
        let next = own(&rig, stream, ArenaId::DEFAULT, 2);
        let segments = rig.pool().segments(next, 2 * CHUNK).unwrap();
        assert!(segments.iter().all(|segment| segment.device == HERE), "{segments:?}");
        rig.verify(stream, next, 2 * CHUNK, 2);
        rig.assert_right();
    }
}

#[test]
fn what_woke_in_two_attempts_is_evicted_no_more() {
    let rig = Shape::exact(CHUNK, 4).build();
    let stream = rig.stream();
    let block = own(&rig, stream, ArenaId::DEFAULT, 1);
    rig.pool().set_evictable(ArenaId::DEFAULT, Some(Backup::Host)).unwrap();
    let more = rig.take(stream, 4 * CHUNK);
    assert!(rig.pool().segments(block, 2 * CHUNK).unwrap().is_empty(), "it was put out");
    rig.free(more);
    rig.pool().trim_and_wait().unwrap();
    // The driver opens nothing, and takes nothing back: the first half stands without its content.
    rig.faulty.fail(Verb::SetRights, 1, ErrorKind::Unknown);
    rig.faulty.arm(Fault { verb: Some(Verb::Unmap), nth: 1, lasting: true, kind: ErrorKind::Unknown });
    let half = Scope::Range { address: block, bytes: CHUNK };
    assert!(rig.pool().resume(half).is_err());
    rig.faulty.clear();
    assert_eq!(rig.pool().segments(block, 2 * CHUNK).unwrap().len(), 1, "it stands");
    rig.pool().resume(Scope::All).unwrap();
    assert!(matches!(rig.pool().lease(block), Err(Error::Asleep { .. })), "an arena wakes without what was put out");
    rig.pool().resume(half).unwrap();
    assert_eq!(rig.pool().stats().returned_bytes, CHUNK);
    // The rest sleeps as any memory does that was suspended.
    rig.pool().resume(Scope::All).unwrap();
    drop(rig.pool().lease(block).unwrap());
    rig.verify(stream, block, 2 * CHUNK, 1);
    rig.assert_right();
}

#[test]
fn f08_nobody_is_asked_about_a_stream_that_was_retired_and_destroyed() {
    let rig = two_devices();
    let (gone, stream) = (rig.stream(), rig.stream());
    let block = rig.take(gone, CHUNK);
    rig.end_stream(gone);
    rig.pool().suspend(Scope::All, &Backup::Host).unwrap();
    rig.pool().resume(Scope::All).unwrap();
    assert_eq!(rig.ledger().refusals, 0, "{:?}", rig.ledger().last_refusal);
    rig.free(block);
    rig.take(stream, CHUNK);
}

/// Takes a lease the moment it hears that the memory is about to leave.
struct Late {
    pool: Mutex<Option<Pool>>,
    at: Address,
    lease: Mutex<Option<Lease>>,
}

impl Listener for Late {
    fn before_leave(&self, _: &[Segment]) -> Result<(), String> {
        let pool = self.pool.lock().unwrap().clone();
        *self.lease.lock().unwrap() = pool.and_then(|pool| pool.lease(self.at).ok());
        Ok(())
    }

    fn after_return(&self, _: &[Segment]) {}
}

#[test]
fn f15_d_a_lease_taken_while_the_suspend_is_under_way_counts() {
    let rig = two_devices();
    let stream = rig.stream();
    let at = own(&rig, stream, ArenaId::DEFAULT, 1);
    let late = Arc::new(Late { pool: Mutex::new(Some(rig.pool().clone())), at, lease: Mutex::default() });
    let id = rig.pool().listen(late.clone(), Interest::Pool).unwrap();
    for refused in [
        rig.pool().suspend(Scope::Block(at), &Backup::Host).map(drop),
        rig.pool().migrate(Scope::Block(at), THERE).map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
    }
    assert!(rig.pool().unlisten(id));
    late.pool.lock().unwrap().take();
    late.lease.lock().unwrap().take();
    rig.pool().suspend(Scope::Block(at), &Backup::Host).unwrap();
    rig.pool().resume(Scope::Block(at)).unwrap();
    rig.verify(stream, at, 2 * CHUNK, 1);
    rig.assert_right();
}

#[test]
fn what_sleeps_in_part_is_exchanged_with_nothing() {
    let rig = two_devices();
    let stream = rig.stream();
    let (one, other) = (own(&rig, stream, ArenaId::DEFAULT, 1), own(&rig, stream, ArenaId::DEFAULT, 2));
    let part = |address| Scope::Range { address, bytes: CHUNK };
    rig.pool().suspend(part(one), &Backup::Host).unwrap();
    rig.pool().suspend(part(other + CHUNK), &Backup::Host).unwrap();
    let refused = rig.pool().exchange(Scope::Block(one), Scope::Block(other)).unwrap_err();
    assert!(matches!(refused, Error::Asleep { .. }), "{refused}");
    rig.pool().resume(Scope::All).unwrap();
    rig.verify(stream, one, 2 * CHUNK, 1);
    rig.verify(stream, other, 2 * CHUNK, 2);
    rig.assert_right();
}

#[test]
fn f55_suspended_bytes_are_told_apart() {
    let rig = Shape::exact(CHUNK, 16).build();
    let stream = rig.stream();
    let (asleep, _awake) = (own(&rig, stream, ArenaId::DEFAULT, 1), rig.take(stream, CHUNK));
    let before = rig.figures().holdings;
    rig.pool().suspend(Scope::Block(asleep), &Backup::Host).unwrap();
    let after = rig.figures().holdings;
    assert_eq!((before.suspended_bytes, after.suspended_bytes), (0, 2 * CHUNK));
    assert_eq!(after.physical_bytes, before.physical_bytes - 2 * CHUNK);
    assert_eq!(rig.ledger().physical_bytes_on(HERE), after.physical_bytes);
    rig.pool().resume(Scope::Block(asleep)).unwrap();
    assert_eq!(rig.figures().holdings.suspended_bytes, 0);
}
