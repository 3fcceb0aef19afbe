//! Other memory behind the same address: migration and exchange.

use crate::rig::{HERE, KIB, Rig, Shape, Stream};
use stitchpool::driver::host::Peers;
use stitchpool::driver::{Address, DeviceId, ErrorKind};
use stitchpool::{ArenaId, Backup, Error, Placement, Request, Scope};

const CHUNK: u64 = 64 * KIB;
const THERE: DeviceId = DeviceId(1);

fn two_devices() -> Shape {
    Shape { devices: 2, ..Shape::exact(CHUNK, 64) }
}

fn own(rig: &Rig, stream: Stream, chunks: u64, seed: u64) -> Address {
    let block = rig.ask(&Request::new(chunks * CHUNK, stream.id).exclusive()).unwrap();
    rig.fill(stream, block, chunks * CHUNK, seed);
    block
}

fn bytes_on(rig: &Rig, device: DeviceId) -> u64 {
    rig.ledger().physical_bytes_on(device)
}

#[test]
fn an_arena_moves_to_another_device_under_its_addresses() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let arena = rig.pool().arena("cache").unwrap();
    let blocks: Vec<Address> = (0..7)
        .map(|seed| {
            let block = rig.ask(&Request::new(CHUNK + 512, stream.id).in_arena(arena)).unwrap();
            rig.fill(stream, block, CHUNK + 512, seed);
            block
        })
        .collect();
    rig.free(blocks[2]);
    rig.busy(stream);
    let moved = rig.pool().migrate(Scope::Arena(arena), THERE).unwrap();
    assert_eq!((bytes_on(&rig, HERE), bytes_on(&rig, THERE)), (0, moved.moved_bytes));
    assert!(moved.copied_bytes >= 6 * (CHUNK + 512) && moved.copied_bytes <= moved.moved_bytes, "{moved:?}");
    let verify = || {
        for (&block, seed) in blocks.iter().zip(0..).filter(|(_, seed)| *seed != 2) {
            rig.verify(stream, block, CHUNK + 512, seed);
        }
        rig.assert_right();
    };
    verify();
    // It sleeps and wakes there, and goes home again.
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    assert_eq!(bytes_on(&rig, THERE), 0);
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    assert_eq!(rig.pool().migrate(Scope::Arena(arena), THERE).unwrap().moved_bytes, 0, "it is there already");
    rig.pool().migrate(Scope::All, HERE).unwrap();
    assert_eq!(bytes_on(&rig, THERE), 0);
    verify();
    assert!(rig.pool().segments(blocks[0], CHUNK).unwrap().iter().all(|segment| segment.device == HERE));
}

#[test]
fn a_migration_needs_room_and_peers() {
    let rig = Shape { devices: 3, peers: Peers::Groups(vec![vec![0, 1], vec![2]]), ..Shape::exact(CHUNK, 16) }.build();
    let stream = rig.stream();
    let block = own(&rig, stream, 8, 1);
    let error = rig.pool().migrate(Scope::Block(block), DeviceId(2)).unwrap_err();
    assert!(matches!(error, Error::Unreachable { reader: HERE, owner: DeviceId(2) }), "{error}");
    rig.host.outside(THERE, 9 * CHUNK).unwrap();
    let error = rig.pool().migrate(Scope::Block(block), THERE).unwrap_err();
    assert!(matches!(&error, Error::Driver(refusal) if refusal.kind == ErrorKind::OutOfMemory), "{error}");
    let error = rig.pool().migrate(Scope::Block(block), DeviceId(9)).unwrap_err();
    assert!(matches!(error, Error::UnknownDevice { .. }), "{error}");
    assert_eq!((bytes_on(&rig, HERE), bytes_on(&rig, THERE)), (8 * CHUNK, 0));
    rig.host.outside(THERE, 0).unwrap();
    rig.pool().migrate(Scope::Block(block), THERE).unwrap();
    rig.pool().suspend(Scope::Block(block), &Backup::Host).unwrap();
    let error = rig.pool().migrate(Scope::Block(block), HERE).unwrap_err();
    assert!(matches!(error, Error::Asleep { .. }), "{error}");
    rig.pool().resume(Scope::Block(block)).unwrap();
    rig.verify(stream, block, 8 * CHUNK, 1);
    rig.assert_right();
}

#[test]
fn two_stages_exchange_their_buffers_and_nothing_is_copied() {
    let rig = two_devices().build();
    let (stream, other) = (rig.stream(), rig.stream_on(THERE));
    let one = own(&rig, stream, 5, 1);
    let request = Request::new(5 * CHUNK, other.id).placed(Placement::Home(THERE)).exclusive();
    let two = rig.ask(&request.clone().open_to(&[HERE])).unwrap();
    rig.fill(other, two, 5 * CHUNK, 2);
    let calls = rig.faulty.calls(stitchpool::driver::Verb::Copy);
    for turn in 0..4 {
        rig.pool().exchange(Scope::Block(one), Scope::Block(two)).unwrap();
        let (in_one, in_two) = if turn % 2 == 0 { (2, 1) } else { (1, 2) };
        rig.verify(stream, one, 5 * CHUNK, in_one);
        rig.verify(other, two, 5 * CHUNK, in_two);
        rig.assert_right();
    }
    assert_eq!(rig.faulty.calls(stitchpool::driver::Verb::Copy), calls);
    let short = own(&rig, stream, 4, 3);
    let error = rig.pool().exchange(Scope::Block(one), Scope::Block(short)).unwrap_err();
    assert!(matches!(error, Error::Layout { .. }), "{error}");
    let shared = rig.take(stream, 5 * CHUNK);
    let error = rig.pool().exchange(Scope::Block(one), Scope::Block(shared)).unwrap_err();
    assert!(matches!(error, Error::Shared { .. }), "{error}");
    let error = rig.pool().exchange(Scope::Block(one), Scope::Arena(ArenaId::DEFAULT)).unwrap_err();
    assert!(matches!(error, Error::Setting(_)), "{error}");
    rig.pool().exchange(Scope::Block(one), Scope::Block(one)).unwrap();
}

