//! Order watched: uses of the same bytes that nothing orders are faults, in whichever order they ran.

use crate::bench::{Bench, GRANULE, config};
use stitchpool_driver::host::{HostConfig, StreamMode};
use stitchpool_driver::{Address, RawStream, Rights};

fn bench() -> Bench {
    Bench::new(HostConfig { watch_order: true, ..config() })
}

#[track_caller]
fn demand_faults(bench: &Bench, count: usize) {
    assert_eq!(bench.faults().len(), count, "{:?}", bench.faults());
}

fn order(bench: &Bench, before: RawStream, after: RawStream) {
    bench.wait(after, bench.record(before).unwrap()).unwrap();
}

#[test]
fn a_use_that_nothing_orders_is_a_fault_though_it_ran_later() {
    let bench = bench();
    let (at, one, two) = (bench.buffer(1), bench.stream(), bench.stream());
    bench.fill(one, at, 1);
    bench.verify(two, at, 1);
    assert_eq!(bench.checked(), (GRANULE, 0), "the bytes were right by chance");
    demand_faults(&bench, 1);
    let fault = &bench.faults()[0];
    for part in [format!("stream {}", one.value), format!("stream {}", two.value), "orders verify".to_owned()] {
        assert!(fault.contains(&part), "{part:?} is not in {fault:?}");
    }
}

#[test]
fn an_event_orders_two_streams_and_those_behind_them() {
    let bench = bench();
    let (at, one, two, three) = (bench.buffer(1), bench.stream(), bench.stream(), bench.stream());
    bench.fill(one, at, 1);
    order(&bench, one, two);
    order(&bench, two, three);
    bench.verify(three, at, 1);
    bench.fill(three, at, 2);
    demand_faults(&bench, 0);
    bench.fill(two, at, 3);
    demand_faults(&bench, 1);
}

#[test]
fn what_is_queued_after_the_record_is_not_ordered_by_it() {
    let bench = bench();
    let (at, one, two) = (bench.buffer(1), bench.stream(), bench.stream());
    let event = bench.record(one).unwrap();
    bench.fill(one, at, 1);
    bench.wait(two, event).unwrap();
    bench.verify(two, at, 1);
    demand_faults(&bench, 1);
}

#[test]
fn the_cpus_waits_order_all_that_it_queues_later() {
    for seen in 0..4 {
        let bench = bench();
        let (at, one, two) = (bench.buffer(1), bench.stream(), bench.stream());
        bench.fill(one, at, 1);
        let event = bench.record(one).unwrap();
        match seen {
            0 => assert!(bench.is_done(event)),
            1 => bench.finish(event).unwrap(),
            2 => bench.finish_stream(one).unwrap(),
            _ => {}
        }
        bench.fill(two, at, 2);
        demand_faults(&bench, usize::from(seen == 3));
    }
}

#[test]
fn reads_need_no_order_and_a_write_after_them_does() {
    let bench = bench();
    let (at, one, two, three) = (bench.buffer(1), bench.stream(), bench.stream(), bench.stream());
    bench.fill(one, at, 1);
    for reader in [two, three] {
        order(&bench, one, reader);
        bench.verify(reader, at, 1);
    }
    demand_faults(&bench, 0);
    order(&bench, two, one);
    bench.fill(one, at, 2);
    demand_faults(&bench, 1);
}

#[test]
fn other_bytes_of_the_same_granule_need_no_order() {
    let bench = bench();
    let (at, one, two) = (bench.buffer(1), bench.stream(), bench.stream());
    let half = GRANULE / 2;
    let write = |stream, at: Address| bench.0.touch(stream, at, half, Rights::ReadWrite).unwrap();
    write(one, at);
    write(two, at + half);
    demand_faults(&bench, 0);
    write(two, at + half / 2);
    demand_faults(&bench, 1);
}

#[test]
fn aliases_are_the_same_bytes() {
    let bench = bench();
    let (at, one, two) = (bench.reserve(2), bench.stream(), bench.stream());
    let handle = bench.create(1).unwrap();
    for alias in [at, at + GRANULE] {
        bench.map(alias, 1, handle).unwrap();
    }
    bench.open(at, 2, Rights::ReadWrite).unwrap();
    bench.fill(one, at, 1);
    bench.fill(two, at + GRANULE, 2);
    demand_faults(&bench, 1);
    bench.fill(two, at, 3);
    demand_faults(&bench, 1);
}

#[test]
fn new_memory_at_the_same_address_has_no_past() {
    let bench = bench();
    let (at, one, two) = (bench.buffer(1), bench.stream(), bench.stream());
    bench.fill(one, at, 1);
    bench.finish_stream(one).unwrap();
    bench.unmap(at, 1).unwrap();
    bench.map(at, 1, bench.create(1).unwrap()).unwrap();
    bench.open(at, 1, Rights::ReadWrite).unwrap();
    bench.fill(two, at, 2);
    demand_faults(&bench, 0);
}

#[test]
fn unmapping_before_the_cpu_has_seen_the_end_is_a_fault_though_all_has_run() {
    let bench = bench();
    let (early, late, stream) = (bench.buffer(1), bench.buffer(1), bench.stream());
    bench.fill(stream, early, 1);
    bench.fill(stream, late, 1);
    bench.unmap(early, 1).unwrap();
    demand_faults(&bench, 1);
    let event = bench.record(stream).unwrap();
    assert!(bench.is_done(event));
    bench.unmap(late, 1).unwrap();
    demand_faults(&bench, 1);
}

#[test]
fn one_alias_may_go_while_another_is_used() {
    let bench = bench();
    let (at, stream) = (bench.reserve(2), bench.stream());
    let handle = bench.create(1).unwrap();
    for alias in [at, at + GRANULE] {
        bench.map(alias, 1, handle).unwrap();
    }
    bench.open(at, 2, Rights::ReadWrite).unwrap();
    bench.fill(stream, at, 1);
    bench.unmap(at + GRANULE, 1).unwrap();
    demand_faults(&bench, 0);
}

#[test]
fn random_streams_that_are_always_ordered_have_no_faults_and_one_slip_is_seen() {
    for slip in [None, Some(40), Some(150)] {
        let bench = Bench::new(HostConfig { watch_order: true, streams: StreamMode::ByHand, ..config() });
        let at = bench.buffer(8);
        let streams: Vec<_> = (0..4).map(|_| bench.stream()).collect();
        let mut last_user = [None; 8];
        let mut state = 7_u64;
        for step in 0..300 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (piece, stream) = ((state >> 33) as usize % 8, streams[(state >> 40) as usize % 4]);
            let before: Option<RawStream> = last_user[piece].replace(stream);
            match before.filter(|&before| before != stream) {
                // The slip: the order is forgotten just where the piece changes hands for the first time after.
                Some(_) if slip.is_some_and(|slip| step >= slip) => {
                    bench.fill(stream, at + piece as u64 * GRANULE, step);
                    break;
                }
                Some(before) => order(&bench, before, stream),
                None => {}
            }
            bench.fill(stream, at + piece as u64 * GRANULE, step);
            bench.verify(stream, at + piece as u64 * GRANULE, step);
            if state.is_multiple_of(3) {
                bench.0.advance(streams[(state >> 50) as usize % 4], 5).unwrap();
            }
        }
        bench.0.run_all();
        assert_eq!(bench.checked().1, 0);
        // A slip between streams that other pieces happen to have ordered is none; these two are not.
        assert_eq!(bench.faults().is_empty(), slip.is_none(), "{slip:?}: {:?}", bench.faults());
    }
}
