//! What is written reads back as itself, here and in Python.

use crate::data::{fixture, read};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};
use stitchpool_trace::{
    Block, BlockState, DeviceTrace, Event, EventKind, Limits, Segment, Source, SourceKind, Trace, write_snapshot,
};

const KINDS: [EventKind; 9] = [
    EventKind::Alloc,
    EventKind::FreeRequested,
    EventKind::FreeCompleted,
    EventKind::SegmentAlloc,
    EventKind::SegmentFree,
    EventKind::SegmentMap,
    EventKind::SegmentUnmap,
    EventKind::OutOfMemory,
    EventKind::Snapshot,
];

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_snapshot(trace, &mut bytes).unwrap();
    bytes
}

/// Numbers of every length that a pickle tells apart.
fn number() -> impl Strategy<Value = u64> {
    (0..64_u32, any::<u64>()).prop_map(|(shift, number)| number >> shift)
}

fn event() -> impl Strategy<Value = Event> {
    (number(), number(), number(), number(), prop::sample::select(KINDS.to_vec()))
        .prop_map(|(time_us, address, size_bytes, stream, kind)| Event { time_us, address, size_bytes, stream, kind })
}

fn segment() -> impl Strategy<Value = Segment> {
    let state = prop::sample::select(vec![BlockState::Allocated, BlockState::PendingFree, BlockState::Inactive]);
    let block = (number(), number(), number(), state).prop_map(|(address, size_bytes, requested_bytes, state)| Block {
        address,
        size_bytes,
        requested_bytes,
        state,
    });
    let numbers = (number(), number(), number(), (number(), number()));
    (numbers, any::<bool>(), any::<bool>(), vec(block, 0..5)).prop_map(
        |((address, total_bytes, stream, pool), is_small, is_expandable, blocks)| Segment {
            address,
            total_bytes,
            stream,
            is_small,
            is_expandable,
            pool,
            blocks,
        },
    )
}

fn trace() -> impl Strategy<Value = Trace> {
    let device = (vec(event(), 0..30), vec(segment(), 0..5));
    let backend = prop::option::of(prop::sample::select(vec!["native", "cudaMallocAsync"]));
    (prop::collection::btree_map(0..1024_u32, device, 0..4), backend, prop::option::of(any::<bool>())).prop_map(
        |(devices, backend, expandable_segments)| {
            let devices =
                devices.into_iter().map(|(device, (events, segments))| DeviceTrace { device, events, segments });
            let mut devices: Vec<_> =
                devices.filter(|device| !device.events.is_empty() || !device.segments.is_empty()).collect();
            // Times count from the first event.
            if let Some(first) = devices.iter_mut().flat_map(|device| &mut device.events).next() {
                first.time_us = 0;
            }
            let backend = backend.map(str::to_owned);
            Trace { source: Source { backend, expandable_segments, ..Source::default() }, devices }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_written_trace_reads_back_as_itself(trace in trace()) {
        prop_assert_eq!(read(&written(&trace)).unwrap(), trace);
    }
}

#[test]
fn a_long_trace_reads_back_as_itself() {
    let event = |number: u64| Event {
        time_us: number,
        address: number << 20,
        size_bytes: number * 700,
        stream: number % 3,
        kind: KINDS[(number % 9) as usize],
    };
    let device = DeviceTrace { device: 1, events: (0..25_000).map(event).collect(), segments: vec![] };
    let trace = Trace { source: Source::default(), devices: vec![device] };
    assert_eq!(read(&written(&trace)).unwrap(), trace);
}

#[test]
fn a_log_of_rmm_can_be_written_as_a_snapshot() {
    let log = Trace::open(fixture("rmm.csv"), &Limits::default()).unwrap();
    let again = read(&written(&log)).unwrap();
    assert_eq!(again.devices, log.devices);
    assert_eq!(again.source.kind, SourceKind::PyTorch);
    assert_eq!(again.source.other_actions, [("other".to_owned(), 1)].into());
}

#[test]
fn a_device_beyond_any_machine_is_not_written() {
    let device = DeviceTrace { device: 1024, ..DeviceTrace::default() };
    let trace = Trace { source: Source::default(), devices: vec![device] };
    let error = write_snapshot(&trace, std::io::sink()).unwrap_err();
    assert!(error.to_string().contains("device 1024"), "{error}");
}

/// Prints what the tests below compare.
const PYTHON: &str = r#"
import pickle, sys
snapshot = pickle.load(sys.stdin.buffer)
for device, events in enumerate(snapshot["device_traces"]):
    for event in events:
        address = event["device_free"] if event["action"] == "oom" else event["addr"]
        print(device, event["action"], address, event["size"], event["stream"], event["time_us"])
for segment in snapshot["segments"]:
    assert segment["segment_type"] in ("small", "large") and segment["frames"] == []
    print(segment["device"], segment["address"], segment["total_size"], *segment["segment_pool_id"])
    for block in segment["blocks"]:
        print(block["address"], block["size"], block["requested_size"], block["state"])
print(snapshot["allocator_settings"]["expandable_segments"], snapshot["external_annotations"])
"#;

#[test]
fn python_unpickles_what_is_written() {
    let python = Command::new("python3").args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else {
        eprintln!("skipped: there is no python3 on this machine");
        return;
    };
    let trace = Trace::open(fixture("protocol4.pickle"), &Limits::default()).unwrap();
    python.stdin.take().unwrap().write_all(&written(&trace)).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());

    let mut expected = Vec::new();
    for device in &trace.devices {
        for event in &device.events {
            let Event { time_us, address, size_bytes, stream, kind } = event;
            let action = kind.action();
            expected.push(format!("{} {action} {address} {size_bytes} {stream} {time_us}", device.device));
        }
    }
    for device in &trace.devices {
        for segment in &device.segments {
            let (first, second) = segment.pool;
            expected.push(format!("{} {} {} {first} {second}", device.device, segment.address, segment.total_bytes));
            for block in &segment.blocks {
                let state = match block.state {
                    BlockState::Allocated => "active_allocated",
                    BlockState::PendingFree => "active_pending_free",
                    BlockState::Inactive => "inactive",
                };
                expected.push(format!("{} {} {} {state}", block.address, block.size_bytes, block.requested_bytes));
            }
        }
    }
    expected.push("True []".to_owned());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}
