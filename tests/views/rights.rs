//! Rights set at run time, one case at a time.

use crate::bench::{Bench, LONER, grant};
use crate::rig::{Application, GRANULE};
use Rights::{None, Read, ReadWrite};
use stitchpool::driver::host::HostDriver;
use stitchpool::driver::{DeviceId, ErrorKind, Kernels, Rights, Verb};
use stitchpool::{ArenaId, Backup, Block, Error, Placement, Request, Scope};

fn write(host: &HostDriver, on: crate::rig::Stream, block: Block) {
    Application::fill(host, on.raw, block.address, block.bytes, 1);
}

#[test]
fn a_read_only_right_makes_writing_work_a_fault_and_reading_work_none() {
    let bench = Bench::new(16);
    let stream = bench.stream(0);
    let block = bench.pool.alloc(&Request::new(4 * GRANULE, stream.id).exclusive()).unwrap();
    write(&bench.host, stream, block);
    // The write is queued: lowering waits for it.
    bench.pool.set_rights(Scope::Block(block.address), &[grant(0, Read)]).unwrap();
    assert_eq!(bench.host.queued(stream.raw).unwrap(), 0);
    Application::verify(&*bench.host, stream.raw, block.address, block.bytes, 1);
    bench.host.run_all();
    bench.assert_unhurt();
    write(&bench.host, stream, block);
    bench.host.run_all();
    let faults = bench.host.tally().unwrap().faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("fill may not use the range"), "{faults:?}");
    bench.pool.set_rights(Scope::Block(block.address), &[grant(0, ReadWrite)]).unwrap();
    write(&bench.host, stream, block);
    bench.host.run_all();
    assert_eq!(bench.host.tally().unwrap().faults.len(), 1);
}

#[test]
fn rights_of_an_arena_hold_for_all_its_heaps_and_for_what_comes_later() {
    let bench = Bench::new(64);
    let streams = [0, 0, 1].map(|device| bench.stream(device));
    let arena = bench.pool.arena("weights").unwrap();
    let ask = |stream: usize, request: &dyn Fn(Request) -> Request| {
        let request = request(Request::new(3 * GRANULE, streams[stream].id).in_arena(arena));
        bench.pool.alloc(&request).unwrap()
    };
    let spread = |request: Request| {
        request.placed(Placement::RoundRobin { devices: vec![DeviceId(0), DeviceId(1)], stripe_bytes: GRANULE })
    };
    let blocks = [ask(0, &|it| it), ask(1, &|it| it), ask(2, &|it| it), ask(0, &Request::exclusive), ask(1, &spread)];
    let outside = bench.pool.alloc(&Request::new(3 * GRANULE, streams[0].id)).unwrap();
    let own = |block: &Block| bench.rights(block.address, block.bytes);
    assert_eq!(own(&blocks[4]), vec![[ReadWrite, ReadWrite, None, None]; 3]);
    bench.pool.set_rights(Scope::Arena(arena), &[grant(0, Read), grant(2, Read)]).unwrap();
    let expected = [
        [Read, None, Read, None],
        [Read, None, Read, None],
        [Read, ReadWrite, Read, None],
        [Read, None, Read, None],
        [Read, ReadWrite, Read, None],
    ];
    for (block, expected) in blocks.iter().zip(expected) {
        assert_eq!(own(block), vec![expected; 3], "{block:?}");
    }
    assert_eq!(own(&outside), vec![[ReadWrite, None, None, None]; 3]);
    // A heap that grows, a new heap, and one of a stream that comes later.
    let later = bench.stream(0);
    let grown = ask(0, &|it| it);
    let fresh = ask(0, &|it| it.aligned_to(4096).open_to(&[DeviceId(1)]));
    let others = bench.pool.alloc(&Request::new(3 * GRANULE, later.id).in_arena(arena)).unwrap();
    assert_eq!(own(&grown), vec![[Read, None, Read, None]; 3]);
    assert_eq!(own(&fresh), vec![[Read, ReadWrite, Read, None]; 3]);
    assert_eq!(own(&others), vec![[Read, None, Read, None]; 3]);
    // What it names is the last word for every part.
    bench.pool.set_rights(Scope::Arena(arena), &[grant(0, ReadWrite), grant(2, None)]).unwrap();
    assert_eq!(own(&blocks[0]), vec![[ReadWrite, None, None, None]; 3]);
    bench.assert_unhurt();
}

