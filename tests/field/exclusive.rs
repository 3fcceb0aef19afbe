//! Blocks with handles of their own, and requests that must be filled to the byte: I7, where handles have
//! many sizes.

use crate::rig::{HERE, KIB, MIB, Rig, Shape, Stream};
use std::collections::BTreeSet;
use stitchpool::driver::{Address, DeviceId, Verb};
use stitchpool::{Buffer, Error, Piece, Placement, Request, Settings};

/// Handles of up to 16 chunks.
fn mixed(chunks: u64) -> Shape {
    let shape = Shape::exact(64 * KIB, chunks);
    Shape { settings: Settings { handle_bytes_max: MIB, ..shape.settings.clone() }, ..shape }
}

fn exclusive(rig: &Rig, stream: Stream, bytes: u64) -> Address {
    rig.ask(&Request::new(bytes, stream.id).exclusive()).unwrap()
}

/// The whole device in free handles of 1 MiB.
fn fill_with_large_handles(rig: &Rig, stream: Stream, device: DeviceId) {
    let bytes = rig.shape.chunks * rig.shape.chunk_bytes;
    let request = Request::new(bytes, stream.id).placed(Placement::Home(device));
    drop(rig.pool().growable_in_steps(&request, bytes, MIB).unwrap());
}

#[test]
fn i07_larger_free_handles_are_cut_for_an_exclusive_block() {
    for waiting in [false, true] {
        let rig = mixed(64).build();
        let (stream, other) = (rig.stream(), rig.stream());
        fill_with_large_handles(&rig, other, HERE);
        let busy = rig.pool().block_holding(exclusive(&rig, other, MIB)).unwrap();
        if waiting {
            rig.fill(other, busy.address, MIB, 1);
        }
        rig.free(busy.address);
        let rest = exclusive(&rig, stream, 4 * MIB - 3 * 64 * KIB);
        rig.fill(stream, rest, 4 * MIB - 3 * 64 * KIB, 1);
        let small: Vec<Address> = (0..3).map(|_| exclusive(&rig, stream, 64 * KIB)).collect();
        assert_eq!(rig.physical_bytes(), 4 * MIB);
        assert!(matches!(rig.ask(&Request::new(1, stream.id).exclusive()), Err(Error::OutOfMemory(_))));
        assert_eq!(small.len(), 3);
        rig.assert_right();
    }
}

#[test]
fn i07_larger_free_handles_are_cut_for_shards() {
    let rig = Shape { devices: 2, ..mixed(32) }.build();
    let stream = rig.stream();
    for device in [HERE, DeviceId(1)] {
        fill_with_large_handles(&rig, stream, device);
    }
    let shard = |device, chunks: u64| Piece { device: DeviceId(device), bytes: chunks * 64 * KIB };
    let shards = Placement::Shards(vec![shard(0, 31), shard(1, 17), shard(0, 1), shard(1, 15)]);
    let block = rig.ask(&Request::new(4 * MIB, stream.id).placed(shards)).unwrap();
    rig.touch(stream.raw, block, 4 * MIB);
    rig.free(block);
    let weights = Placement::Weighted(vec![(HERE, 3), (DeviceId(1), 2)]);
    let block = rig.ask(&Request::new(3 * MIB + 64 * KIB, stream.id).placed(weights).exclusive()).unwrap();
    rig.touch(stream.raw, block, 3 * MIB + 64 * KIB);
    rig.assert_right();
}

#[test]
fn i07_more_than_there_is_is_refused_and_the_rest_can_be_had() {
    let rig = mixed(64).build();
    let stream = rig.stream();
    fill_with_large_handles(&rig, stream, HERE);
    assert!(matches!(rig.ask(&Request::new(4 * MIB + 1, stream.id).exclusive()), Err(Error::OutOfMemory(_))));
    exclusive(&rig, stream, 4 * MIB);
}

