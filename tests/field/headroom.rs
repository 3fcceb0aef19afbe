//! Limits and headroom, each device's own: at home, on a peer, in host memory; with eviction, growth and sleep.

use crate::rig::{HERE, KIB, MIB, Rig, Shape, Stream, shortage};
use stitchpool::driver::{Address, DeviceId};
use stitchpool::{ArenaId, Backup, Error, Placement, Request, Scope, Settings};

const THERE: DeviceId = DeviceId(1);
const HOST: DeviceId = DeviceId::HOST;
const PLACES: [DeviceId; 3] = [HERE, THERE, HOST];
/// Where a backup can go that is none of the places it comes from.
const REFUGE: DeviceId = DeviceId(2);

/// Three devices of so many chunks and host memory, all of them the pool's.
fn everywhere(chunk_bytes: u64, chunks: u64) -> Shape {
    let shape = Shape { devices: 3, ..Shape::exact(chunk_bytes, chunks) };
    let devices = vec![HERE, THERE, REFUGE, HOST];
    Shape { settings: Settings { devices, ..shape.settings.clone() }, ..shape }
}

fn held_chunks(rig: &Rig, device: DeviceId) -> u64 {
    rig.ledger().physical_bytes_on(device) / rig.shape.chunk_bytes
}

/// What is remote of each place, in chunks.
fn remote_chunks(rig: &Rig) -> [u64; 3] {
    let stats = rig.pool().stats();
    PLACES.map(|place| {
        let of = stats.devices.iter().find(|of| of.holdings.device == place).unwrap();
        of.holdings.remote_bytes / rig.shape.chunk_bytes
    })
}

/// A few chunks at a place, in an arena.
fn at(place: DeviceId, stream: Stream, arena: ArenaId, bytes: u64) -> Request {
    Request::new(bytes, stream.id).in_arena(arena).placed(Placement::Home(place))
}

#[test]
fn forced_growth_ends_below_the_limit_by_the_headroom_of_each_place() {
    // Beyond what was ever live, growth is tolerated up to 128 MiB.
    const CHUNK: u64 = 2 * MIB;
    for place in PLACES {
        for (limit, headroom, grows) in [(164, 0, true), (165, 2, false), (166, 2, true), (163, 0, false)] {
            let rig = everywhere(CHUNK, 256).build();
            // Others' headroom is their own.
            PLACES.iter().for_each(|&other| rig.pool().set_headroom(other, 200 * CHUNK).unwrap());
            rig.pool().set_headroom(place, headroom * CHUNK).unwrap();
            rig.pool().set_limit(place, Some(limit * CHUNK)).unwrap();
            let streams = [rig.stream(), rig.stream()];
            let ask = |stream: Stream, chunks: u64| {
                rig.ask(&at(place, stream, ArenaId::DEFAULT, chunks * CHUNK)).unwrap_or_else(|error| panic!("{error}"))
            };
            let first = ask(streams[0], 100);
            rig.busy(streams[0]);
            rig.touch(streams[0].raw, first, 100 * CHUNK);
            rig.free(first);
            let second = ask(streams[1], 64);
            rig.touch(streams[1].raw, second, 64 * CHUNK);
            let (held, waits) = if grows { (164, 0) } else { (100, 1) };
            let told = format!("{place}, limit {limit}, headroom {headroom}");
            assert_eq!((held_chunks(&rig, place), rig.pool().stats().stream_waits), (held, waits), "{told}");
            rig.free(second);
            // What is live may reach the limit all the same.
            let all = ask(streams[1], limit);
            assert_eq!(held_chunks(&rig, place), limit, "{told}");
            rig.free(all);
        }
    }
    let rig = everywhere(64 * KIB, 4).build();
    assert!(matches!(rig.pool().set_headroom(DeviceId(7), 0), Err(Error::UnknownDevice { .. })));
}

#[test]
fn a_limit_is_reached_to_the_chunk_and_never_passed_at_any_place() {
    const CHUNK: u64 = 64 * KIB;
    for place in PLACES {
        let rig = everywhere(CHUNK, 64).build();
        rig.pool().set_limit(place, Some(16 * CHUNK)).unwrap();
        let stream = rig.stream();
        let ask = |chunks: u64| rig.ask(&at(place, stream, ArenaId::DEFAULT, chunks * CHUNK));
        let blocks: Vec<Address> = [5, 7, 4].iter().map(|&chunks| ask(chunks).unwrap()).collect();
        let short = shortage(ask(1));
        assert_eq!((short.missing_bytes, short.devices[0].limit_bytes), (CHUNK, 16 * CHUNK), "{short}");
        assert_eq!(short.devices[0].device, place, "{short}");
        let remote = PLACES.map(|of| if of == place && place != HERE { 16 } else { 0 });
        assert_eq!((remote_chunks(&rig), held_chunks(&rig, place)), (remote, 16));
        rig.free(blocks[0]);
        rig.free(blocks[2]);
        ask(9).unwrap();
        assert_eq!(held_chunks(&rig, place), 16);
        // Lowered under what is held, nothing new comes, and a trim brings it down.
        rig.free_all();
        rig.pool().set_limit(place, Some(4 * CHUNK)).unwrap();
        rig.pool().trim_and_wait().unwrap();
        assert_eq!((held_chunks(&rig, place), remote_chunks(&rig)), (0, [0; 3]));
        ask(4).unwrap();
        shortage(ask(1));
    }
}

