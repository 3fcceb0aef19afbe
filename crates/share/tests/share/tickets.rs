//! Tickets and generations: the same for the same, and an error once their time is over.

use crate::bench::{GRANULE, Owner, READ, Side, at, part};
use stitchpool_driver::Rights;
use stitchpool_share::{Error, Exporter, Importer, Ticket};

#[test]
fn two_offers_of_one_range_are_the_same_bytes_and_one_import() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(2);
    let exporter = owner.served();
    let offers = [(); 2].map(|()| exporter.offer(&[part(block)], Rights::Read).unwrap());
    let [first, second] = offers.each_ref().map(|offer| offer.ticket().to_bytes());
    assert_eq!(first, second);
    let importer = side.importer(offers[0].ticket());
    let tickets = [first, second].map(|bytes| Ticket::of_bytes(&bytes).unwrap());
    let imports = tickets.each_ref().map(|ticket| importer.import(ticket, &READ).unwrap());
    assert!(imports[0].is(&imports[1]));
    assert_eq!((at(&imports[0]), side.imported_bytes()), (at(&imports[1]), 2 * GRANULE));
    assert_eq!(side.host.ledger().mappings, 2, "of two handles, once each");
    assert_eq!(exporter.guests()[0].imports, 1);
    let [one, other] = imports;
    drop(one);
    assert!(other.hold().is_ok(), "one of two is left");
    drop(other);
    assert_eq!(side.imported_bytes(), 0);
    let [one, other] = offers;
    drop(one);
    importer.import(&tickets[0], &READ).map(drop).unwrap();
    drop(other);
    let error = importer.import(&tickets[0], &READ).unwrap_err();
    assert!(matches!(error, Error::Stale { generation: 1, .. }), "{error}");
    drop((importer, exporter));
    owner.end(&[block]);
    side.demand_empty();
}

#[test]
fn a_new_offer_of_the_same_memory_is_a_new_generation() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(1);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let old = offer.ticket().clone();
    drop(offer);
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    assert_eq!((old.generation(), offer.generation()), (1, 2));
    let importer = side.importer(&old);
    let error = importer.import(&old, &READ).unwrap_err().to_string();
    assert!(error.contains("generation 1 is stale") && error.contains("new ticket"), "{error}");
    importer.import(offer.ticket(), &READ).unwrap();
    drop((importer, offer, exporter));
    owner.end(&[block]);
}

#[test]
fn a_ticket_of_an_exporter_that_is_gone_is_stale_or_finds_nobody() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(1);
    let path = std::env::temp_dir().join(format!("stitchpool-share-{}", std::process::id()));
    let exporter = Exporter::at_path(&owner.pool, &path).unwrap();
    exporter.serve().unwrap();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let old = offer.ticket().clone();
    side.importer(&old).import(&old, &READ).unwrap();
    drop((offer, exporter));
    let error = Importer::connect(side.driver(), &old).unwrap_err();
    assert!(matches!(&error, Error::Socket { why, .. } if why.contains("nobody listens")), "{error}");
    let exporter = Exporter::at_path(&owner.pool, &path).unwrap();
    exporter.serve().unwrap();
    let error = Importer::connect(side.driver(), &old).unwrap_err();
    assert!(matches!(&error, Error::Stale { why, .. } if why.contains("another exporter")), "{error}");
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    let error = importer.import(&old, &READ).unwrap_err();
    assert!(matches!(&error, Error::Stale { why, .. } if why.contains("another exporter's")), "{error}");
    drop((importer, offer, exporter));
    owner.end(&[block]);
}

#[test]
fn memory_is_found_by_the_devices_identity_and_one_that_is_not_seen_is_named() {
    let (owner, near, far) = (Owner::new(), Side::new(2), Side::new(1));
    let request = stitchpool_pool::Request::new(GRANULE, owner.stream)
        .placed(stitchpool_pool::Placement::Home(stitchpool_driver::DeviceId(1)));
    let block = owner.pool.alloc(&request).unwrap();
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = near.importer(offer.ticket());
    assert_eq!(importer.device_of(offer.ticket()).unwrap(), stitchpool_driver::DeviceId(1));
    importer.import(offer.ticket(), &READ).unwrap();
    let blind = far.importer(offer.ticket());
    for error in [blind.device_of(offer.ticket()).unwrap_err(), blind.import(offer.ticket(), &READ).unwrap_err()] {
        let words = error.to_string();
        assert!(matches!(error, Error::NotVisible { .. }), "{words}");
        let named = owner.side.host_uuid(1);
        assert!(words.contains(&named) && words.contains("CUDA_VISIBLE_DEVICES"), "{words}");
    }
    far.demand_empty();
    drop((importer, blind, offer, exporter));
    owner.end(&[block]);
}