#[test]
fn memory_that_moves_is_opened_as_its_new_place_asks() {
    let bench = Bench::new(6);
    let stream = bench.stream(0);
    let arena = bench.pool.arena("shared").unwrap();
    bench.pool.set_rights(Scope::Arena(arena), &[grant(1, Read)]).unwrap();
    let exclusive = bench.pool.alloc(&Request::new(6 * GRANULE, stream.id).exclusive()).unwrap();
    bench.pool.set_rights(Scope::Block(exclusive.address), &[grant(0, Read), grant(2, ReadWrite)]).unwrap();
    assert_eq!(bench.rights(exclusive.address, exclusive.bytes), vec![[Read, None, ReadWrite, None]; 6]);
    bench.pool.free(exclusive.address).unwrap();
    let created = bench.pool.stats().handles_created;
    let stolen = bench.pool.alloc(&Request::new(6 * GRANULE, stream.id).in_arena(arena)).unwrap();
    assert_eq!(bench.pool.stats().handles_created, created);
    assert_eq!(bench.rights(stolen.address, stolen.bytes), vec![[ReadWrite, Read, None, None]; 6]);
    bench.pool.free(stolen.address).unwrap();
    let plain = bench.pool.alloc(&Request::new(6 * GRANULE, stream.id)).unwrap();
    assert_eq!(bench.rights(plain.address, plain.bytes), vec![[ReadWrite, None, None, None]; 6]);
    bench.assert_unhurt();
}

#[test]
fn a_part_of_a_block_has_rights_of_its_own() {
    let bench = Bench::new(16);
    let (stream, reader) = (bench.stream(0), bench.stream(1));
    let block = bench.pool.alloc(&Request::new(6 * GRANULE, stream.id).exclusive()).unwrap();
    let part =
        |from: u64, granules: u64| Scope::Range { address: block.address + from * GRANULE, bytes: granules * GRANULE };
    bench.pool.set_rights(part(1, 3), &[grant(1, Read)]).unwrap();
    bench.pool.set_rights(part(3, 3), &[grant(0, Read), grant(2, ReadWrite)]).unwrap();
    bench.pool.set_rights(Scope::Block(block.address), &[grant(2, Read)]).unwrap();
    let (alone, read) = ([ReadWrite, None, Read, None], [ReadWrite, Read, Read, None]);
    let (both, last) = ([Read, Read, Read, None], [Read, None, Read, None]);
    assert_eq!(bench.rights(block.address, block.bytes), [alone, read, read, both, last, last]);
    // A device that has got rights may use the block, and its use is remembered.
    assert!(matches!(bench.pool.record_use(block.address, reader.id), Err(Error::NoRights { .. })));
    bench.pool.set_rights(Scope::Block(block.address), &[grant(1, ReadWrite)]).unwrap();
    bench.pool.record_use(block.address, reader.id).unwrap();
    bench.pool.lease(block.address).unwrap().end_on(reader.id).unwrap();
    let cut = Scope::Range { address: block.address + 512, bytes: GRANULE };
    let refused = bench.pool.set_rights(cut, &[grant(1, Read)]).unwrap_err();
    assert!(matches!(refused, Error::NotWhole { .. }), "{refused}");
    let refused = bench.pool.set_rights(part(5, 2), &[grant(1, Read)]).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { .. }), "{refused}");
    bench.pool.free(block.address).unwrap();
    let refused = bench.pool.set_rights(part(0, 1), &[grant(1, Read)]).unwrap_err();
    assert!(matches!(refused, Error::UnknownAddress { .. }), "{refused}");
    bench.assert_unhurt();
}

