//! Streams that a test moves by hand.

use crate::bench::{Bench, FIRST, GRANULE, with_streams};
use stitchpool_driver::host::StreamMode;
use stitchpool_driver::{DeviceId, Driver, ErrorKind, Kernels, RawStream, Rights, pattern_word};

fn bench() -> Bench {
    with_streams(StreamMode::ByHand)
}

#[test]
fn nothing_runs_before_the_test_says_so() {
    let bench = bench();
    let (at, stream) = (bench.buffer(1), bench.stream());
    bench.fill(stream, at, 1);
    bench.verify(stream, at, 1);
    let event = bench.record(stream).unwrap();
    assert_eq!((bench.checked(), bench.is_done(event)), ((0, 0), false));
    assert_eq!(bench.0.advance(stream, 2), Ok(2));
    assert_eq!((bench.checked(), bench.is_done(event)), ((GRANULE, 0), false));
    assert_eq!(bench.0.advance(stream, 2), Ok(1));
    assert!(bench.is_done(event));
    assert_eq!(bench.0.queued(stream), Ok(0));
}

#[test]
fn a_wait_holds_its_stream_until_the_event_is_done() {
    let bench = bench();
    let (at, writer, reader) = (bench.buffer(1), bench.stream(), bench.stream());
    bench.fill(writer, at, 1);
    let event = bench.record(writer).unwrap();
    bench.wait(reader, event).unwrap();
    bench.verify(reader, at, 1);
    assert_eq!(bench.0.run(reader), Ok(0));
    assert_eq!(bench.0.advance(writer, 1), Ok(1));
    assert_eq!(bench.0.run(reader), Ok(0), "the event itself has not run");
    assert_eq!(bench.0.advance(writer, 1), Ok(1));
    assert_eq!(bench.0.run(reader), Ok(2));
    assert_eq!(bench.checked(), (GRANULE, 0));
}

#[test]
fn what_is_not_ordered_is_seen_when_it_runs_in_the_wrong_order() {
    let bench = bench();
    let (at, writer, reader) = (bench.buffer(1), bench.stream(), bench.stream());
    bench.fill(writer, at, 1);
    bench.verify(reader, at, 1);
    bench.0.run(reader).unwrap();
    assert_eq!(bench.checked(), (GRANULE, GRANULE));
    assert!(bench.faults().is_empty());
}

#[test]
fn all_streams_run_in_the_order_of_queueing() {
    let bench = bench();
    let (at, one, two) = (bench.buffer(1), bench.stream(), bench.stream());
    for (stream, seed) in [(one, 1), (two, 2), (one, 3), (two, 4)] {
        bench.fill(stream, at, seed);
        bench.verify(stream, at, seed);
    }
    assert_eq!(bench.0.run_all(), 8);
    assert_eq!(bench.checked(), (4 * GRANULE, 0));
}

#[test]
fn finish_runs_what_the_event_needs_and_nothing_else() {
    let bench = bench();
    let (one, two, three, four) = (bench.stream(), bench.stream(), bench.stream(), bench.stream());
    let at = bench.buffer(1);
    bench.fill(one, at, 1);
    let first = bench.record(one).unwrap();
    bench.fill(one, at, 9);
    bench.wait(two, first).unwrap();
    let second = bench.record(two).unwrap();
    bench.fill(two, at, 9);
    bench.wait(three, second).unwrap();
    bench.verify(three, at, 1);
    let third = bench.record(three).unwrap();
    bench.fill(four, at, 9);
    bench.finish(third).unwrap();
    assert_eq!(bench.checked(), (GRANULE, 0));
    let left = [one, two, three, four].map(|stream| bench.0.queued(stream).unwrap());
    assert_eq!(left, [1, 1, 0, 1]);
}

#[test]
fn synchronize_runs_all_of_a_device_and_what_that_waits_for() {
    let bench = bench();
    let second = DeviceId(1);
    let (here, there) = (bench.stream(), bench.0.create_stream(second).unwrap());
    let at = bench.buffer(1);
    bench.fill(here, at, 1);
    bench.wait(there, bench.record(here).unwrap()).unwrap();
    bench.fill(here, at, 2);
    // SAFETY: the driver checks the device.
    let synchronize = |device| unsafe { bench.0.synchronize(device) };
    synchronize(second).unwrap();
    assert_eq!([here, there].map(|stream| bench.0.queued(stream).unwrap()), [1, 0]);
    synchronize(FIRST).unwrap();
    assert_eq!(bench.0.queued(here), Ok(0));
    bench.delay(here, 1);
    bench.0.stall(here, true).unwrap();
    assert_eq!(synchronize(FIRST).unwrap_err().kind, ErrorKind::Timeout);
}

