//! Memory that comes back after every refusal, at every size and in any order: F06, F11, F12, F33, F37, F38.

use crate::rig::{CHUNKS, HERE, KIB, Rig, Shape, shortage};
use std::path::PathBuf;
use stitchpool::chunks::Reservation;
use stitchpool::driver::host::Quirks;
use stitchpool::driver::{Address, DeviceId};
use stitchpool::{ArenaId, Backup, Error, Request, Scope, Settings};

const CHUNK: u64 = 4 * KIB;
const THERE: DeviceId = DeviceId(1);

/// Every place where content can wait, and a directory that is gone at the end.
struct Places {
    directory: PathBuf,
}

impl Places {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("stitchpool-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self { directory }
    }

    fn all(&self) -> [Backup; 3] {
        [Backup::Host, Backup::Peer(THERE), Backup::Disk(self.directory.clone())]
    }

    fn files(&self) -> usize {
        std::fs::read_dir(&self.directory).unwrap().count()
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

fn two_devices(chunk_bytes: u64, chunks: u64) -> Rig {
    Shape { devices: 2, ..Shape::exact(chunk_bytes, chunks) }.build()
}

/// A block of an arena, filled with its number.
fn filled(rig: &Rig, request: &Request, seed: u64) -> Address {
    let block = rig.ask(request).unwrap_or_else(|error| panic!("block {seed}: {error}"));
    let bytes = rig.pool().block_holding(block).unwrap().bytes;
    rig.mark(block, bytes, seed as u8);
    block
}

#[test]
fn f11_a_hundred_refused_resumes_leave_nothing_behind() {
    let places = Places::new("hundred");
    for backup in places.all() {
        let rig = two_devices(CHUNK, 100);
        let stream = rig.stream();
        let arena = rig.pool().arena("w").unwrap();
        let request = Request::new(10 * CHUNK, stream.id).in_arena(arena);
        let blocks: Vec<Address> = (0..10).map(|seed| filled(&rig, &request, seed)).collect();
        let held = || {
            let ledger = rig.ledger();
            (ledger.handles, ledger.mappings, ledger.reservations, ledger.physical_bytes)
        };
        let awake = held();
        let mut asleep = None;
        for cycle in 0..100 {
            rig.pool().suspend(Scope::Arena(arena), &backup).unwrap();
            assert_eq!(*asleep.get_or_insert_with(held), held(), "{backup:?}, cycle {cycle}");
            // So many of the blocks fit, and half of the next.
            let fits = cycle % 10;
            rig.host.outside(HERE, (100 - 10 * fits - 5) * CHUNK).unwrap();
            let refused = rig.pool().resume(Scope::Arena(arena)).unwrap_err();
            let Error::OutOfMemory(shortage) = &refused else { panic!("{refused}") };
            assert_eq!(shortage.asked_bytes, 100 * CHUNK, "{shortage}");
            assert_eq!(Some(held()), asleep, "{backup:?}, cycle {cycle}: {refused}");
            rig.pool().check().unwrap();
            rig.host.outside(HERE, 0).unwrap();
            rig.pool().resume(Scope::Arena(arena)).unwrap();
            assert_eq!(held(), awake, "{backup:?}, cycle {cycle}");
            let whole = |(&at, seed): (&Address, u8)| rig.is_marked(at, 10 * CHUNK, seed);
            assert!(blocks.iter().zip(0..).all(whole), "{backup:?}, cycle {cycle}");
        }
        assert_eq!(places.files(), 0, "{backup:?}");
    }
}

#[test]
fn f06_a_resume_waits_for_freed_memory_that_is_still_in_use_and_for_no_more() {
    let rig = Shape::exact(CHUNK, 32).build();
    let streams = [rig.stream(), rig.stream(), rig.stream()];
    let arena = rig.pool().arena("w").unwrap();
    let block = filled(&rig, &Request::new(16 * CHUNK, streams[0].id).in_arena(arena), 1);
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    let transients = [1, 2].map(|index: usize| (streams[index], rig.take(streams[index], 16 * CHUNK)));
    for (stream, transient) in transients {
        rig.busy(stream);
        rig.touch(stream.raw, transient, 16 * CHUNK);
        rig.free(transient);
    }
    let waits = rig.pool().stats().cpu_waits;
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    assert_eq!(rig.pool().stats().cpu_waits, waits + 1);
    let queued = [1, 2].map(|index: usize| rig.host.queued(streams[index].raw).unwrap() > 0);
    assert!(queued.contains(&true), "one of the two was enough");
    assert!(rig.is_marked(block, 16 * CHUNK, 1));
    rig.assert_right();
    // A stream that stands still is waited for as long as the setting says, and the arena sleeps on.
    rig.pool().trim_and_wait().unwrap();
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    let all = rig.take(streams[1], 32 * CHUNK);
    rig.touch(streams[1].raw, all, 32 * CHUNK);
    rig.free(all);
    rig.host.stall(streams[1].raw, true).unwrap();
    assert!(matches!(rig.pool().resume(Scope::Arena(arena)), Err(Error::OutOfMemory(_))));
    rig.host.stall(streams[1].raw, false).unwrap();
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    assert!(rig.is_marked(block, 16 * CHUNK, 1));
}

#[test]
fn f12_what_is_freed_asleep_needs_no_resume_to_be_gone() {
    let places = Places::new("gone");
    for backup in places.all() {
        let rig = two_devices(CHUNK, 64);
        let stream = rig.stream();
        let plain = filled(&rig, &Request::new(3 * CHUNK / 2, stream.id), 1);
        let exclusive = filled(&rig, &Request::new(3 * CHUNK, stream.id).exclusive(), 2);
        let buffer = rig.pool().growable(&Request::new(4 * CHUNK, stream.id), 8 * CHUNK).unwrap();
        rig.pool().suspend(Scope::All, &backup).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| rig.free(exclusive));
            scope.spawn(|| drop(buffer));
        });
        assert!(matches!(rig.pool().free(exclusive), Err(Error::UnknownAddress { .. })));
        rig.free(plain);
        rig.pool().trim_and_wait().unwrap();
        let held = rig.ledger();
        assert_eq!((held.handles, held.mappings, places.files()), (0, 0, 0), "{backup:?}: {held:?}");
        // The pool goes while its arenas sleep: the rig finds nothing left.
    }
}

