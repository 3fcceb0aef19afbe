//! What keeps a block in place after it was freed: a launch that is being prepared (F15 d), a second
//! address for the same memory (F22, F31).

use crate::rig::{CHUNKS, HERE, KIB, Rig, Shape, Stream};
use stitchpool::driver::host::Peers;
use stitchpool::driver::{Address, DeviceId, Grant, Kernels, RawStream, Rights, Verb};
use stitchpool::{Block, Error, Part, Request, View};

const FAR: DeviceId = DeviceId(5);

fn writers(devices: &[DeviceId]) -> Vec<Grant> {
    devices.iter().map(|&device| Grant { device, rights: Rights::ReadWrite }).collect()
}

fn box_of_eight(chunk_bytes: u64) -> Rig {
    let peers = Peers::Groups(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    Shape { devices: 8, peers, ..Shape::exact(chunk_bytes, 8) }.build()
}

fn exclusive(rig: &Rig, stream: Stream, bytes: u64) -> Part {
    let address = rig.ask(&Request::new(bytes, stream.id).exclusive()).unwrap();
    Part { address, bytes }
}

/// What is queued on `later` from now on comes after what is queued on `earlier` so far.
fn order(rig: &Rig, later: RawStream, earlier: RawStream) {
    use stitchpool::driver::Driver;
    // SAFETY: both streams live, and the event until it is forgotten.
    unsafe {
        let event = rig.host.record(earlier).unwrap();
        rig.host.wait(later, event).unwrap();
        rig.host.forget(event).unwrap();
    }
}

fn is_unknown<T: std::fmt::Debug>(outcome: Result<T, Error>, hint: &str) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::UnknownAddress { .. }) && error.to_string().contains(hint), "{error}");
}

fn view(rig: &Rig, parts: &[Part], devices: &[DeviceId]) -> View {
    rig.pool().view(parts, &writers(devices)).unwrap()
}

#[test]
fn f15_d_a_leased_block_stays_until_the_launch_that_it_was_taken_for_is_done() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 8).build();
        let (owner, other) = (rig.stream(), rig.stream());
        let bytes = 8 * chunk_bytes;
        let x = rig.take(owner, bytes);
        rig.fill(owner, x, bytes, 1);
        let lease = rig.pool().lease(x).unwrap();
        rig.free(x);
        is_unknown(rig.pool().free(x), "freed already");
        is_unknown(rig.pool().lease(x), "freed already");
        rig.done(owner);
        assert_eq!(rig.pool().trim_and_wait().unwrap().released_bytes, 0);
        let shortage = rig.shortage(other, chunk_bytes);
        assert_eq!((shortage.devices[0].kept_bytes, shortage.devices[0].live_bytes), (bytes, 0));
        assert!(shortage.to_string().contains("leases or views hold freed memory: end them"), "{shortage}");
        // The launch comes at last.
        rig.verify(owner, x, bytes, 1);
        lease.end_on(owner.id).unwrap();
        let next = rig.take(other, bytes);
        rig.fill(other, next, bytes, 2);
        rig.done(other);
        rig.done(owner);
        rig.verify(other, next, bytes, 2);
        rig.assert_right();
        assert_eq!(rig.figures().holdings.kept_bytes, 0);
    }
}

#[test]
fn f15_d_a_launch_on_another_stream_than_the_blocks_own_counts_too() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let (owner, other) = (rig.stream(), rig.stream());
    let x = rig.take(owner, 8 * 64 * KIB);
    rig.fill(owner, x, 8 * 64 * KIB, 1);
    let lease = rig.pool().lease(x).unwrap();
    rig.free(x);
    order(&rig, other.raw, owner.raw);
    rig.verify(other, x, 8 * 64 * KIB, 1);
    lease.end_on(other.id).unwrap();
    // The owner's next block may not come before that.
    let next = rig.take(owner, 8 * 64 * KIB);
    rig.fill(owner, next, 8 * 64 * KIB, 2);
    rig.done(owner);
    rig.assert_right();
}

#[test]
fn f15_d_a_lease_that_launched_nothing_leaves_nothing() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let stream = rig.stream();
    let [x, y] = [(); 2].map(|()| rig.take(stream, 2 * 64 * KIB));
    let [first, second] = [(); 2].map(|()| rig.pool().lease(x).unwrap());
    assert_eq!((first.address(), first.bytes()), (x, 2 * 64 * KIB));
    rig.free(x);
    drop(first);
    rig.assert_sound();
    assert_eq!(rig.pool().trim().released_bytes, 0);
    assert_eq!(rig.figures().holdings.kept_bytes, 2 * 64 * KIB);
    // Leases go to the thread that launches.
    std::thread::spawn(move || drop(second)).join().unwrap();
    assert_eq!(rig.pool().trim_and_wait().unwrap().released_bytes, 2 * 64 * KIB);
    // Held and not freed: nothing happens at the end.
    drop(rig.pool().lease(y).unwrap());
    rig.assert_sound();
    rig.fill(stream, y, 2 * 64 * KIB, 1);
    rig.verify(stream, y, 2 * 64 * KIB, 1);
}

