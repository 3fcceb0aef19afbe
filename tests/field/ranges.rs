//! Ranges that grow, shrink and are asked what stands behind them: F16, F17, F22, F32.

use crate::rig::{CHUNKS, GIB, HERE, KIB, MIB, Rig, Shape};
use stitchpool::chunks::{Error as ChunksError, Origin, RangeSpec, StitchedRange};
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{Address, Driver, ErrorKind, Grant, HandleKind, HandleSpec, Kernels, Rights, Verb};
use stitchpool::{Error, Piece, Request};

const OPEN: [Grant; 1] = [Grant { device: HERE, rights: Rights::ReadWrite }];

fn range(rig: &Rig, bytes: u64, handle_bytes: u64) -> StitchedRange {
    let granule_bytes = rig.shape.chunk_bytes;
    let spec = RangeSpec { bytes, granule_bytes, handle_bytes, kind: HandleKind::Private };
    StitchedRange::reserve(&rig.origin(), spec).unwrap()
}

const fn here(bytes: u64) -> [Piece; 1] {
    [Piece { device: HERE, bytes }]
}

#[test]
fn f16b_a_range_grows_again_and_again() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 8).build();
        let stream = rig.stream();
        let mut range = range(&rig, 64 * chunk_bytes, chunk_bytes);
        let mut grown = 0;
        for chunks in [2, 4, 8] {
            range.grow(&here((chunks - grown) * chunk_bytes), &OPEN).unwrap();
            rig.fill(stream, range.at() + grown * chunk_bytes, (chunks - grown) * chunk_bytes, chunks);
            for (start, end) in [(0, 2), (2, 4), (4, 8)].into_iter().filter(|&(_, end)| end <= chunks) {
                rig.verify(stream, range.at() + start * chunk_bytes, (end - start) * chunk_bytes, end);
            }
            grown = chunks;
            assert_eq!((range.grown_bytes(), rig.physical_bytes()), (chunks * chunk_bytes, chunks * chunk_bytes));
        }
        rig.assert_right();
        let full = range.grow(&here(chunk_bytes), &OPEN).unwrap_err();
        assert!(matches!(full, ChunksError::Driver(error) if error.kind == ErrorKind::OutOfMemory));
        assert_eq!(range.grown_bytes(), 8 * chunk_bytes);
        range.check().unwrap();
        // Room in the middle of use: what is given back can be had again.
        drop(range.shrink(4 * chunk_bytes).unwrap());
        range.grow(&here(4 * chunk_bytes), &OPEN).unwrap();
        rig.verify(stream, range.at(), 2 * chunk_bytes, 2);
        rig.assert_right();
    }
}

#[test]
fn f16c_a_length_that_is_no_multiple_is_rounded_or_named() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 4).build();
        let stream = rig.stream();
        let odd = 3 * chunk_bytes / 2 + 1;
        let block = rig.take(stream, odd);
        assert_eq!((rig.physical_bytes(), rig.ledger().mapped_bytes), (2 * chunk_bytes, 2 * chunk_bytes));
        rig.free(block);
        rig.pool().trim_and_wait().unwrap();
        assert_eq!((rig.physical_bytes(), rig.ledger().mapped_bytes), (0, 0), "the whole of it");
        let mut range = range(&rig, 4 * chunk_bytes, chunk_bytes);
        let refused = range.grow(&here(odd), &OPEN).unwrap_err();
        assert_eq!(refused, ChunksError::Unaligned { what: "piece", bytes: odd, granule_bytes: chunk_bytes });
        assert_eq!((range.grown_bytes(), rig.physical_bytes()), (0, 0));
    }
}