#[test]
fn a_fault_at_any_call_of_a_migration_or_exchange_changes_nothing() {
    for exchange in [false, true] {
        for nth in 1.. {
            let mut rig = two_devices().build();
            let stream = rig.stream();
            let (one, two) = (own(&rig, stream, 3, 1), own(&rig, stream, 3, 2));
            rig.assert_right();
            let act = || match exchange {
                true => rig.pool().exchange(Scope::Block(one), Scope::Block(two)),
                false => rig.pool().migrate(Scope::Block(one), THERE).map(drop),
            };
            rig.faulty.fail_any(nth, ErrorKind::Unknown);
            let failed = act().err();
            let met = rig.faulty.failed();
            rig.faulty.clear();
            rig.pool().check().unwrap_or_else(|broken| panic!("call {nth}, {failed:?}: {broken}"));
            if failed.is_some() {
                act().unwrap_or_else(|error| panic!("call {nth}, again: {error}"));
            }
            let (in_one, in_two) = if exchange { (2, 1) } else { (1, 2) };
            rig.verify(stream, one, 3 * CHUNK, in_one);
            rig.verify(stream, two, 3 * CHUNK, in_two);
            rig.assert_right();
            rig.scarred = rig.pool().stats().quarantined > 0;
            if met == 0 {
                assert!(nth > 8, "only {nth} calls");
                break;
            }
        }
    }
}

#[test]
fn f15_c_memory_is_remapped_after_the_work_that_uses_it() {
    for exchange in [false, true] {
        let rig = two_devices().build();
        let (stream, stranger) = (rig.stream(), rig.stream());
        let (one, two) = (own(&rig, stream, 3, 1), own(&rig, stream, 3, 2));
        rig.assert_right();
        // The pool was never told that this stream uses them.
        rig.busy(stranger);
        rig.verify(stranger, one, 3 * CHUNK, 1);
        rig.fill(stranger, one, 3 * CHUNK, 3);
        rig.verify(stranger, two, 3 * CHUNK, 2);
        match exchange {
            true => rig.pool().exchange(Scope::Block(one), Scope::Block(two)).unwrap(),
            false => drop(rig.pool().migrate(Scope::Block(one), THERE).unwrap()),
        }
        assert_eq!(rig.host.queued(stranger.raw).unwrap(), 0, "nothing was remapped before");
        let (in_one, in_two) = if exchange { (2, 3) } else { (3, 2) };
        rig.verify(stream, one, 3 * CHUNK, in_one);
        rig.verify(stream, two, 3 * CHUNK, in_two);
        rig.assert_right();
    }
}

#[test]
fn what_was_exchanged_serves_no_later_block_that_lies_otherwise() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let deal = || {
        let devices = vec![HERE, THERE];
        let placement = Placement::RoundRobin { devices, stripe_bytes: CHUNK };
        rig.ask(&Request::new(4 * CHUNK, stream.id).placed(placement).exclusive()).unwrap()
    };
    let block = deal();
    let part = |chunk: u64| Scope::Range { address: block + chunk * CHUNK, bytes: CHUNK };
    rig.pool().exchange(part(0), part(3)).unwrap();
    rig.free(block);
    let next = deal();
    let devices: Vec<DeviceId> =
        rig.pool().segments(next, 4 * CHUNK).unwrap().iter().map(|segment| segment.device).collect();
    assert_eq!(devices, [HERE, THERE, HERE, THERE]);
    rig.free(next);
    assert_eq!(deal(), next, "what lies as it shall is taken as it stands");
}

#[test]
fn parts_of_one_block_are_exchanged_and_those_that_overlap_are_not() {
    let rig = two_devices().build();
    let stream = rig.stream();
    let block = own(&rig, stream, 6, 0);
    let part = |from: u64, chunks: u64| Scope::Range { address: block + from * CHUNK, bytes: chunks * CHUNK };
    (0..6).for_each(|chunk| rig.fill(stream, block + chunk * CHUNK, CHUNK, chunk));
    rig.pool().exchange(part(0, 2), part(2, 2)).unwrap();
    rig.pool().exchange(part(1, 3), part(1, 3)).unwrap();
    for (one, other) in [(part(0, 2), part(1, 2)), (part(2, 3), part(0, 3)), (part(1, 1), Scope::Block(block))] {
        let refused = rig.pool().exchange(one, other).unwrap_err();
        assert!(matches!(&refused, Error::Setting(why) if why.contains("overlap")), "{refused}");
    }
    for (chunk, seed) in [2, 3, 0, 1, 4, 5].into_iter().enumerate() {
        rig.verify(stream, block + chunk as u64 * CHUNK, CHUNK, seed);
    }
    rig.assert_right();
}
