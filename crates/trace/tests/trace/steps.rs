//! How recorded events become the steps of a replay.

use stitchpool_trace::{
    Block, BlockState, DeviceTrace, Event, EventKind,
    EventKind::{
        Alloc, FreeCompleted, FreeRequested, OutOfMemory, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap,
    },
    InitialBlock, Op, Segment, Steps,
};

/// Events one microsecond apart: kind, address, bytes, stream.
fn device(events: &[(EventKind, u64, u64, u64)], segments: Vec<Segment>) -> DeviceTrace {
    let events = (0..).zip(events).map(|(time_us, &(kind, address, size_bytes, stream))| Event {
        time_us,
        address,
        size_bytes,
        stream,
        kind,
    });
    DeviceTrace { device: 0, events: events.collect(), segments }
}

fn steps(events: &[(EventKind, u64, u64, u64)]) -> Steps {
    device(events, vec![]).steps()
}

fn ops(steps: &Steps) -> Vec<Op> {
    steps.steps.iter().map(|step| step.op).collect()
}

fn segment(address: u64, stream: u64, blocks: &[(u64, BlockState)]) -> Segment {
    let mut next = address;
    let blocks = blocks.iter().map(|&(size_bytes, state)| {
        let block = Block { address: next, size_bytes, requested_bytes: size_bytes - 12, state };
        next += size_bytes;
        block
    });
    let blocks: Vec<_> = blocks.collect();
    Segment {
        address,
        total_bytes: next - address,
        stream,
        is_small: false,
        is_expandable: false,
        pool: (0, 0),
        blocks,
    }
}

#[test]
fn a_free_whose_completion_follows_at_once_is_plain() {
    let steps = steps(&[(Alloc, 1, 100, 0), (FreeRequested, 1, 100, 0), (FreeCompleted, 1, 100, 0)]);
    assert_eq!(ops(&steps), [Op::Alloc { id: 0, size_bytes: 100, stream: 0 }, Op::Free { id: 0 }]);
    assert_eq!(steps.steps[1].time_us, 1);
    assert_eq!((steps.allocs, steps.frees, steps.end_live_bytes, steps.duration_us), (1, 1, 0, 2));
}

#[test]
fn a_gap_between_request_and_completion_is_a_pending_block() {
    let steps =
        steps(&[(Alloc, 1, 600, 0), (FreeRequested, 1, 600, 0), (Alloc, 2, 600, 0), (FreeCompleted, 1, 600, 0)]);
    let expected = [
        Op::Alloc { id: 0, size_bytes: 600, stream: 0 },
        Op::FreeRequested { id: 0 },
        Op::Alloc { id: 1, size_bytes: 600, stream: 0 },
        Op::FreeCompleted { id: 0 },
    ];
    assert_eq!(ops(&steps), expected);
    // Live ends at the request, so the two blocks never live together.
    assert_eq!((steps.peak_live_bytes, steps.end_live_bytes), (1024, 1024));
}

#[test]
fn a_completion_of_another_address_leaves_a_gap() {
    let steps = steps(&[
        (Alloc, 1, 1, 0),
        (Alloc, 2, 1, 0),
        (FreeRequested, 1, 1, 0),
        (FreeRequested, 2, 1, 0),
        (FreeCompleted, 2, 1, 0),
        (FreeCompleted, 1, 1, 0),
    ]);
    assert_eq!(ops(&steps)[2..], [Op::FreeRequested { id: 0 }, Op::Free { id: 1 }, Op::FreeCompleted { id: 0 }]);
}

#[test]
fn a_completion_without_request_is_a_plain_free() {
    let steps = steps(&[(Alloc, 1, 1, 0), (FreeCompleted, 1, 1, 0)]);
    assert_eq!(ops(&steps)[1..], [Op::Free { id: 0 }]);
    assert_eq!((steps.frees, steps.skipped_frees), (1, 0));
}

#[test]
fn frees_of_unknown_addresses_are_counted_and_left_out() {
    let steps = steps(&[
        (FreeRequested, 9, 1, 0),
        (FreeCompleted, 9, 1, 0),
        (FreeCompleted, 8, 1, 0),
        (Alloc, 1, 1, 0),
        (FreeRequested, 1, 1, 0),
        (OutOfMemory, 0, 1, 0),
        (FreeRequested, 1, 1, 0),
        (FreeCompleted, 1, 1, 0),
    ]);
    assert_eq!(ops(&steps)[1..], [Op::FreeRequested { id: 0 }, Op::FreeCompleted { id: 0 }]);
    assert_eq!((steps.frees, steps.skipped_frees, steps.oom), (1, 2, 1));
}