#[test]
fn f16d_a_refused_growth_leaves_the_old_part_open() {
    for chunk_bytes in CHUNKS {
        for verb in [Verb::Create, Verb::Map, Verb::SetRights] {
            for nth in 1..=3 {
                let rig = Shape::exact(chunk_bytes, 8).build();
                let stream = rig.stream();
                let mut range = range(&rig, 8 * chunk_bytes, chunk_bytes);
                range.grow(&here(2 * chunk_bytes), &OPEN).unwrap();
                rig.fill(stream, range.at(), 2 * chunk_bytes, 5);
                rig.faulty.fail(verb, nth, ErrorKind::InvalidValue);
                let refused = range.grow(&here(3 * chunk_bytes), &OPEN);
                assert_eq!(refused.is_err(), verb != Verb::SetRights || nth == 1, "one call opens all");
                rig.faulty.clear();
                rig.verify(stream, range.at(), 2 * chunk_bytes, 5);
                rig.touch(stream.raw, range.at(), 2 * chunk_bytes);
                rig.assert_right();
                if refused.is_err() {
                    assert_eq!((range.picture().as_str(), rig.ledger().mappings), ("AA......", 2));
                    range.grow(&here(3 * chunk_bytes), &OPEN).unwrap();
                }
                rig.touch(stream.raw, range.at(), 5 * chunk_bytes);
                rig.assert_right();
            }
        }
    }
}

#[test]
fn f16d_a_refused_growth_of_a_block_leaves_the_others_open() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let stream = rig.stream();
    let block = rig.take(stream, 96 * KIB);
    rig.fill(stream, block, 96 * KIB, 5);
    // The next block would begin in this one's last chunk.
    rig.faulty.fail(Verb::SetRights, 1, ErrorKind::InvalidValue);
    assert!(rig.alloc(stream, 128 * KIB).is_err());
    rig.verify(stream, block, 96 * KIB, 5);
    rig.assert_right();
    rig.take(stream, 128 * KIB);
}

#[test]
fn f16e_an_absurd_size_is_refused_with_its_reason() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 4).build();
        let spec = RangeSpec {
            bytes: 1 << 60,
            granule_bytes: chunk_bytes,
            handle_bytes: chunk_bytes,
            kind: HandleKind::Private,
        };
        let refused = StitchedRange::reserve(&rig.origin(), spec).unwrap_err();
        assert!(matches!(&refused, ChunksError::Driver(error) if error.kind == ErrorKind::OutOfResources), "{refused}");
        assert_eq!(rig.ledger().reservations, 1, "the pool's own");
        let stream = rig.stream();
        assert!(matches!(rig.alloc(stream, 1 << 60), Err(Error::InvalidSize { .. })));
        rig.take(stream, 4 * chunk_bytes);
    }
}

#[test]
fn f16e_a_neighbour_in_the_way_is_not_touched() {
    let rig = Shape::exact(4 * KIB, 8).build();
    let mut range = range(&rig, 8 * 4 * KIB, 4 * KIB);
    range.stitch(16 * KIB, &here(4 * KIB), &OPEN).unwrap();
    rig.mark(range.at() + 16 * KIB, 4 * KIB, 7);
    let refused = range.grow(&here(20 * KIB), &OPEN).unwrap_err();
    assert_eq!(refused, ChunksError::Occupied { at: range.at() + 16 * KIB });
    assert_eq!((range.picture().as_str(), rig.ledger().handles), ("....A...", 1));
    assert!(rig.is_marked(range.at() + 16 * KIB, 4 * KIB, 7));
    range.grow(&here(16 * KIB), &OPEN).unwrap();
}

#[test]
fn f16f_what_was_grown_in_place_goes_back_as_it_came() {
    let rig = Shape::exact(4 * KIB, 64).build();
    let stream = rig.stream();
    // Blocks that share chunks and extend each other's chains.
    let blocks: Vec<_> = (1..=8).map(|block| rig.take(stream, block * 3 * 512)).collect();
    assert_eq!(rig.physical_bytes(), (36_u64 * 3 * 512).next_multiple_of(4 * KIB), "each begins where the last ended");
    blocks.into_iter().rev().for_each(|block| rig.free(block));
    assert_eq!(rig.pool().trim_and_wait().unwrap().released_bytes, rig.faulty.calls(Verb::Create) * 4 * KIB);
    assert_eq!((rig.physical_bytes(), rig.ledger().mappings, rig.ledger().reservations), (0, 0, 1));
}