#[test]
fn a_block_that_shares_handles_is_told_to_be_exclusive() {
    let bench = Bench::new(16);
    let stream = bench.stream(0);
    let block = bench.pool.alloc(&Request::new(4 * GRANULE, stream.id)).unwrap();
    for of in [Scope::Block(block.address), Scope::Range { address: block.address, bytes: block.bytes }] {
        let refused = bench.pool.set_rights(of, &[grant(0, Read)]).unwrap_err();
        assert_eq!(refused, Error::Shared { address: block.address });
    }
    let inside = bench.pool.set_rights(Scope::Block(block.address + GRANULE), &[]).unwrap_err();
    assert!(matches!(inside, Error::UnknownAddress { .. }), "{inside}");
}

#[test]
fn a_device_that_cannot_reach_is_named_now_or_with_the_request() {
    let bench = Bench::new(16);
    let (stream, arena) = (bench.stream(0), bench.pool.arena("far").unwrap());
    let block = bench.pool.alloc(&Request::new(2 * GRANULE, stream.id).exclusive()).unwrap();
    let calls = bench.faulty.calls(Verb::SetRights);
    let far = [grant(1, Read), grant(LONER.0, Read)];
    let unreachable = |reader, owner| Err(Error::Unreachable { reader, owner });
    for of in [
        Scope::Block(block.address),
        Scope::Range { address: block.address, bytes: block.bytes },
        Scope::Arena(ArenaId::DEFAULT),
    ] {
        assert_eq!(bench.pool.set_rights(of, &far), unreachable(LONER, DeviceId(0)));
    }
    assert_eq!(bench.faulty.calls(Verb::SetRights), calls);
    assert_eq!(bench.rights(block.address, block.bytes), vec![[ReadWrite, None, None, None]; 2]);
    // An arena without memory takes it, and refuses what it could not keep.
    bench.pool.set_rights(Scope::Arena(arena), &far).unwrap();
    let refused = bench.pool.alloc(&Request::new(GRANULE, stream.id).in_arena(arena));
    assert_eq!(refused.map(|_| ()), unreachable(LONER, DeviceId(0)));
    bench.pool.set_rights(Scope::Arena(arena), &[grant(LONER.0, None)]).unwrap();
    let near = bench.pool.alloc(&Request::new(GRANULE, stream.id).in_arena(arena)).unwrap();
    assert_eq!(bench.rights(near.address, near.bytes), [[ReadWrite, Read, None, None]]);
}

#[test]
fn what_is_held_is_not_lowered_and_may_be_raised() {
    let bench = Bench::new(16);
    let stream = bench.stream(0);
    let block = bench.pool.alloc(&Request::new(2 * GRANULE, stream.id).exclusive()).unwrap();
    let lease = bench.pool.lease(block.address).unwrap();
    let view = bench.pool.view(&[block.into()], &[grant(1, Read)]).unwrap();
    let lower = || bench.pool.set_rights(Scope::Block(block.address), &[grant(0, None), grant(2, Read)]);
    assert_eq!(lower(), Err(Error::Held { address: block.address, holders: 2 }));
    let refused = bench.pool.set_rights(Scope::Arena(ArenaId::DEFAULT), &[grant(0, Read)]).unwrap_err();
    assert_eq!(refused, Error::Held { address: block.address, holders: 2 });
    bench.pool.set_rights(Scope::Block(block.address), &[grant(2, Read)]).unwrap();
    assert_eq!(bench.rights(block.address, GRANULE), [[ReadWrite, None, Read, None]]);
    assert_eq!(bench.rights(view.address(), GRANULE), [[None, Read, None, None]]);
    drop(lease);
    assert_eq!(lower(), Err(Error::Held { address: block.address, holders: 1 }));
    drop(view);
    lower().unwrap();
    assert_eq!(bench.rights(block.address, GRANULE), [[None, None, Read, None]]);
}

