//! Captures as tests open them.

use crate::bench::{GRANULE, with_streams};
use stitchpool_driver::host::StreamMode;
use stitchpool_driver::{Capture, Driver, ErrorKind, RawStream};

fn state(bench: &crate::bench::Bench, stream: RawStream) -> Capture {
    // SAFETY: the driver checks the stream.
    unsafe { bench.0.capture(stream) }.unwrap()
}

#[test]
fn captured_work_runs_when_it_is_launched_and_as_often() {
    let bench = with_streams(StreamMode::Immediate);
    let (at, stream) = (bench.buffer(1), bench.stream());
    bench.0.begin_capture(stream).unwrap();
    bench.fill(stream, at, 5);
    bench.verify(stream, at, 5);
    assert_eq!((state(&bench, stream), bench.checked()), (Capture::Active, (0, 0)));
    let graph = bench.0.end_capture(stream).unwrap();
    assert_eq!(state(&bench, stream), Capture::None);
    for round in 1..4 {
        bench.0.launch(stream, &graph).unwrap();
        assert_eq!(bench.checked(), (round * GRANULE, 0));
    }
}

#[test]
fn a_graph_uses_whatever_is_mapped_at_its_addresses_when_it_runs() {
    let bench = with_streams(StreamMode::Immediate);
    let (at, stream) = (bench.buffer(1), bench.stream());
    bench.0.begin_capture(stream).unwrap();
    bench.fill(stream, at, 5);
    let graph = bench.0.end_capture(stream).unwrap();
    bench.unmap(at, 1).unwrap();
    assert!(bench.faults().is_empty(), "a graph that is not launched names nothing");
    bench.0.launch(stream, &graph).unwrap();
    assert_eq!(bench.faults().len(), 1);
}

#[test]
fn what_a_capture_does_not_stand_is_refused_and_breaks_it() {
    let bench = with_streams(StreamMode::Immediate);
    let (at, to) = (bench.buffer(1), bench.buffer(1));
    let event = bench.record(bench.stream()).unwrap();
    // SAFETY: the driver checks everything.
    let copy = |stream| unsafe { bench.0.copy(stream, to, at, GRANULE) };
    // SAFETY: as above.
    let set = |stream| unsafe { bench.0.memset(stream, at, GRANULE, 1) };
    // SAFETY: as above.
    let all = |stream: RawStream| unsafe { bench.0.synchronize(stream.device) };
    let calls: [&dyn Fn(RawStream) -> stitchpool_driver::Result<()>; 6] = [
        &|stream| bench.record(stream).map(drop),
        &|stream| bench.wait(stream, event),
        &|stream| bench.finish_stream(stream),
        &copy,
        &set,
        &all,
    ];
    for call in calls {
        let stream = bench.stream();
        bench.0.begin_capture(stream).unwrap();
        assert_eq!(call(stream).unwrap_err().kind, ErrorKind::Capture);
        assert_eq!(state(&bench, stream), Capture::Invalidated);
        assert_eq!(bench.0.end_capture(stream).unwrap_err().kind, ErrorKind::Capture);
        assert_eq!(state(&bench, stream), Capture::None);
        call(stream).unwrap();
    }
}

#[test]
fn a_capture_can_be_broken_from_elsewhere() {
    let bench = with_streams(StreamMode::Immediate);
    let stream = bench.stream();
    assert!(bench.0.invalidate_capture(stream).is_err());
    assert!(bench.0.end_capture(stream).is_err());
    bench.0.begin_capture(stream).unwrap();
    assert!(bench.0.begin_capture(stream).is_err());
    bench.0.invalidate_capture(stream).unwrap();
    assert_eq!(state(&bench, stream), Capture::Invalidated);
}

#[test]
fn memory_can_be_mapped_while_a_stream_is_captured() {
    let bench = with_streams(StreamMode::Immediate);
    let (stream, other) = (bench.stream(), bench.stream());
    bench.0.begin_capture(stream).unwrap();
    let at = bench.buffer(2);
    bench.fill(other, at, 1);
    let event = bench.record(other).unwrap();
    bench.finish(event).unwrap();
    bench.unmap(at, 2).unwrap();
    assert_eq!(state(&bench, stream), Capture::Active);
}