#[test]
fn f15_d_a_lease_names_what_it_cannot_be_taken_of() {
    let rig = box_of_eight(64 * KIB);
    let (stream, far) = (rig.stream(), rig.stream_on(FAR));
    let x = rig.take(stream, 64 * KIB);
    is_unknown(rig.pool().lease(x + 512), "inside the block");
    is_unknown(rig.pool().lease(Address(4096)), "never gave it out");
    let lease = rig.pool().lease(x).unwrap();
    let (error, lease) = *lease.end_on(far.id).unwrap_err();
    assert_eq!(error, Error::NoRights { device: FAR, address: x });
    rig.free(x);
    assert_eq!(rig.figures().holdings.kept_bytes, 64 * KIB, "the lease is still there");
    drop(lease);
    assert_eq!(rig.figures().holdings.kept_bytes, 0);
}

#[test]
fn f15_d_memory_that_is_held_is_stolen_by_nobody() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let (owner, other) = (rig.stream(), rig.stream());
    let blocks: Vec<Address> = (0..4).map(|_| rig.take(owner, 2 * 64 * KIB)).collect();
    rig.mark(blocks[1], 2 * 64 * KIB, 7);
    let lease = rig.pool().lease(blocks[1]).unwrap();
    blocks.iter().for_each(|&block| rig.free(block));
    rig.shortage(other, 7 * 64 * KIB);
    let stolen = rig.take(other, 6 * 64 * KIB);
    rig.mark(stolen, 6 * 64 * KIB, 9);
    assert!(rig.is_marked(blocks[1], 2 * 64 * KIB, 7));
    drop(lease);
    rig.take(other, 2 * 64 * KIB);
}

#[test]
fn f31_shards_on_four_devices_are_one_gathered_parameter_to_all_of_them() {
    for chunk_bytes in CHUNKS {
        let rig = box_of_eight(chunk_bytes);
        let group: Vec<DeviceId> = (0..4).map(DeviceId).collect();
        let streams: Vec<Stream> = group.iter().map(|&device| rig.stream_on(device)).collect();
        let shards: Vec<Part> = streams.iter().map(|&stream| exclusive(&rig, stream, 2 * chunk_bytes)).collect();
        let gathered = view(&rig, &shards, &group);
        assert_eq!(gathered.bytes(), 8 * chunk_bytes);
        let devices: Vec<DeviceId> = gathered.segments().iter().map(|segment| segment.device).collect();
        let expected: Vec<DeviceId> = group.iter().flat_map(|&device| [device; 2]).collect();
        assert_eq!(devices, expected);
        // Each device writes its shard, where it stands; each then reads all.
        for (seed, (&stream, shard)) in streams.iter().zip(&shards).enumerate() {
            rig.fill(stream, shard.address, shard.bytes, seed as u64);
            gathered.record_use(stream.id).unwrap();
        }
        for &reader in &streams {
            streams.iter().filter(|writer| writer.raw != reader.raw).for_each(|it| order(&rig, reader.raw, it.raw));
            for (seed, at) in (0..8 * chunk_bytes).step_by(2 * chunk_bytes as usize).enumerate() {
                rig.verify(reader, gathered.address() + at, 2 * chunk_bytes, seed as u64);
            }
        }
        shards.iter().for_each(|shard| rig.free(shard.address));
        let stale_before = rig.pool().stats().stale_mappings;
        drop(gathered);
        assert_eq!(rig.pool().stats().stale_mappings, stale_before + 8, "work that uses them is queued");
        rig.assert_sound();
        rig.assert_right();
        assert_eq!(rig.pool().trim_and_wait().unwrap().released_bytes, 8 * chunk_bytes);
        assert_eq!((rig.ledger().mappings, rig.physical_bytes()), (0, 0));
    }
}

