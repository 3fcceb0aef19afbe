//! What is played: each scenario says what it found wrong.

use crate::rig::interjecting::Interjecting;
use crate::rig::{Application, GRANULE, Rig, Shape, Stream, granule_handles};
use stitchpool::driver::Kernels;
use stitchpool::driver::host::HostDriver;
use stitchpool::{Block, Pool, Request, Settings};

fn tight(granules: u64, stream_waits: bool) -> Rig {
    Rig::new(Shape::new(1, granules), Settings { stream_waits, ..granule_handles(GRANULE) })
}

/// A block filled on its stream with a pattern of that stream.
fn block(host: &HostDriver, pool: &Pool, on: &Stream, bytes: u64) -> Block {
    let block = pool.alloc(&Request::new(bytes, on.id)).unwrap();
    Application::fill(host, on.raw, block.address, block.bytes, on.raw.value);
    block
}

fn read(host: &HostDriver, on: &Stream, block: &Block, writer: &Stream) {
    Application::verify(host, on.raw, block.address, block.bytes, writer.raw.value);
}

/// What the work that was queued has found once it has run, the `first` stream before the others.
fn seen(host: &HostDriver, first: &Stream) -> Result<(), String> {
    host.run(first.raw).unwrap();
    host.run_all();
    let tally = host.tally().unwrap();
    if tally.wrong_bytes == 0 && tally.faults.is_empty() { Ok(()) } else { Err(format!("{tally:?}")) }
}

/// Streams that must not wait for each other: the CPU waits, or the request is refused.
pub fn no_wait_where_none_is_allowed() -> Result<(), String> {
    let rig = tight(8, false);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let old = block(&rig.host, &rig.pool, &a, 8 * GRANULE);
    read(&rig.host, &a, &old, &a);
    rig.pool.free(old.address).unwrap();
    block(&rig.host, &rig.pool, &b, 8 * GRANULE);
    let stats = rig.pool.stats();
    seen(&rig.host, &b)?;
    match (stats.stream_waits, stats.cpu_waits) {
        (0, 1..) => Ok(()),
        waits => Err(format!("{waits:?} waits of streams and of the CPU")),
    }
}

pub fn a_block_read_elsewhere() -> Result<(), String> {
    let rig = tight(8, true);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let shared = block(&rig.host, &rig.pool, &a, 8 * GRANULE);
    rig.pool.record_use(shared.address, b.id).unwrap();
    rig.host.order(b.raw, a.raw);
    read(&rig.host, &b, &shared, &a);
    rig.pool.free(shared.address).unwrap();
    let next = rig.pool.alloc(&Request::new(8 * GRANULE, a.id)).unwrap();
    Application::fill(&*rig.host, a.raw, next.address, next.bytes, 1);
    seen(&rig.host, &a)
}

pub fn a_stale_mapping_that_queued_work_names() -> Result<(), String> {
    let rig = tight(8, true);
    let a = rig.stream(0);
    let blocks = [1, 2, 1].map(|granules| block(&rig.host, &rig.pool, &a, granules * 2 * GRANULE));
    for old in [&blocks[0], &blocks[2]] {
        read(&rig.host, &a, old, &a);
        rig.pool.free(old.address).unwrap();
    }
    block(&rig.host, &rig.pool, &a, 4 * GRANULE);
    assert!(rig.pool.stats().stale_mappings > 0, "handles have moved");
    rig.pool.trim();
    seen(&rig.host, &a)
}

/// Another thread reads and frees its block just when an event has been recorded.
pub fn a_free_that_slips_in_behind_the_event() -> Result<(), String> {
    let host = Shape::new(1, 8).host();
    let driver = Interjecting::new(host.clone());
    let pool = Pool::new(driver.clone(), granule_handles(GRANULE)).unwrap();
    let stream = || {
        let raw = host.new_stream(0);
        Stream { raw, id: pool.register(raw).unwrap() }
    };
    let (a, b) = (stream(), stream());
    let first = block(&host, &pool, &a, GRANULE);
    let last = block(&host, &pool, &a, 7 * GRANULE);
    pool.free(first.address).unwrap();
    driver.after_next_record({
        let (host, pool) = (host.clone(), pool.clone());
        move || {
            read(&host, &a, &last, &a);
            pool.free(last.address).unwrap();
        }
    });
    // A trim seals. The stream then runs up to the event, and no further.
    let until_event = host.queued(a.raw).unwrap() + 1;
    pool.trim();
    host.advance(a.raw, until_event).unwrap();
    block(&host, &pool, &b, 7 * GRANULE);
    seen(&host, &b)
}

/// A handle goes from the first stream to the second and on to the third, which must stand behind both.
///
/// Bytes do not tell: the second stream's own wait is queued before its events, so a wait for these
/// covers the first stream too. The pool does not lean on that, and the number of waits shows it.
pub fn a_handle_that_passes_through_a_second_stream() -> Result<(), String> {
    let rig = tight(8, true);
    let (a, b, c) = (rig.stream(0), rig.stream(0), rig.stream(0));
    for stream in [&a, &b] {
        let old = block(&rig.host, &rig.pool, stream, 8 * GRANULE);
        read(&rig.host, stream, &old, stream);
        rig.pool.free(old.address).unwrap();
    }
    block(&rig.host, &rig.pool, &c, 8 * GRANULE);
    let stats = rig.pool.stats();
    seen(&rig.host, &c)?;
    if stats.stream_waits == 3 { Ok(()) } else { Err(format!("{} waits", stats.stream_waits)) }
}
