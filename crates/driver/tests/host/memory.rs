//! Bytes behind addresses: that they go back to the system, and that thousands of handles cost little.

use crate::bench::{Bench, FIRST, GRANULE, config};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use stitchpool_driver::host::{HostConfig, HostDevice};
use stitchpool_driver::{Driver, ErrorKind, Grant, HandleKind, HandleSpec, Kernels, Rights, Shareable};

/// Bytes of memory that the files of this process's devices hold now, as the system counts them.
fn shared_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Bytes that the files of all devices of this process hold, mapped or not.
fn stored_bytes() -> u64 {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok).map(|link| link.path());
    let files =
        links.filter(|link| std::fs::read_link(link).is_ok_and(|to| to.to_string_lossy().contains("stitchpool")));
    // Other tests close theirs meanwhile.
    files.filter_map(|file| std::fs::metadata(file).ok()).map(|file| file.blocks() * 512).sum()
}

#[test]
fn released_memory_goes_back_to_the_system() {
    const ROUND_BYTES: u64 = 64 << 20;
    let device = HostDevice { capacity_bytes: 4 * ROUND_BYTES, granularity_bytes: 2 << 20 };
    let bench = Bench::new(HostConfig { devices: vec![device], ..HostConfig::default() });
    let stream = bench.stream();
    for round in 0..20 {
        let at = bench.0.reserve(ROUND_BYTES, 0).unwrap();
        let kind = if round % 2 == 0 { HandleKind::Private } else { HandleKind::FileDescriptor };
        let handle = bench.0.create(HandleSpec { device: FIRST, bytes: ROUND_BYTES, kind }).unwrap();
        // SAFETY: the driver checks everything.
        unsafe {
            bench.0.map(at, ROUND_BYTES, handle).unwrap();
            bench.0.set_rights(at, ROUND_BYTES, &[Grant { device: FIRST, rights: Rights::ReadWrite }]).unwrap();
            bench.0.fill(stream, at, ROUND_BYTES, round).unwrap();
            bench.0.verify(stream, at, ROUND_BYTES, round).unwrap();
            assert!(shared_bytes() >= ROUND_BYTES);
            bench.0.unmap(at, ROUND_BYTES).unwrap();
            bench.0.release(handle).unwrap();
            bench.0.unreserve(at, ROUND_BYTES).unwrap();
        }
    }
    assert_eq!(bench.checked(), (20 * ROUND_BYTES, 0));
    assert!(bench.0.ledger().is_empty());
    // Other tests of this process hold a few megabytes at the same time.
    assert!(stored_bytes() < ROUND_BYTES, "{} bytes are still held", stored_bytes());
}

#[test]
fn memory_that_nobody_writes_costs_nothing() {
    let bench = Bench::new(HostConfig::default());
    let handles: Vec<_> = (0..100)
        .map(|_| bench.0.create(HandleSpec { device: FIRST, bytes: 1 << 30, kind: HandleKind::Private }).unwrap())
        .collect();
    let at = bench.0.reserve(100 << 30, 0).unwrap();
    for (&handle, index) in handles.iter().zip(0..) {
        // SAFETY: the driver checks everything.
        unsafe { bench.0.map(at + (index << 30), 1 << 30, handle) }.unwrap();
    }
    // SAFETY: the driver checks everything.
    unsafe { bench.0.set_rights(at, 100 << 30, &[Grant { device: FIRST, rights: Rights::ReadWrite }]) }.unwrap();
    bench.0.poke(at + (70 << 30), b"far out").unwrap();
    let mut read = [0; 7];
    bench.0.peek(at + (70 << 30), &mut read).unwrap();
    assert_eq!(&read, b"far out");
}

#[test]
fn a_driver_that_goes_gives_its_addresses_back() {
    for _ in 0..50 {
        let bench = Bench::new(config());
        // Fifty times this do not fit into one address space.
        bench.0.reserve(8 << 40, 0).unwrap();
        bench.buffer(4);
    }
}

