//! Growable buffers where others went wrong: F10, F16, F18, F32, F33.

mod beside;

use crate::rig::{CHUNKS, GIB, HERE, KIB, MIB, Rig, Shape, Stream, shortage};
use stitchpool::driver::{Address, DeviceId, ErrorKind, Verb};
use stitchpool::{Error, Growable, Placement, Request};

const KINDS: [ErrorKind; 3] = [ErrorKind::OutOfMemory, ErrorKind::InvalidValue, ErrorKind::Unknown];

/// A buffer without memory, with handles of a chunk.
fn growable(rig: &Rig, stream: Stream, max_bytes: u64) -> Growable {
    rig.pool().growable_in_steps(&Request::new(0, stream.id), max_bytes, rig.shape.chunk_bytes).unwrap()
}

/// What must hold while buffers live: the pool's invariants, and figures that are theirs and the shadow's.
#[track_caller]
fn sound(rig: &Rig, buffers: &[&Growable]) {
    rig.pool().check().unwrap();
    let stats = rig.pool().stats();
    let live_bytes: u64 = stats.devices.iter().map(|device| device.holdings.live_bytes).sum();
    let backed_bytes: u64 = buffers.iter().map(|buffer| buffer.backed_bytes()).sum();
    assert_eq!(live_bytes, rig.shadow.bytes() + backed_bytes);
    assert_eq!(rig.ledger().refusals, 0, "{:?}", rig.ledger().last_refusal);
}

/// How far a buffer is backed from its start, where that is all of it.
#[track_caller]
fn grown_bytes(buffer: &Growable) -> u64 {
    match buffer.backed().as_slice() {
        [run] if run.start == 0 => run.end,
        other => panic!("backed by parts: {other:?}"),
    }
}

fn at(buffer: &Growable, offset_bytes: u64) -> Address {
    buffer.address() + offset_bytes
}

/// Eight chunks dealt to two devices, of which four are backed, with a hole: growing fills two gaps.
fn f10_buffer(rig: &Rig, stream: Stream) -> Growable {
    let chunk_bytes = rig.shape.chunk_bytes;
    let devices = vec![HERE, DeviceId(1)];
    let placement = Placement::RoundRobin { devices: devices.clone(), stripe_bytes: chunk_bytes };
    let request = Request::new(0, stream.id).placed(placement).open_to(&devices);
    let buffer = rig.pool().growable_in_steps(&request, 8 * chunk_bytes, chunk_bytes).unwrap();
    buffer.back(0, 2 * chunk_bytes).unwrap();
    buffer.back(4 * chunk_bytes, 2 * chunk_bytes).unwrap();
    rig.fill(stream, buffer.address(), 2 * chunk_bytes, 1);
    rig.fill(stream, at(&buffer, 4 * chunk_bytes), 2 * chunk_bytes, 2);
    buffer
}