#[test]
fn f16g_memory_that_moved_is_freed_once() {
    let rig = Shape::exact(4 * KIB, 8).build();
    let mut old = range(&rig, 16 * KIB, 4 * KIB);
    old.grow(&here(16 * KIB), &OPEN).unwrap();
    rig.mark(old.at(), 16 * KIB, 3);
    // A larger range takes the memory over: first under both addresses, then under the new one alone.
    let mut new = range(&rig, 32 * KIB, 4 * KIB);
    let handles = old.take(0, 16 * KIB).unwrap();
    old.stitch_handles(0, handles.clone(), &OPEN).unwrap();
    new.stitch_handles(0, handles, &OPEN).unwrap();
    assert_eq!((rig.ledger().handles, rig.ledger().mappings), (4, 8));
    drop(old);
    assert!(rig.is_marked(new.at(), 16 * KIB, 3), "the old address alone is gone");
    new.grow(&here(16 * KIB), &OPEN).unwrap();
    assert_eq!((rig.physical_bytes(), rig.faulty.calls(Verb::Release)), (32 * KIB, 0));
    drop(new);
    assert_eq!((rig.physical_bytes(), rig.faulty.calls(Verb::Release)), (0, 8));
}

/// Something that no driver takes.
type Misuse = fn(&HostDriver, Address, u64) -> stitchpool::driver::Result<()>;

#[test]
fn f17_the_driver_under_test_is_as_strict_as_a_gpu() {
    // SAFETY: each call breaks a condition on purpose; the host driver's ledger refuses it and touches nothing.
    let misuses: [(&str, Misuse); 7] = [
        ("a map that is not the whole handle", |host, at, chunk| unsafe {
            let handle = host.create(HandleSpec { device: HERE, bytes: chunk, kind: HandleKind::Private })?;
            let refused = host.map(at + 4 * chunk, 2 * chunk, handle);
            host.release(handle)?;
            refused
        }),
        // SAFETY: as above.
        ("a map over a mapping", |host, at, chunk| unsafe {
            let handle = host.create(HandleSpec { device: HERE, bytes: chunk, kind: HandleKind::Private })?;
            let refused = host.map(at + chunk, chunk, handle);
            host.release(handle)?;
            refused
        }),
        // SAFETY: as above.
        ("an unmap of a part", |host, at, chunk| unsafe { host.unmap(at, chunk / 2) }),
        // SAFETY: as above.
        ("an unmap over a hole", |host, at, chunk| unsafe { host.unmap(at, 4 * chunk) }),
        // SAFETY: as above.
        ("rights on a part", |host, at, chunk| unsafe { host.set_rights(at, chunk / 2, &OPEN) }),
        // SAFETY: as above.
        ("a part of a reservation given back", |host, at, chunk| unsafe { host.unreserve(at + 4 * chunk, 4 * chunk) }),
        // SAFETY: as above.
        ("a reservation given back while mapped", |host, at, chunk| unsafe { host.unreserve(at, 8 * chunk) }),
    ];
    for chunk_bytes in CHUNKS {
        let devices = vec![HostDevice { capacity_bytes: 8 * chunk_bytes, granularity_bytes: chunk_bytes }];
        let strict = HostDriver::new(HostConfig { devices, ..HostConfig::default() }).unwrap();
        let origin = Origin::new(strict.clone());
        let spec = RangeSpec {
            bytes: 8 * chunk_bytes,
            granule_bytes: chunk_bytes,
            handle_bytes: chunk_bytes,
            kind: HandleKind::Private,
        };
        let mut range = StitchedRange::reserve(&origin, spec).unwrap();
        range.grow(&here(2 * chunk_bytes), &[]).unwrap();
        strict.poke(range.at(), &[1]).unwrap_err();
        range.open(0, 2 * chunk_bytes, &OPEN).unwrap();
        strict.poke(range.at(), &[1]).unwrap();
        for (count, (what, misuse)) in (1..).zip(misuses) {
            assert!(misuse(&strict, range.at(), chunk_bytes).is_err(), "{what}");
            assert_eq!(strict.ledger().refusals, count, "{what} is counted");
        }
        drop(range);
        assert!(strict.ledger().is_empty());
    }
}