#[test]
fn an_allocation_where_a_block_still_stands_frees_that_one_first() {
    let live = steps(&[(Alloc, 1, 1, 0), (Alloc, 1, 2, 0)]);
    assert_eq!(ops(&live)[1..], [Op::Free { id: 0 }, Op::Alloc { id: 1, size_bytes: 2, stream: 0 }]);
    assert_eq!((live.lost_frees, live.frees, live.peak_live_bytes), (1, 1, 512));
    let pending = steps(&[(Alloc, 1, 1, 0), (FreeRequested, 1, 1, 0), (Alloc, 1, 2, 0)]);
    assert_eq!(ops(&pending)[2..], [Op::FreeCompleted { id: 0 }, Op::Alloc { id: 1, size_bytes: 2, stream: 0 }]);
    assert_eq!((pending.lost_frees, pending.frees), (1, 1));
}

#[test]
fn streams_are_numbered_densely_from_the_default_one() {
    let steps = steps(&[(Alloc, 1, 1, 77), (Alloc, 2, 1, 0), (Alloc, 3, 1, 33), (Alloc, 4, 1, 77)]);
    let streams: Vec<_> = ops(&steps)
        .iter()
        .map(|op| match op {
            Op::Alloc { stream, .. } => *stream,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(streams, [1, 0, 2, 1]);
    assert_eq!(steps.streams, [0, 77, 33]);
}

#[test]
fn blocks_that_no_event_names_were_there_from_the_beginning() {
    use BlockState::{Allocated, Inactive, PendingFree};
    let segments = vec![
        segment(4096, 7, &[(512, Allocated), (512, Inactive), (512, PendingFree), (1024, Allocated)]),
        segment(0, 0, &[(512, Allocated)]),
    ];
    // 4096 is allocated by the trace; 0 and 5632 are not named.
    let steps = device(&[(Alloc, 4096, 500, 7)], segments).steps();
    let expected =
        [InitialBlock { id: 0, size_bytes: 500, stream: 0 }, InitialBlock { id: 1, size_bytes: 1012, stream: 1 }];
    assert_eq!(steps.initial, expected);
    assert_eq!(ops(&steps), [Op::Alloc { id: 2, size_bytes: 500, stream: 1 }]);
    assert_eq!((steps.allocs, steps.peak_live_bytes), (1, 2048));
}

#[test]
fn reserved_bytes_count_back_from_the_end() {
    let events = [(SegmentAlloc, 0, 100, 0), (SegmentFree, 0, 40, 0), (SegmentMap, 0, 30, 0), (SegmentUnmap, 0, 80, 0)];
    assert_eq!(device(&events, vec![]).peak_reserved_bytes(), Some(100));
    // At the end 512 are held and the events added 10, so 502 were held before them.
    let held = vec![segment(0, 0, &[(512, BlockState::Inactive)])];
    assert_eq!(device(&events, held.clone()).peak_reserved_bytes(), Some(602));
    assert_eq!(device(&[], held).peak_reserved_bytes(), Some(512));
    assert_eq!(device(&[(SegmentFree, 0, 40, 0)], vec![]).peak_reserved_bytes(), Some(40));
    assert_eq!(device(&[(Alloc, 0, 1, 0)], vec![]).peak_reserved_bytes(), None);
}

#[test]
fn reserved_bytes_are_told_from_the_beginning_and_after_each_change() {
    let events = [(SegmentAlloc, 0, 100, 0), (Alloc, 8, 4, 0), (SegmentFree, 0, 40, 0), (SegmentUnmap, 0, 80, 0)];
    let bytes =
        |segments| device(&events, segments).reserved_over_time().iter().map(|held| held.bytes).collect::<Vec<_>>();
    // 20 more were given back than taken, so they had been there.
    assert_eq!(bytes(vec![]), [20, 120, 80, 0]);
    assert_eq!(bytes(vec![segment(0, 0, &[(512, BlockState::Inactive)])]), [532, 632, 592, 512]);
    assert!(device(&[(Alloc, 0, 1, 0)], vec![]).reserved_over_time().is_empty());
}

#[test]
fn sizes_that_add_up_past_64_bits_do_not_wrap() {
    let steps = steps(&[
        (Alloc, 1, u64::MAX, 0),
        (Alloc, 2, u64::MAX, 0),
        (SegmentAlloc, 1, u64::MAX, 0),
        (SegmentMap, 2, 1, 0),
    ]);
    assert_eq!((steps.peak_live_bytes, steps.peak_reserved_bytes), (u64::MAX, Some(u64::MAX)));
}

#[test]
fn an_event_takes_forty_bytes() {
    assert_eq!(std::mem::size_of::<Event>(), 40);
}