#[test]
fn f12_what_is_freed_asleep_needs_no_memory_whatever_its_streams_are_busy_with() {
    let places = Places::new("busy");
    for backup in places.all() {
        let rig = two_devices(CHUNK, 8);
        let (stream, other) = (rig.stream(), rig.stream());
        let blocks = [1, 2].map(|seed| filled(&rig, &Request::new(3 * CHUNK, stream.id).exclusive(), seed));
        let plain = filled(&rig, &Request::new(3 * CHUNK / 2, stream.id), 3);
        [blocks[0], plain].iter().for_each(|&block| rig.pool().record_use(block, other.id).unwrap());
        rig.pool().suspend(Scope::All, &backup).unwrap();
        rig.busy(other);
        [blocks[0], plain].iter().for_each(|&block| rig.free(block));
        rig.host.outside(HERE, 5 * CHUNK).unwrap();
        rig.pool().resume(Scope::All).unwrap_or_else(|error| panic!("{backup:?}: {error}"));
        assert!(rig.is_marked(blocks[1], 3 * CHUNK, 2));
        assert_eq!(rig.physical_bytes(), 3 * CHUNK);
        assert!(rig.host.queued(other.raw).unwrap() > 0, "nobody waited for it");
        rig.host.outside(HERE, 0).unwrap();
        rig.done(other);
        rig.free(blocks[1]);
    }
}