#[test]
fn twenty_thousand_handles_need_no_descriptors_and_stay_fast() {
    const HANDLES: u64 = 20_000;
    let device = HostDevice { capacity_bytes: HANDLES * (2 << 20), granularity_bytes: 2 << 20 };
    let bench = Bench::new(HostConfig { devices: vec![device], ..HostConfig::default() });
    let start = Instant::now();
    let bytes = 2 << 20;
    let handles: Vec<_> = (0..HANDLES)
        .map(|_| bench.0.create(HandleSpec { device: FIRST, bytes, kind: HandleKind::Private }).unwrap())
        .collect();
    let at = bench.0.reserve(HANDLES * bytes, 0).unwrap();
    let grants = [Grant { device: FIRST, rights: Rights::ReadWrite }];
    // SAFETY: the driver checks everything.
    unsafe {
        for index in 0..HANDLES {
            let place = at + (index * 7919 % HANDLES) * bytes;
            bench.0.map(place, bytes, handles[index as usize]).unwrap();
            bench.0.set_rights(place, bytes, &grants).unwrap();
        }
        bench.0.set_rights(at, HANDLES * bytes, &grants).unwrap();
        for index in 0..HANDLES / 2 {
            bench.0.unmap(at + (index * 7919 % HANDLES) * bytes, bytes).unwrap();
        }
    }
    assert_eq!((bench.0.ledger().mappings, bench.0.ledger().descriptors), (HANDLES / 2, 0));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn another_driver_imports_memory_and_it_counts_with_the_one_that_made_it() {
    let (maker, user) = (Bench::new(config()), Bench::new(config()));
    let spec = HandleSpec { device: FIRST, bytes: 2 * GRANULE, kind: HandleKind::FileDescriptor };
    let made = maker.0.create(spec).unwrap();
    // SAFETY: the driver checks the handle.
    let shareable = unsafe { maker.0.export(made, spec.kind) }.unwrap();
    let used = user.0.import(&shareable, spec).unwrap();
    drop(shareable);
    let at = [(&maker, made), (&user, used)].map(|(bench, handle)| {
        let at = bench.reserve(2);
        bench.map(at, 2, handle).unwrap();
        bench.open(at, 2, Rights::ReadWrite).unwrap();
        at
    });
    maker.0.poke(at[0] + GRANULE, b"shared").unwrap();
    drop(maker);
    let mut read = [0; 6];
    user.0.peek(at[1] + GRANULE, &mut read).unwrap();
    assert_eq!(&read, b"shared");
    let ledger = user.0.ledger();
    assert_eq!((ledger.physical_bytes_on(FIRST), ledger.descriptors), (0, 1));
    assert_eq!(ledger.imported_bytes, [(FIRST, spec.bytes)].into());
}

#[test]
fn imported_memory_is_told_apart_and_counts_once() {
    let (maker, user) = (Bench::new(config()), Bench::new(config()));
    let spec = HandleSpec { device: FIRST, bytes: 2 * GRANULE, kind: HandleKind::FileDescriptor };
    let made = maker.0.create(spec).unwrap();
    // SAFETY: the driver checks the handle.
    let shareable = unsafe { maker.0.export(made, spec.kind) }.unwrap();
    let own = maker.0.import(&shareable, spec).unwrap();
    assert_eq!(maker.0.ledger().imported_bytes, [].into(), "its own memory is none of others");
    let used = [(); 2].map(|()| user.0.import(&shareable, spec).unwrap());
    let imported_bytes = || user.0.ledger().imported_bytes.get(&FIRST).copied();
    assert_eq!(imported_bytes(), Some(2 * GRANULE));
    user.release(used[0]).unwrap();
    assert_eq!(imported_bytes(), Some(2 * GRANULE));
    user.release(used[1]).unwrap();
    assert!(user.0.ledger().is_empty());
    maker.release(own).unwrap();
    assert_eq!(maker.0.ledger().physical_bytes_on(FIRST), 2 * GRANULE);
}

#[test]
fn each_importer_has_the_rights_that_it_opened() {
    let (maker, user) = (Bench::new(config()), Bench::new(config()));
    let spec = HandleSpec { device: FIRST, bytes: GRANULE, kind: HandleKind::FileDescriptor };
    let made = maker.0.create(spec).unwrap();
    // SAFETY: the driver checks the handle.
    let shareable = unsafe { maker.0.export(made, spec.kind) }.unwrap();
    let used = user.0.import(&shareable, spec).unwrap();
    let at = [(&maker, made, Rights::ReadWrite), (&user, used, Rights::Read)].map(|(bench, handle, rights)| {
        let at = bench.reserve(1);
        bench.map(at, 1, handle).unwrap();
        bench.open(at, 1, rights).unwrap();
        at
    });
    maker.0.poke(at[0], b"x").unwrap();
    user.0.peek(at[1], &mut [0]).unwrap();
    assert_eq!(user.0.poke(at[1], b"y").unwrap_err().kind, ErrorKind::IllegalAddress);
}

#[test]
fn a_fabric_handle_is_a_name_that_ends_with_its_memory() {
    let fabric = || Bench::new(HostConfig { fabric: true, ..config() });
    let (maker, user) = (fabric(), fabric());
    let spec = HandleSpec { device: FIRST, bytes: GRANULE, kind: HandleKind::Fabric };
    let refusal = Bench::new(config()).0.create(spec).unwrap_err();
    assert_eq!(refusal.kind, ErrorKind::NotPermitted, "{refusal}");
    let made = maker.0.create(spec).unwrap();
    // SAFETY: the driver checks the handle.
    let shareable = unsafe { maker.0.export(made, HandleKind::Fabric) }.unwrap();
    let used = user.0.import(&shareable, spec).unwrap();
    let wrong = HandleSpec { bytes: 2 * GRANULE, ..spec };
    assert_eq!(user.0.import(&shareable, wrong).unwrap_err().kind, ErrorKind::InvalidValue);
    maker.release(made).unwrap();
    assert_eq!(user.0.import(&shareable, spec).unwrap_err().kind, ErrorKind::InvalidValue, "the name ended");
    let at = user.reserve(1);
    user.map(at, 1, used).unwrap();
    user.open(at, 1, Rights::ReadWrite).unwrap();
    user.0.poke(at, b"lives").unwrap();
    let Shareable::Fabric(mut name) = shareable else { panic!("a fabric handle was asked for") };
    name.0[0] ^= 1;
    let refusal = user.0.import(&Shareable::Fabric(name), spec).unwrap_err();
    assert_eq!(refusal.kind, ErrorKind::InvalidValue, "{refusal}");
}

#[test]
fn tests_may_use_raw_pointers_while_a_range_is_open() {
    let bench = Bench::new(config());
    let at = bench.buffer(2);
    let start = std::ptr::with_exposed_provenance_mut::<u8>(at.0 as usize);
    // SAFETY: the buffer is mapped and open, and nothing is queued.
    unsafe { start.add(GRANULE as usize).write(7) };
    let mut read = [0];
    bench.0.peek(at + GRANULE, &mut read).unwrap();
    assert_eq!(read, [7]);
}
