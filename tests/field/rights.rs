//! Who may use a mapping, after every way in which it came about: F31.

use crate::rig::{CHUNKS, HERE, KIB, Rig, Shape, Stream};
use stitchpool::chunks::{Error as ChunksError, RangeSpec, StitchedRange};
use stitchpool::driver::host::Peers;
use stitchpool::driver::{Address, DeviceId, ErrorKind, Grant, HandleKind, RawStream, Rights, Verb};
use stitchpool::{Backup, Error, Piece, Placement, Request, Scope};

const READERS: [DeviceId; 4] = [DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)];
const STRANGER: DeviceId = DeviceId(5);

/// Eight devices, of which four and four reach each other.
fn box_of_eight(chunk_bytes: u64, chunks: u64) -> Rig {
    let peers = Peers::Groups(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    Shape { devices: 8, peers, ..Shape::exact(chunk_bytes, chunks) }.build()
}

/// Every reader writes and reads all of it.
fn assert_open(rig: &Rig, streams: &[RawStream], at: Address, bytes: u64) {
    for &stream in streams {
        rig.touch(stream, at, bytes);
        rig.assert_right();
    }
}

fn streams(rig: &Rig) -> Vec<RawStream> {
    READERS.iter().map(|&device| rig.stream_on(device).raw).collect()
}

fn over_all(chunk_bytes: u64) -> Placement {
    Placement::RoundRobin { devices: READERS.to_vec(), stripe_bytes: chunk_bytes }
}

#[test]
fn f31_every_reader_has_rights_on_every_chunk_of_a_block() {
    for chunk_bytes in CHUNKS {
        let rig = box_of_eight(chunk_bytes, 8);
        let (stream, readers) = (rig.stream(), streams(&rig));
        let ask = |bytes: u64| {
            let block =
                rig.ask(&Request::new(bytes, stream.id).placed(over_all(chunk_bytes)).open_to(&READERS)).unwrap();
            assert_open(&rig, &readers, block, bytes);
            let devices: Vec<_> = rig.pool().segments(block, bytes).unwrap().iter().map(|piece| piece.device).collect();
            (block, devices)
        };
        // Created; behind a free tail; stitched from freed handles; from the rest.
        let (first, devices) = ask(8 * chunk_bytes - chunk_bytes / 2);
        assert_eq!(devices, [READERS, READERS].concat());
        let (second, _) = ask(4 * chunk_bytes);
        rig.free(first);
        let (third, _) = ask(12 * chunk_bytes);
        rig.free(second);
        rig.free(third);
        ask(32 * chunk_bytes);
        let held: Vec<u64> = (0..8).map(|device| rig.ledger().physical_bytes_on(DeviceId(device))).collect();
        assert_eq!(held, [8, 8, 8, 8, 0, 0, 0, 0].map(|chunks| chunks * chunk_bytes), "a mapping is whole chunks");
    }
}

#[test]
fn f31_a_reader_that_cannot_reach_is_named_with_the_request() {
    let rig = box_of_eight(64 * KIB, 4);
    let stream = rig.stream();
    let calls = rig.faulty.calls(Verb::Create);
    let far = [HERE, STRANGER];
    let shards = vec![Piece { device: HERE, bytes: 64 * KIB }, Piece { device: STRANGER, bytes: 64 * KIB }];
    let requests = [
        (Request::new(64 * KIB, stream.id).open_to(&far), STRANGER, HERE),
        (Request::new(64 * KIB, stream.id).placed(over_all(64 * KIB)).open_to(&[STRANGER]), STRANGER, HERE),
        (Request::new(64 * KIB, stream.id).placed(Placement::Home(STRANGER)), HERE, STRANGER),
        (Request::new(128 * KIB, stream.id).placed(Placement::Shards(shards)), HERE, STRANGER),
    ];
    for (request, reader, owner) in requests {
        let refused = rig.ask(&request).unwrap_err();
        assert_eq!(refused, Error::Unreachable { reader, owner });
        let text = refused.to_string();
        assert!(text.contains(&reader.to_string()) && text.contains(&owner.to_string()), "{text}");
    }
    let own = rig.take(stream, 64 * KIB);
    assert_eq!(rig.faulty.calls(Verb::Create), calls + 1, "no memory was made for what could not be");
    let stranger = rig.stream_on(STRANGER);
    assert_eq!(rig.pool().record_use(own, stranger.id), Err(Error::NoRights { device: STRANGER, address: own }));
    assert_eq!(rig.pool().free_on(own, stranger.id), Err(Error::NoRights { device: STRANGER, address: own }));
    rig.touch(stream.raw, own, 64 * KIB);
}

#[test]
fn f31_a_stream_of_the_other_group_is_served_by_its_own() {
    let rig = box_of_eight(64 * KIB, 4);
    let stranger = rig.stream_on(STRANGER);
    let block = rig.take(stranger, 4 * 64 * KIB);
    rig.touch(stranger.raw, block, 4 * 64 * KIB);
    assert_eq!(rig.ledger().physical_bytes_on(STRANGER), 4 * 64 * KIB);
    let shortage = rig.shortage(stranger, 64 * KIB);
    let tried: Vec<_> = shortage.devices.iter().map(|holdings| holdings.device).collect();
    assert_eq!(tried, [STRANGER], "others have memory, but not for it");
}

#[test]
fn f31_every_growth_of_a_range_is_open_to_all_readers() {
    for chunk_bytes in CHUNKS {
        let rig = box_of_eight(chunk_bytes, 8);
        let readers = streams(&rig);
        let spec = RangeSpec {
            bytes: 32 * chunk_bytes,
            granule_bytes: chunk_bytes,
            handle_bytes: chunk_bytes,
            kind: HandleKind::Private,
        };
        let mut range = StitchedRange::reserve(&rig.origin(), spec).unwrap();
        let grants = READERS.map(|device| Grant { device, rights: Rights::ReadWrite });
        let pieces = READERS.map(|device| Piece { device, bytes: chunk_bytes });
        for grown in 1..=3 {
            range.grow(&pieces, &grants).unwrap();
            assert_open(&rig, &readers, range.at(), grown * 4 * chunk_bytes);
        }
        let (picture, before) = (range.picture(), rig.ledger());
        let far = [grants[0], Grant { device: STRANGER, rights: Rights::Read }];
        let refused = range.grow(&pieces, &far).unwrap_err();
        assert_eq!(refused, ChunksError::Unreachable { reader: STRANGER, owner: HERE });
        assert_eq!(range.open(0, 4 * chunk_bytes, &far).unwrap_err(), refused);
        rig.faulty.fail(Verb::SetRights, 1, ErrorKind::Unknown);
        range.grow(&pieces, &grants).unwrap_err();
        let after = rig.ledger();
        assert_eq!((range.picture(), after.handles, after.mappings), (picture, before.handles, before.mappings));
        assert_open(&rig, &readers, range.at(), 12 * chunk_bytes);
        // One chunk's memory is replaced by another device's.
        let elsewhere = StitchedRange::reserve(&rig.origin(), spec).and_then(|mut other| {
            other.grow(&[Piece { device: READERS[2], bytes: chunk_bytes }], &[])?;
            other.take(0, chunk_bytes)
        });
        range.replace(chunk_bytes, elsewhere.unwrap()).unwrap();
        assert_eq!(&range.picture()[..4], "ACCD");
        assert_open(&rig, &readers, range.at(), 12 * chunk_bytes);
    }
}

#[test]
fn f31_memory_that_comes_back_or_moves_is_open_to_all_readers_again() {
    for chunk_bytes in CHUNKS {
        let rig = box_of_eight(chunk_bytes, 16);
        let (stream, readers) = (rig.stream(), streams(&rig));
        let bytes = 8 * chunk_bytes;
        let request = Request::new(bytes, stream.id).placed(over_all(chunk_bytes)).open_to(&READERS).exclusive();
        let block = rig.ask(&request).unwrap();
        let writer = rig.stream_on(READERS[3]);
        rig.fill(writer, block, bytes, 9);
        rig.assert_right();
        let devices =
            || rig.pool().segments(block, bytes).unwrap().iter().map(|piece| piece.device.0).collect::<Vec<_>>();
        let is_whole = |what: &str| {
            for &reader in &readers {
                rig.touch(reader, block, bytes);
                rig.verify(Stream { raw: reader, id: stream.id }, block, bytes, 9);
                rig.assert_right();
            }
            assert_eq!(devices().len(), 8, "{what}");
        };
        is_whole("created");
        for backup in [Backup::Host, Backup::Disk(std::env::temp_dir())] {
            rig.pool().suspend(Scope::Block(block), &backup).unwrap();
            rig.faulty.fail(Verb::SetRights, 1, ErrorKind::Unknown);
            rig.pool().resume(Scope::Block(block)).unwrap_err();
            rig.pool().resume(Scope::Block(block)).unwrap();
            is_whole("back");
        }
        let second = Scope::Range { address: block + chunk_bytes, bytes: chunk_bytes };
        rig.pool().migrate(second, READERS[2]).unwrap();
        assert_eq!(devices(), [0, 2, 2, 3, 0, 1, 2, 3]);
        is_whole("one chunk moved");
        rig.pool().suspend(second, &Backup::Host).unwrap();
        rig.pool().resume(Scope::Block(block)).unwrap();
        is_whole("one chunk back");
        rig.pool().migrate(Scope::Block(block), READERS[1]).unwrap();
        assert_eq!(devices(), [1; 8]);
        is_whole("all moved");
        let far = [Grant { device: STRANGER, rights: Rights::Read }];
        let refused = rig.pool().set_rights(Scope::Block(block), &far).unwrap_err();
        assert_eq!(refused, Error::Unreachable { reader: STRANGER, owner: READERS[1] });
        let refused = rig.pool().migrate(Scope::Block(block), STRANGER).unwrap_err();
        assert!(matches!(refused, Error::Unreachable { owner: STRANGER, .. }), "{refused}");
        is_whole("after refusals");
    }
}
