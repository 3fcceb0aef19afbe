//! Memory that leaves its address and comes back: F11, F12, F13, F15, F36, F38, F57.

use crate::rig::{HERE, KIB, MIB, Rig, Shape, Stream};
use stitchpool::driver::host::{Quirks, StreamMode};
use stitchpool::driver::{Address, Driver, ErrorKind, Verb};
use stitchpool::{ArenaId, Backup, Error, Request, Scope};

pub(crate) const CHUNK: u64 = 64 * KIB;

pub(crate) fn in_arena(rig: &Rig, stream: Stream, arena: ArenaId, bytes: u64) -> Address {
    rig.ask(&Request::new(bytes, stream.id).in_arena(arena)).unwrap_or_else(|error| panic!("{error}"))
}

/// Blocks of an arena, each filled with its number.
pub(crate) fn filled(rig: &Rig, stream: Stream, arena: ArenaId, blocks: u64, bytes: u64) -> Vec<Address> {
    let addresses: Vec<Address> = (0..blocks).map(|_| in_arena(rig, stream, arena, bytes)).collect();
    addresses.iter().zip(0..).for_each(|(&at, seed)| rig.fill(stream, at, bytes, seed));
    addresses
}

pub(crate) fn verify(rig: &Rig, stream: Stream, addresses: &[Address], bytes: u64) {
    addresses.iter().zip(0..).for_each(|(&at, seed)| rig.verify(stream, at, bytes, seed));
    rig.assert_right();
}

pub(crate) fn free_bytes(rig: &Rig) -> u64 {
    rig.host.memory(HERE).unwrap().free_bytes
}

#[test]
fn f11_a_resume_that_runs_short_half_way_changes_nothing_and_works_later() {
    let rig = Shape::usual(200 * MIB).build();
    let stream = rig.stream();
    let arena = rig.pool().arena("w").unwrap();
    let blocks = filled(&rig, stream, arena, 10, 10 * MIB);
    for _ in 0..3 {
        rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
        assert_eq!(rig.physical_bytes(), 100 * MIB, "the backup in host memory");
        rig.host.outside(HERE, 200 * MIB - 55 * MIB).unwrap();
        let error = rig.pool().resume(Scope::Arena(arena)).unwrap_err();
        let Error::OutOfMemory(shortage) = &error else { panic!("{error}") };
        assert_eq!(shortage.asked_bytes, 100 * MIB);
        assert!(shortage.missing_bytes > 40 * MIB, "{shortage}");
        assert_eq!(rig.ledger().physical_bytes_on(HERE), 0, "nothing is mapped after a refusal");
        rig.pool().check().unwrap();
        rig.host.outside(HERE, 0).unwrap();
        rig.pool().resume(Scope::Arena(arena)).unwrap();
        verify(&rig, stream, &blocks, 10 * MIB);
    }
}

#[test]
fn f12_a_block_may_be_freed_while_it_sleeps() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let arena = rig.pool().arena("w").unwrap();
    let blocks = filled(&rig, stream, arena, 2, 4 * CHUNK);
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| rig.free(blocks[0]));
    });
    let error = rig.pool().free(blocks[0]).unwrap_err();
    assert!(matches!(error, Error::UnknownAddress { .. }), "{error}");
    let resumed = rig.pool().resume(Scope::Arena(arena)).unwrap();
    assert_eq!(resumed.restored_bytes, 4 * CHUNK, "the freed block's backup is gone");
    assert_eq!(rig.ledger().physical_bytes_on(HERE), 4 * CHUNK);
    rig.verify(stream, blocks[1], 4 * CHUNK, 1);
    rig.assert_right();
}

#[test]
fn a_block_freed_while_asleep_frees_its_part_of_a_shared_handle() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let arena = rig.pool().arena("w").unwrap();
    let small: Vec<Address> = (0..8).map(|_| in_arena(&rig, stream, arena, CHUNK / 8)).collect();
    small.iter().zip(0..).for_each(|(&at, seed)| rig.fill(stream, at, CHUNK / 8, seed));
    rig.pool().suspend(Scope::All, &Backup::Host).unwrap();
    rig.free(small[3]);
    rig.pool().resume(Scope::All).unwrap();
    assert_eq!(in_arena(&rig, stream, arena, CHUNK / 8), small[3], "its bytes are free again");
    for (&at, seed) in small.iter().zip(0..).filter(|(_, seed)| *seed != 3) {
        rig.verify(stream, at, CHUNK / 8, seed);
    }
    rig.assert_right();
}

