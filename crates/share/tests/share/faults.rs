//! Every driver call of an offer, an import and their ends fails in turn: done or undone, and nothing is lost but
//! what the driver would not take back, which is in quarantine.

use crate::bench::{GRANULE, Owner, READ, Side, at, eventually, part};
use stitchpool_driver::{ErrorKind, Fault, Rights, Verb};
use stitchpool_share::Error;

/// No operation here makes so many calls.
const CALLS_MAX: u64 = 100;

#[test]
fn whichever_call_of_an_import_fails_nothing_of_it_is_left_and_the_next_attempt_succeeds() {
    let owner = Owner::new();
    let block = owner.block(3);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    owner.side.put(block.address, b"whole");
    let mut nth = 1;
    loop {
        let side = Side::new(1);
        let importer = side.importer(offer.ticket());
        side.faulty.fail_any(nth, ErrorKind::OutOfResources);
        let outcome = importer.import(offer.ticket(), &READ);
        let met = side.faulty.failed() > 0;
        side.faulty.clear();
        assert_eq!(outcome.is_err(), met, "call {nth}");
        if !met {
            break;
        }
        let error = outcome.unwrap_err();
        assert!(matches!(&error, Error::Driver(refusal) if refusal.kind == ErrorKind::OutOfResources), "{error}");
        assert!(side.host.ledger().is_empty(), "call {nth}: {:?}", side.host.ledger());
        let import = importer.import(offer.ticket(), &READ).unwrap();
        side.demand(at(&import), b"whole");
        drop((import, importer));
        side.demand_empty();
        nth += 1;
        assert!(nth < CALLS_MAX);
    }
    assert!(nth > 7, "three imports, a reservation, three mappings and rights: {nth}");
    eventually("all have left", || exporter.guests().iter().all(|guest| guest.imports == 0));
    drop((offer, exporter));
    owner.end(&[block]);
}

#[test]
fn an_export_that_fails_is_told_to_the_importer_and_the_exporter_goes_on() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(2);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    for nth in 1..=2 {
        owner.side.faulty.fail(Verb::Export, nth, ErrorKind::OutOfResources);
        let error = importer.import(offer.ticket(), &READ).unwrap_err();
        assert!(matches!(&error, Error::Refused { why, .. } if why.contains("refused to export")), "{error}");
        assert!(side.host.ledger().is_empty());
        owner.side.faulty.clear();
    }
    importer.import(offer.ticket(), &READ).unwrap();
    drop((importer, offer, exporter));
    owner.end(&[block]);
    side.demand_empty();
}

#[test]
fn whichever_call_of_an_imports_end_fails_nothing_is_unmapped_under_work_and_the_rest_goes() {
    let owner = Owner::new();
    let block = owner.block(2);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let mut nth = 1;
    loop {
        let side = Side::new(1);
        let importer = side.importer(offer.ticket());
        let import = importer.import(offer.ticket(), &READ).unwrap();
        side.faulty.arm(Fault { verb: None, nth, lasting: false, kind: ErrorKind::Unknown });
        drop(import);
        let met = side.faulty.failed() > 0;
        side.faulty.clear();
        let ledger = side.host.ledger();
        assert_eq!(ledger.refusals, 0, "{:?}", ledger.last_refusal);
        assert_eq!(ledger.is_empty(), !met, "call {nth}: {ledger:?}");
        assert!(side.imported_bytes() <= 2 * GRANULE);
        if !met {
            break;
        }
        nth += 1;
        assert!(nth < CALLS_MAX);
    }
    assert!(nth > 5, "a wait, two unmappings, two releases and the reservation: {nth}");
    drop((offer, exporter));
}
