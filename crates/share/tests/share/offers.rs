//! What can be offered, and what an importer finds of it.

use crate::bench::{FIRST, GRANULE, Owner, PATIENCE, READ, Side, WRITE, at, eventually, part};
use std::time::Duration;
use stitchpool_driver::{DeviceId, ErrorKind, Grant, HandleKind, Rights};
use stitchpool_pool::{Backup, Error as PoolError, Part, Pool, Request, Scope, Settings};
use stitchpool_share::{Error, Exporter, Importer};

#[test]
fn an_import_has_the_bytes_of_the_block_and_the_block_those_of_the_import() {
    for kind in [HandleKind::FileDescriptor, HandleKind::Fabric] {
        let (owner, side) = (Owner::of_kind(kind), Side::new(1));
        let block = owner.block(3);
        owner.side.put(block.address, b"hello");
        let exporter = owner.served();
        let offer = exporter.offer(&[part(block)], Rights::ReadWrite).unwrap();
        let importer = side.importer(offer.ticket());
        let import = importer.import(offer.ticket(), &WRITE).unwrap();
        assert_eq!((import.bytes(), offer.ticket().kind()), (3 * GRANULE, kind));
        side.demand(at(&import), b"hello");
        side.put(at(&import) + 2 * GRANULE, b"world");
        owner.side.demand(block.address + 2 * GRANULE, b"world");
        let ledger = side.host.ledger();
        assert_eq!((ledger.physical_bytes_on(FIRST), side.imported_bytes()), (0, 3 * GRANULE));
        drop((import, importer));
        side.demand_empty();
        drop((offer, exporter));
        owner.end(&[block]);
    }
}

#[test]
fn a_block_among_others_a_growable_buffer_and_an_arena_are_offered_by_their_parts() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let small = owner.pool.alloc(&Request::new(1000, owner.stream)).unwrap();
    let beside = owner.pool.alloc(&Request::new(1000, owner.stream)).unwrap();
    let arena = owner.pool.arena("weights").unwrap();
    let of_arena = [3000, GRANULE + 512].map(|bytes| {
        let request = Request::new(bytes, owner.stream).in_arena(arena);
        owner.pool.alloc(&request).unwrap()
    });
    let cache = owner.pool.growable_in_steps(&Request::new(2 * GRANULE, owner.stream), 8 * GRANULE, GRANULE).unwrap();
    cache.back(4 * GRANULE, 3 * GRANULE).unwrap();
    let mut parts = vec![part(beside)];
    parts.extend(owner.pool.blocks_of(arena).unwrap());
    parts.push(Part { address: cache.address() + 4 * GRANULE, bytes: 3 * GRANULE });
    for (index, part) in parts.iter().enumerate() {
        owner.side.put(part.address + (part.bytes - 1), &[b'a' + index as u8]);
    }
    let exporter = owner.served();
    let offer = exporter.offer(&parts, Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    let import = importer.import(offer.ticket(), &READ).unwrap();
    let hold = import.hold().unwrap();
    assert_eq!((hold.parts(), import.bytes()), (4, beside.bytes));
    assert_eq!(hold.address(), hold.translate(beside.address).unwrap());
    for (index, asked) in parts.iter().enumerate() {
        let (address, bytes) = hold.part(index).unwrap();
        assert_eq!((bytes, hold.translate(asked.address)), (asked.bytes, Some(address)));
        assert!(address >= hold.mapped_address() && address + bytes <= hold.mapped_address() + hold.mapped_bytes());
        side.demand(address + (bytes - 1), &[b'a' + index as u8]);
    }
    assert_eq!(hold.translate(small.address), None);
    assert!(hold.part(4).is_none());
    drop((hold, import, importer, offer, exporter, cache));
    owner.end(&[small, beside, of_arena[0], of_arena[1]]);
    side.demand_empty();
}

#[test]
fn more_handles_and_parts_than_a_message_holds_arrive_in_order() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let blocks: Vec<_> = (0..150).map(|_| owner.block(1)).collect();
    for (index, block) in blocks.iter().enumerate() {
        owner.side.put(block.address, &[index as u8]);
    }
    let exporter = owner.served();
    let parts: Vec<Part> = blocks.iter().rev().copied().map(part).collect();
    let offer = exporter.offer(&parts, Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    let hold = importer.import(offer.ticket(), &READ).unwrap().hold().unwrap();
    for index in 0..150 {
        side.demand(hold.part(149 - index).unwrap().0, &[index as u8]);
    }
    drop((hold, importer, offer, exporter));
    owner.end(&blocks);
    side.demand_empty();
}

#[test]
fn what_is_exported_stays_in_place_and_a_free_waits_for_the_last_who_uses_it() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(2);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let scope = Scope::Block(block.address);
    for refused in [
        owner.pool.suspend(scope, &Backup::Discard).map(drop),
        owner.pool.migrate(scope, DeviceId(1)).map(drop),
        owner.pool.suspend(Scope::All, &Backup::Discard).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, PoolError::Held { holders: 1, .. }), "{error}");
        assert!(error.to_string().contains("exports"), "{error}");
    }
    let importer = side.importer(offer.ticket());
    let import = importer.import(offer.ticket(), &READ).unwrap();
    owner.pool.free(block.address).unwrap();
    drop(offer);
    let held = || owner.pool.stats().devices[0].holdings.kept_bytes;
    assert_eq!(held(), 2 * GRANULE, "the import may be in use");
    drop(import);
    eventually("the block is free", || held() == 0);
    drop((importer, exporter));
    owner.end(&[]);
    side.demand_empty();
}

