//! Streams that lag behind a clock, and the clock.

use crate::bench::{Bench, GRANULE, config, with_streams};
use stitchpool_driver::Driver;
use stitchpool_driver::host::{Clock, HostConfig, StreamMode};

const LAG_US: u64 = 100;

fn bench() -> Bench {
    with_streams(StreamMode::Lagged { lag_us: LAG_US })
}

#[test]
fn the_clock_stands_until_it_is_set_and_never_goes_back() {
    let bench = bench();
    assert_eq!(bench.0.now_us(), 0);
    bench.0.set_now_us(50);
    bench.0.set_now_us(20);
    assert_eq!(bench.0.now_us(), 50);
}

#[test]
fn the_wall_clock_goes_by_itself_and_can_be_put_forward() {
    let bench = Bench::new(HostConfig { clock: Clock::Wall, ..config() });
    let before = bench.0.now_us();
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert!(bench.0.now_us() >= before + 2000);
    bench.0.set_now_us(1 << 40);
    assert!(bench.0.now_us() >= 1 << 40);
}

#[test]
fn work_runs_once_the_lag_is_over() {
    let bench = bench();
    let (at, stream) = (bench.buffer(1), bench.stream());
    bench.0.set_now_us(1000);
    bench.fill(stream, at, 1);
    bench.verify(stream, at, 1);
    let event = bench.record(stream).unwrap();
    bench.0.set_now_us(1000 + LAG_US - 1);
    assert_eq!((bench.checked(), bench.is_done(event)), ((0, 0), false));
    bench.0.set_now_us(1000 + LAG_US);
    assert_eq!((bench.checked(), bench.is_done(event)), ((GRANULE, 0), true));
}

#[test]
fn streams_run_in_order_of_due_time() {
    let bench = bench();
    let (at, one, two) = (bench.buffer(1), bench.stream(), bench.stream());
    for (time, stream, seed) in [(10, one, 1), (20, two, 2), (30, one, 3)] {
        bench.0.set_now_us(time);
        bench.fill(stream, at, seed);
        bench.verify(stream, at, seed);
    }
    bench.0.set_now_us(1_000_000);
    assert_eq!(bench.checked(), (3 * GRANULE, 0));
}

#[test]
fn a_delay_keeps_its_stream_and_no_other() {
    let bench = bench();
    let (slow, fast) = (bench.stream(), bench.stream());
    bench.delay(slow, 500);
    let (late, early) = (bench.record(slow).unwrap(), bench.record(fast).unwrap());
    bench.0.set_now_us(LAG_US + 499);
    assert_eq!((bench.is_done(late), bench.is_done(early)), (false, true));
    bench.0.set_now_us(LAG_US + 500);
    assert!(bench.is_done(late));
}

#[test]
fn what_waits_for_a_delayed_stream_is_late_too() {
    let bench = bench();
    let (slow, fast) = (bench.stream(), bench.stream());
    bench.delay(slow, 500);
    bench.wait(fast, bench.record(slow).unwrap()).unwrap();
    bench.delay(fast, 70);
    let event = bench.record(fast).unwrap();
    bench.0.set_now_us(LAG_US + 569);
    assert!(!bench.is_done(event));
    bench.0.set_now_us(LAG_US + 570);
    assert!(bench.is_done(event));
}

#[test]
fn one_leap_of_the_clock_is_as_good_as_many_steps() {
    let finds = [vec![100_000], (0..1000).map(|step| step * 100).collect::<Vec<_>>()].map(|times| {
        let bench = bench();
        let (at, streams) = (bench.buffer(1), [bench.stream(), bench.stream(), bench.stream()]);
        for seed in 0..30 {
            let stream = streams[seed as usize % 3];
            bench.delay(stream, (seed * 37) % 200);
            bench.fill(stream, at, seed);
            bench.verify(stream, at, if seed % 2 == 0 { seed } else { 0 });
            bench.wait(streams[(seed as usize + 1) % 3], bench.record(stream).unwrap()).unwrap();
        }
        times.into_iter().for_each(|time| bench.0.set_now_us(time));
        bench.checked()
    });
    assert_eq!(finds[0].0, 30 * GRANULE);
    assert_eq!(finds[0], finds[1]);
}

#[test]
fn finish_runs_what_is_needed_before_its_time_and_leaves_the_clock() {
    let bench = bench();
    let (at, one, two) = (bench.buffer(1), bench.stream(), bench.stream());
    bench.fill(one, at, 1);
    bench.verify(one, at, 1);
    let event = bench.record(one).unwrap();
    bench.fill(two, at, 2);
    bench.finish(event).unwrap();
    assert_eq!((bench.checked(), bench.0.queued(two), bench.0.now_us()), ((GRANULE, 0), Ok(1), 0));
}

#[test]
fn streams_that_lag_on_the_wall_clock_go_on_when_they_are_asked() {
    let streams = StreamMode::Lagged { lag_us: 1000 };
    let bench = Bench::new(HostConfig { clock: Clock::Wall, streams, ..config() });
    let event = bench.record(bench.stream()).unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !bench.is_done(event) {
        assert!(std::time::Instant::now() < limit, "the event is never done");
    }
    assert!(bench.0.now_us() >= 1000);
}

#[test]
fn a_long_run_on_a_lagging_stream_stays_fast() {
    let bench = bench();
    let (at, stream) = (bench.buffer(1), bench.stream());
    for step in 0..100_000 {
        bench.0.set_now_us(step);
        bench.0.touch(stream, at, GRANULE, stitchpool_driver::Rights::Read).unwrap();
    }
    assert_eq!(bench.0.queued(stream), Ok(LAG_US));
    assert!(bench.faults().is_empty());
}
