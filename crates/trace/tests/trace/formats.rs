//! Every protocol and compression reads as the same trace; what is no trace says so.

use crate::data::{fixture, fixture_bytes, read};
use std::io::{self, Read};
use stitchpool_trace::{BlockState, ErrorKind, Event, EventKind, Limits, SourceKind, Trace};

const BASE: u64 = 0x7f00_0000_0000;
const SNAPSHOTS: [&str; 7] = [
    "protocol2.pickle",
    "protocol3.pickle",
    "protocol4.pickle",
    "protocol5.pickle",
    "packed.pickle.gz",
    "packed.pickle.xz",
    "packed.pickle.zst",
];

#[test]
fn every_protocol_and_compression_reads_as_the_same_trace() {
    let plain = Trace::open(fixture("protocol4.pickle"), &Limits::default()).unwrap();
    for name in SNAPSHOTS {
        assert_eq!(Trace::open(fixture(name), &Limits::default()).unwrap(), plain, "{name}");
    }
}

#[test]
fn a_snapshot_keeps_settings_events_and_segments() {
    let trace = Trace::open(fixture("protocol4.pickle"), &Limits::default()).unwrap();
    assert_eq!(trace.source.kind, SourceKind::PyTorch);
    assert_eq!(trace.source.backend.as_deref(), Some("native"));
    assert_eq!(trace.source.expandable_segments, Some(true));
    assert_eq!(trace.source.other_actions, [("user_defined".to_owned(), 1)].into());
    assert_eq!(trace.devices.iter().map(|device| device.device).collect::<Vec<_>>(), [0, 2]);

    let first = trace.device(0).unwrap();
    let kinds: Vec<_> = first.events.iter().map(|event| event.kind).collect();
    use EventKind::*;
    let expected = [
        SegmentAlloc,
        Alloc,
        Alloc,
        FreeRequested,
        Alloc,
        FreeCompleted,
        Other,
        OutOfMemory,
        FreeRequested,
        FreeCompleted,
    ];
    assert_eq!(kinds[..10], expected);
    assert_eq!(kinds[10..], [Snapshot]);
    let second_alloc = Event { time_us: 20, address: BASE + 1024, size_bytes: 2048, stream: 0x5a0, kind: Alloc };
    assert_eq!(first.events[2], second_alloc);
    assert_eq!((first.events[7].address, first.events[7].size_bytes), (12345, 1 << 40));

    let segment = &first.segments[0];
    assert!(segment.is_small && !segment.is_expandable);
    let states: Vec<_> = segment.blocks.iter().map(|block| block.state).collect();
    assert_eq!(states, [BlockState::Inactive, BlockState::Allocated, BlockState::Allocated, BlockState::Inactive]);

    let other = trace.device(2).unwrap();
    assert_eq!(other.events[0].stream, 0xffff_ffff_ffff_fff0);
    assert_eq!(other.segments[0].pool, (0, 3));
    assert!(other.segments[0].is_expandable);
}

#[test]
fn a_source_that_gives_one_byte_at_a_time_reads_the_same() {
    struct Drip<'a>(&'a [u8]);
    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(1);
            self.0.read(&mut buffer[..count])
        }
    }
    for name in SNAPSHOTS.into_iter().chain(["rmm.csv"]) {
        let bytes = fixture_bytes(name);
        assert_eq!(Trace::read(Drip(&bytes), &Limits::default()), read(&bytes), "{name}");
    }
}

#[test]
fn progress_ends_at_the_size_of_the_file() {
    for name in ["packed.pickle.gz", "protocol2.pickle", "rmm.csv"] {
        let mut last = None;
        Trace::open_watched(fixture(name), &Limits::default(), &mut |progress| last = Some(progress)).unwrap();
        let last = last.unwrap();
        assert_eq!(Some(last.read_bytes), last.total_bytes, "{name}");
        assert_eq!(last.read_bytes, fixture_bytes(name).len() as u64, "{name}");
    }
}

#[test]
fn what_is_no_trace_says_what_it_seems_to_be() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "empty"),
        (b"# notes\nno trace\n", "\"# notes\""),
        (b"PK\x03\x04rest of a zip", "zip"),
        (b"(dp0\n.", "protocol 0 or 1"),
        (b"\x00\x01\x02\xff", "[00, 01, 02, ff]"),
        (b"\x80\x02]q\x00.", "bare list"),
        (b"\x80\x02}.", "device_traces"),
        (b"\x80\x02K\x01.", "an int"),
    ];
    for (bytes, expected) in cases {
        let error = read(bytes).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotATrace, "{error}");
        assert!(error.to_string().contains(expected), "{error} should speak of {expected}");
    }
}

#[test]
fn a_directory_or_a_missing_file_is_named() {
    for (path, expected) in [(fixture(""), "directory"), (fixture("none"), "none")] {
        let error = Trace::open(&path, &Limits::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Io);
        assert!(error.reason.contains(expected) && error.reason.contains("tests/data"), "{error}");
    }
}
