//! The owners one by one: what the driver will not take back is out of use, and counted.

use crate::KINDS;
use crate::bench::{Bench, GRANULE, open_to};
use stitchpool_chunks::{Event, QuarantinedKind, Reservation, Stock, map_run};
use stitchpool_driver::{DeviceId, ErrorKind, HandleKind, Kernels, Verb};

fn kinds(bench: &Bench) -> Vec<QuarantinedKind> {
    bench.origin.quarantine().entries().iter().map(|entry| entry.kind).collect()
}

#[test]
fn a_handle_that_is_not_released_is_counted() {
    for kind in KINDS {
        let bench = Bench::new();
        let handle = bench.handle(1, 2);
        bench.faulty.fail(Verb::Release, 1, kind);
        drop(handle);
        assert_eq!(kinds(&bench), [QuarantinedKind::Handle]);
        assert_eq!(bench.origin.quarantine().physical_bytes(DeviceId(1)), 2 * GRANULE);
        assert_eq!(bench.host.ledger().handles, 1);
    }
}

#[test]
fn a_mapping_that_does_not_go_keeps_its_handle_and_its_addresses() {
    for kind in KINDS {
        let bench = Bench::new();
        let vacancy = Reservation::reserve(&bench.origin, 4 * GRANULE, 0).unwrap();
        let (run, rest) = map_run(vacancy, vec![bench.handle(0, 1), bench.handle(0, 2)], &open_to(&[0])).unwrap();
        bench.faulty.fail(Verb::Unmap, 1, kind);
        drop((run, rest));
        assert_eq!(kinds(&bench), [QuarantinedKind::Mapping]);
        assert_eq!(bench.origin.quarantine().physical_bytes(DeviceId(0)), GRANULE);
        let ledger = bench.host.ledger();
        assert_eq!((ledger.mappings, ledger.handles, ledger.reservations), (1, 1, 1));
    }
}

#[test]
fn a_mapping_that_does_not_go_comes_back() {
    let bench = Bench::new();
    let vacancy = Reservation::reserve(&bench.origin, GRANULE, 0).unwrap();
    let mapping = vacancy.map(bench.handle(0, 1)).unwrap();
    bench.faulty.fail(Verb::Unmap, 1, ErrorKind::Unknown);
    let (error, mapping) = mapping.unmap().unwrap_err();
    assert_eq!((error.kind, error.verb), (ErrorKind::Unknown, Verb::Unmap));
    let (vacancy, handle) = mapping.unmap().unwrap();
    assert_eq!((vacancy.bytes(), handle.bytes()), (GRANULE, GRANULE));
    drop((vacancy, handle));
    assert!(bench.host.ledger().is_empty());
    assert_eq!(bench.origin.quarantine().count(), 0);
}

#[test]
fn a_reservation_and_an_event_that_do_not_go_are_counted_without_memory() {
    let bench = Bench::new();
    let stream = bench.host.create_stream(DeviceId(0)).unwrap();
    let event = Event::record(&bench.origin, stream).unwrap();
    let vacancy = Reservation::reserve(&bench.origin, GRANULE, 0).unwrap();
    bench.faulty.fail(Verb::Unreserve, 1, ErrorKind::Unknown);
    bench.faulty.fail(Verb::Forget, 1, ErrorKind::Unknown);
    drop((vacancy, event));
    assert_eq!(kinds(&bench), [QuarantinedKind::Reservation, QuarantinedKind::Event]);
    assert_eq!(bench.origin.quarantine().physical_bytes(DeviceId(0)), 0);
}

#[test]
fn a_driver_that_is_shut_down_has_taken_all_back() {
    let bench = Bench::new();
    let handle = bench.handle(0, 1);
    bench.faulty.fail_all_from(1, ErrorKind::Deinitialized);
    drop(handle);
    assert_eq!(bench.origin.quarantine().count(), 0);
}

#[test]
fn the_list_of_what_is_out_of_use_is_bounded_and_the_count_is_not() {
    let bench = Bench::new();
    let handles: Vec<_> = (0..200).map(|_| bench.handle(0, 1)).collect();
    bench.faulty.fail_all_from(1, ErrorKind::Unknown);
    drop(handles);
    let quarantine = bench.origin.quarantine();
    assert_eq!((quarantine.count(), quarantine.entries().len()), (200, 64));
    assert_eq!(quarantine.physical_bytes(DeviceId(0)), 200 * GRANULE);
}

#[test]
fn a_stock_gives_the_size_that_fits_and_lets_go_of_what_is_left() {
    let bench = Bench::new();
    let mut stock = Stock::default();
    [(0, 1), (0, 4), (0, 4), (1, 2)].iter().for_each(|&(device, granules)| stock.park(bench.handle(device, granules)));
    let kind = HandleKind::Private;
    assert_eq!((stock.bytes(DeviceId(0)), stock.count()), (9 * GRANULE, 4));
    assert_eq!(stock.sizes(DeviceId(0), kind).collect::<Vec<_>>(), [(GRANULE, 1), (4 * GRANULE, 2)]);
    let bytes = |handle: Option<std::sync::Arc<stitchpool_chunks::PhysicalHandle>>| handle.map(|handle| handle.bytes());
    assert_eq!(bytes(stock.take_at_most(DeviceId(0), kind, 3 * GRANULE)), Some(GRANULE));
    assert_eq!(bytes(stock.take_at_most(DeviceId(0), kind, 3 * GRANULE)), None);
    assert_eq!(bytes(stock.take(DeviceId(0), kind, 4 * GRANULE)), Some(4 * GRANULE));
    assert_eq!(bytes(stock.take(DeviceId(1), kind, 3 * GRANULE)), None);
    assert_eq!(stock.take_all(Some(DeviceId(1))).len(), 1);
    drop(stock);
    assert!(bench.host.ledger().is_empty());
}