#[test]
fn f10_a_refusal_of_any_call_of_a_growth_changes_nothing() {
    for (chunk_bytes, taken_over) in [(4 * KIB, false), (64 * KIB, true)] {
        for kind in KINDS {
            for lasting in [false, true] {
                for nth in 1.. {
                    let rig = Shape { devices: 2, ..Shape::exact(chunk_bytes, 4) }.build();
                    let (stream, other) = (rig.stream(), rig.stream());
                    let buffer = f10_buffer(&rig, stream);
                    if taken_over {
                        // All other memory is another stream's, and in use still.
                        let block = rig.take(other, 2 * chunk_bytes);
                        rig.fill(other, block, 2 * chunk_bytes, 9);
                        rig.free(block);
                    }
                    let before = (buffer.backed(), rig.physical_bytes(), rig.pool().stats().allocs);
                    match lasting {
                        true => rig.faulty.fail_all_from(nth, kind),
                        false => rig.faulty.fail_any(nth, kind),
                    }
                    let grown = buffer.grow_to(8 * chunk_bytes);
                    let met = rig.faulty.failed() > 0;
                    rig.faulty.clear();
                    if let Err(error) = &grown {
                        assert!(met, "{error}");
                        assert_eq!(before.0, buffer.backed(), "{error}");
                        assert_eq!(before.2, rig.pool().stats().allocs, "{error}");
                        assert!(rig.physical_bytes() <= before.1 || rig.pool().stats().quarantined > 0, "{error}");
                    }
                    sound(&rig, &[&buffer]);
                    rig.verify(stream, buffer.address(), 2 * chunk_bytes, 1);
                    rig.verify(stream, at(&buffer, 4 * chunk_bytes), 2 * chunk_bytes, 2);
                    let quarantined = rig.pool().stats().quarantined > 0;
                    if !quarantined {
                        buffer.grow_to(8 * chunk_bytes).unwrap();
                        rig.touch(stream.raw, buffer.address(), 8 * chunk_bytes);
                        let devices = buffer.segments(0, 8 * chunk_bytes).unwrap().into_iter().map(|s| s.device.0);
                        assert_eq!(devices.collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1]);
                    }
                    rig.assert_right();
                    drop(buffer);
                    let mut rig = rig;
                    rig.scarred = quarantined;
                    if !met {
                        assert!(nth > 1, "no call was made");
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn f16a_memory_is_back_after_each_buffer() {
    let rig = Shape::exact(2 * MIB, 80 * GIB / (2 * MIB)).build();
    let stream = rig.stream();
    for _ in 0..64 {
        let buffer = rig.pool().growable(&Request::new(64 * MIB, stream.id), GIB).unwrap();
        assert_eq!((buffer.backed_bytes(), rig.physical_bytes()), (64 * MIB, 64 * MIB));
        drop(buffer);
        assert_eq!(rig.pool().trim_and_wait().unwrap().released_bytes, 64 * MIB);
        assert_eq!((rig.physical_bytes(), rig.ledger().mappings, rig.pool().pictures().len()), (0, 0, 0));
    }
}

#[test]
fn f16b_a_buffer_grows_again_and_again() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 8).build();
        let stream = rig.stream();
        let buffer = growable(&rig, stream, 64 * chunk_bytes);
        let mut grown = 0;
        for chunks in [2, 4, 8] {
            buffer.grow_to(chunks * chunk_bytes).unwrap();
            rig.fill(stream, at(&buffer, grown * chunk_bytes), (chunks - grown) * chunk_bytes, chunks);
            for (start, end) in [(0, 2), (2, 4), (4, 8)].into_iter().filter(|&(_, end)| end <= chunks) {
                rig.verify(stream, at(&buffer, start * chunk_bytes), (end - start) * chunk_bytes, end);
            }
            grown = chunks;
            assert_eq!(grown_bytes(&buffer), chunks * chunk_bytes);
            sound(&rig, &[&buffer]);
        }
        rig.assert_right();
        let short = shortage(buffer.grow_to(9 * chunk_bytes));
        assert_eq!((short.asked_bytes, short.missing_bytes), (chunk_bytes, chunk_bytes));
        assert_eq!(buffer.backed_bytes(), 8 * chunk_bytes);
        // What is given back can be had again, with no call of the driver.
        let created = rig.pool().stats().handles_created;
        let calls = rig.faulty.total_calls();
        assert_eq!(buffer.give_back(4 * chunk_bytes, 4 * chunk_bytes).unwrap(), 4 * chunk_bytes);
        buffer.grow_to(8 * chunk_bytes).unwrap();
        assert_eq!(rig.pool().stats().handles_created, created);
        let mapped = [Verb::Map, Verb::Create, Verb::SetRights, Verb::Unmap].map(|verb| rig.faulty.calls(verb));
        assert!(mapped[0] == 8 && mapped[1] == 8 && mapped[3] == 0, "{mapped:?}, {calls} calls before");
        rig.verify(stream, buffer.address(), 2 * chunk_bytes, 2);
        rig.assert_right();
    }
}

#[test]
fn f16c_a_length_that_is_no_multiple_is_rounded_or_named() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 4).build();
        let stream = rig.stream();
        let buffer = growable(&rig, stream, 4 * chunk_bytes);
        let odd = 3 * chunk_bytes / 2 + 1;
        buffer.grow_to(odd).unwrap();
        assert_eq!((buffer.backed_bytes(), rig.ledger().mapped_bytes), (2 * chunk_bytes, 2 * chunk_bytes));
        for refused in [buffer.back(0, odd), buffer.back(512, chunk_bytes), buffer.give_back(0, odd).map(drop)] {
            assert!(refused.unwrap_err().to_string().contains(&chunk_bytes.to_string()), "the granule is named");
        }
        drop(buffer);
        rig.pool().trim_and_wait().unwrap();
        assert_eq!((rig.physical_bytes(), rig.ledger().mapped_bytes), (0, 0), "the whole of it");
    }
}

