//! What an error says, and what it does not: F64, F66 to F70.

use crate::rig::{GIB, HERE, KIB, MIB, Shape};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stitchpool::Settings;
use stitchpool::driver::host::Quirks;
use stitchpool::driver::{ErrorKind, Verb};

const CHUNK: u64 = 64 * KIB;

#[test]
fn f64_a_cap_of_the_driver_is_told_from_a_full_device() {
    let quirks = Quirks { live_limit_bytes: Some(10 * CHUNK), ..Quirks::default() };
    let rig = Shape { quirks, ..Shape::exact(CHUNK, 16) }.build();
    let stream = rig.stream();
    rig.take(stream, 10 * CHUNK);
    let capped = rig.shortage(stream, CHUNK);
    assert_eq!(capped.devices[0].device_free_bytes, Some(6 * CHUNK), "the device shows free memory");
    let refusal = capped.refusal.clone().expect("it is the driver that refused");
    assert_eq!((refusal.verb, refusal.kind, refusal.bytes), (Verb::Create, ErrorKind::OutOfMemory, Some(CHUNK)));
    let text = capped.to_string();
    assert!(text.contains(&format!("gives {} bytes in all", 10 * CHUNK)), "{text}");
    // A full device: nobody asked the driver for what it does not have, or it says so itself.
    let rig = Shape::exact(CHUNK, 10).build();
    let stream = rig.stream();
    rig.take(stream, 10 * CHUNK);
    let full = rig.shortage(stream, CHUNK);
    assert_eq!((full.devices[0].device_free_bytes, full.refusal.is_none()), (Some(0), true), "{full}");
}

#[test]
fn f64_what_is_left_under_a_cap_can_be_had() {
    for chunks in 1..=10 {
        let quirks = Quirks { live_limit_bytes: Some(10 * CHUNK), ..Quirks::default() };
        let rig = Shape { quirks, settings: Settings::default(), ..Shape::exact(CHUNK, 1000) }.build();
        let stream = rig.stream();
        rig.take(stream, chunks * CHUNK);
        let capped = rig.shortage(stream, (11 - chunks) * CHUNK);
        assert!(capped.refusal.is_some());
        if chunks < 10 {
            rig.take(stream, (10 - chunks) * CHUNK);
        }
    }
}

#[test]
fn f66_no_advice_is_given_that_is_followed_already() {
    // Handles of one granule already.
    let rig = Shape::exact(CHUNK, 4).build();
    let stream = rig.stream();
    rig.take(stream, 3 * CHUNK + 512);
    let text = rig.shortage(stream, CHUNK).to_string();
    assert!(!text.contains("handle_bytes_max"), "{text}");
    // No limit of the pool's own is in the way.
    assert!(!text.contains("limit_bytes"), "{text}");
}

#[test]
fn f67_what_recovers_is_no_news() {
    let rig = Shape::usual(64 * MIB).build();
    let stream = rig.stream();
    let told = Arc::new(AtomicU64::new(0));
    let count = told.clone();
    rig.pool().on_shortage(Arc::new(move |_, _| count.fetch_add(1, Ordering::Relaxed) > u64::MAX / 2));
    rig.free(rig.take(stream, 44 * MIB));
    // Others leave less than the pool thinks: the driver refuses, and the pool's own memory is enough.
    rig.host.outside(HERE, 16 * MIB).unwrap();
    rig.take(stream, 4 * MIB);
    let served = rig.take(stream, 44 * MIB);
    assert_eq!(told.load(Ordering::Relaxed), 0, "nobody is troubled by a request that is served");
    rig.free(served);
    for nth in 1..100 {
        let other = rig.stream();
        rig.faulty.fail(Verb::Create, 1, ErrorKind::OutOfMemory);
        rig.free(rig.take(other, 20_971_520));
        assert_eq!(told.load(Ordering::Relaxed), 0, "request {nth}");
        rig.end_stream(other);
    }
}

#[test]
fn f68_the_error_tells_the_largest_request_that_would_succeed() {
    let rig = Shape::exact(CHUNK, 100).build();
    let (stream, other) = (rig.stream(), rig.stream());
    let blocks: Vec<_> = (0..60).map(|_| rig.take(stream, CHUNK)).collect();
    // Ten chunks free, and ten more of which half is in use.
    blocks[..10].iter().for_each(|&block| rig.free(block));
    for &block in &blocks[20..30] {
        rig.free(block);
        rig.take(stream, CHUNK / 2);
    }
    let shortage = rig.shortage(other, 90 * CHUNK);
    let holdings = shortage.devices[0];
    let known_bytes = holdings.live_bytes + holdings.free_bytes + holdings.pending_bytes + holdings.stranded_bytes;
    assert_eq!(known_bytes + holdings.quarantined_bytes, holdings.physical_bytes, "every byte is somebody's");
    let largest_bytes = holdings.free_bytes + (holdings.limit_bytes - holdings.physical_bytes);
    assert_eq!(shortage.missing_bytes, 90 * CHUNK - largest_bytes);
    rig.shortage(other, largest_bytes + CHUNK);
    rig.take(other, largest_bytes);
}

#[test]
fn f68_each_kind_of_bytes_is_told_apart() {
    let rig = Shape::exact(CHUNK, 16).build();
    let (stream, user) = (rig.stream(), rig.stream());
    let stranding = rig.take(stream, CHUNK + 512);
    rig.take(stream, 3 * CHUNK - 512);
    let pending = rig.take(stream, 2 * CHUNK);
    let free = rig.take(stream, 5 * CHUNK);
    rig.pool().record_use(pending, user.id).unwrap();
    rig.busy(user);
    rig.free(pending);
    rig.free(free);
    rig.free(stranding);
    let shown = rig.figures().holdings;
    assert_eq!((shown.live_bytes, shown.pending_bytes), (3 * CHUNK - 512, 2 * CHUNK));
    assert_eq!((shown.free_bytes, shown.stranded_bytes), (6 * CHUNK, 512));
    assert_eq!(shown.device_free_bytes, Some(5 * CHUNK));
    let text = rig.shortage(user, 16 * CHUNK).to_string();
    for said in ["live", "free", "pending on streams", "stranded in partly used handles", "quarantined"] {
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn f70_others_memory_is_not_called_fragmentation() {
    let rig = Shape::usual(4 * GIB).build();
    let stream = rig.stream();
    rig.take(stream, 1600 * MIB);
    rig.host.outside(HERE, 2480 * MIB).unwrap();
    let shortage = rig.shortage(stream, 20 * MIB);
    let holdings = shortage.devices[0];
    assert_eq!((holdings.stranded_bytes, holdings.device_free_bytes), (0, Some(16 * MIB)));
    let text = shortage.to_string();
    assert!(!text.contains("fragment"), "{text}");
    assert!(text.contains(&format!("outside the pool {}", 16 * MIB)), "{text}");
}