#[test]
fn f13_repeats_are_no_ops_that_call_no_driver() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let [a, b] = ["a", "b"].map(|name| rig.pool().arena(name).unwrap());
    let in_a = filled(&rig, stream, a, 2, 4 * CHUNK);
    let in_b = filled(&rig, stream, b, 2, 4 * CHUNK);
    let calls = || [Verb::Map, Verb::Unmap, Verb::Create, Verb::Release].map(|verb| rig.faulty.calls(verb));
    assert!(!rig.pool().suspend(Scope::Arena(a), &Backup::Host).unwrap().already);
    let before = calls();
    assert!(rig.pool().suspend(Scope::Arena(a), &Backup::Host).unwrap().already);
    assert_eq!(calls(), before);
    assert!(!rig.pool().suspend(Scope::All, &Backup::Host).unwrap().already, "b was awake");
    assert!(!rig.pool().resume(Scope::Arena(b)).unwrap().already);
    let before = calls();
    assert!(rig.pool().resume(Scope::Arena(b)).unwrap().already);
    assert_eq!(calls(), before);
    rig.verify(stream, in_b[0], 4 * CHUNK, 0);
    assert!(!rig.pool().resume(Scope::All).unwrap().already);
    assert!(rig.pool().resume(Scope::All).unwrap().already);
    verify(&rig, stream, &in_a, 4 * CHUNK);
    verify(&rig, stream, &in_b, 4 * CHUNK);
}

#[test]
fn f13_no_error_survives_the_call_that_made_it() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let blocks = filled(&rig, stream, ArenaId::DEFAULT, 3, 4 * CHUNK);
    for (verb, nth) in [(Verb::Unmap, 2), (Verb::Create, 1), (Verb::Copy, 1), (Verb::Synchronize, 1), (Verb::Map, 1)] {
        rig.faulty.fail(verb, nth, ErrorKind::Unknown);
        let error = rig.pool().suspend(Scope::All, &Backup::Host).unwrap_err();
        assert!(error.to_string().contains(verb.word()), "{error}");
        assert!(rig.pool().stats().devices[0].holdings.suspended_bytes == 0, "all or nothing: {verb}");
        verify(&rig, stream, &blocks, 4 * CHUNK);
        rig.pool().suspend(Scope::All, &Backup::Host).unwrap();
        rig.pool().resume(Scope::All).unwrap();
        verify(&rig, stream, &blocks, 4 * CHUNK);
    }
}

#[test]
fn f15_suspend_waits_for_what_is_queued() {
    let rig = Shape::exact(CHUNK, 64).build();
    let (stream, other) = (rig.stream(), rig.stream());
    let arena = rig.pool().arena("w").unwrap();
    let block = in_arena(&rig, stream, arena, 4 * CHUNK);
    rig.busy(stream);
    rig.fill(stream, block, 4 * CHUNK, 7);
    // Another stream that the pool was never told of for this block.
    let second = in_arena(&rig, stream, arena, 4 * CHUNK);
    rig.busy(other);
    rig.touch(other.raw, second, 4 * CHUNK);
    let suspended = rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    assert_eq!((suspended.released_bytes, suspended.not_yet_visible_bytes), (8 * CHUNK, 0));
    assert_eq!(free_bytes(&rig), 64 * CHUNK);
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    rig.verify(stream, block, 4 * CHUNK, 7);
    rig.assert_right();
}

#[test]
fn a_stream_that_stands_still_makes_suspend_fail_and_change_nothing() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let blocks = filled(&rig, stream, ArenaId::DEFAULT, 2, CHUNK);
    rig.host.stall(stream.raw, true).unwrap();
    let error = rig.pool().suspend(Scope::All, &Backup::Host).unwrap_err();
    assert!(matches!(&error, Error::Driver(refusal) if refusal.kind == ErrorKind::Timeout), "{error}");
    rig.host.stall(stream.raw, false).unwrap();
    assert!(rig.alloc(stream, CHUNK).is_ok(), "the arena is awake");
    verify(&rig, stream, &blocks, CHUNK);
}

