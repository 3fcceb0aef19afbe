//! Memory that is taken back, and ends in any order.

use crate::bench::{GRANULE, Owner, PATIENCE, READ, Side, at, eventually, part};
use std::time::{Duration, Instant};
use stitchpool_driver::Rights;
use stitchpool_pool::{Backup, Scope};
use stitchpool_share::{Error, Exporter};

#[test]
fn a_recall_ends_when_everybody_has_let_go_and_then_the_memory_may_leave() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(2);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    importer.watch().unwrap();
    let import = importer.import(offer.ticket(), &READ).unwrap();
    exporter.recall(&offer, PATIENCE).unwrap();
    let gone = import.gone().unwrap();
    assert!(matches!(gone, Error::Recalled { generation: 1, .. }), "{gone}");
    assert_eq!((import.address().unwrap_err(), side.imported_bytes()), (gone, 0));
    let error = importer.import(offer.ticket(), &READ).unwrap_err();
    assert!(matches!(error, Error::Stale { .. }), "{error}");
    owner.pool.suspend(Scope::Block(block.address), &Backup::Discard).unwrap();
    exporter.recall(&offer, Duration::ZERO).unwrap();
    drop((import, importer, offer, exporter));
    owner.end(&[block]);
    side.demand_empty();
}

#[test]
fn a_hold_keeps_recalled_memory_and_the_recall_names_who_has_it() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(1);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    let import = importer.import(offer.ticket(), &READ).unwrap();
    let hold = import.hold().unwrap();
    let error = exporter.recall(&offer, Duration::from_millis(30)).unwrap_err();
    let pid = format!("process {}", std::process::id());
    assert!(matches!(&error, Error::StillHeld { generation: 1, holders, limit_ms: 30 } if *holders == pid), "{error}");
    // Nothing has changed: it is offered as before, and the block is held.
    importer.import(offer.ticket(), &READ).unwrap();
    assert!(owner.pool.suspend(Scope::Block(block.address), &Backup::Discard).is_err());
    assert_eq!(importer.poll(PATIENCE).unwrap(), 1, "word of the recall was waiting");
    assert!(import.gone().is_some());
    owner.side.put(block.address, b"still");
    side.demand(hold.address(), b"still");
    drop(hold);
    exporter.recall(&offer, PATIENCE).unwrap();
    drop((import, importer, offer, exporter));
    owner.end(&[block]);
    side.demand_empty();
}

#[test]
fn work_that_uses_an_import_is_done_before_its_mappings_go() {
    use stitchpool_driver::host::{HostConfig, HostDriver, StreamMode};
    use stitchpool_driver::{Kernels, RawStream};
    let owner = Owner::new();
    let config = HostConfig { streams: StreamMode::ByHand, watch_order: true, ..crate::bench::config(1) };
    let host = HostDriver::new(config).unwrap();
    let block = owner.block(1);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = stitchpool_share::Importer::connect(host.clone(), offer.ticket()).unwrap();
    let import = importer.import(offer.ticket(), &READ).unwrap();
    let stream = RawStream { device: crate::bench::FIRST, value: 0 };
    // SAFETY: the host driver looks at every condition itself when the work runs.
    unsafe { host.verify(stream, at(&import), GRANULE, 1) }.unwrap();
    drop(import);
    let tally = host.tally().unwrap();
    assert_eq!((tally.checked_bytes, tally.faults), (GRANULE, Vec::<String>::new()));
    drop((importer, offer, exporter));
    owner.end(&[block]);
}

#[test]
fn all_goes_in_any_order() {
    // What goes when: 0 the import, 1 the importer, 2 the offer, 3 the exporter.
    let mut orders = Vec::new();
    for code in 0..256_usize {
        let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6];
        if (0..4).all(|one| order.contains(&one)) {
            orders.push(order);
        }
    }
    assert_eq!(orders.len(), 24);
    std::thread::scope(|scope| {
        for order in orders {
            scope.spawn(move || end_in(order));
        }
    });
}

fn end_in(order: [usize; 4]) {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(1);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    importer.watch().unwrap();
    let import = importer.import(offer.ticket(), &READ).unwrap();
    let (mut import, mut importer) = (Some(import), Some(importer));
    let (mut offer, mut exporter) = (Some(offer), Some(exporter));
    for one in order {
        match one {
            0 => drop(import.take()),
            1 => drop(importer.take()),
            2 => drop(offer.take()),
            _ => drop(exporter.take()),
        }
    }
    eventually("the importer has nothing", || side.host.ledger().is_empty());
    let unwatched_at_the_exporters_end = {
        let place = |one| order.iter().position(|&it| it == one).unwrap();
        place(1) < place(3) && place(3) < place(0)
    };
    if unwatched_at_the_exporters_end {
        // Nobody could tell the import, so its memory is left standing, and with it the pool.
        assert_eq!(owner.side.host.ledger().physical_bytes_on(crate::bench::FIRST), GRANULE, "{order:?}");
    } else {
        owner.end(&[block]);
    }
}

#[test]
fn an_exporter_that_goes_is_seen_as_lost_and_holds_outlive_it() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(1);
    owner.side.put(block.address, b"bytes");
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    let import = importer.import(offer.ticket(), &READ).unwrap();
    let hold = import.hold().unwrap();
    let start = Instant::now();
    drop((offer, exporter));
    assert!(start.elapsed() < PATIENCE, "the farewell is bounded");
    while import.gone().is_none() {
        importer.poll(PATIENCE).unwrap();
    }
    side.demand(hold.address(), b"bytes");
    drop((hold, import));
    assert!(side.host.ledger().is_empty());
    let error = importer.import(&side_ticket(&owner), &READ).unwrap_err();
    assert!(matches!(error, Error::Stale { .. }), "{error}");
}

fn side_ticket(owner: &Owner) -> stitchpool_share::Ticket {
    let exporter = Exporter::new(&owner.pool).unwrap();
    let block = owner.block(1);
    exporter.offer(&[part(block)], Rights::Read).unwrap().ticket().clone()
}
