//! Kernels that run while memory shall leave.

use crate::rig::{HERE, Rig};
use std::time::Duration;
use stitchpool::{Backup, Request, Scope, Settings};

/// How long the kernel holds its stream.
const HOLD: Duration = Duration::from_millis(400);

pub(crate) fn suspend_waits_for_a_kernel_that_runs(rig: &Rig) {
    let pool = rig.pool(Settings::default());
    let (stream, stranger) = (rig.stream(HERE), rig.stream(HERE));
    let id = pool.register(stream).unwrap();
    let arena = pool.arena("weights").unwrap();
    let bytes = rig.gib / 4;
    let block = pool.alloc(&Request::new(bytes, id).in_arena(arena)).unwrap().address;
    rig.fill(stream, block, bytes, 1);
    rig.finish(stream);
    // The pool was never told of this stream.
    rig.delay(stranger, HOLD.as_micros() as u64);
    rig.fill(stranger, block, bytes, 2);
    let (suspend_ms, _) = Rig::timed(|| pool.suspend(Scope::Arena(arena), &Backup::Host).unwrap());
    if rig.driver.name() == "cuda" {
        assert!(suspend_ms >= 0.9 * HOLD.as_secs_f64() * 1e3, "suspend took {suspend_ms} ms");
    }
    rig.say(&format!("suspend under a kernel of {HOLD:?}: {suspend_ms:.0} ms"));
    pool.resume(Scope::Arena(arena)).unwrap();
    rig.verify(stream, block, bytes, 2);
    rig.finish(stream);
    rig.assert_right();
    pool.free(block).unwrap();
    pool.retire(id).unwrap();
    drop(pool);
    rig.end(stream);
    rig.end(stranger);
}

pub(crate) fn memory_moved_by_another_stream_is_never_unmapped_under_a_kernel(rig: &Rig) {
    let bytes = rig.gib / 2;
    let settings = Settings { limit_bytes: Some(bytes), ..Settings::default() };
    let pool = rig.pool(settings);
    let (one, two) = (rig.stream(HERE), rig.stream(HERE));
    let ids = [one, two].map(|stream| pool.register(stream).unwrap());
    let mut taken_ms = 0.0;
    for round in 0..4 {
        let first = pool.alloc(&Request::new(bytes, ids[0])).unwrap().address;
        rig.delay(one, HOLD.as_micros() as u64 / 8);
        rig.fill(one, first, bytes, round);
        rig.verify(one, first, bytes, round);
        pool.free(first).unwrap();
        // All memory there is: it must come from under the kernels of the other stream.
        let (ms, second) = Rig::timed(|| pool.alloc(&Request::new(bytes, ids[1])).unwrap().address);
        taken_ms += ms;
        rig.fill(two, second, bytes, 100 + round);
        rig.verify(two, second, bytes, 100 + round);
        pool.free(second).unwrap();
        pool.trim();
    }
    rig.finish(one);
    rig.finish(two);
    rig.assert_right();
    rig.say(&format!("4 times all memory from one stream to another under its kernels: {taken_ms:.1} ms in all"));
    ids.iter().for_each(|&id| pool.retire(id).unwrap());
    drop(pool);
    rig.end(one);
    rig.end(two);
}