#[test]
fn a_growable_buffer_spills_from_limit_to_limit() {
    const CHUNK: u64 = 64 * KIB;
    let rig = everywhere(CHUNK, 64).build();
    let limits = [4, 5, 7];
    for (place, limit) in PLACES.into_iter().zip(limits) {
        rig.pool().set_limit(place, Some(limit * CHUNK)).unwrap();
    }
    let stream = rig.stream();
    let arena = rig.pool().arena("cache").unwrap();
    let request = Request::new(0, stream.id).in_arena(arena).placed(Placement::Spill(PLACES.to_vec()));
    let buffer = rig.pool().growable_in_steps(&request, 64 * CHUNK, CHUNK).unwrap();
    for chunks in 1..=16 {
        buffer.grow_to(chunks * CHUNK).unwrap_or_else(|error| panic!("{chunks} chunks: {error}"));
    }
    let held = || PLACES.map(|place| held_chunks(&rig, place));
    assert_eq!((held(), remote_chunks(&rig)), (limits, [0, 5, 7]));
    let short = shortage(buffer.grow_to(17 * CHUNK));
    assert_eq!((short.missing_bytes, short.devices.len()), (CHUNK, 3), "{short}");
    assert_eq!(buffer.backed_bytes(), 16 * CHUNK);
    rig.fill(stream, buffer.address(), 16 * CHUNK, 1);
    // It sleeps, and wakes where it lay: not where a limit is in the way by then.
    rig.pool().suspend(Scope::Arena(arena), &Backup::Peer(REFUGE)).unwrap();
    assert_eq!((held(), held_chunks(&rig, REFUGE), remote_chunks(&rig)), ([0; 3], 16, [0; 3]));
    rig.pool().set_limit(THERE, Some(4 * CHUNK)).unwrap();
    let short = shortage(rig.pool().resume(Scope::Arena(arena)));
    assert!(short.devices.iter().any(|of| of.device == THERE && of.limit_bytes == 4 * CHUNK), "{short}");
    assert_eq!(held(), [0; 3], "all or nothing");
    rig.pool().set_limit(THERE, Some(5 * CHUNK)).unwrap();
    rig.pool().resume(Scope::Arena(arena)).unwrap();
    assert_eq!((held(), remote_chunks(&rig)), (limits, [0, 5, 7]));
    rig.verify(stream, buffer.address(), 16 * CHUNK, 1);
    rig.assert_right();
    buffer.give_back(0, 8 * CHUNK).unwrap();
    buffer.grow_to(8 * CHUNK).unwrap();
    assert_eq!(held(), limits);
}

#[test]
fn what_sleeps_is_told_as_given_back_wherever_its_backup_lies() {
    const CHUNK: u64 = 64 * KIB;
    for place in [HERE, THERE] {
        let rig = everywhere(CHUNK, 64).build();
        let stream = rig.stream();
        let block = rig.ask(&at(place, stream, ArenaId::DEFAULT, 4 * CHUNK).exclusive()).unwrap();
        rig.fill(stream, block, 4 * CHUNK, 1);
        for backup in [Backup::Peer(REFUGE), Backup::Peer(HOST), Backup::Host, Backup::Discard] {
            let slept = rig.pool().suspend(Scope::Block(block), &backup).unwrap();
            let kept = if backup == Backup::Discard { 0 } else { 4 * CHUNK };
            let told = (slept.released_bytes, slept.backup_bytes, slept.not_yet_visible_bytes);
            assert_eq!(told, (4 * CHUNK, kept, 0), "{place}, {backup:?}");
            let backups: u64 = rig.pool().stats().devices.iter().map(|of| of.holdings.backup_bytes).sum();
            assert_eq!((held_chunks(&rig, place), backups), (0, kept), "{place}, {backup:?}");
            rig.pool().resume(Scope::Block(block)).unwrap();
        }
        rig.free_all();
    }
}

