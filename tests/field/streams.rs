//! Memory freed on one stream and wanted on another: F06, F08, F19, F27.

use crate::limit::{alloc, needs_exactly};
use crate::rig::{CHUNKS, GIB, HERE, KIB, MIB, Rig, Shape, Stream};
use std::thread;
use stitchpool::driver::host::StreamMode;
use stitchpool::driver::{Address, RawStream};
use stitchpool::{Request, Settings};

const F06_TRANSIENT_MIB: u64 = 11_348;

/// F06: a card that is nearly full, of which three large blocks are freed behind queued work, each with
/// work of its own. Gives the stream.
fn f06_full_card(rig: &Rig, unit: u64) -> Stream {
    let stream = rig.stream();
    let mut transients = Vec::new();
    for block in 0..619 {
        rig.take(stream, 64 * unit);
        if [150, 300, 450].contains(&block) {
            transients.push(rig.take(stream, F06_TRANSIENT_MIB * unit));
        }
    }
    for transient in transients {
        rig.fill(stream, transient, 4 * KIB, transient.0);
        rig.busy(stream);
        rig.free(transient);
        // Nothing can be given back yet, but the point of this free is marked.
        assert_eq!(rig.pool().trim().released_bytes, 0);
    }
    stream
}

/// The shape of the reported card, with 16 KiB for a MiB and chunks of four.
fn f06_shape() -> Shape {
    Shape::exact(64 * KIB, 19_200)
}

#[test]
fn f06_pending_memory_serves_its_own_stream_at_once() {
    let rig = f06_shape().build();
    let stream = f06_full_card(&rig, 16 * KIB);
    let calls = rig.faulty.total_calls();
    let block = rig.take(stream, F06_TRANSIENT_MIB * 16 * KIB);
    rig.fill(stream, block, 4 * KIB, 7);
    assert_eq!(rig.faulty.total_calls(), calls, "stream order is all that is needed");
}

#[test]
fn f06_pending_memory_serves_another_stream_after_one_wait() {
    let rig = f06_shape().build();
    let (owner, other) = (f06_full_card(&rig, 16 * KIB), rig.stream());
    let before = rig.pool().stats();
    let bytes = F06_TRANSIENT_MIB * 16 * KIB;
    let block = rig.take(other, bytes);
    let after = rig.pool().stats();
    assert_eq!((after.stream_waits - before.stream_waits, after.cpu_waits), (1, 0), "the CPU waits for nothing");
    rig.fill(other, block, 4 * KIB, 8);
    rig.fill(other, block + (bytes - 4 * KIB), 4 * KIB, 9);
    rig.done(other);
    assert!(rig.host.queued(other.raw).unwrap() > 0, "it waits for the first transient");
    // Of the owner's work: the first transient's fill, its delay, and the mark behind them.
    rig.host.advance(owner.raw, 3).unwrap();
    rig.done(other);
    assert_eq!(rig.host.queued(other.raw).unwrap(), 0, "it waits for none but the first transient");
    assert!(rig.host.queued(owner.raw).unwrap() > 0);
}

/// F08a: streams come, use a block, and go; then a block of all they had.
fn f08_gone_streams(rig: &Rig, busy: bool) -> crate::limit::Ending {
    let default = RawStream { device: HERE, value: 0 };
    let default = Stream { raw: default, id: rig.pool().register(default).unwrap() };
    let each = 4 * rig.shape.chunk_bytes;
    let mut streams = Vec::new();
    for seed in 0..32 {
        let stream = rig.stream();
        let block = alloc(rig, Request::new(each, stream.id))?;
        rig.fill(stream, block, 4 * KIB, seed);
        rig.verify(stream, block, 4 * KIB, seed);
        rig.free(block);
        streams.push(stream);
        if !busy {
            rig.done(stream);
        }
    }
    streams.into_iter().for_each(|stream| rig.end_stream(stream));
    let all = alloc(rig, Request::new(32 * each, default.id))?;
    let shown = (32 * each).min(4 * MIB);
    rig.fill(default, all, shown, 99);
    rig.verify(default, all, shown, 99);
    rig.assert_right();
    rig.pool().retire(default.id).unwrap();
    Ok(())
}

#[test]
fn f08a_streams_that_are_gone_leave_their_memory_to_all() {
    for chunk_bytes in CHUNKS {
        let shape = Shape::exact(chunk_bytes, 128);
        for busy in [false, true] {
            needs_exactly(&shape, |rig| f08_gone_streams(rig, busy));
        }
    }
}