#[test]
fn rights_are_not_lowered_while_a_stream_is_captured_and_the_capture_goes_on() {
    let bench = Bench::new(16);
    let (stream, captured) = (bench.stream(0), bench.stream(1));
    let block = bench.pool.alloc(&Request::new(2 * GRANULE, stream.id).exclusive().open_to(&[DeviceId(1)])).unwrap();
    bench.host.begin_capture(captured.raw).unwrap();
    for grants in [vec![grant(0, Read)], vec![grant(1, Read)], vec![grant(1, None), grant(2, Read)]] {
        let refused = bench.pool.set_rights(Scope::Block(block.address), &grants).unwrap_err();
        assert!(matches!(refused, Error::Capturing { operation: "lowering rights", .. }), "{refused}");
    }
    bench.pool.set_rights(Scope::Block(block.address), &[grant(2, Read)]).unwrap();
    bench.host.end_capture(captured.raw).unwrap();
    bench.pool.set_rights(Scope::Block(block.address), &[grant(1, Read)]).unwrap();
    assert_eq!(bench.rights(block.address, block.bytes), vec![[ReadWrite, Read, Read, None]; 2]);
    bench.assert_unhurt();
}

#[test]
fn only_a_device_that_loses_something_is_waited_for() {
    let bench = Bench::new(16);
    let (stream, other) = (bench.stream(0), bench.stream(1));
    let block = bench.pool.alloc(&Request::new(2 * GRANULE, stream.id).exclusive().open_to(&[DeviceId(1)])).unwrap();
    // SAFETY: the stream lives.
    unsafe { Kernels::delay(&*bench.host, other.raw, 1000) }.unwrap();
    bench.pool.set_rights(Scope::Block(block.address), &[grant(0, Read), grant(2, Read)]).unwrap();
    assert_eq!(bench.host.queued(other.raw).unwrap(), 1);
    bench.faulty.fail(Verb::Synchronize, 1, ErrorKind::Unknown);
    bench.pool.set_rights(Scope::Block(block.address), &[grant(1, None)]).unwrap_err();
    bench.pool.set_rights(Scope::Block(block.address), &[grant(1, None)]).unwrap();
    assert_eq!(bench.host.queued(other.raw).unwrap(), 0);
    assert_eq!(bench.rights(block.address, block.bytes), vec![[Read, None, Read, None]; 2]);
}

#[test]
fn rights_and_bytes_survive_a_suspend_and_a_move() {
    let bench = Bench::new(32);
    let stream = bench.stream(0);
    let arena = bench.pool.arena("weights").unwrap();
    let ask = |request: Request| {
        let block = bench.pool.alloc(&request.in_arena(arena)).unwrap();
        write(&bench.host, stream, block);
        block
    };
    let shared = ask(Request::new(3 * GRANULE, stream.id));
    let alone = ask(Request::new(4 * GRANULE, stream.id).exclusive());
    bench.pool.set_rights(Scope::Arena(arena), &[grant(0, Read), grant(2, Read)]).unwrap();
    let half = Scope::Range { address: alone.address, bytes: 2 * GRANULE };
    bench.pool.set_rights(half, &[grant(1, ReadWrite)]).unwrap();
    let check = || {
        bench.host.run_all();
        let (rest, first) = ([Read, None, Read, None], [Read, ReadWrite, Read, None]);
        assert_eq!(bench.rights(shared.address, shared.bytes), vec![rest; 3]);
        assert_eq!(bench.rights(alone.address, alone.bytes), [first, first, rest, rest]);
        for block in [shared, alone] {
            Application::verify(&*bench.host, stream.raw, block.address, block.bytes, 1);
        }
        bench.host.run_all();
        bench.assert_unhurt();
    };
    check();
    bench.pool.suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    assert!(matches!(bench.pool.lease(alone.address), Err(Error::Asleep { .. })));
    assert!(matches!(bench.pool.view(&[alone.into()], &[]), Err(Error::Asleep { .. })));
    bench.pool.resume(Scope::Arena(arena)).unwrap();
    check();
    bench.pool.migrate(Scope::Block(alone.address), DeviceId(1)).unwrap();
    check();
}

