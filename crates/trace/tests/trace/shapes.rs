//! A snapshot's shape: what may lie in any order or be missing, and how wrong types are told.

use crate::data::{Data, event, read, segment, snapshot};
use stitchpool_trace::{ErrorKind, EventKind};

#[test]
fn keys_may_stand_in_any_order_and_unknown_ones_are_passed_over() {
    let usual = event("alloc", 1, 5);
    let Data::Dict(mut pairs) = usual.clone() else { unreachable!() };
    pairs.reverse();
    pairs.insert(2, ("unheard", Data::List(vec![Data::Dict(vec![("size", Data::None)]), Data::Int(3)])));
    let turned = Data::Dict(pairs);
    let plain = read(&snapshot(vec![usual.clone(), usual], vec![]).pickle()).unwrap();
    assert_eq!(read(&snapshot(vec![turned.clone(), turned], vec![]).pickle()).unwrap(), plain);
}

#[test]
fn a_dict_filled_key_by_key_reads_as_one_filled_at_once() {
    // {} with `segments` set by SETITEM, the event's keys each by SETITEM, one of them twice.
    let mut bytes = b"\x80\x02}X\x08\x00\x00\x00segments]sX\x0d\x00\x00\x00device_traces]](}".to_vec();
    for (key, value) in [("action", "bad"), ("action", "alloc")] {
        bytes.extend([b'U', u8::try_from(key.len()).unwrap()]);
        bytes.extend(key.as_bytes());
        bytes.extend([b'U', u8::try_from(value.len()).unwrap()]);
        bytes.extend(value.as_bytes());
        bytes.push(b's');
    }
    for (key, value) in [("addr", 7), ("size", 8), ("stream", 0), ("time_us", 9), ("size", 64)] {
        bytes.extend([b'U', u8::try_from(key.len()).unwrap()]);
        bytes.extend(key.as_bytes());
        bytes.extend([b'K', value, b's']);
    }
    bytes.extend(b"eas.");
    let trace = read(&bytes).unwrap();
    let event = trace.devices[0].events[0];
    assert_eq!((event.kind, event.address, event.size_bytes), (EventKind::Alloc, 7, 64));
}

#[test]
fn an_event_may_lack_its_time_and_a_block_its_address() {
    let old = vec![event("alloc", 1, 50), event("alloc", 2, 0).without("time_us"), event("alloc", 3, 60)];
    let block = |size| Data::Dict(vec![("size", Data::Int(size)), ("state", Data::Text("inactive"))]);
    let blocks = Data::List(vec![block(512), block(1024)]);
    let trace = read(&snapshot(old, vec![segment(4096).with("blocks", blocks)]).pickle()).unwrap();
    let times: Vec<_> = trace.devices[0].events.iter().map(|event| event.time_us).collect();
    assert_eq!(times, [0, 0, 10]);
    let addresses: Vec<_> = trace.devices[0].segments[0].blocks.iter().map(|block| block.address).collect();
    assert_eq!(addresses, [4096, 4608]);
}

#[test]
fn a_wrong_type_names_its_key_and_lies_inside_the_file() {
    let with_event = |event: Data| snapshot(vec![event], vec![]);
    let with_segment = |segment: Data| snapshot(vec![], vec![segment]);
    let block = Data::Dict(vec![("size", Data::Int(1)), ("state", Data::Text("unheard"))]);
    let alloc = event("alloc", 1, 0);
    let text = Data::Text("seven");
    let empty = snapshot(vec![], vec![]);
    let cases = [
        (with_event(alloc.clone().with("addr", text.clone())), "device_traces[0][0].addr is a str"),
        (with_event(alloc.clone().with("size", Data::Int(-1))), "device_traces[0][0].size is -1"),
        (with_event(alloc.clone().with("time_us", Data::Bool(true))), "device_traces[0][0].time_us is a bool"),
        (with_event(alloc.clone().without("addr")), "device_traces[0][0].addr is missing"),
        (with_event(alloc.clone().without("action")), "device_traces[0][0].action is missing"),
        (
            with_event(alloc.clone().without("addr").with("device_free", Data::Int(1))),
            "device_traces[0][0].addr is missing",
        ),
        (with_event(Data::Dict(vec![])), "device_traces[0] is a list of dicts without any known key"),
        (snapshot(vec![alloc.clone(), Data::Dict(vec![])], vec![]), "device_traces[0][1].action is missing"),
        (with_segment(alloc.clone()), "segments[0] is an event's dict"),
        (with_event(Data::Int(5)), "device_traces[0][0] is an int, must be a dict"),
        (with_event(Data::List(vec![text.clone()])), "device_traces[0][0] is a list, must be a dict"),
        (with_segment(segment(0).with("device", Data::Int(5000))), "segments[0].device is 5000"),
        (with_segment(segment(0).without("blocks")), "segments[0].blocks is missing"),
        (with_segment(segment(0).with("is_expandable", Data::Int(1))), "segments[0].is_expandable is 1"),
        (with_segment(segment(0).with("segment_pool_id", text.clone())), "segments[0].segment_pool_id is a str"),
        (
            with_segment(segment(0).with("blocks", Data::List(vec![block]))),
            "segments[0].blocks[0].state is \"unheard\"",
        ),
        (empty.clone().without("segments"), "segments is missing"),
        (empty.clone().with("segments", text.clone()), "segments is a str"),
        (empty.clone().with("device_traces", Data::None), "device_traces is None"),
        (
            empty.clone().with("device_traces", Data::List(vec![text.clone()])),
            "device_traces[0] is a str, must be a list of events",
        ),
        (empty.clone().with("device_traces", Data::List(vec![Data::List(vec![]); 1025])), "1025 devices"),
        (empty.with("allocator_settings", text), "allocator_settings is a str"),
    ];
    for (data, expected) in cases {
        let bytes = data.pickle();
        let error = read(&bytes).unwrap_err();
        assert_eq!(error.kind, ErrorKind::WrongShape, "{error}");
        assert!(error.reason.contains(expected), "{error} should say {expected}");
        assert!(error.position > 0 && error.position < bytes.len() as u64, "{error}");
    }
}

#[test]
fn an_empty_history_is_a_trace_without_devices() {
    let trace = read(&snapshot(vec![], vec![]).with("allocator_settings", Data::Dict(vec![])).pickle()).unwrap();
    assert!(trace.devices.is_empty());
    assert!(trace.steps(0).steps.is_empty());
}

#[test]
fn bare_dicts_in_one_batch_are_not_lost_before_events_in_the_next() {
    // device_traces is [[{}, event]], appended one by one.
    let mut bytes = b"\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces]]}a".to_vec();
    let event = event("alloc", 1, 0).pickle();
    bytes.extend(&event[2..event.len() - 1]);
    bytes.extend(b"aau.");
    let error = read(&bytes).unwrap_err();
    assert!(error.reason.contains("device_traces[0][0].action is missing"), "{error}");
}

#[test]
fn settings_tell_the_backend_under_both_names() {
    for key in ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"] {
        let backend = |setting| {
            let settings = Data::Dict(vec![(key, Data::Text(setting))]);
            read(&snapshot(vec![], vec![]).with("allocator_settings", settings).pickle()).unwrap().source.backend
        };
        assert_eq!(backend("max_split_size_mb:20, backend:cudaMallocAsync").as_deref(), Some("cudaMallocAsync"));
        assert_eq!(backend("").as_deref(), Some("native"));
    }
}
