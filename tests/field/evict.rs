//! More blocks than memory: what was not used for longest goes out, and comes back when touched: F21, F35.

mod told;

use crate::rig::{HERE, KIB, Rig, Shape, Stream, shortage};
use crate::watchdog::within;
use std::thread;
use std::time::Duration;
use stitchpool::driver::host::StreamMode;
use stitchpool::driver::{Address, DeviceId, ErrorKind};
use stitchpool::{ArenaId, Backup, Error, Placement, Request, Scope, Settings};

const CHUNK: u64 = 64 * KIB;
const THERE: DeviceId = DeviceId(1);
const SOON: Duration = Duration::from_secs(30);

/// A rig whose streams do at once what is queued, an arena that is put out to the host, and a stream.
fn evicting(shape: Shape) -> (Rig, Stream, ArenaId) {
    let rig = Shape { streams: StreamMode::Immediate, ..shape }.build();
    let stream = rig.stream();
    let arena = rig.pool().arena("cache").unwrap();
    rig.pool().set_evictable(arena, Some(Backup::Host)).unwrap();
    (rig, stream, arena)
}

fn cached(stream: Stream, arena: ArenaId, chunks: u64) -> Request {
    Request::new(chunks * CHUNK, stream.id).in_arena(arena).exclusive()
}

/// So many blocks of so many chunks, each filled with its number as soon as it is there.
fn filled(rig: &Rig, (stream, arena): (Stream, ArenaId), blocks: u64, chunks: u64) -> Vec<Address> {
    let fill = |seed| {
        let block = rig.ask(&cached(stream, arena, chunks)).unwrap_or_else(|error| panic!("block {seed}: {error}"));
        rig.fill(stream, block, chunks * CHUNK, seed);
        block
    };
    (0..blocks).map(fill).collect()
}

/// Touches each block and verifies its bytes by a kernel.
fn verify(rig: &Rig, stream: Stream, blocks: &[Address], chunks: u64) {
    for (&block, seed) in blocks.iter().zip(0..) {
        let lease = rig.pool().touch(block).unwrap();
        rig.verify(stream, block, chunks * CHUNK, seed);
        lease.end_on(stream.id).unwrap();
    }
    rig.assert_right();
}

fn is_awake(rig: &Rig, block: Address) -> bool {
    rig.pool().segments(block, CHUNK).is_ok_and(|segments| !segments.is_empty())
}

fn evictions(rig: &Rig) -> u64 {
    rig.pool().stats().evictions
}

#[test]
fn what_was_not_used_for_longest_goes_and_only_as_much_as_is_needed() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let blocks = filled(&rig, (stream, arena), 4, 4);
    let early = rig.pool().lease(blocks[1]).unwrap();
    drop(rig.pool().touch(blocks[0]).unwrap());
    drop(rig.pool().lease(blocks[2]).unwrap());
    drop(early);
    // By last use: 3, 0, 2, 1.
    for (order, expected) in [(1, 3), (2, 0), (3, 2), (4, 1)] {
        rig.take(stream, 4 * CHUNK);
        assert_eq!(evictions(&rig), order);
        assert!(!is_awake(&rig, blocks[expected]), "block {expected} goes as number {order}");
    }
    let error = rig.alloc(stream, CHUNK).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory(_)), "{error}");
    let stats = rig.pool().stats();
    assert_eq!((stats.evicted_bytes, stats.devices[0].holdings.suspended_bytes), (16 * CHUNK, 16 * CHUNK));
}

#[test]
fn a_small_request_puts_one_block_out() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let blocks = filled(&rig, (stream, arena), 16, 1);
    rig.take(stream, 512);
    assert_eq!(evictions(&rig), 1);
    assert!(blocks[1..].iter().all(|&block| is_awake(&rig, block)));
}

#[test]
fn f21a_two_threads_short_at_once_are_both_served() {
    within(SOON, || {
        for round in 0..8 {
            let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 64));
            let blocks = filled(&rig, (stream, arena), 32, 2);
            let streams = [rig.stream(), rig.stream()];
            let ask = |index: usize, chunks: u64| {
                let block = rig.pool().alloc(&Request::new(chunks * CHUNK, streams[index].id)).unwrap();
                rig.pool().free(block.address).unwrap();
            };
            thread::scope(|scope| {
                scope.spawn(|| ask(0, 40));
                scope.spawn(|| ask(1, 10 + round));
            });
            verify(&rig, stream, &blocks, 2);
        }
    });
}