#[test]
fn a_capture_makes_suspend_and_resume_refuse_and_stays_valid() {
    let rig = Shape::exact(CHUNK, 64).build();
    let (stream, capturing) = (rig.stream(), rig.stream());
    let blocks = filled(&rig, stream, ArenaId::DEFAULT, 2, CHUNK);
    rig.done(stream);
    rig.host.begin_capture(capturing.raw).unwrap();
    let error = rig.pool().suspend(Scope::All, &Backup::Host).unwrap_err();
    assert!(matches!(error, Error::Capturing { operation: "suspend", .. }), "{error}");
    rig.host.end_capture(capturing.raw).unwrap();
    rig.pool().suspend(Scope::All, &Backup::Host).unwrap();
    rig.host.begin_capture(capturing.raw).unwrap();
    let error = rig.pool().resume(Scope::All).unwrap_err();
    assert!(matches!(error, Error::Capturing { operation: "resume", .. }), "{error}");
    rig.host.end_capture(capturing.raw).unwrap();
    rig.pool().resume(Scope::All).unwrap();
    verify(&rig, stream, &blocks, CHUNK);
}

#[test]
fn a_graph_replays_after_its_memory_slept() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let arena = rig.pool().arena("graph").unwrap();
    let block = in_arena(&rig, stream, arena, 4 * CHUNK);
    rig.host.begin_capture(stream.raw).unwrap();
    rig.fill(stream, block, 4 * CHUNK, 9);
    rig.verify(stream, block, 4 * CHUNK, 9);
    let graph = rig.host.end_capture(stream.raw).unwrap();
    rig.host.launch(stream.raw, &graph).unwrap();
    rig.pool().suspend(Scope::Arena(arena), &Backup::Discard).unwrap();
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    rig.host.launch(stream.raw, &graph).unwrap();
    rig.assert_right();
}

#[test]
fn an_arena_that_sleeps_refuses_requests_and_says_so() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let arena = rig.pool().arena("weights").unwrap();
    let block = in_arena(&rig, stream, arena, CHUNK);
    rig.pool().suspend(Scope::Arena(arena), &Backup::Discard).unwrap();
    let error = rig.pool().alloc(&Request::new(CHUNK, stream.id).in_arena(arena)).unwrap_err();
    assert_eq!(error.to_string(), "arena \"weights\" is suspended: resume it first");
    let second = rig.stream();
    let error = rig.pool().alloc(&Request::new(CHUNK, second.id).in_arena(arena)).unwrap_err();
    assert!(matches!(error, Error::Asleep { .. }), "of another stream too: {error}");
    let plain = rig.take(stream, CHUNK);
    rig.pool().record_use(block, second.id).unwrap();
    rig.free(plain);
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    in_arena(&rig, stream, arena, CHUNK);
    in_arena(&rig, second, arena, CHUNK);
}

#[test]
fn a_block_with_handles_of_its_own_sleeps_alone() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let shared = rig.take(stream, CHUNK);
    let own = rig.ask(&Request::new(3 * CHUNK, stream.id).exclusive()).unwrap();
    let error = rig.pool().suspend(Scope::Block(shared), &Backup::Host).unwrap_err();
    assert!(matches!(error, Error::Shared { .. }), "{error}");
    rig.fill(stream, own, 3 * CHUNK, 5);
    rig.pool().suspend(Scope::Block(own), &Backup::Host).unwrap();
    assert_eq!(rig.ledger().physical_bytes_on(HERE), CHUNK);
    assert!(rig.pool().suspend(Scope::Block(own), &Backup::Host).unwrap().already);
    // Its neighbours in the arena go on.
    let other = rig.ask(&Request::new(2 * CHUNK, stream.id).exclusive()).unwrap();
    rig.free(other);
    rig.pool().resume(Scope::Block(own)).unwrap();
    rig.verify(stream, own, 3 * CHUNK, 5);
    let error = rig.pool().resume(Scope::Block(own + CHUNK)).unwrap_err();
    assert!(matches!(error, Error::UnknownAddress { .. }), "{error}");
    rig.assert_right();
}