#[test]
fn what_is_held_is_neither_suspended_nor_moved() {
    let bench = Bench::new(32);
    let stream = bench.stream(0);
    let arena = bench.pool.arena("weights").unwrap();
    let block = bench.pool.alloc(&Request::new(3 * GRANULE, stream.id).in_arena(arena).exclusive()).unwrap();
    write(&bench.host, stream, block);
    let held = Error::Held { address: block.address, holders: 1 };
    for by_view in [false, true] {
        let lease = (!by_view).then(|| bench.pool.lease(block.address).unwrap());
        let view = by_view.then(|| bench.pool.view(&[block.into()], &[grant(0, Read)]).unwrap());
        for scope in [Scope::Block(block.address), Scope::Arena(arena), Scope::All] {
            assert_eq!(bench.pool.suspend(scope, &Backup::Host).unwrap_err(), held);
            assert_eq!(bench.pool.migrate(scope, DeviceId(1)).unwrap_err(), held);
        }
        drop((lease, view));
        bench.pool.suspend(Scope::Arena(arena), &Backup::Host).unwrap();
        bench.pool.resume(Scope::Arena(arena)).unwrap();
    }
    Application::verify(&*bench.host, stream.raw, block.address, block.bytes, 1);
    bench.host.run_all();
    bench.assert_unhurt();
}

#[test]
fn rights_of_a_growable_buffer_hold_by_handle_and_by_range_backed_or_not() {
    let bench = Bench::new(32);
    let stream = bench.stream(0);
    let request = Request::new(4 * GRANULE, stream.id);
    let buffer = bench.pool.growable_in_steps(&request, 12 * GRANULE, 4 * GRANULE).unwrap();
    let part = |from: u64, granules: u64| Scope::Range {
        address: buffer.address() + from * GRANULE,
        bytes: granules * GRANULE,
    };
    let own = |from: u64, granules: u64| bench.rights(buffer.address() + from * GRANULE, granules * GRANULE);
    let (alone, read) = ([ReadWrite, None, None, None], [ReadWrite, Read, None, None]);
    let written = [ReadWrite, ReadWrite, None, None];
    // Of a buffer each handle is a block: the others stay as they are, those that come later too.
    let handles = buffer.segments(0, 4 * GRANULE).unwrap();
    bench.pool.set_rights(Scope::Block(buffer.address()), &[grant(1, Read)]).unwrap();
    let first = usize::try_from(handles[0].bytes / GRANULE).unwrap();
    buffer.grow_to(8 * GRANULE).unwrap();
    assert_eq!(own(0, 8), [vec![read; first], vec![alone; 8 - first]].concat());
    // A range may be backed in part, and end within a step.
    bench.pool.set_rights(part(4, 6), &[grant(1, ReadWrite)]).unwrap();
    buffer.grow_to(12 * GRANULE).unwrap();
    let expected = [vec![read; first], vec![alone; 4 - first], vec![written; 6], vec![alone; 2]].concat();
    assert_eq!(own(0, 12), expected);
    // Rights outlive the memory, whatever the handles are that come next.
    buffer.give_back(0, 12 * GRANULE).unwrap();
    bench.pool.trim_and_wait().unwrap();
    buffer.grow_to(12 * GRANULE).unwrap();
    assert_eq!(own(0, 12), expected);
    bench.pool.set_rights(part(0, 12), &[grant(1, None)]).unwrap();
    assert_eq!(own(0, 12), vec![alone; 12]);
    for (from, granules, bytes) in [(12, 1, 0), (8, 5, 0), (0, 0, 0), (11, 1, 512)] {
        let Scope::Range { address, bytes: whole } = part(from, granules) else { unreachable!() };
        let refused = bench.pool.set_rights(Scope::Range { address, bytes: whole + bytes }, &[grant(1, Read)]);
        refused.unwrap_err();
    }
    assert_eq!(own(0, 12), vec![alone; 12]);
    drop(buffer);
    bench.assert_unhurt();
}