#[test]
fn f08b_a_new_stream_with_an_old_handle_is_another_stream() {
    // Where 128 MiB more may be had, nobody waits for so little.
    for (chunks, must_wait) in [(4, true), (4096, false)] {
        let rig = Shape::exact(64 * KIB, chunks).build();
        let bytes = 4 * 64 * KIB;
        let old = rig.stream();
        let first = rig.take(old, bytes);
        rig.fill(old, first, bytes, 1);
        rig.busy(old);
        rig.verify(old, first, bytes, 1);
        rig.free(first);
        rig.end_stream(old);
        let new = rig.stream();
        assert_eq!(new.raw, old.raw, "the driver gave the value again");
        assert_ne!(new.id, old.id);
        let second = rig.take(new, bytes);
        assert_eq!(rig.pool().stats().stream_waits > 0, must_wait, "with {chunks} chunks");
        rig.fill(new, second, bytes, 2);
        rig.verify(new, second, bytes, 2);
        rig.done(new);
        assert_eq!(rig.host.queued(new.raw).unwrap() > 0, must_wait, "with {chunks} chunks");
    }
}

#[test]
fn f08b_a_stream_destroyed_without_a_word_costs_memory_at_most() {
    let mut rig = Shape::exact(64 * KIB, 4).build();
    let bytes = 4 * 64 * KIB;
    // Nobody can tell any more when the old work is done, so its memory is left standing at the end.
    rig.left_bytes = bytes;
    let old = rig.stream();
    let first = rig.take(old, bytes);
    rig.fill(old, first, bytes, 1);
    rig.busy(old);
    rig.verify(old, first, bytes, 1);
    rig.free(first);
    rig.destroy_unretired(old);
    let new = rig.stream();
    assert_eq!(new.raw, old.raw, "the driver gave the value again");
    // Whether it is served or not: never with memory that the old stream's work still uses.
    if let Ok(second) = rig.alloc(new, bytes) {
        rig.fill(new, second, bytes, 2);
        rig.verify(new, second, bytes, 2);
        rig.done(new);
    }
    rig.assert_right();
}

#[test]
fn f08c_two_threads_with_one_handle_value_are_two_streams() {
    // As threads do that each name the default stream of their own by the same value.
    let rig = Shape::exact(64 * KIB, 4096).build();
    let bytes = 4 * 64 * KIB;
    let named = RawStream { device: HERE, value: 0 };
    let register = || Stream { raw: named, id: rig.pool().register(named).unwrap() };
    let one = thread::scope(|scope| {
        let first = scope.spawn(|| {
            let stream = register();
            let block = rig.take(stream, bytes);
            rig.fill(stream, block, bytes, 1);
            rig.free(block);
            block
        });
        first.join().unwrap()
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            let stream = register();
            let early = rig.take(stream, bytes);
            assert_ne!(early, one, "the first thread's block is still in use");
            assert_eq!(rig.pool().stats().handles_aliased, 0, "and so is its memory");
            rig.fill(stream, early, bytes, 2);
            let rest = rig.take(stream, (4096 - 4) * 64 * KIB);
            assert_eq!(rig.pool().stats().stream_waits, 1, "there is no other memory: it waits");
            rig.fill(stream, rest + (4096 - 8) * 64 * KIB, bytes, 3);
        });
    });
}

#[test]
fn f19_memory_of_streams_that_nobody_uses_again_is_used_again() {
    for retire in [true, false] {
        let rig = Shape { watch_order: false, ..Shape::usual(8 * GIB) }.build();
        for round in 0..50 {
            let pair = [rig.stream(), rig.stream()];
            let blocks = pair.map(|stream| rig.take(stream, GIB));
            for (stream, block) in pair.into_iter().zip(blocks) {
                rig.touch(stream.raw, block, GIB);
                rig.free(block);
                rig.done(stream);
                if retire {
                    rig.end_stream(stream);
                }
            }
            let held_bytes = rig.physical_bytes();
            assert!(held_bytes <= 2 * GIB + 128 * MIB, "{held_bytes} bytes in round {round}, retired: {retire}");
        }
    }
}

#[test]
fn f19_two_streams_of_changing_sizes_give_all_to_one() {
    // 6 GiB of chunks of 2 MiB in all.
    needs_exactly(&Shape { watch_order: false, ..Shape::exact(2 * MIB, 3072) }, |rig| {
        let streams = [rig.stream(), rig.stream()];
        for round in 0..40 {
            let stream = streams[round % 2];
            let bytes = (100 + (round as u64 * 370) % 801) * MIB;
            let block = alloc(rig, Request::new(bytes, stream.id))?;
            rig.touch(stream.raw, block, bytes);
            rig.busy(stream);
            rig.free(block);
            if round % 3 == 0 {
                rig.done(stream);
            }
        }
        let all = alloc(rig, Request::new(6 * GIB, streams[1].id))?;
        rig.touch(streams[1].raw, all, 6 * GIB);
        Ok(())
    });
}

