//! RMM's logs read as the same model.

use crate::data::{fixture, read};
use stitchpool_trace::{ErrorKind, Event, EventKind, Limits, Op, SourceKind, Trace};

#[test]
fn a_log_reads_as_events_past_midnight() {
    let trace = Trace::open(fixture("rmm.csv"), &Limits::default()).unwrap();
    assert_eq!(trace.source.kind, SourceKind::Rmm);
    assert_eq!(trace.source.other_actions, [("reset".to_owned(), 1)].into());
    let events = &trace.devices[0].events;
    let first = Event { time_us: 0, address: 0x7f00_0000_0000, size_bytes: 1000, stream: 0, kind: EventKind::Alloc };
    assert_eq!(events[0], first);
    assert_eq!((events[1].time_us, events[1].stream), (500, 0x5a0));
    let freed: Vec<_> = events[2..4].iter().map(|event| (event.time_us, event.kind)).collect();
    assert_eq!(freed, [(1500, EventKind::FreeRequested), (1500, EventKind::FreeCompleted)]);
    assert_eq!((events[4].time_us, events[4].kind), (2000, EventKind::OutOfMemory));

    let steps = trace.steps(0);
    assert_eq!((steps.allocs, steps.frees, steps.skipped_frees, steps.oom), (2, 1, 1, 1));
    assert_eq!(steps.steps[2].op, Op::Free { id: 0 });
    assert_eq!(steps.peak_reserved_bytes, None);
}

#[test]
fn columns_and_times_come_in_several_spellings() {
    let spellings = [
        "time,thread,action,pointer,size,stream\r\n1.5,1,allocate,7f00,8,0x0\r\n1.75,1,free,0x7f00,8,(nil)\r\n",
        "Thread,Time,Action,Pointer,Size,Stream\n1,00:00:01.5,allocate,0x7F00,8,0\n\n1,00:00:01.750000,free,0x7f00,8,0",
        "Thread,Time,Action,Pointer,Size,Stream\n1,0:0:1:500000,allocate,0x7f00,8,0\n1,0:0:1:750000,deallocate,0x7f00,8,0\n",
    ];
    for log in spellings {
        let trace = read(log.as_bytes()).unwrap();
        let events = &trace.devices[0].events;
        assert_eq!((events[0].address, events[0].size_bytes), (0x7f00, 8), "{log}");
        assert_eq!(events.iter().map(|event| event.time_us).collect::<Vec<_>>(), [0, 250_000, 250_000], "{log}");
    }
}

#[test]
fn a_line_of_before_midnight_may_come_after_one_of_after_it() {
    let log = "Thread,Time,Action,Pointer,Size,Stream\n1,23:59:59:9,allocate,1,1,0\n2,00:00:00:2,allocate,2,1,0\n\
               1,23:59:59:10,allocate,3,1,0\n2,00:00:00:3,allocate,4,1,0\n";
    let trace = read(log.as_bytes()).unwrap();
    let times: Vec<_> = trace.devices[0].events.iter().map(|event| event.time_us).collect();
    assert_eq!(times, [0, 999_993, 1, 999_994]);
}

#[test]
fn a_wrong_line_is_named_by_number_and_place() {
    let header = "Thread,Time,Action,Pointer,Size,Stream\n";
    let good = "1,00:00:01:0,allocate,0x1,1,0\n";
    let cases = [
        ("1,00:00:01:0,allocate,0x1\n", "column 5"),
        ("1,later,allocate,0x1,1,0\n", "time \"later\""),
        ("1,25:00:00:0,allocate,0x1,1,0\n", "time \"25:00:00:0\""),
        ("1,00:00:99999999999999,allocate,0x1,1,0\n", "time"),
        ("1,00:00:01:0,allocate,0xfg,1,0\n", "pointer \"0xfg\""),
        ("1,00:00:01:0,allocate,0x1,-5,0\n", "size \"-5\""),
        ("1,00:00:01:0,allocate,0x1,5,main\n", "stream \"main\""),
    ];
    for (line, expected) in cases {
        let error = read([header, good, line].concat().as_bytes()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Malformed);
        assert_eq!(error.position, (header.len() + good.len()) as u64, "{error}");
        assert!(error.reason.starts_with("line 3:") && error.reason.contains(expected), "{error}");
    }
}

#[test]
fn a_log_without_lines_is_a_trace_without_devices() {
    assert!(read(b"Thread,Time,Action,Pointer,Size,Stream\n").unwrap().devices.is_empty());
}

#[test]
fn lines_and_events_are_bounded() {
    let header = "Thread,Time,Action,Pointer,Size,Stream\n";
    let long = [header, &"x".repeat(1 << 20)].concat();
    assert_eq!(read(long.as_bytes()).unwrap_err().kind, ErrorKind::LimitReached);
    let many = [header, &"1,1,allocate,1,1,0\n".repeat(11)].concat();
    let limits = Limits { kept_values: 30, ..Limits::default() };
    assert_eq!(Trace::read(many.as_bytes(), &limits).unwrap_err().kind, ErrorKind::LimitReached);
}