#[test]
fn f16d_a_refused_growth_leaves_the_old_part_open() {
    for verb in [Verb::Create, Verb::Map, Verb::SetRights] {
        let rig = Shape::exact(64 * KIB, 8).build();
        let stream = rig.stream();
        let buffer = growable(&rig, stream, 512 * KIB);
        buffer.grow_to(128 * KIB).unwrap();
        rig.fill(stream, buffer.address(), 128 * KIB, 5);
        rig.faulty.fail(verb, 1, ErrorKind::InvalidValue);
        assert!(matches!(buffer.grow_to(320 * KIB), Err(Error::Driver(error)) if error.verb == verb));
        assert_eq!(grown_bytes(&buffer), 128 * KIB);
        rig.verify(stream, buffer.address(), 128 * KIB, 5);
        rig.touch(stream.raw, buffer.address(), 128 * KIB);
        buffer.grow_to(320 * KIB).unwrap();
        rig.touch(stream.raw, buffer.address(), 320 * KIB);
        rig.assert_right();
    }
}

#[test]
fn f16e_an_absurd_maximum_is_refused_with_its_reason() {
    let rig = Shape::exact(4 * KIB, 4).build();
    let stream = rig.stream();
    let refused = rig.pool().growable(&Request::new(0, stream.id), 1 << 60).unwrap_err();
    assert!(matches!(refused, Error::InvalidSize { bytes, .. } if bytes == 1 << 60), "{refused}");
    let refused = rig.pool().growable(&Request::new(0, stream.id), 1 << 40).unwrap_err();
    assert!(matches!(&refused, Error::Driver(error) if error.kind == ErrorKind::OutOfResources), "{refused}");
    let refused = rig.pool().growable(&Request::new(8 * KIB, stream.id), 4 * KIB).unwrap_err();
    assert_eq!(refused, Error::BeyondMax { offset_bytes: 0, bytes: 8 * KIB, max_bytes: 4 * KIB });
    let buffer = growable(&rig, stream, 16 * KIB);
    for refused in
        [buffer.grow_to(20 * KIB), buffer.back(12 * KIB, 8 * KIB), buffer.give_back(16 * KIB, 4 * KIB).map(drop)]
    {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("maximum of 16384 bytes"), "{text}");
    }
    assert!(matches!(buffer.grow_to(u64::MAX), Err(Error::BeyondMax { .. })));
    assert!(matches!(buffer.back(4 * KIB, u64::MAX - 4095), Err(Error::BeyondMax { .. })));
    buffer.grow_to(16 * KIB).unwrap();
    drop(buffer);
    rig.take(stream, 16 * KIB);
}

#[test]
fn f16f_buffers_that_grow_in_turn_go_back_as_they_came() {
    let rig = Shape::exact(4 * KIB, 64).build();
    let stream = rig.stream();
    let buffers: Vec<Growable> = (0..4).map(|_| growable(&rig, stream, 64 * KIB)).collect();
    for round in 1..=8 {
        for buffer in &buffers {
            buffer.grow_to(round * 8 * KIB).unwrap();
        }
    }
    assert!(matches!(buffers[0].grow_to(68 * KIB), Err(Error::BeyondMax { .. })));
    sound(&rig, &buffers.iter().collect::<Vec<_>>());
    drop(buffers);
    assert_eq!(rig.pool().trim_and_wait().unwrap().released_bytes, 256 * KIB);
    assert_eq!((rig.physical_bytes(), rig.ledger().mappings, rig.ledger().reservations), (0, 0, 1));
}