#[test]
fn f27_a_block_dropped_after_the_launch_keeps_its_bytes() {
    for waits in [true, false] {
        for chunk_bytes in CHUNKS {
            let shape = Shape::exact(chunk_bytes, 1);
            let settings = Settings { stream_waits: waits, ..shape.settings.clone() };
            let rig = Shape { settings, ..shape }.build();
            let (reader, writer) = (rig.stream(), rig.stream());
            let read = rig.take(reader, chunk_bytes);
            rig.fill(reader, read, chunk_bytes, 1);
            rig.verify(reader, read, chunk_bytes, 1);
            rig.free(read);
            let written = rig.take(writer, chunk_bytes);
            rig.fill(writer, written, chunk_bytes, 2);
            rig.verify(writer, written, chunk_bytes, 2);
            // The driver runs the writer first where it can.
            rig.done(writer);
            rig.assert_right();
            let stats = rig.pool().stats();
            assert_eq!((stats.stream_waits > 0, stats.cpu_waits > 0), (waits, !waits), "how the writer waited");
        }
    }
}

#[test]
fn f27_a_use_on_another_stream_outlives_the_free() {
    let rig = Shape::exact(4 * KIB, 1).build();
    let (owner, user) = (rig.stream(), rig.stream());
    let block: Address = rig.take(owner, 4 * KIB);
    rig.fill(owner, block, 4 * KIB, 1);
    rig.done(owner);
    // The application orders the user after the owner, as it must.
    // SAFETY: both streams live, and the owner's work is done.
    unsafe { stitchpool::driver::Kernels::finish_stream(&*rig.host, owner.raw) }.unwrap();
    rig.pool().record_use(block, user.id).unwrap();
    rig.verify(user, block, 4 * KIB, 1);
    rig.free(block);
    let next = rig.take(owner, 4 * KIB);
    rig.fill(owner, next, 4 * KIB, 2);
    rig.done(owner);
    rig.assert_right();
}

#[test]
fn f21d_frees_in_flight_are_waited_for_once() {
    // 2,570,310,640 of 40 GB are asked for while 15,015,998,208 are allocated and the rest is freed behind
    // queued work; a MiB is 64 KiB here.
    let rig = Shape { streams: StreamMode::ByHand, ..Shape::exact(64 * KIB, 38_147) }.build();
    let (worker, taker) = (rig.stream(), rig.stream());
    rig.take(worker, 15_015_998_208 / 16 / 512 * 512);
    let rest = (38_147 - 14_321) * 64 * KIB;
    let transient = rig.take(worker, rest);
    rig.busy(worker);
    rig.free(transient);
    rig.take(taker, 2_570_310_640 / 16);
    let stats = rig.pool().stats();
    assert_eq!(stats.stream_waits + stats.cpu_waits, 1);
}

/// How often a stream waits for another in order to take what that one freed before a thousand other blocks, when all but
/// these is done.
fn waits_for_what_is_done(rig: &Rig, owner: Stream, taker: Stream) -> u64 {
    let chunk_bytes = rig.shape.chunk_bytes;
    let (low, large) = (rig.take(owner, chunk_bytes), rig.take(owner, 4 * chunk_bytes));
    rig.busy(owner);
    rig.free(large);
    assert_eq!(rig.pool().trim().released_bytes, 0, "the point of this free is marked");
    rig.done(owner);
    rig.busy(owner);
    rig.free(low);
    for _ in 0..1000 {
        let small = rig.take(owner, KIB);
        rig.free(small);
    }
    let before = rig.pool().stats().stream_waits;
    let block = rig.take(taker, 4 * chunk_bytes);
    let waits = rig.pool().stats().stream_waits - before;
    rig.free(block);
    rig.done(owner);
    rig.done(taker);
    rig.pool().trim_and_wait().unwrap();
    waits
}

#[test]
fn what_was_freed_before_much_else_is_known_to_be_done_once_that_was_missed() {
    let rig = Shape::exact(64 * KIB, 5).build();
    let (owner, taker) = (rig.stream(), rig.stream());
    let waits = [(); 3].map(|()| waits_for_what_is_done(&rig, owner, taker));
    assert_eq!(waits, [1, 0, 0], "the first time the log has lost it, and grows");
    rig.assert_right();
}
