//! The wrappers of a driver: chosen faults, and what calls cost.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use stitchpool_driver::host::{HostConfig, HostDriver};
use stitchpool_driver::{
    Address, CostTable, DeviceId, Driver, ErrorKind, Faulty, Grant, HandleKind, HandleSpec, Metered, RawHandle,
    RawStream, Rights, Shareable, Verb,
};

const FIRST: DeviceId = DeviceId(0);
const MIB: u64 = 1 << 20;
const GRANULE: u64 = 2 * MIB;
const STREAM: RawStream = RawStream { device: FIRST, value: 0 };

fn host() -> Arc<HostDriver> {
    HostDriver::new(HostConfig::default()).unwrap()
}

fn spec(bytes: u64) -> HandleSpec {
    HandleSpec { device: FIRST, bytes, kind: HandleKind::Private }
}

fn open(driver: &dyn Driver, at: Address, bytes: u64) {
    // SAFETY: the host driver's ledger checks all conditions itself.
    unsafe { driver.set_rights(at, bytes, &[Grant { device: FIRST, rights: Rights::ReadWrite }]) }.unwrap();
}

#[test]
fn the_nth_call_of_a_verb_fails_and_never_reaches_the_driver() {
    let host = host();
    let faulty = Faulty::new(host.clone());
    faulty.fail(Verb::Create, 3, ErrorKind::OutOfMemory);
    faulty.fail(Verb::Create, 4, ErrorKind::OutOfResources);
    faulty.fail(Verb::Reserve, 1, ErrorKind::Unknown);
    let kinds: Vec<_> = (0..6).map(|_| faulty.create(spec(GRANULE)).err().map(|error| error.kind)).collect();
    assert_eq!(kinds, [None, None, Some(ErrorKind::OutOfMemory), Some(ErrorKind::OutOfResources), None, None]);
    let error = faulty.reserve(GRANULE, 0).unwrap_err();
    assert_eq!((error.kind, error.verb), (ErrorKind::Unknown, Verb::Reserve));
    faulty.reserve(GRANULE, 0).unwrap();
    assert_eq!((host.ledger().handles, host.ledger().reservations), (4, 1));
    assert_eq!((faulty.calls(Verb::Create), faulty.calls(Verb::Reserve), faulty.failed()), (6, 2, 3));
    assert_eq!(faulty.total_calls(), 8);
}

#[test]
fn any_call_can_be_the_one_that_fails() {
    let faulty = Faulty::new(host());
    faulty.fail_any(2, ErrorKind::Unknown);
    faulty.reserve(GRANULE, 0).unwrap();
    assert!(faulty.create(spec(GRANULE)).is_err());
    faulty.create(spec(GRANULE)).unwrap();
}

#[test]
fn all_calls_fail_from_one_on_until_that_is_cleared() {
    let faulty = Faulty::new(host());
    faulty.fail_all_from(2, ErrorKind::Deinitialized);
    faulty.devices().unwrap();
    for _ in 0..3 {
        assert_eq!(faulty.memory(FIRST).unwrap_err().kind, ErrorKind::Deinitialized);
        assert_eq!(faulty.create(spec(GRANULE)).unwrap_err().kind, ErrorKind::Deinitialized);
    }
    faulty.clear();
    faulty.memory(FIRST).unwrap();
    assert_eq!(faulty.failed(), 6);
}

#[test]
fn every_verb_can_be_made_to_fail() {
    let faulty = Faulty::new(host());
    faulty.fail_all_from(1, ErrorKind::Unknown);
    let (at, event) = (Address(0), stitchpool_driver::RawEvent { device: FIRST, value: 1 });
    let descriptor = std::io::pipe().unwrap().0.into();
    // SAFETY: no call reaches the driver.
    unsafe {
        assert!(faulty.devices().is_err() && faulty.memory(FIRST).is_err() && faulty.link(FIRST, FIRST).is_err());
        assert!(faulty.granularity(FIRST, HandleKind::Private).is_err() && faulty.reserve(1, 0).is_err());
        assert!(faulty.unreserve(at, 1).is_err() && faulty.create(spec(1)).is_err());
        assert!(faulty.release(RawHandle(1)).is_err() && faulty.map(at, 1, RawHandle(1)).is_err());
        assert!(faulty.unmap(at, 1).is_err() && faulty.set_rights(at, 1, &[]).is_err());
        assert!(faulty.record(STREAM).is_err() && faulty.wait(STREAM, event).is_err());
        assert!(faulty.is_done(event).is_err() && faulty.forget(event).is_err());
        assert!(faulty.finish(event, std::time::Duration::ZERO).is_err() && faulty.capture(STREAM).is_err());
        assert!(faulty.stream_identity(STREAM).is_err() && faulty.copy(STREAM, at, at, 1).is_err());
        assert!(faulty.memset(STREAM, at, 1, 0).is_err() && faulty.synchronize(FIRST).is_err());
        assert!(faulty.read(FIRST, at, &mut [0]).is_err() && faulty.write(FIRST, at, &[0]).is_err());
        assert!(faulty.export(RawHandle(1), HandleKind::FileDescriptor).is_err());
        assert!(faulty.import(&Shareable::Descriptor(descriptor), spec(1)).is_err());
    }
    let not_of_the_seam = [Verb::Open, Verb::Kernel];
    for &verb in Verb::ALL {
        assert_eq!(faulty.calls(verb), u64::from(!not_of_the_seam.contains(&verb)), "{verb}");
    }
}