#[test]
fn f21b_what_there_is_goes_out_although_it_is_not_enough() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let other = rig.take(stream, 12 * CHUNK);
    let blocks = filled(&rig, (stream, arena), 2, 2);
    let short = rig.shortage(stream, 8 * CHUNK);
    assert_eq!((evictions(&rig), short.missing_bytes), (2, 4 * CHUNK), "{short}");
    assert_eq!(short.devices[0].suspended_bytes, 4 * CHUNK);
    rig.free(other);
    verify(&rig, stream, &blocks, 2);
}

#[test]
fn f21c_a_request_that_cannot_be_puts_nothing_out() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    filled(&rig, (stream, arena), 4, 4);
    for bytes in [0, 18_446_744_073_696_422_656] {
        assert!(matches!(rig.alloc(stream, bytes), Err(Error::InvalidSize { .. })));
    }
    rig.shortage(stream, 17 * CHUNK);
    assert_eq!(evictions(&rig), 0);
}

#[test]
fn f21d_frees_in_flight_come_before_anything_is_put_out() {
    let rig = Shape::exact(CHUNK, 16).build();
    let (stream, other) = (rig.stream(), rig.stream());
    let arena = rig.pool().arena("cache").unwrap();
    rig.pool().set_evictable(arena, Some(Backup::Host)).unwrap();
    filled(&rig, (stream, arena), 2, 4);
    let block = rig.take(other, 8 * CHUNK);
    rig.fill(other, block, 8 * CHUNK, 7);
    rig.free(block);
    rig.take(stream, 8 * CHUNK);
    assert_eq!(evictions(&rig), 0);
    rig.assert_right();
}

#[test]
fn f35_a_touch_that_runs_short_leaves_the_block_asleep_and_whole() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let blocks = filled(&rig, (stream, arena), 2, 10);
    let rest = rig.take(stream, 6 * CHUNK);
    let drained = rig.pool().touch(blocks[1]).unwrap();
    for _ in 0..3 {
        let short = shortage(rig.pool().touch(blocks[0]));
        assert_eq!((short.asked_bytes, short.devices[0].leased_bytes), (10 * CHUNK, 10 * CHUNK));
        assert!(short.advice().contains(&format!("leases hold {} bytes", 10 * CHUNK)), "{short}");
        rig.assert_sound();
    }
    drop(drained);
    rig.free(rest);
    verify(&rig, stream, &blocks, 10);
}

#[test]
fn a_lease_keeps_its_block_and_a_block_freed_meanwhile_goes_with_it() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let blocks = filled(&rig, (stream, arena), 2, 8);
    let leases = blocks.iter().map(|&block| rig.pool().touch(block).unwrap()).collect::<Vec<_>>();
    let error = rig.ask(&cached(stream, arena, 8)).unwrap_err();
    assert!(error.to_string().contains(&format!("leases hold {} bytes", 16 * CHUNK)), "{error}");
    assert!(matches!(rig.pool().suspend(Scope::Block(blocks[0]), &Backup::Host), Err(Error::Held { holders: 1, .. })));
    rig.free(blocks[0]);
    drop(leases);
    let third = rig.ask(&cached(stream, arena, 8)).unwrap();
    assert_eq!(evictions(&rig), 0, "the freed block's memory was enough");
    rig.fill(stream, third, 8 * CHUNK, 3);
    rig.ask(&cached(stream, arena, 8)).unwrap();
    rig.free(blocks[1]);
    assert!(matches!(rig.pool().touch(blocks[1]), Err(Error::UnknownAddress { .. })), "freed while it was out");
}

#[test]
fn blocks_of_other_kinds_stay() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let shared = rig.ask(&Request { exclusive: false, ..cached(stream, arena, 2) }).unwrap();
    let growable = rig.pool().growable(&cached(stream, arena, 2), 8 * CHUNK).unwrap();
    let elsewhere = rig.ask(&Request { arena: ArenaId::DEFAULT, ..cached(stream, arena, 2) }).unwrap();
    let pinned = rig.ask(&cached(stream, arena, 2)).unwrap();
    let pin = rig.pool().pin(pinned, CHUNK).unwrap();
    let last = filled(&rig, (stream, arena), 2, 4);
    rig.take(stream, 8 * CHUNK);
    // (A growable is a live block that the shadow knows nothing of.)
    let ask = |chunks| shortage(rig.pool().alloc(&Request::new(chunks * CHUNK, stream.id)));
    ask(1);
    assert!([shared, elsewhere, pinned].into_iter().all(|block| is_awake(&rig, block)));
    assert_eq!((evictions(&rig), growable.backed_bytes()), (2, 2 * CHUNK));
    assert!(last.iter().all(|&block| !is_awake(&rig, block)));
    drop((pin, growable));
    rig.pool().set_evictable(arena, None).unwrap();
    let refused = rig.pool().set_evictable(arena, Some(Backup::Discard));
    assert!(matches!(refused, Err(Error::Backup(_))), "{refused:?}");
    ask(4);
    assert_eq!(evictions(&rig), 2, "it is not evictable any more");
}