#[test]
fn f31_a_view_that_a_device_cannot_reach_is_refused_with_both_names() {
    let rig = box_of_eight(64 * KIB);
    let near = exclusive(&rig, rig.stream(), 64 * KIB);
    let far = exclusive(&rig, rig.stream_on(FAR), 64 * KIB);
    let before = rig.ledger();
    for (reader, owner) in [(HERE, FAR), (FAR, HERE)] {
        let refused = rig.pool().view(&[near, far], &writers(&[reader])).unwrap_err();
        assert_eq!(refused, Error::Unreachable { reader, owner });
        rig.assert_sound();
    }
    let after = rig.ledger();
    assert_eq!((after.mappings, after.handles), (before.mappings, before.handles));
    // The blocks are held by nobody.
    rig.free(near.address);
    assert_eq!(rig.figures().holdings.kept_bytes, 0);
}

#[test]
fn f22_every_piece_behind_a_view_is_told() {
    let rig = Shape::exact(64 * KIB, 16).build();
    let stream = rig.stream();
    let [x, y] = [3, 5].map(|chunks| exclusive(&rig, stream, chunks * 64 * KIB));
    let middle = Part { address: y.address + 64 * KIB, bytes: 3 * 64 * KIB };
    let both = view(&rig, &[middle, x], &[HERE]);
    let pieces = both.segments();
    assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), 6 * 64 * KIB);
    let behind = [rig.pool().segments(middle.address, middle.bytes), rig.pool().segments(x.address, x.bytes)];
    let behind: Vec<_> = behind.into_iter().flat_map(Result::unwrap).collect();
    let memory =
        |segments: &[stitchpool::Segment]| -> Vec<_> { segments.iter().map(|s| (s.handle, s.bytes)).collect() };
    assert_eq!(memory(&pieces), memory(&behind));
    // An interior pointer, and a length that ends inside a handle.
    let at = both.address() + 64 * KIB + 4096;
    let inside = rig.pool().segments(at, 2 * 64 * KIB).unwrap();
    assert_eq!(inside.iter().map(|piece| piece.bytes).collect::<Vec<_>>(), [15 * 4096, 64 * KIB, 4096]);
    assert_eq!((inside[0].at, inside[0].offset_bytes), (at, 4096));
    let end = both.address() + both.bytes();
    assert_eq!(rig.pool().segments(at, both.bytes()), Err(Error::OutOfRange { address: at, bytes: both.bytes(), end }));
    let address = both.address();
    drop(both);
    is_unknown(rig.pool().segments(address, 1), "never gave it out");
}

#[test]
fn f22_a_prefix_that_two_views_share_is_there_once() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let streams = [rig.stream(), rig.stream()];
    let prefix = exclusive(&rig, streams[0], 4 * 64 * KIB);
    rig.fill(streams[0], prefix.address, prefix.bytes, 1);
    let tails = streams.map(|stream| exclusive(&rig, stream, 2 * 64 * KIB));
    let views = tails.map(|tail| view(&rig, &[prefix, tail], &[HERE]));
    assert_eq!(rig.physical_bytes(), 8 * 64 * KIB, "the device is full, and holds 12 chunks of addresses");
    for (index, (stream, view)) in streams.iter().zip(&views).enumerate() {
        if index > 0 {
            order(&rig, stream.raw, streams[0].raw);
        }
        view.record_use(stream.id).unwrap();
        rig.verify(*stream, view.address(), prefix.bytes, 1);
        rig.fill(*stream, view.address() + prefix.bytes, 2 * 64 * KIB, 7 + index as u64);
        rig.verify(*stream, tails[index].address, 2 * 64 * KIB, 7 + index as u64);
    }
    rig.free(prefix.address);
    rig.assert_sound();
    assert_eq!(rig.figures().holdings.kept_bytes, prefix.bytes);
    let [first, second] = views;
    drop(first);
    assert_eq!(rig.figures().holdings.kept_bytes, prefix.bytes, "the other view reads it");
    drop(second);
    assert_eq!(rig.figures().holdings.kept_bytes, 0);
    // What is taken now waits for the views' work.
    let next = rig.take(streams[0], prefix.bytes);
    rig.fill(streams[0], next, prefix.bytes, 9);
    rig.done(streams[0]);
    rig.assert_right();
}

#[test]
fn f22_an_alias_reads_what_the_block_holds_and_writes_it() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let stream = rig.stream();
    let x = exclusive(&rig, stream, 8 * 64 * KIB);
    let alias = view(&rig, &[x], &[HERE]);
    rig.mark(x.address, x.bytes, 3);
    assert!(rig.is_marked(alias.address(), x.bytes, 3));
    rig.mark(alias.address(), x.bytes, 4);
    assert!(rig.is_marked(x.address, x.bytes, 4));
    let again = view(&rig, &[x, x], &[HERE]);
    assert!(rig.is_marked(again.address() + x.bytes, x.bytes, 4), "one memory at four places");
}