#[test]
fn f17_memory_with_an_alias_is_not_given_back_before_the_alias() {
    let rig = Shape::exact(4 * KIB, 4).build();
    let (owner, taker) = (rig.stream(), rig.stream());
    let block = rig.take(owner, 16 * KIB);
    rig.fill(owner, block, 16 * KIB, 1);
    rig.free(block);
    let alias = rig.take(taker, 16 * KIB);
    rig.free(alias);
    assert_eq!(rig.ledger().mappings, 8, "the old addresses stand beside the new ones");
    let trimmed = rig.pool().trim();
    assert_eq!((trimmed.released_bytes, rig.physical_bytes()), (0, 16 * KIB), "the owner's fill has not run");
    rig.host.run_all();
    rig.pool().trim();
    assert_eq!((rig.physical_bytes(), rig.ledger().mappings), (0, 0));
}

#[test]
fn f22_every_piece_behind_an_interior_pointer_is_told() {
    let (offset, bytes) = (8_214_528, 1_916_853_120);
    let rig = Shape::usual(4 * GIB).build();
    let mut range = range(&rig, 2000 * MIB, 20 * MIB);
    range.grow(&here(1920 * MIB), &OPEN).unwrap();
    let segments = range.segments(offset, bytes).unwrap();
    assert_eq!((segments.len(), segments.iter().map(|segment| segment.bytes).sum()), (92, bytes));
    assert_eq!((segments[0].at, segments[0].offset_bytes), (range.at() + offset, offset));
    assert_eq!((segments[1].offset_bytes, segments[1].bytes), (0, 20 * MIB));
    let mut ends = segments.iter().map(|segment| segment.at + segment.bytes);
    assert!(segments[1..].iter().all(|segment| ends.next() == Some(segment.at)), "no gap, no overlap");
    assert_eq!(
        range.segments(1919 * MIB, 2 * MIB).unwrap_err(),
        ChunksError::NotMapped { at: range.at() + 1920 * MIB }
    );
    assert!(matches!(range.segments(offset, 2000 * MIB), Err(ChunksError::OutOfRange { .. })));
}

#[test]
fn f22_every_piece_behind_a_block_is_told() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 128).build();
        let stream = rig.stream();
        // Holes first, so that the block's memory is scattered.
        let blocks: Vec<_> = (0..128).map(|_| rig.take(stream, chunk_bytes)).collect();
        blocks.iter().skip(1).step_by(2).for_each(|&block| rig.free(block));
        let block = rig.take(stream, 64 * chunk_bytes);
        let (lead, tail) = (chunk_bytes / 4, chunk_bytes / 8);
        for (offset, bytes, pieces) in [
            (0, 64 * chunk_bytes, 64),
            (lead, 64 * chunk_bytes - lead - tail, 64),
            (chunk_bytes - 1, 2, 2),
            (3 * chunk_bytes, chunk_bytes, 1),
            (3 * chunk_bytes + 5, 1, 1),
        ] {
            let segments = rig.pool().segments(block + offset, bytes).unwrap();
            assert_eq!((segments.len(), segments.iter().map(|segment| segment.bytes).sum::<u64>()), (pieces, bytes));
            assert_eq!(segments[0].offset_bytes, offset % chunk_bytes);
            let handles: std::collections::BTreeSet<_> = segments.iter().map(|segment| segment.handle).collect();
            assert_eq!(handles.len(), pieces, "each piece is another handle");
        }
        for (offset, bytes) in [(0, 64 * chunk_bytes + 1), (64 * chunk_bytes - 1, 2), (0, u64::MAX), (0, 0)] {
            let refused = rig.pool().segments(block + offset, bytes);
            assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{offset} {bytes} {refused:?}");
        }
        rig.free(block);
        assert!(matches!(rig.pool().segments(block, 1), Err(Error::UnknownAddress { .. })));
    }
}