#[test]
fn f16g_memory_that_moved_is_freed_once_and_its_place_can_be_backed_again() {
    let rig = Shape::exact(4 * KIB, 8).build();
    let stream = rig.stream();
    let (old, new) = (growable(&rig, stream, 32 * KIB), growable(&rig, stream, 32 * KIB));
    old.grow_to(32 * KIB).unwrap();
    rig.fill(stream, old.address(), 32 * KIB, 3);
    assert_eq!(old.give_back(8 * KIB, 16 * KIB).unwrap(), 16 * KIB);
    new.grow_to(16 * KIB).unwrap();
    assert_eq!((rig.pool().stats().handles_aliased, rig.pool().stats().stale_mappings), (4, 4));
    rig.fill(stream, new.address(), 16 * KIB, 4);
    assert_eq!(old.backed(), [0..8 * KIB, 24 * KIB..32 * KIB]);
    sound(&rig, &[&old, &new]);
    assert!(matches!(old.grow_to(32 * KIB), Err(Error::OutOfMemory(_))));
    drop(new);
    // Back to the place they came from: where the old mappings are, the CPU waits for the stream.
    rig.done(stream);
    old.grow_to(32 * KIB).unwrap();
    rig.touch(stream.raw, old.address(), 32 * KIB);
    rig.verify(stream, old.address(), 8 * KIB, 3);
    rig.assert_right();
    sound(&rig, &[&old]);
    drop(old);
    rig.pool().trim_and_wait().unwrap();
    assert_eq!((rig.physical_bytes(), rig.faulty.calls(Verb::Release)), (0, 8));
}

#[test]
fn f16g_only_whole_handles_are_given_back() {
    let rig = Shape { settings: stitchpool::Settings::default(), ..Shape::exact(4 * KIB, 64) }.build();
    let stream = rig.stream();
    let buffer = rig.pool().growable_in_steps(&Request::new(40 * KIB, stream.id), 256 * KIB, 16 * KIB).unwrap();
    let lengths: Vec<u64> = buffer.segments(0, 40 * KIB).unwrap().iter().map(|segment| segment.bytes).collect();
    assert_eq!(lengths, [16 * KIB, 16 * KIB, 8 * KIB]);
    let refused = buffer.give_back(8 * KIB, 32 * KIB).unwrap_err();
    assert_eq!(refused, Error::PartOfHandle { start_bytes: 0, end_bytes: 16 * KIB });
    assert_eq!(grown_bytes(&buffer), 40 * KIB);
    buffer.grow_to(56 * KIB).unwrap();
    let lengths: Vec<u64> = buffer.segments(0, 56 * KIB).unwrap().iter().map(|segment| segment.bytes).collect();
    assert_eq!(lengths, [16 * KIB, 16 * KIB, 8 * KIB, 8 * KIB, 8 * KIB], "none crosses a step");
    assert_eq!(buffer.give_back(16 * KIB, 16 * KIB).unwrap(), 16 * KIB);
    assert_eq!(buffer.give_back(16 * KIB, 32 * KIB).unwrap(), 16 * KIB, "what is not backed is no error");
    assert_eq!(buffer.segments(0, 17 * KIB).unwrap_err(), Error::NotBacked { offset_bytes: 16 * KIB });
    // A handle that is taken back is taken back whole.
    buffer.back(20 * KIB, 4 * KIB).unwrap();
    assert_eq!(buffer.backed(), [0..32 * KIB, 48 * KIB..56 * KIB]);
    sound(&rig, &[&buffer]);
}

#[test]
fn f18_a_buffer_can_use_all_there_is_at_any_place() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 64).build();
        let (stream, other) = (rig.stream(), rig.stream());
        let buffer = growable(&rig, stream, 256 * chunk_bytes);
        for place in [0, 128, 3, 192] {
            // Plain blocks of two streams had it all before, every second of them freed last.
            let blocks: Vec<Address> = (0..64).map(|n| rig.take([stream, other][n % 2], chunk_bytes)).collect();
            for &block in blocks.iter().step_by(3).chain(blocks.iter().skip(1).step_by(3)) {
                rig.free(block);
            }
            blocks.iter().skip(2).step_by(3).for_each(|&block| rig.free(block));
            buffer.back(place * chunk_bytes, 64 * chunk_bytes).unwrap();
            rig.touch(stream.raw, at(&buffer, place * chunk_bytes), 64 * chunk_bytes);
            sound(&rig, &[&buffer]);
            let next = (place + 64) % 192 * chunk_bytes;
            assert!(matches!(buffer.back(next, chunk_bytes), Err(Error::OutOfMemory(_))));
            buffer.give_back(place * chunk_bytes, 64 * chunk_bytes).unwrap();
            assert_eq!(rig.physical_bytes(), 64 * chunk_bytes);
        }
        rig.assert_right();
    }
}