#[test]
fn an_importer_has_the_rights_that_it_asked_for_and_never_more_than_are_offered() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(1);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    let error = importer.import(offer.ticket(), &WRITE).unwrap_err();
    assert_eq!(error, Error::Rights { asked: Rights::ReadWrite, granted: Rights::Read });
    let error = importer.import(offer.ticket(), &[]).unwrap_err();
    assert!(matches!(error, Error::Argument(_)), "{error}");
    let import = importer.import(offer.ticket(), &READ).unwrap();
    assert_eq!(import.rights(), Rights::Read);
    assert_eq!(side.host.poke(at(&import), b"x").unwrap_err().kind, ErrorKind::IllegalAddress);
    let wider = exporter.offer(&[part(block)], Rights::ReadWrite).unwrap();
    assert_ne!(wider.generation(), offer.generation());
    let written = importer.import(wider.ticket(), &WRITE).unwrap();
    side.put(at(&written), b"seen");
    side.demand(at(&import), b"seen");
    drop((import, written, importer, offer, wider, exporter));
    owner.end(&[block]);
    side.demand_empty();
}

#[test]
fn memory_that_was_not_made_to_leave_is_refused_and_the_setting_named() {
    let side = Side::new(1);
    let pool = Pool::new(side.driver(), Settings::default()).unwrap();
    let stream = pool.register(stitchpool_driver::RawStream { device: FIRST, value: 0 }).unwrap();
    let block = pool.alloc(&Request::new(GRANULE, stream)).unwrap();
    let exporter = Exporter::new(&pool).unwrap();
    let error = exporter.offer(&[part(block)], Rights::Read).unwrap_err();
    assert_eq!(error, Error::Pool(PoolError::Private { device: FIRST }));
    assert!(error.to_string().contains("kind FileDescriptor"), "{error}");
    pool.free(block.address).unwrap();
}

#[test]
fn what_is_no_part_of_a_live_block_is_refused_and_nothing_is_held() {
    let owner = Owner::new();
    let block = owner.block(2);
    let exporter = Exporter::new(&owner.pool).unwrap();
    let whole = part(block);
    for parts in [
        vec![],
        vec![whole, Part { bytes: 0, ..whole }],
        vec![whole, Part { bytes: 64 * GRANULE, ..whole }],
        vec![whole, Part { address: block.address + 64 * GRANULE, bytes: GRANULE }],
        vec![whole, Part { bytes: u64::MAX, ..whole }],
    ] {
        exporter.offer(&parts, Rights::Read).unwrap_err();
    }
    exporter.offer(&[whole], Rights::None).unwrap_err();
    owner.pool.suspend(Scope::Block(block.address), &Backup::Discard).unwrap();
    let error = exporter.offer(&[whole], Rights::Read).unwrap_err();
    assert!(matches!(error, Error::Pool(PoolError::Asleep { .. })), "{error}");
    drop(exporter);
    owner.end(&[block]);
}

#[test]
fn a_device_that_the_importer_cannot_grant_to_is_an_error_and_nothing_is_left() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(1);
    let exporter = owner.served();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let importer = side.importer(offer.ticket());
    let stranger = [Grant { device: DeviceId(7), rights: Rights::Read }];
    let error = importer.import(offer.ticket(), &stranger).unwrap_err();
    assert!(matches!(&error, Error::Driver(refusal) if refusal.kind == ErrorKind::InvalidDevice), "{error}");
    eventually("the exporter hears of it", || exporter.guests()[0].imports == 0);
    assert_eq!(side.imported_bytes(), 0);
    drop((importer, offer, exporter));
    owner.end(&[block]);
}

#[test]
fn nothing_is_answered_without_a_thread_or_a_call_and_nobody_waits_without_limit() {
    let (owner, side) = (Owner::new(), Side::new(1));
    let block = owner.block(1);
    let exporter = Exporter::new(&owner.pool).unwrap();
    let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
    let limit = Duration::from_millis(50);
    let error = Importer::connect_within(side.driver(), offer.ticket(), limit).unwrap_err();
    assert!(matches!(error, Error::Silent { limit_ms: 50, .. }), "{error}");
    assert!(error.to_string().contains("is its exporter served"), "{error}");
    let ticket = offer.ticket().clone();
    let driver = side.driver();
    let asking = std::thread::spawn(move || {
        let importer = Importer::connect_within(driver, &ticket, PATIENCE).unwrap();
        importer.import(&ticket, &READ).unwrap().bytes()
    });
    while !asking.is_finished() {
        exporter.answer(Duration::from_millis(5)).unwrap();
    }
    assert_eq!(asking.join().unwrap(), GRANULE);
    drop((offer, exporter));
    owner.end(&[block]);
    side.demand_empty();
}
