//! Sizes that are odd, tiny, huge or no sizes at all: F21c, F23, F33.

use crate::limit::{alloc, needs_exactly};
use crate::rig::{CHUNKS, GIB, KIB, MIB, Shape, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stitchpool::driver::host::Quirks;
use stitchpool::driver::{HandleKind, Verb};
use stitchpool::{Error, Request, Settings};

#[test]
fn f21c_a_negative_size_is_refused_before_anything_is_tried() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let stream = rig.stream();
    let told = Arc::new(AtomicU64::new(0));
    let count = told.clone();
    rig.pool().on_shortage(Arc::new(move |_, _| count.fetch_add(1, Ordering::Relaxed) == 0));
    rig.take(stream, 64 * KIB);
    let tried = || [Verb::Create, Verb::Reserve, Verb::Record, Verb::Finish].map(|verb| rig.faulty.calls(verb));
    let calls = tried();
    for bytes in [(-13_128_960_i64).cast_unsigned(), u64::MAX, u64::MAX - 511, 1 << 63, 0] {
        for request in [Request::new(bytes, stream.id), Request::new(bytes, stream.id).aligned_to(4096)] {
            match rig.ask(&request) {
                Err(Error::InvalidSize { bytes: told, limit_bytes }) => {
                    assert_eq!(told, bytes);
                    assert!(bytes == 0 || (8 * 64 * KIB..bytes).contains(&limit_bytes), "{limit_bytes}");
                }
                other => panic!("{bytes}: {other:?}"),
            }
        }
    }
    assert_eq!((tried(), told.load(Ordering::Relaxed)), (calls, 0), "no call, no spill");
}

#[test]
fn f21c_a_size_that_no_device_has_makes_nobody_spill() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 8).build();
        let stream = rig.stream();
        let told = Arc::new(AtomicU64::new(0));
        let count = told.clone();
        rig.pool().on_shortage(Arc::new(move |_, _| count.fetch_add(1, Ordering::Relaxed) == 0));
        for bytes in [8 * chunk_bytes + 1, 16 * chunk_bytes, GIB, 1 << 40] {
            let shortage = rig.shortage(stream, bytes);
            assert_eq!(shortage.asked_bytes, bytes.next_multiple_of(512));
            assert_eq!(shortage.devices[0].limit_bytes, 8 * chunk_bytes, "why it cannot be");
        }
        assert_eq!((told.load(Ordering::Relaxed), rig.physical_bytes()), (0, 0));
        rig.take(stream, 8 * chunk_bytes);
    }
}

/// A pool of exportable memory on a driver that refuses exportable handles of `limit_bytes`.
fn f23_shape(chunk_bytes: u64, capacity_bytes: u64, limit_bytes: u64) -> Shape {
    let shape = Shape::exact(chunk_bytes, capacity_bytes / chunk_bytes);
    let settings = Settings { kind: HandleKind::FileDescriptor, ..Settings::default() };
    let quirks = Quirks { exportable_limit_bytes: Some(limit_bytes), ..Quirks::default() };
    Shape { settings, quirks, ..shape }
}

#[test]
fn f23_exportable_memory_needs_no_large_handle() {
    let rig = f23_shape(2 * MIB, 11 * GIB, 4 * GIB).build();
    let stream = rig.stream();
    let block = rig.take(stream, 6 * GIB);
    rig.mark(block, 6 * GIB, 1);
    let segments = rig.pool().segments(block, 6 * GIB).unwrap();
    assert!(segments.iter().all(|segment| segment.bytes < 4 * GIB));
}

#[test]
fn f23_a_driver_that_refuses_the_usual_size_is_asked_for_smaller_ones() {
    // A request of 2 MiB is made of handles of 16 KiB, and the driver gives none of these.
    let rig = f23_shape(4 * KIB, 6 * MIB, 16 * KIB).build();
    let stream = rig.stream();
    let block = rig.take(stream, 2 * MIB);
    rig.mark(block, 2 * MIB, 1);
    assert!(rig.pool().segments(block, 2 * MIB).unwrap().iter().all(|segment| segment.bytes < 16 * KIB));
}

#[test]
fn f33_sizes_below_above_and_at_the_granule() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 2).build();
        let stream = rig.stream();
        let refused = rig.alloc(stream, 0).unwrap_err();
        assert!(matches!(refused, Error::InvalidSize { bytes: 0, .. }), "{refused}");
        for bytes in [1, 128, 6912.min(2 * chunk_bytes), chunk_bytes - 1, chunk_bytes, chunk_bytes + 1] {
            let block = rig.take(stream, bytes);
            let held = rig.pool().block_holding(block).unwrap();
            assert_eq!(held.bytes, bytes.next_multiple_of(512), "{bytes} bytes");
            assert_eq!(rig.physical_bytes(), bytes.next_multiple_of(chunk_bytes), "{bytes} bytes");
            rig.mark(block, held.bytes, 1);
            rig.free(block);
            assert_eq!(rig.pool().free(block).unwrap_err().to_string().matches("freed already").count(), 1);
            rig.pool().trim_and_wait().unwrap();
            assert_eq!(rig.physical_bytes(), 0);
        }
    }
}

#[test]
fn f33_small_blocks_share_chunks() {
    for chunk_bytes in CHUNKS {
        // 512 bytes each, whatever is asked for below.
        let chunks = (10_000 * 512_u64).div_ceil(chunk_bytes);
        needs_exactly(&Shape::exact(chunk_bytes, chunks), |rig| {
            let stream: Stream = rig.stream();
            (0..10_000).try_for_each(|_| alloc(rig, Request::new(128, stream.id)).map(drop))
        });
    }
}

#[test]
fn f33_every_alignment_up_to_the_granule_is_kept() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 64).build();
        let stream = rig.stream();
        rig.take(stream, 512);
        for power in 0..=chunk_bytes.ilog2() {
            rig.ask(&Request::new(700, stream.id).aligned_to(1 << power)).unwrap();
        }
        for alignment_bytes in [0, 3, 2 * chunk_bytes, u64::MAX] {
            let refused = rig.ask(&Request::new(700, stream.id).aligned_to(alignment_bytes)).unwrap_err();
            assert_eq!(refused, Error::InvalidAlignment { alignment_bytes, limit_bytes: chunk_bytes });
        }
        assert_eq!(rig.faulty.calls(Verb::Create) * chunk_bytes, rig.physical_bytes());
    }
}