#[test]
fn f33_every_size_sleeps_and_wakes_and_only_what_is_in_it_is_put_away() {
    for chunk_bytes in CHUNKS {
        for bytes in [1, 128, 6912, chunk_bytes - 1, chunk_bytes, chunk_bytes + 1] {
            for exclusive in [false, true] {
                let rig = Shape::exact(chunk_bytes, 4).build();
                let stream = rig.stream();
                let plain = Request::new(bytes, stream.id);
                let block = filled(&rig, &if exclusive { plain.exclusive() } else { plain }, 7);
                let unit = if exclusive { chunk_bytes } else { 512 };
                let (content, memory) = (bytes.next_multiple_of(unit), bytes.next_multiple_of(chunk_bytes));
                for _ in 0..2 {
                    let suspended = rig.pool().suspend(Scope::All, &Backup::Host).unwrap();
                    let told = format!("{bytes} bytes in chunks of {chunk_bytes}, exclusive: {exclusive}");
                    assert_eq!((suspended.backup_bytes, suspended.released_bytes), (content, memory), "{told}");
                    assert_eq!(rig.ledger().physical_bytes_on(HERE), 0, "{told}");
                    let resumed = rig.pool().resume(Scope::All).unwrap();
                    assert_eq!((resumed.restored_bytes, resumed.taken_bytes), (content, memory), "{told}");
                    assert!(rig.is_marked(block, content, 7), "{told}");
                }
                rig.free(block);
                rig.pool().trim_and_wait().unwrap();
                assert_eq!(rig.physical_bytes(), 0);
            }
        }
    }
}

/// What could grow from cycle to cycle. (The pool's own logs of frees grow too, up to their bound.)
fn residue(rig: &Rig, files: usize) -> [u64; 7] {
    let ledger = rig.ledger();
    let [here, there, host] = [HERE, THERE, DeviceId::HOST].map(|device| ledger.physical_bytes_on(device));
    [here, there, host, ledger.mappings, ledger.reservations, ledger.events, files as u64]
}

#[test]
fn f36_no_backup_of_no_kind_of_memory_leaves_a_residue() {
    let places = Places::new("residue");
    for backup in places.all().into_iter().chain([Backup::Discard]) {
        let rig = two_devices(CHUNK, 64);
        let stream = rig.stream();
        let own = rig.ask(&Request::new(3 * CHUNK, stream.id).exclusive()).unwrap();
        let buffer = rig.pool().growable(&Request::new(4 * CHUNK, stream.id), 8 * CHUNK).unwrap();
        let graph = rig.pool().arena("graph").unwrap();
        rig.pool().begin_capture(stream.id, graph).unwrap();
        let captured = [rig.take(stream, CHUNK), rig.take(stream, 3 * CHUNK / 2)];
        rig.pool().end_capture(stream.id).unwrap();
        rig.free(captured[0]);
        let mut first = [None; 2];
        for cycle in 0..100_u64 {
            let passing = rig.take(stream, 5 * CHUNK / 2);
            for (at, bytes) in [(own, 3 * CHUNK), (buffer.address(), 4 * CHUNK), (passing, 2 * CHUNK)] {
                rig.mark(at, bytes, cycle as u8);
            }
            let asleep = rig.pool().suspend(Scope::All, &backup).map(|_| residue(&rig, places.files())).unwrap();
            assert_eq!(asleep[0], 0, "{backup:?}, cycle {cycle}");
            if cycle % 2 == 0 {
                rig.free(passing);
            }
            rig.pool().resume(Scope::All).unwrap();
            let whole = backup == Backup::Discard || rig.is_marked(own, 3 * CHUNK, cycle as u8);
            assert!(whole && (backup == Backup::Discard || rig.is_marked(buffer.address(), 4 * CHUNK, cycle as u8)));
            if cycle % 2 == 1 {
                rig.free(passing);
            }
            buffer.give_back(3 * CHUNK, CHUNK).unwrap();
            buffer.grow_to(4 * CHUNK).unwrap();
            rig.pool().trim_and_wait().unwrap();
            let both = (asleep, residue(&rig, places.files()));
            let before = *first[cycle as usize % 2].get_or_insert(both);
            assert_eq!(before, both, "{backup:?}, cycle {cycle}");
        }
        rig.free(captured[1]);
        rig.pool().release_graph(graph).unwrap();
        drop(buffer);
    }
}

