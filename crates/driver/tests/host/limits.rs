//! Limits of the settings, memory that others hold, and what the ledger counts.

use crate::bench::{Bench, CAPACITY, FIRST, GRANULE, config};
use stitchpool_driver::host::HostConfig;
use stitchpool_driver::{DeviceId, Driver, ErrorKind, HandleKind, Kernels, Rights, Verb};

#[test]
fn addresses_run_out_in_all() {
    let bench = Bench::new(HostConfig { address_space_bytes: 10 * GRANULE, ..config() });
    let first = bench.reserve(6);
    assert_eq!(bench.0.reserve(5 * GRANULE, 0).unwrap_err().kind, ErrorKind::OutOfResources);
    bench.reserve(4);
    assert_eq!(bench.0.reserve(GRANULE, 0).unwrap_err().kind, ErrorKind::OutOfResources);
    bench.unreserve(first, 6).unwrap();
    bench.reserve(6);
    assert_eq!(bench.0.ledger().refusals, 0, "running out is no misuse");
}

#[test]
fn descriptors_run_out_and_private_handles_need_none() {
    let bench = Bench::new(HostConfig { descriptor_limit: 3, ..config() });
    let shared: Vec<_> = (0..3).map(|_| bench.create_kind(1, HandleKind::FileDescriptor).unwrap()).collect();
    let error = bench.create_kind(1, HandleKind::FileDescriptor).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfResources, "{error}");
    bench.create(1).unwrap();
    assert_eq!(bench.0.ledger().descriptors, 3);
    bench.release(shared[1]).unwrap();
    bench.create_kind(1, HandleKind::FileDescriptor).unwrap();
}

#[test]
fn other_processes_hold_memory_and_give_it_back() {
    let bench = Bench::new(config());
    bench.create(100).unwrap();
    bench.0.outside(FIRST, CAPACITY - 101 * GRANULE).unwrap();
    assert_eq!(bench.free_bytes(), GRANULE);
    assert_eq!(bench.create(2).unwrap_err().kind, ErrorKind::OutOfMemory);
    bench.create(1).unwrap();
    let all = bench.0.outside(FIRST, CAPACITY).unwrap_err();
    assert_eq!(all.kind, ErrorKind::OutOfMemory);
    bench.0.outside(FIRST, 0).unwrap();
    assert_eq!(bench.free_bytes(), CAPACITY - 101 * GRANULE);
    assert!(bench.0.outside(DeviceId(7), 0).is_err());
}

#[test]
fn the_ledger_counts_what_lives_and_is_empty_at_the_end() {
    let bench = Bench::new(config());
    assert!(bench.0.ledger().is_empty());
    let (at, handle) = (bench.reserve(4), bench.create(2).unwrap());
    bench.map(at, 2, handle).unwrap();
    bench.map(at + 2 * GRANULE, 2, handle).unwrap();
    let stream = bench.stream();
    let event = bench.record(stream).unwrap();
    let ledger = bench.0.ledger();
    assert_eq!((ledger.handles, ledger.reservations, ledger.mappings, ledger.events), (1, 1, 2, 1));
    assert_eq!((ledger.reserved_bytes, ledger.mapped_bytes), (4 * GRANULE, 4 * GRANULE));
    assert_eq!((ledger.physical_bytes_on(FIRST), ledger.physical_bytes_on(DeviceId(1))), (2 * GRANULE, 0));
    assert_eq!((ledger.streams, ledger.descriptors, ledger.refusals), (1, 0, 0));
    bench.release(handle).unwrap();
    assert_eq!(bench.0.ledger().physical_bytes_on(FIRST), 2 * GRANULE, "mapped memory counts");
    bench.unmap(at, 4).unwrap();
    bench.unreserve(at, 4).unwrap();
    assert!(!bench.0.ledger().is_empty(), "an event lives");
    // SAFETY: the driver checks the event.
    unsafe { bench.0.forget(event) }.unwrap();
    assert!(bench.0.ledger().is_empty());
}

#[test]
fn misuse_is_counted_and_the_latest_is_told() {
    let bench = Bench::new(config());
    let at = bench.reserve(3);
    bench.map(at, 2, bench.create(2).unwrap()).unwrap();
    bench.unmap(at, 1).unwrap_err();
    bench.open(at, 3, Rights::Read).unwrap_err();
    bench.create(CAPACITY / GRANULE + 1).unwrap_err();
    let ledger = bench.0.ledger();
    assert_eq!(ledger.refusals, 2, "a lack of memory is no misuse");
    let last = ledger.last_refusal.unwrap();
    assert_eq!((last.verb, last.kind), (Verb::SetRights, ErrorKind::InvalidValue));
    assert!(last.detail.contains("hole"), "{last}");
}

#[test]
fn a_refusal_names_the_value_and_the_limit() {
    let bench = Bench::new(config());
    let error = bench.create(CAPACITY / GRANULE + 1).unwrap_err().to_string();
    for part in ["create", "device 0", &(CAPACITY + GRANULE).to_string(), &CAPACITY.to_string(), "free"] {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn absurd_ranges_are_refused_without_a_panic() {
    let bench = Bench::new(config());
    let (at, stream) = (bench.buffer(1), bench.stream());
    let end = stitchpool_driver::Address(!(GRANULE - 1));
    // SAFETY: the driver checks everything.
    unsafe {
        for (at, bytes) in [(at, !(GRANULE - 1)), (end, 2 * GRANULE), (end, GRANULE)] {
            bench.0.unmap(at, bytes).unwrap_err();
            bench.0.set_rights(at, bytes, &[]).unwrap_err();
            bench.0.unreserve(at, bytes).unwrap_err();
            bench.0.copy(stream, at, at, bytes).unwrap_err();
            bench.0.fill(stream, at, bytes, 0).unwrap_err();
            bench.0.touch(stream, at, bytes, Rights::Read).unwrap_err();
        }
        bench.0.map(end, GRANULE, bench.create(1).unwrap()).unwrap_err();
    }
    for bytes in [u64::MAX, !(GRANULE - 1), 1 << 63] {
        bench.0.reserve(bytes, 0).unwrap_err();
        bench.0.reserve(GRANULE, bytes).unwrap_err();
        bench.create(bytes / GRANULE).unwrap_err();
    }
    bench.0.peek(end, &mut [0; 64]).unwrap_err();
}

#[test]
fn faults_are_told_in_words_up_to_a_bound() {
    let bench = Bench::new(config());
    let (at, stream) = (bench.reserve(1), bench.stream());
    for _ in 0..3000 {
        bench.0.touch(stream, at, GRANULE, Rights::Read).unwrap();
    }
    assert_eq!(bench.0.tally().unwrap().faults.len(), 1000);
}
