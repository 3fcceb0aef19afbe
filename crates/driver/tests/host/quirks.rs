//! Oddities of other drivers.

use crate::bench::{Bench, FIRST, GRANULE, config};
use stitchpool_driver::host::{HostConfig, HostDevice, Quirks};
use stitchpool_driver::{Driver, ErrorKind, HandleKind, HandleSpec};

fn with(quirks: Quirks) -> Bench {
    Bench::new(HostConfig { quirks, ..config() })
}

#[test]
fn f23_large_exportable_handles_are_refused_as_out_of_memory() {
    let device = HostDevice { capacity_bytes: 11_630_804_992, granularity_bytes: 2 << 20 };
    let quirks = Quirks { exportable_limit_bytes: Some(4 << 30), ..Quirks::default() };
    let bench = Bench::new(HostConfig { devices: vec![device], quirks, ..HostConfig::default() });
    let create = |bytes, kind| bench.0.create(HandleSpec { device: FIRST, bytes, kind });
    for (bytes, kind, granted) in [
        (6_442_450_944, HandleKind::Private, true),
        (6_442_450_944, HandleKind::FileDescriptor, false),
        (4_292_870_144, HandleKind::FileDescriptor, true),
        (4_294_967_296, HandleKind::FileDescriptor, false),
    ] {
        match create(bytes, kind) {
            Ok(handle) => {
                assert!(granted, "{bytes} bytes {kind:?}");
                bench.release(handle).unwrap();
            }
            Err(error) => assert!(!granted && error.kind == ErrorKind::OutOfMemory, "{error}"),
        }
    }
    create(3 << 30, HandleKind::FileDescriptor).unwrap();
    create(3 << 30, HandleKind::FileDescriptor).unwrap();
}

#[test]
fn f38_memory_is_not_back_until_its_addresses_are() {
    let bench = with(Quirks { release_only_on_unreserve: true, ..Quirks::default() });
    let before = bench.free_bytes();
    let (at, handle) = (bench.reserve(2), bench.create(2).unwrap());
    for _ in 0..3 {
        bench.map(at, 2, handle).unwrap();
        bench.unmap(at, 2).unwrap();
    }
    bench.release(handle).unwrap();
    assert_eq!(bench.free_bytes(), before - 2 * GRANULE);
    let never_mapped = bench.create(1).unwrap();
    bench.release(never_mapped).unwrap();
    assert_eq!(bench.free_bytes(), before - 2 * GRANULE);
    bench.unreserve(at, 2).unwrap();
    assert_eq!(bench.free_bytes(), before);
    assert!(bench.0.ledger().is_empty());
}

#[test]
fn f64_a_device_gives_less_than_it_shows_as_free() {
    let bench = with(Quirks { live_limit_bytes: Some(10 * GRANULE), ..Quirks::default() });
    let handle = bench.create(8).unwrap();
    let error = bench.create(3).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    assert!(error.detail.contains(&(10 * GRANULE).to_string()), "{error}");
    assert!(bench.free_bytes() > 3 * GRANULE);
    bench.create(2).unwrap();
    bench.release(handle).unwrap();
    bench.create(8).unwrap();
}

#[test]
fn stream_values_need_not_come_back() {
    let bench = Bench::new(HostConfig { recycle_stream_values: false, ..config() });
    let first = bench.stream();
    bench.destroy(first);
    assert_ne!(bench.stream(), first);
}