#[test]
fn the_table_gives_what_was_measured_and_lines_between() {
    let table = CostTable::h200();
    let costs = [2, 64, 1024].map(|mib| table.handle(mib * MIB));
    assert_eq!(costs.map(|cost| cost.first_rights_us), [28.0, 133.0, 1030.0]);
    assert_eq!(costs.map(|cost| cost.release_us), [11.0, 28.0, 326.0]);
    assert_eq!(table.handle(160 * MIB).create_us, 11.0);
    assert_eq!(table.handle(4096).unmap_us, 17.0);
    assert_eq!(table.handle(2048 * MIB).create_us, 80.0 + (80.0 - 12.0) / 768.0 * 1024.0);
    let prices = Verb::ALL.iter().map(|&verb| table.fixed_us(verb));
    assert!(prices.clone().all(|price| price >= 0.0) && prices.sum::<f64>() > 0.0);
}

#[test]
fn a_priced_stitch_costs_what_was_measured() {
    let host = host();
    let metered = Metered::priced(host.clone(), CostTable::h200());
    let at = metered.reserve(16 * GRANULE, 0).unwrap();
    let handles: Vec<_> = (0..16).map(|_| metered.create(spec(GRANULE)).unwrap()).collect();
    // SAFETY: the host driver's ledger checks all conditions itself.
    unsafe {
        let before = metered.spent();
        for (&handle, index) in handles.iter().zip(0..) {
            metered.map(at + index * GRANULE, GRANULE, handle).unwrap();
        }
        open(&*metered, at, 16 * GRANULE);
        let stitched = metered.spent().since(&before).total();
        // Measured: 377 us for 16 handles at once; the sum of single medians is a little more.
        assert_eq!((stitched.calls, stitched.cost_us), (17, 16.0 * (0.65 + 28.0)));

        let before = metered.spent();
        open(&*metered, at, 16 * GRANULE);
        assert!((metered.spent().since(&before).total().cost_us - 16.0 * 0.23).abs() < 1e-6);

        let before = metered.spent();
        metered.unmap(at, 16 * GRANULE).unwrap();
        handles.into_iter().for_each(|handle| metered.release(handle).unwrap());
        let spent = metered.spent().since(&before);
        assert_eq!((spent.of(Verb::Unmap).calls, spent.of(Verb::Unmap).cost_us), (1, 16.0 * 17.0));
        assert_eq!((spent.of(Verb::Release).calls, spent.of(Verb::Release).cost_us), (16, 16.0 * 11.0));
        metered.unreserve(at, 16 * GRANULE).unwrap();
    }
    assert!(host.ledger().is_empty());
    assert!(metered.spent().total().wall_us > 0.0);
}

#[test]
fn memory_is_fresh_once_and_refusals_cost_no_price() {
    let metered = Metered::priced(host(), CostTable::h200());
    let bytes = 64 * MIB;
    let (handle, mut costs) = (metered.create(spec(bytes)).unwrap(), Vec::new());
    for _ in 0..2 {
        let at = metered.reserve(bytes, 0).unwrap();
        // SAFETY: the host driver's ledger checks all conditions itself.
        unsafe { metered.map(at, bytes, handle) }.unwrap();
        let before = metered.spent();
        open(&*metered, at, bytes);
        costs.push(metered.spent().since(&before).of(Verb::SetRights).cost_us);
    }
    assert_eq!(costs, [133.0, 25.0]);
    let before = metered.spent();
    metered.create(spec(1)).unwrap_err();
    let spent = metered.spent().since(&before).of(Verb::Create);
    assert_eq!((spent.calls, spent.refused, spent.cost_us), (1, 1, 0.0));
}

#[test]
fn event_verbs_are_priced_and_a_timed_meter_counts_the_clock() {
    for (metered, priced) in [(Metered::priced(host(), CostTable::h200()), true), (Metered::timed(host()), false)] {
        // SAFETY: the host driver's ledger checks all conditions itself.
        unsafe {
            let event = metered.record(STREAM).unwrap();
            metered.wait(STREAM, event).unwrap();
            assert!(metered.is_done(event).unwrap());
            metered.forget(event).unwrap();
        }
        let spent = metered.spent();
        for verb in [Verb::Record, Verb::Wait, Verb::IsDone, Verb::Forget] {
            let spent = spent.of(verb);
            assert_eq!(spent.calls, 1);
            assert!(spent.cost_us > 0.0 && spent.wall_us > 0.0);
            assert!(priced || spent.cost_us == spent.wall_us);
        }
    }
}

#[test]
fn wrappers_stack() {
    let host = host();
    let faulty = Faulty::new(host.clone());
    let metered = Metered::timed(faulty.clone());
    faulty.fail(Verb::Create, 1, ErrorKind::OutOfMemory);
    assert!(metered.create(spec(GRANULE)).is_err());
    metered.create(spec(GRANULE)).unwrap();
    assert_eq!((metered.spent().of(Verb::Create).calls, host.ledger().handles, metered.name()), (2, 1, "host"));
}
