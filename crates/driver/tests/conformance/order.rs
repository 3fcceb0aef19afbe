//! Streams and events: what is done when, and what waits for what.

use crate::rig::{FIRST, PATIENCE, Rig, SECOND, refused};
use std::time::Duration;
use stitchpool_driver::{Capture, ErrorKind};

rows!(everywhere:
    work_of_one_stream_runs_in_order,
    an_event_is_done_when_the_work_before_it_is,
    a_stream_waits_for_the_event_of_another,
    an_event_may_be_forgotten_once_a_stream_waits_for_it,
    a_destroyed_stream_still_does_its_work,
    a_destroyed_streams_identity_does_not_come_back,
    a_stream_that_nobody_captures_says_so,
    many_events_live_at_once,
);
rows!(cuda_only: waiting_ends_when_the_limit_is_reached, driver_calls_do_not_wait_for_the_device);
rows!(host_only: a_forgotten_event_is_unknown, a_destroyed_stream_is_unknown);

fn work_of_one_stream_runs_in_order(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 2);
    let stream = rig.stream(FIRST);
    for seed in 0..50 {
        rig.fill(stream, at, 2, seed);
        rig.verify(stream, at, 2, seed);
    }
    rig.finish_stream(stream);
    rig.demand_right(100);
    rig.verify(stream, at, 1, 48);
    rig.finish_stream(stream);
    assert_eq!(rig.tally().wrong_bytes, rig.granule);
}

fn an_event_is_done_when_the_work_before_it_is(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 2);
    let stream = rig.stream(FIRST);
    rig.delay(stream, 5000);
    rig.fill(stream, at, 2, 1);
    rig.verify(stream, at, 2, 1);
    let event = rig.record(stream);
    rig.finish(event, PATIENCE).unwrap();
    assert!(rig.is_done(event).unwrap());
    rig.demand_right(2);
}

fn a_stream_waits_for_the_event_of_another(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 8);
    let (writer, reader) = (rig.stream(FIRST), rig.stream(FIRST));
    for seed in 0..10 {
        rig.delay(writer, 2000);
        rig.fill(writer, at, 8, seed);
        rig.wait(reader, rig.record(writer));
        rig.verify(reader, at, 8, seed);
        rig.wait(writer, rig.record(reader));
    }
    rig.finish_stream(writer);
    rig.finish_stream(reader);
    rig.demand_right(80);
}

fn an_event_may_be_forgotten_once_a_stream_waits_for_it(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 1);
    let (writer, reader) = (rig.stream(FIRST), rig.stream(FIRST));
    rig.delay(writer, 20_000);
    rig.fill(writer, at, 1, 3);
    let event = rig.record(writer);
    rig.wait(reader, event);
    rig.forget(event).unwrap();
    rig.verify(reader, at, 1, 3);
    rig.finish_stream(reader);
    rig.demand_right(1);
}

fn a_destroyed_stream_still_does_its_work(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 1);
    let (gone, stays) = (rig.stream(FIRST), rig.stream(FIRST));
    rig.delay(gone, 10_000);
    rig.fill(gone, at, 1, 6);
    rig.wait(stays, rig.record(gone));
    rig.destroy(gone);
    rig.verify(stays, at, 1, 6);
    rig.finish_stream(stays);
    rig.demand_right(1);
}

fn a_destroyed_streams_identity_does_not_come_back(rig: &Rig) {
    let mut seen = Vec::new();
    for _ in 0..20 {
        let stream = rig.stream(FIRST);
        let identity = rig.identity(stream);
        assert_eq!(rig.identity(stream), identity);
        assert!(!seen.contains(&identity), "identity {identity} came back");
        seen.push(identity);
        rig.destroy(stream);
    }
}

fn a_stream_that_nobody_captures_says_so(rig: &Rig) {
    // SAFETY: the stream was made just now.
    assert_eq!(unsafe { rig.driver.capture(rig.stream(FIRST)) }, Ok(Capture::None));
}

fn many_events_live_at_once(rig: &Rig) {
    let stream = rig.stream(FIRST);
    let events: Vec<_> = (0..2000).map(|_| rig.record(stream)).collect();
    rig.finish_stream(stream);
    assert!(events.iter().all(|&event| rig.is_done(event).unwrap()));
    if rig.has_two() {
        rig.wait(rig.stream(SECOND), events[7]);
    }
}

fn waiting_ends_when_the_limit_is_reached(rig: &Rig) {
    let stream = rig.stream(FIRST);
    rig.delay(stream, 300_000);
    let event = rig.record(stream);
    assert!(!rig.is_done(event).unwrap());
    refused(rig.finish(event, Duration::from_millis(10)), &[ErrorKind::Timeout]);
    rig.finish(event, PATIENCE).unwrap();
}

fn driver_calls_do_not_wait_for_the_device(rig: &Rig) {
    let stream = rig.stream(FIRST);
    rig.delay(stream, 500_000);
    let event = rig.record(stream);
    let at = rig.stitch(&[FIRST; 4], 1);
    rig.unmap(at, 4).unwrap();
    rig.release(rig.create(FIRST, 1)).unwrap();
    rig.unreserve(at, 4 * rig.granule).unwrap();
    assert!(!rig.is_done(event).unwrap(), "a call waited for half a second of work");
}

fn a_forgotten_event_is_unknown(rig: &Rig) {
    let event = rig.record(rig.stream(FIRST));
    rig.forget(event).unwrap();
    refused(rig.is_done(event), &[ErrorKind::InvalidValue]);
    refused(rig.finish(event, PATIENCE), &[ErrorKind::InvalidValue]);
    refused(rig.forget(event), &[ErrorKind::InvalidValue]);
}

fn a_destroyed_stream_is_unknown(rig: &Rig) {
    let stream = rig.stream(FIRST);
    rig.destroy(stream);
    // SAFETY: this row is for the host driver alone, whose ledger checks the stream.
    unsafe {
        refused(rig.driver.record(stream), &[ErrorKind::InvalidValue]);
        refused(rig.driver.capture(stream), &[ErrorKind::InvalidValue]);
        refused(rig.driver.stream_identity(stream), &[ErrorKind::InvalidValue]);
    }
}