#[test]
fn nothing_is_put_out_while_a_stream_is_captured() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let other = rig.stream();
    let blocks = filled(&rig, (stream, arena), 3, 8);
    let before = evictions(&rig);
    rig.host.begin_capture(other.raw).unwrap();
    assert!(matches!(rig.alloc(stream, CHUNK), Err(Error::OutOfMemory(_))));
    assert!(matches!(rig.pool().touch(blocks[0]), Err(Error::Capturing { .. } | Error::OutOfMemory(_))));
    drop(rig.pool().touch(blocks[2]).unwrap());
    assert_eq!(evictions(&rig), before);
    drop(rig.host.end_capture(other.raw).unwrap());
    verify(&rig, stream, &blocks, 8);
}

#[test]
fn limits_of_the_device_and_of_the_refuge_hold() {
    let (rig, stream, arena) = evicting(Shape { devices: 2, ..Shape::exact(CHUNK, 32) });
    rig.pool().set_evictable(arena, Some(Backup::Peer(THERE))).unwrap();
    rig.pool().set_limit(HERE, Some(8 * CHUNK)).unwrap();
    rig.pool().set_limit(THERE, Some(12 * CHUNK)).unwrap();
    let blocks = filled(&rig, (stream, arena), 5, 4);
    let error = rig.ask(&cached(stream, arena, 4)).unwrap_err();
    assert!(error.to_string().contains("nothing more was evicted: device 1 holds"), "{error}");
    let held = |device: DeviceId| rig.ledger().physical_bytes_on(device);
    assert_eq!((held(HERE), held(THERE)), (8 * CHUNK, 12 * CHUNK));
    assert!(matches!(
        rig.pool().set_evictable(arena, Some(Backup::Peer(DeviceId(7)))),
        Err(Error::UnknownDevice { .. })
    ));
    rig.pool().set_limit(THERE, None).unwrap();
    verify(&rig, stream, &blocks, 4);
    assert!(rig.figures().physical_peak_bytes <= 8 * CHUNK);
}

#[test]
fn places_come_before_eviction_and_remote_bytes_are_counted() {
    let (rig, stream, arena) = evicting(Shape { devices: 2, ..Shape::exact(CHUNK, 16) });
    let blocks = filled(&rig, (stream, arena), 4, 4);
    let spill = Request::new(8 * CHUNK, stream.id).placed(Placement::Spill(vec![HERE, THERE]));
    let remote = rig.ask(&spill).unwrap();
    let remote_bytes = || rig.pool().stats().devices.iter().map(|of| of.holdings.remote_bytes).collect::<Vec<_>>();
    assert_eq!((evictions(&rig), remote_bytes()), (0, vec![0, 8 * CHUNK]));
    rig.ask(&Request { bytes: 12 * CHUNK, ..spill }).unwrap();
    assert_eq!((evictions(&rig), remote_bytes()), (1, vec![0, 16 * CHUNK]));
    rig.free(remote);
    verify(&rig, stream, &blocks, 4);
}

#[test]
fn an_arena_sleeps_and_wakes_without_what_was_put_out_of_it() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let blocks = filled(&rig, (stream, arena), 12, 4);
    rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    assert!(matches!(rig.pool().touch(blocks[0]), Err(Error::Asleep { .. })));
    let resumed = rig.pool().resume(Scope::Arena(arena)).unwrap();
    assert_eq!((resumed.already, resumed.taken_bytes), (false, 16 * CHUNK), "as much as was awake");
    verify(&rig, stream, &blocks, 4);
    // A suspend that fails leaves the arena open.
    let lease = rig.pool().lease(blocks[11]).unwrap();
    assert!(matches!(rig.pool().suspend(Scope::Arena(arena), &Backup::Host), Err(Error::Held { .. })));
    drop(lease);
    let nowhere = Backup::Disk("/nowhere".into());
    rig.pool().suspend(Scope::Arena(arena), &nowhere).unwrap_err();
    verify(&rig, stream, &blocks, 4);
}