#[test]
fn f22_a_part_that_cuts_a_handle_is_told_where_the_handle_lies() {
    let chunk_bytes = 64 * KIB;
    let rig = Shape::exact(chunk_bytes, 8).build();
    let stream = rig.stream();
    let [small, next] = [(); 2].map(|()| rig.take(stream, chunk_bytes / 2));
    let x = exclusive(&rig, stream, 4 * chunk_bytes);
    let start = Address(small.0 / chunk_bytes * chunk_bytes);
    let cases = [
        (small, chunk_bytes / 2, start),
        (next, chunk_bytes / 2, start),
        (x.address + 512, 2 * chunk_bytes, x.address),
        (x.address + chunk_bytes, chunk_bytes + 512, x.address + 2 * chunk_bytes),
    ];
    for (address, bytes, start) in cases {
        let refused = rig.pool().view(&[x, Part { address, bytes }], &writers(&[HERE])).unwrap_err();
        assert_eq!(refused, Error::NotWhole { address, bytes, start, end: start + chunk_bytes });
        assert!(refused.to_string().contains("allocate the block exclusive"), "{refused}");
    }
    // A plain block that happens to fill its handles will do.
    let whole = rig.take(stream, 2 * chunk_bytes);
    drop(view(&rig, &[Part { address: whole, bytes: 2 * chunk_bytes }], &[HERE]));
    rig.free(x.address);
    assert_eq!(rig.figures().holdings.kept_bytes, 0, "refused views hold nothing");
}

#[test]
fn f22_a_view_is_no_block_and_says_so() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let stream = rig.stream();
    let x = exclusive(&rig, stream, 4 * 64 * KIB);
    let alias = view(&rig, &[x], &[HERE]);
    let part = Part { address: alias.address(), bytes: alias.bytes() };
    is_unknown(rig.pool().free(alias.address()), "drop the view");
    is_unknown(rig.pool().lease(alias.address()), "drop the view");
    is_unknown(rig.pool().view(&[part], &writers(&[HERE])), "name the blocks behind it");
    is_unknown(rig.pool().record_use(alias.address(), stream.id), "drop the view");
    assert_eq!(rig.pool().block_holding(alias.address()), None);
    is_unknown(rig.pool().view(&[Part { address: Address(4096), bytes: 4096 }], &[]), "never gave it out");
    let beyond = Part { address: x.address, bytes: 5 * 64 * KIB };
    let end = x.address + x.bytes;
    assert_eq!(
        rig.pool().view(&[beyond], &[]).unwrap_err(),
        Error::OutOfRange { address: x.address, bytes: beyond.bytes, end }
    );
    assert!(matches!(rig.pool().view(&[], &[]), Err(Error::InvalidSize { .. })));
    let far = rig.pool().view(&[Block { address: x.address, bytes: x.bytes }.into()], &[]).unwrap();
    assert_eq!(far.record_use(stream.id), Err(Error::NoRights { device: HERE, address: far.address() }));
    rig.free(x.address);
    is_unknown(rig.pool().view(&[x], &writers(&[HERE])), "freed already");
}

#[test]
fn f22_a_view_that_is_gone_is_unmapped_when_its_work_is_done_and_not_before() {
    let rig = Shape::exact(64 * KIB, 8).build();
    let (owner, user) = (rig.stream(), rig.stream());
    let x = exclusive(&rig, owner, 4 * 64 * KIB);
    let alias = view(&rig, &[x], &[HERE]);
    alias.record_use(user.id).unwrap();
    rig.busy(user);
    rig.fill(user, alias.address(), x.bytes, 5);
    drop(alias);
    assert_eq!(rig.pool().trim().refusal, None);
    assert_eq!(rig.ledger().mappings, 8, "the block and its alias");
    rig.done(user);
    // SAFETY: the stream lives.
    unsafe { rig.host.finish_stream(user.raw) }.unwrap();
    let calls = rig.faulty.calls(Verb::Unmap);
    rig.pool().trim();
    assert_eq!((rig.ledger().mappings, rig.faulty.calls(Verb::Unmap)), (4, calls + 4));
    order(&rig, owner.raw, user.raw);
    rig.verify(owner, x.address, x.bytes, 5);
    rig.assert_right();
    // Without use it goes at once, and its addresses serve others.
    drop(view(&rig, &[x], &[HERE]));
    assert_eq!(rig.ledger().mappings, 4);
}