#[test]
fn f18_larger_free_handles_are_cut_for_a_buffer() {
    // All memory is in handles of 16 chunks; the buffer's are one chunk.
    let shape = Shape::exact(64 * KIB, 64);
    let settings = stitchpool::Settings { handle_bytes_max: MIB, ..shape.settings.clone() };
    let rig = Shape { settings, ..shape }.build();
    let stream = rig.stream();
    let large = rig.pool().growable_in_steps(&Request::new(4 * MIB, stream.id), 4 * MIB, MIB).unwrap();
    drop(large);
    let buffer = growable(&rig, stream, 8 * MIB);
    for chunks in [1, 20, 64] {
        buffer.grow_to(chunks * 64 * KIB).unwrap();
        sound(&rig, &[&buffer]);
    }
    assert!(matches!(buffer.grow_to(65 * 64 * KIB), Err(Error::OutOfMemory(_))));
    rig.touch(stream.raw, buffer.address(), 4 * MIB);
    rig.assert_right();
}

#[test]
fn f32_rights_are_set_on_a_grown_tail() {
    for chunk_bytes in [4 * KIB, 2 * MIB] {
        for tails in [[2_379_776_u64, 7_864_320, 6_533_120], [4096, 8192, 16_384]] {
            let rig = Shape::exact(chunk_bytes, 64 * MIB / chunk_bytes).build();
            let stream = rig.stream();
            let request = Request::new(0, stream.id);
            let buffers: [Growable; 3] =
                std::array::from_fn(|_| rig.pool().growable_in_steps(&request, 64 * MIB, 2 * MIB).unwrap());
            let (mut next, mut dice) = ([0; 3], 7_u64);
            while next.iter().any(|&done| done < tails.len()) {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let chosen = (dice >> 33) as usize % 3;
                let Some(&tail) = tails.get(next[chosen]) else { continue };
                let buffer = &buffers[chosen];
                let (before, bytes) = (buffer.backed_bytes(), tail.next_multiple_of(chunk_bytes));
                buffer.back(before, bytes).unwrap();
                rig.fill(stream, at(buffer, before), bytes, before);
                rig.touch(stream.raw, buffer.address(), before + bytes);
                next[chosen] += 1;
            }
            for buffer in &buffers {
                let mut start = 0;
                for tail in tails {
                    let bytes = tail.next_multiple_of(chunk_bytes);
                    rig.verify(stream, at(buffer, start), bytes, start);
                    start += bytes;
                }
                assert_eq!(grown_bytes(buffer), start);
            }
            sound(&rig, &buffers.iter().collect::<Vec<_>>());
            rig.assert_right();
        }
    }
}

#[test]
fn f32_a_driver_that_refuses_the_tail_of_a_buffer_is_reported() {
    let rig = Shape::exact(4 * KIB, 8).build();
    let stream = rig.stream();
    let buffer = growable(&rig, stream, 32 * KIB);
    buffer.grow_to(8 * KIB).unwrap();
    rig.mark(buffer.address(), 8 * KIB, 1);
    rig.faulty.fail(Verb::SetRights, 1, ErrorKind::InvalidValue);
    match buffer.grow_to(16 * KIB) {
        Err(Error::Driver(error)) => assert_eq!((error.verb, error.kind), (Verb::SetRights, ErrorKind::InvalidValue)),
        other => panic!("{other:?}"),
    }
    assert!(rig.is_marked(buffer.address(), 8 * KIB, 1));
    buffer.grow_to(16 * KIB).unwrap();
}

#[test]
fn f33_buffers_of_any_length_are_whole_granules() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 2).build();
        let stream = rig.stream();
        let refused = rig.pool().growable(&Request::new(0, stream.id), 0).unwrap_err();
        assert!(matches!(refused, Error::InvalidSize { bytes: 0, .. }), "{refused}");
        for bytes in [1, 128, 6912.min(2 * chunk_bytes), chunk_bytes - 1, chunk_bytes, chunk_bytes + 1] {
            let whole_bytes = bytes.next_multiple_of(chunk_bytes);
            let buffer = rig.pool().growable(&Request::new(bytes, stream.id), bytes).unwrap();
            assert_eq!((buffer.max_bytes(), buffer.backed_bytes()), (whole_bytes, whole_bytes));
            assert_eq!(rig.physical_bytes(), whole_bytes, "{bytes} bytes");
            rig.mark(buffer.address(), whole_bytes, 1);
            drop(buffer);
            rig.pool().trim_and_wait().unwrap();
            assert_eq!(rig.physical_bytes(), 0);
        }
    }
}