#[test]
fn three_times_the_device_is_used_at_random_and_every_byte_comes_back() {
    let directory = std::env::temp_dir().join(format!("stitchpool-evict-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for refuge in [Backup::Host, Backup::Peer(THERE), Backup::Disk(directory.clone())] {
        let shape = Shape { devices: 2, ..Shape::exact(CHUNK, 48) };
        let settings = Settings { backup_keep_bytes: 8 * CHUNK, ..shape.settings.clone() };
        let (rig, stream, arena) = evicting(Shape { settings, ..shape });
        rig.pool().set_evictable(arena, Some(refuge.clone())).unwrap();
        // What is out needs a place too.
        let chunks_here = 16;
        rig.pool().set_limit(HERE, Some(chunks_here * CHUNK)).unwrap();
        let mut dice = 0x9E37_79B9_7F4A_7C15_u64;
        let mut roll = |sides: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 33) % sides
        };
        let mut blocks: Vec<(Address, u64)> = Vec::new();
        for seed in 0..24 {
            let block = filled(&rig, (stream, arena), 1, 2)[0];
            rig.fill(stream, block, 2 * CHUNK, seed);
            blocks.push((block, seed));
        }
        for step in 0..200 {
            let chosen = usize::try_from(roll(24)).unwrap();
            let (block, seed) = blocks[chosen];
            let lease = rig.pool().touch(block).unwrap_or_else(|error| panic!("{refuge:?}, step {step}: {error}"));
            rig.verify(stream, block, 2 * CHUNK, seed);
            if step % 3 == 0 {
                blocks[chosen].1 = 1000 + step;
                rig.fill(stream, block, 2 * CHUNK, 1000 + step);
            }
            lease.end_on(stream.id).unwrap();
        }
        rig.assert_sound();
        let stats = rig.pool().stats();
        assert!(stats.evictions > 100, "{refuge:?}: {stats:?}");
        assert_eq!(stats.evicted_bytes - stats.returned_bytes, stats.devices[0].holdings.suspended_bytes);
        assert!(rig.ledger().physical_bytes_on(HERE) <= chunks_here * CHUNK);
        for (block, seed) in blocks {
            let lease = rig.pool().touch(block).unwrap();
            rig.verify(stream, block, 2 * CHUNK, seed);
            lease.end_on(stream.id).unwrap();
            rig.assert_right();
            rig.free(block);
        }
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "no backup is left");
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn two_threads_share_one_third_of_what_they_use() {
    within(SOON, || {
        let (rig, _, arena) = evicting(Shape::exact(CHUNK, 16));
        let streams = [rig.stream(), rig.stream()];
        thread::scope(|scope| {
            for (thread, stream) in (0..).zip(streams) {
                let rig = &rig;
                scope.spawn(move || {
                    let blocks: Vec<Address> = (0..12)
                        .map(|seed| {
                            let block = rig.pool().alloc(&cached(stream, arena, 2)).unwrap().address;
                            // Another thread may have put it out already.
                            let lease = rig.pool().touch(block).unwrap();
                            rig.fill(stream, block, 2 * CHUNK, thread * 100 + seed);
                            lease.end_on(stream.id).unwrap();
                            block
                        })
                        .collect();
                    for step in 0..60 {
                        let index = step * (5 + 2 * thread) % 12;
                        let block = blocks[usize::try_from(index).unwrap()];
                        let lease = rig.pool().touch(block).unwrap();
                        rig.verify(stream, block, 2 * CHUNK, thread * 100 + index);
                        lease.end_on(stream.id).unwrap();
                    }
                    blocks.into_iter().for_each(|block| rig.pool().free(block).unwrap());
                });
            }
        });
        rig.assert_right();
        assert!(evictions(&rig) > 48);
    });
}

#[test]
fn a_refusal_of_any_call_loses_no_byte() {
    for kind in [ErrorKind::OutOfMemory, ErrorKind::Unknown] {
        for touches in [false, true] {
            for nth in 1.. {
                let (mut rig, stream, arena) = evicting(Shape::exact(CHUNK, 4));
                let blocks = filled(&rig, (stream, arena), if touches { 3 } else { 2 }, 2);
                rig.faulty.fail_any(nth, kind);
                let outcome = match touches {
                    true => rig.pool().touch(blocks[0]).map(drop),
                    false => rig.ask(&cached(stream, arena, 2)).map(drop),
                };
                let failed = rig.faulty.failed();
                rig.faulty.clear();
                // What the driver refused to take back stays behind: an event, or copies' memory.
                rig.scarred = rig.pool().stats().quarantined > 0;
                rig.assert_sound();
                verify(&rig, stream, &blocks, 2);
                if failed == 0 {
                    outcome.unwrap();
                    break;
                }
            }
        }
    }
}