#[test]
fn what_nobody_uses_of_a_place_makes_room_for_backups_and_backups_that_are_over_for_blocks() {
    const CHUNK: u64 = 64 * KIB;
    for (place, backup) in [(REFUGE, Backup::Peer(REFUGE)), (HOST, Backup::Host), (HOST, Backup::Peer(HOST))] {
        for limited in [false, true] {
            let shape = everywhere(CHUNK, 8);
            let settings = Settings { backup_keep_bytes: u64::MAX, ..shape.settings.clone() };
            let rig = Shape { settings, ..shape }.build();
            let all = if limited || place == HOST { rig.pool().set_limit(place, Some(8 * CHUNK)) } else { Ok(()) };
            all.unwrap();
            let (stream, other) = (rig.stream(), rig.stream());
            let block = rig.take(stream, 6 * CHUNK);
            for turn in 0..3 {
                // Cached there, and in use still by work of another stream.
                let cached = rig.ask(&at(place, stream, ArenaId::DEFAULT, 8 * CHUNK)).unwrap_or_else(|error| {
                    panic!(
                        "{backup:?}, turn {turn}: trays are kept for later only while nobody wants the memory: {error}"
                    )
                });
                rig.pool().record_use(cached, other.id).unwrap();
                rig.busy(other);
                rig.touch(other.raw, cached, 8 * CHUNK);
                rig.free(cached);
                rig.fill(stream, block, 6 * CHUNK, turn);
                rig.pool()
                    .suspend(Scope::All, &backup)
                    .unwrap_or_else(|error| panic!("{backup:?}, turn {turn}: {error}"));
                rig.pool().resume(Scope::All).unwrap();
                rig.verify(stream, block, 6 * CHUNK, turn);
                rig.assert_right();
            }
        }
    }
}

#[test]
fn what_is_evicted_counts_where_it_goes_and_comes_back_within_the_limit() {
    const CHUNK: u64 = 64 * KIB;
    for place in PLACES {
        let rig = everywhere(CHUNK, 64).build();
        let stream = rig.stream();
        let arena = rig.pool().arena("cache").unwrap();
        rig.pool().set_evictable(arena, Some(Backup::Peer(REFUGE))).unwrap();
        rig.pool().set_limit(place, Some(8 * CHUNK)).unwrap();
        rig.pool().set_limit(REFUGE, Some(12 * CHUNK)).unwrap();
        let ask = |seed: u64| {
            let block = rig.ask(&at(place, stream, arena, 4 * CHUNK).exclusive())?;
            rig.fill(stream, block, 4 * CHUNK, seed);
            rig.assert_right();
            Ok(block)
        };
        let blocks: Vec<Address> =
            (0..5).map(|seed| ask(seed).unwrap_or_else(|error: Error| panic!("{error}"))).collect();
        let held = || (held_chunks(&rig, place), held_chunks(&rig, REFUGE));
        assert_eq!(held(), (8, 12), "{place}");
        let short = shortage(ask(5));
        assert!(short.to_string().contains("nothing more was evicted"), "{short}");
        assert_eq!((held(), rig.pool().stats().evictions), ((8, 12), 3));
        let of_place = |bytes: u64| PLACES.map(|of| if of == place && place != HERE { bytes } else { 0 });
        assert_eq!(remote_chunks(&rig), of_place(8), "what is out is not used from afar");
        // One goes for another: the refuge is full, and needs room for it first.
        rig.pool().set_limit(REFUGE, Some(16 * CHUNK)).unwrap();
        for (&block, seed) in blocks.iter().zip(0..) {
            let lease = rig.pool().touch(block).unwrap_or_else(|error| panic!("{place}, block {seed}: {error}"));
            rig.verify(stream, block, 4 * CHUNK, seed);
            lease.end_on(stream.id).unwrap();
            rig.assert_right();
            assert!(held().0 <= 8 && held().1 <= 16, "{place}: {:?}", held());
        }
        // Asleep by word they leave the limit to others, and wake within it.
        rig.pool().set_evictable(arena, None).unwrap();
        rig.pool().set_limit(REFUGE, None).unwrap();
        rig.pool().suspend(Scope::Arena(arena), &Backup::Peer(REFUGE)).unwrap();
        assert_eq!(held().0, 0, "{place}");
        let other = rig.ask(&at(place, stream, ArenaId::DEFAULT, 8 * CHUNK)).unwrap();
        shortage(rig.pool().resume(Scope::Arena(arena)));
        rig.free(other);
        rig.pool().resume(Scope::Arena(arena)).unwrap();
        assert_eq!(held().0, 8, "{place}: two were awake, three out");
        let stats = rig.pool().stats();
        let of = stats.devices.iter().find(|of| of.holdings.device == place).unwrap();
        assert_eq!(of.physical_peak_bytes, 8 * CHUNK, "{place}");
        rig.free_all();
    }
}

/// Nobody asks a device for its free bytes where no stream uses it: what it has is found by asking for it.
#[test]
fn all_is_had_of_a_device_that_tells_only_by_refusing() {
    let rig = Shape { devices: 2, ..Shape::exact(64 * KIB, 16) }.build();
    let (stream, chunk_bytes) = (rig.stream(), 64 * KIB);
    rig.host.outside(DeviceId(1), 10 * chunk_bytes).unwrap();
    rig.host.outside(HERE, 15 * chunk_bytes).unwrap();
    let spilled = Placement::Spill(vec![DeviceId(1), HERE]);
    let ask = |chunks: u64| rig.ask(&Request::new(chunks * chunk_bytes, stream.id).placed(spilled.clone()));
    assert!(matches!(ask(8), Err(Error::OutOfMemory(_))));
    let block = ask(7).unwrap();
    rig.touch(stream.raw, block, 7 * chunk_bytes);
    rig.assert_right();
}