#[test]
fn the_process_touches_no_bytes_that_queued_work_names() {
    let bench = bench();
    let (at, stream) = (bench.buffer(2), bench.stream());
    bench.fill(stream, at, 1);
    let mut found = [0; 8];
    // SAFETY: the driver checks everything.
    unsafe {
        assert_eq!(bench.0.read(FIRST, at, &mut found).unwrap_err().kind, ErrorKind::InvalidValue);
        assert_eq!(bench.0.write(FIRST, at, &found).unwrap_err().kind, ErrorKind::InvalidValue);
        bench.0.read(FIRST, at + GRANULE, &mut found).unwrap();
        bench.0.run(stream).unwrap();
        bench.0.read(FIRST, at, &mut found).unwrap();
    }
    assert_eq!(u64::from_le_bytes(found), pattern_word(1, 0));
}

#[test]
fn a_stream_that_stands_still_makes_finish_time_out() {
    let bench = bench();
    let (one, two) = (bench.stream(), bench.stream());
    let first = bench.record(one).unwrap();
    bench.wait(two, first).unwrap();
    let second = bench.record(two).unwrap();
    bench.0.stall(one, true).unwrap();
    assert_eq!(bench.finish(second).unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(bench.finish_stream(two).unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!((bench.0.run_all(), bench.is_done(first)), (0, false));
    bench.0.stall(one, false).unwrap();
    bench.finish(second).unwrap();
}

#[test]
fn a_stalled_stream_queues_and_catches_up_where_work_runs_at_once() {
    let bench = with_streams(StreamMode::Immediate);
    let (at, stream, other) = (bench.buffer(1), bench.stream(), bench.stream());
    bench.0.stall(stream, true).unwrap();
    bench.fill(stream, at, 1);
    let event = bench.record(stream).unwrap();
    bench.wait(other, event).unwrap();
    bench.verify(other, at, 1);
    assert_eq!((bench.0.ledger().queued, bench.checked()), (4, (0, 0)));
    bench.0.stall(stream, false).unwrap();
    assert_eq!((bench.0.ledger().queued, bench.checked()), (0, (GRANULE, 0)));
}

#[test]
fn unmapping_what_queued_work_names_is_a_fault_at_once() {
    let bench = bench();
    let (at, stream) = (bench.buffer(1), bench.stream());
    bench.verify(stream, at, 1);
    bench.unmap(at, 1).unwrap();
    let faults = bench.faults();
    assert_eq!(faults.len(), 1);
    let stream_name = format!("stream {}", stream.value);
    assert!(
        [&stream_name, "device 0", "verify", "unmapped"].iter().all(|word| faults[0].contains(*word)),
        "{faults:?}"
    );
    bench.0.run_all();
    assert_eq!(bench.faults().len(), 2, "the work itself met nothing");
}

#[test]
fn unmapping_after_the_work_is_no_fault() {
    let bench = bench();
    let (at, stream) = (bench.buffer(1), bench.stream());
    bench.fill(stream, at, 1);
    let event = bench.record(stream).unwrap();
    bench.finish(event).unwrap();
    bench.unmap(at, 1).unwrap();
    assert!(bench.faults().is_empty());
}

#[test]
fn what_is_mapped_after_queueing_counts_when_the_work_runs() {
    let bench = bench();
    let (at, stream) = (bench.reserve(1), bench.stream());
    bench.fill(stream, at, 1);
    bench.map(at, 1, bench.create(1).unwrap()).unwrap();
    bench.open(at, 1, Rights::ReadWrite).unwrap();
    bench.0.run_all();
    bench.unmap(at, 1).unwrap();
    assert!(bench.faults().is_empty());
}

#[test]
fn touching_checks_rights_and_reads_nothing() {
    let bench = bench();
    let (at, stream) = (bench.buffer(2), bench.stream());
    bench.open(at, 2, Rights::Read).unwrap();
    for (bytes, needs, faults) in
        [(2 * GRANULE, Rights::Read, 0), (GRANULE, Rights::ReadWrite, 1), (3 * GRANULE, Rights::Read, 2)]
    {
        bench.0.touch(stream, at, bytes, needs).unwrap();
        bench.0.run_all();
        assert_eq!(bench.faults().len(), faults);
    }
    assert_eq!(bench.checked(), (0, 0));
}

#[test]
fn lowered_rights_meet_work_that_was_queued_before() {
    let bench = bench();
    let (at, stream) = (bench.buffer(1), bench.stream());
    bench.fill(stream, at, 1);
    bench.open(at, 1, Rights::Read).unwrap();
    bench.0.run_all();
    assert_eq!(bench.faults().len(), 1);
}

#[test]
fn a_destroyed_streams_value_comes_back_and_its_work_is_not_lost() {
    let bench = bench();
    let (at, first) = (bench.buffer(1), bench.stream());
    bench.fill(first, at, 1);
    let event = bench.record(first).unwrap();
    bench.destroy(first);
    let second = bench.stream();
    assert_eq!(first, second);
    assert_eq!(bench.0.queued(second), Ok(0));
    assert!(!bench.is_done(event));
    bench.0.run_all();
    assert!(bench.is_done(event));
    bench.verify(second, at, 1);
    bench.finish_stream(second).unwrap();
    assert_eq!(bench.checked(), (GRANULE, 0));
}

#[test]
fn default_streams_are_there_without_being_made() {
    let bench = bench();
    let at = bench.buffer(1);
    let default = RawStream { device: FIRST, value: 0 };
    bench.fill(default, at, 1);
    bench.verify(default, at, 1);
    bench.finish_stream(default).unwrap();
    assert_eq!(bench.checked(), (GRANULE, 0));
    let unknown = RawStream { device: FIRST, value: 4711 };
    assert_eq!(bench.record(unknown).unwrap_err().kind, ErrorKind::InvalidValue);
    // SAFETY: the driver checks the stream.
    assert!(unsafe { bench.0.destroy_stream(default) }.is_err());
}

#[test]
fn peek_and_poke_see_what_has_run() {
    let bench = bench();
    let (at, stream) = (bench.buffer(1), bench.stream());
    bench.0.poke(at + 5, b"stitch").unwrap();
    let mut read = [0; 8];
    bench.0.peek(at + 4, &mut read).unwrap();
    assert_eq!(&read, b"\0stitch\0");
    bench.fill(stream, at, 3);
    bench.0.peek(at + 4, &mut read).unwrap();
    assert_eq!(&read, b"\0stitch\0");
    bench.0.run_all();
    bench.0.peek(at + 8, &mut read).unwrap();
    assert_eq!(u64::from_ne_bytes(read), stitchpool_driver::pattern_word(3, 1));
    for wrong in [at + (GRANULE - 4), at + GRANULE] {
        assert_eq!(bench.0.peek(wrong, &mut read).unwrap_err().kind, ErrorKind::IllegalAddress);
    }
    bench.open(at, 1, Rights::Read).unwrap();
    bench.0.peek(at, &mut read).unwrap();
    assert_eq!(bench.0.poke(at, &read).unwrap_err().kind, ErrorKind::IllegalAddress);
}

#[test]
fn several_threads_queue_and_map_at_once() {
    let bench = with_streams(StreamMode::Immediate);
    std::thread::scope(|threads| {
        for seed in 0..4 {
            let bench = &bench;
            threads.spawn(move || {
                let stream = bench.stream();
                for _ in 0..200 {
                    let (at, handle) = (bench.reserve(1), bench.create(1).unwrap());
                    bench.map(at, 1, handle).unwrap();
                    bench.open(at, 1, Rights::ReadWrite).unwrap();
                    bench.fill(stream, at, seed);
                    bench.verify(stream, at, seed);
                    bench.unmap(at, 1).unwrap();
                    bench.release(handle).unwrap();
                    bench.unreserve(at, 1).unwrap();
                }
                bench.destroy(stream);
            });
        }
    });
    assert_eq!((bench.checked(), bench.faults().len()), ((800 * GRANULE, 0), 0));
    assert!(bench.0.ledger().is_empty());
}