#[test]
fn an_exclusive_block_that_was_freed_serves_a_like_one_as_it_stands() {
    let rig = mixed(64).build();
    let stream = rig.stream();
    let first = exclusive(&rig, stream, 300 * KIB);
    let calls = [Verb::Map, Verb::Unmap, Verb::Create, Verb::SetRights].map(|verb| rig.faulty.calls(verb));
    for _ in 0..10 {
        rig.free(first);
        assert_eq!(exclusive(&rig, stream, 290 * KIB), first, "both are five chunks");
    }
    let after = [Verb::Map, Verb::Unmap, Verb::Create, Verb::SetRights].map(|verb| rig.faulty.calls(verb));
    assert_eq!(calls, after);
    rig.free(first);
    assert_ne!(exclusive(&rig, stream, 400 * KIB), first, "a longer one has its own chain");
}

#[test]
fn an_exclusive_block_shares_no_handle() {
    let rig = mixed(256).build();
    let (a, b) = (rig.stream(), rig.stream());
    let mut dice = 11_u64;
    let mut own: Vec<(Address, u64)> = Vec::new();
    for step in 0..400_u64 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (stream, bytes) = ([a, b][(dice >> 60) as usize % 2], (dice >> 33) % (700 * KIB) + 1);
        match dice >> 40 & 3 {
            0 | 1 => {
                if let Ok(at) = rig.ask(&Request::new(bytes, stream.id).exclusive()) {
                    own.push((at, bytes.next_multiple_of(64 * KIB)));
                }
            }
            2 => drop(rig.alloc(stream, bytes)),
            _ => {
                let all = rig.shadow.addresses();
                if let Some(&at) = all.get((dice >> 20) as usize % all.len().max(1)) {
                    own.retain(|block| block.0 != at);
                    rig.free(at);
                }
            }
        }
        if step % 8 == 0 {
            rig.assert_sound();
            assert_no_handle_is_shared(&rig, &own);
        }
    }
}

fn assert_no_handle_is_shared(rig: &Rig, own: &[(Address, u64)]) {
    let mut handles = BTreeSet::new();
    for &(at, bytes) in own {
        let segments = rig.pool().segments(at, bytes).unwrap();
        let whole = segments.iter().all(|segment| segment.offset_bytes == 0 && handles.insert(segment.handle.0));
        assert!(whole, "{at}: {segments:?}");
        assert_eq!(segments.iter().map(|segment| segment.bytes).sum::<u64>(), bytes);
    }
    for at in rig.shadow.addresses().into_iter().filter(|at| own.iter().all(|block| block.0 != *at)) {
        let held = rig.pool().block_holding(at).unwrap();
        let segments = rig.pool().segments(at, held.bytes).unwrap();
        assert!(segments.iter().all(|segment| !handles.contains(&segment.handle.0)), "{at}: {segments:?}");
    }
}

#[test]
fn what_is_asked_of_blocks_is_answered_for_exclusive_ones() {
    let rig = mixed(64).build();
    let (stream, reader) = (rig.stream(), rig.stream());
    let at = exclusive(&rig, stream, 100 * KIB);
    let held = rig.pool().block_holding(at + 70 * KIB).unwrap();
    assert_eq!((held.address, held.bytes), (at, 128 * KIB));
    rig.fill(stream, at, 128 * KIB, 1);
    rig.assert_right();
    rig.pool().record_use(at, reader.id).unwrap();
    rig.verify(reader, at, 128 * KIB, 1);
    rig.free(at);
    let next = exclusive(&rig, stream, 128 * KIB);
    assert_ne!(next, at, "not as it stands: the reader is not done");
    rig.fill(stream, next, 128 * KIB, 2);
    rig.assert_right();
    rig.verify(reader, next, 128 * KIB, 2);
    rig.shadow.leave(next);
    rig.pool().free_on(next, reader.id).unwrap();
    assert_eq!(rig.figures().holdings.pending_bytes, 128 * KIB);
    let buffer = Buffer::new(rig.pool(), &Request::new(64 * KIB, stream.id).exclusive()).unwrap();
    rig.touch(stream.raw, buffer.address(), buffer.bytes());
    drop(buffer);
    rig.assert_right();
}