#[test]
fn f37_tags_with_and_without_a_backup_sleep_and_wake_in_any_order() {
    let places = Places::new("tags");
    let orders: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for backup in places.all() {
        let mut shape = Shape { devices: 2, ..Shape::exact(CHUNK, 64) };
        shape.settings = Settings { poison: true, ..shape.settings };
        let rig = shape.build();
        let (stream, other) = (rig.stream(), rig.stream());
        // Weights, a cache, and a table that is written once and that nobody thought of.
        let arenas = ["weights", "cache", "table"].map(|name| rig.pool().arena(name).unwrap());
        let blocks = arenas.map(|arena| rig.ask(&Request::new(5 * CHUNK / 2, stream.id).in_arena(arena)).unwrap());
        let bytes = 5 * CHUNK / 2;
        for (turn, (falls, wakes)) in orders.iter().flat_map(|falls| orders.map(|wakes| (falls, wakes))).enumerate() {
            let seed = turn as u64;
            // On the way while the suspend is called, on a stream that the pool was not told of.
            rig.busy(other);
            blocks.iter().for_each(|&block| rig.fill(other, block, bytes, seed));
            for &index in falls {
                let of = if index == 0 { &backup } else { &Backup::Discard };
                rig.pool().suspend(Scope::Arena(arenas[index]), of).unwrap();
            }
            assert_eq!(rig.ledger().physical_bytes_on(HERE), 0, "{backup:?}, turn {turn}");
            for index in wakes {
                rig.pool().resume(Scope::Arena(arenas[index])).unwrap();
            }
            rig.verify(stream, blocks[0], bytes, seed);
            rig.assert_right();
            assert!(blocks[1..].iter().all(|&block| rig.is_marked(block, bytes, 0xA5)), "{backup:?}, turn {turn}");
        }
    }
}

#[test]
fn f38_what_never_comes_back_makes_the_resume_fail_and_the_content_wait() {
    let quirks = Quirks { release_only_on_unreserve: true, ..Quirks::default() };
    let rig = Shape { quirks, ..Shape::exact(CHUNK, 16) }.build();
    let stream = rig.stream();
    let pool = rig.another_pool();
    let id = pool.register(stream.raw).unwrap();
    let block = pool.alloc(&Request::new(10 * CHUNK, id).exclusive()).unwrap();
    rig.mark(block.address, block.bytes, 7);
    let slept = pool.suspend(Scope::Block(block.address), &Backup::Host).unwrap();
    assert_eq!(slept.not_yet_visible_bytes, 10 * CHUNK);
    for attempt in 0..20 {
        let short = shortage(pool.resume(Scope::Block(block.address)));
        assert_eq!(short.devices[0].device_free_bytes, Some(6 * CHUNK), "attempt {attempt} has taken nothing");
        let here = pool.stats().devices[0].holdings;
        assert_eq!((here.physical_bytes, here.suspended_bytes), (0, 10 * CHUNK), "attempt {attempt}: {here}");
        assert_eq!(rig.ledger().physical_bytes_on(DeviceId::HOST), 10 * CHUNK, "the content waits");
        pool.check().unwrap();
    }
    // Another block of what is left is nobody's business.
    let other = pool.alloc(&Request::new(6 * CHUNK, id)).unwrap();
    [block, other].iter().for_each(|block| pool.free(block.address).unwrap());
}

#[test]
fn f38_nobody_gets_the_addresses_of_what_sleeps() {
    for release_only_on_unreserve in [false, true] {
        let quirks = Quirks { release_only_on_unreserve, ..Quirks::default() };
        let rig = Shape { quirks, ..Shape::exact(CHUNK, 64) }.build();
        let pool = rig.another_pool();
        let stream = pool.register(rig.stream().raw).unwrap();
        let block = pool.alloc(&Request::new(4 * CHUNK, stream)).unwrap();
        rig.mark(block.address, block.bytes, 3);
        let suspended = pool.suspend(Scope::Arena(ArenaId::DEFAULT), &Backup::Host).unwrap();
        let kept_bytes = if release_only_on_unreserve { block.bytes } else { 0 };
        assert_eq!(suspended.not_yet_visible_bytes, kept_bytes);
        // Somebody reserves at once, as much as the block had and more.
        let origin = rig.origin();
        let reserved: Vec<_> =
            [1, 4, 64, 4096].map(|chunks| Reservation::reserve(&origin, chunks * CHUNK, 0).unwrap()).into();
        let (start, end) = (block.address, block.address + block.bytes);
        assert!(reserved.iter().all(|other| other.end() <= start || end <= other.at()), "the pool has kept them");
        pool.resume(Scope::All).unwrap();
        assert!(rig.is_marked(block.address, block.bytes, 3));
        drop(reserved);
        pool.free(block.address).unwrap();
    }
}