#[test]
fn f36_free_memory_while_suspended_is_constant_to_the_byte_over_a_thousand_cycles() {
    const SMALL: u64 = 4 * KIB;
    let rig = Shape { streams: StreamMode::Immediate, watch_order: false, ..Shape::exact(SMALL, 100) }.build();
    let stream = rig.stream();
    let arena = rig.pool().arena("w").unwrap();
    let mut blocks: Vec<(Address, u64)> = Vec::new();
    for seed in 0..30 {
        let block = in_arena(&rig, stream, arena, SMALL + 512);
        rig.fill(stream, block, SMALL + 512, seed);
        blocks.push((block, seed));
    }
    for cycle in 0..1000_u64 {
        rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
        assert_eq!(free_bytes(&rig), 100 * SMALL, "cycle {cycle}");
        rig.pool().resume(Scope::Arena(arena)).unwrap();
        assert!(rig.physical_bytes() <= 40 * SMALL, "cycle {cycle}: {} bytes", rig.physical_bytes());
        blocks.iter().for_each(|&(at, seed)| rig.verify(stream, at, SMALL + 512, seed));
        let (old, _) = blocks.remove((cycle % 30) as usize);
        rig.free(old);
        let new = in_arena(&rig, stream, arena, SMALL + 512);
        rig.fill(stream, new, SMALL + 512, 1000 + cycle);
        blocks.push((new, 1000 + cycle));
    }
}

#[test]
fn f36_three_pools_take_turns_on_one_device() {
    let rig = Shape { streams: StreamMode::Immediate, ..Shape::exact(CHUNK, 64) }.build();
    let pools = [rig.another_pool(), rig.another_pool(), rig.another_pool()];
    let raw = rig.stream().raw;
    let blocks: Vec<(Address, _)> = pools
        .iter()
        .map(|pool| {
            let stream = pool.register(raw).unwrap();
            let block = pool.alloc(&Request::new(60 * CHUNK, stream)).unwrap();
            pool.suspend(Scope::All, &Backup::Host).unwrap();
            (block.address, stream)
        })
        .collect();
    for turn in 0..30_u64 {
        let pool = &pools[turn as usize % 3];
        let (at, _) = blocks[turn as usize % 3];
        pool.resume(Scope::All).unwrap();
        let seed = turn % 3;
        let (host, bytes) = (&rig.host, 60 * CHUNK);
        use stitchpool::driver::Kernels;
        // SAFETY: the block is live and awake.
        unsafe {
            if turn >= 3 {
                host.verify(raw, at, bytes, seed).unwrap();
            }
            host.fill(raw, at, bytes, seed).unwrap();
        }
        pool.suspend(Scope::All, &Backup::Host).unwrap();
        assert_eq!(free_bytes(&rig), 64 * CHUNK);
    }
    rig.assert_right();
    for (pool, (at, _)) in pools.iter().zip(blocks) {
        pool.free(at).unwrap();
    }
}

#[test]
fn f38_memory_that_does_not_come_back_is_reported() {
    let quirks = Quirks { release_only_on_unreserve: true, ..Quirks::default() };
    let rig = Shape { quirks, ..Shape::exact(CHUNK, 64) }.build();
    // Such a driver takes memory back only with the addresses: when the pool goes.
    let pool = rig.another_pool();
    let stream = pool.register(rig.stream().raw).unwrap();
    let block = pool.alloc(&Request::new(4 * CHUNK, stream)).unwrap();
    let suspended = pool.suspend(Scope::All, &Backup::Discard).unwrap();
    assert_eq!((suspended.released_bytes, suspended.not_yet_visible_bytes), (4 * CHUNK, 4 * CHUNK));
    pool.resume(Scope::All).unwrap();
    pool.free(block.address).unwrap();
}

#[test]
fn f57_another_process_may_take_the_memory_the_moment_suspend_returns() {
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let blocks = filled(&rig, stream, ArenaId::DEFAULT, 8, 8 * CHUNK);
    rig.pool().suspend(Scope::All, &Backup::Host).unwrap();
    rig.host.outside(HERE, 64 * CHUNK).unwrap();
    assert!(matches!(rig.pool().resume(Scope::All), Err(Error::OutOfMemory(_))));
    rig.host.outside(HERE, 0).unwrap();
    rig.pool().resume(Scope::All).unwrap();
    verify(&rig, stream, &blocks, 8 * CHUNK);
}