/// F32: three ranges of 32 GiB grow tail by tail, in an order that is shuffled by `seed`.
fn f32_growing_tails(chunk_bytes: u64, tails: &[u64; 3], seed: u64, open_all: bool) {
    let rig = Shape::exact(chunk_bytes, 64 * MIB / chunk_bytes).build();
    let stream = rig.stream();
    let mut ranges: [StitchedRange; 3] = std::array::from_fn(|_| range(&rig, 32 * GIB, 64 * MIB));
    let mut next = [0; 3];
    let mut dice = seed;
    while next.iter().any(|&done| done < tails.len()) {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chosen = (dice >> 33) as usize % 3;
        let Some(&tail) = tails.get(next[chosen]) else { continue };
        let range = &mut ranges[chosen];
        let (before, bytes) = (range.grown_bytes(), tail.next_multiple_of(chunk_bytes));
        if open_all {
            range.grow(&here(bytes), &[]).unwrap();
            range.open(0, before + bytes, &OPEN).unwrap();
        } else {
            range.grow(&here(bytes), &OPEN).unwrap();
        }
        rig.fill(stream, range.at() + before, bytes, before);
        rig.touch(stream.raw, range.at(), before + bytes);
        next[chosen] += 1;
    }
    for range in &ranges {
        let mut start = 0;
        for tail in tails {
            let bytes = tail.next_multiple_of(chunk_bytes);
            rig.verify(stream, range.at() + start, bytes, start);
            start += bytes;
        }
    }
    rig.assert_right();
}

#[test]
fn f32_rights_are_set_on_a_grown_tail() {
    for chunk_bytes in CHUNKS {
        for tails in [[2_379_776, 7_864_320, 6_533_120], [4096, 8192, 16_384]] {
            for seed in 0..2 {
                f32_growing_tails(chunk_bytes, &tails, seed, seed % 2 == 1);
            }
        }
    }
}

#[test]
fn f32_a_driver_that_refuses_the_tail_is_reported() {
    let rig = Shape::exact(4 * KIB, 8).build();
    let stream = rig.stream();
    let block = rig.alloc(stream, 6 * KIB).unwrap();
    rig.mark(block, 6 * KIB, 1);
    rig.faulty.fail(Verb::SetRights, 1, ErrorKind::InvalidValue);
    match rig.pool().alloc(&Request::new(8 * KIB, stream.id)) {
        Err(Error::Driver(error)) => assert_eq!((error.verb, error.kind), (Verb::SetRights, ErrorKind::InvalidValue)),
        other => panic!("{other:?}"),
    }
    assert!(rig.is_marked(block, 6 * KIB, 1));
    rig.take(stream, 8 * KIB);
}

#[test]
fn f32_work_of_an_application_reaches_a_tail_at_once() {
    let rig = Shape::exact(2 * MIB, 8).build();
    let stream = rig.stream();
    let mut range = range(&rig, 16 * MIB, 2 * MIB);
    for grown in 0..8 {
        range.grow(&here(2 * MIB), &OPEN).unwrap();
        rig.touch(stream.raw, range.at(), (grown + 1) * 2 * MIB);
        // SAFETY: the stream lives.
        unsafe { rig.host.finish_stream(stream.raw) }.unwrap();
    }
    assert_eq!(rig.host.tally().unwrap().faults, Vec::<String>::new());
}
