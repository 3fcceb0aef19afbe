//! Every driver call around a capture fails in turn: the capture stays valid, what failed has changed
//! nothing, and the next attempt succeeds.

use crate::rig::{Rig, Stream};
use crate::{Application, GRANULE, tight};
use stitchpool::driver::ErrorKind;
use stitchpool::{ArenaId, Block, Error, Request, Result};

const KINDS: [ErrorKind; 3] = [ErrorKind::OutOfMemory, ErrorKind::InvalidValue, ErrorKind::Unknown];
const CALLS_MAX: u64 = 400;
/// Enough for the story, and for what one failed roll-back may lose.
const GRANULES: u64 = 24;

/// Does something again without faults if it failed for one.
fn insist<T>(rig: &Rig, mut act: impl FnMut() -> Result<T>) -> T {
    let failed = rig.faulty.failed();
    match act() {
        Ok(done) => done,
        Err(error) => {
            assert!(rig.faulty.failed() > failed, "{error}");
            rig.pool.check().unwrap();
            rig.faulty.clear();
            act().unwrap()
        }
    }
}

fn alloc(rig: &Rig, stream: &Stream, granules: u64) -> Block {
    let block = insist(rig, || rig.pool.alloc(&Request::new(granules * GRANULE, stream.id)));
    rig.host.fill(stream.raw, block.address, block.bytes, crate::seed(stream, &block));
    block
}

/// One capture with all that belongs to it, beside a stream that goes on.
fn story(rig: &Rig, a: &Stream, b: &Stream, arena: ArenaId) {
    insist(rig, || rig.pool.begin_capture(a.id, arena));
    rig.host.begin_capture(a.raw).unwrap();
    let first = alloc(rig, a, 5);
    rig.read(a, &first, a);
    rig.free(&first);
    let second = alloc(rig, a, 7);
    let beside = alloc(rig, b, 4);
    drop(rig.pool.trim());
    rig.read(a, &second, a);
    rig.free(&second);
    let graph = rig.host.end_capture(a.raw).unwrap();
    rig.pool.end_capture(a.id).unwrap();
    rig.host.launch(b.raw, &graph).unwrap();
    rig.pool.release_graph(arena).unwrap();
    rig.read(b, &beside, b);
    rig.free(&beside);
    let left_bytes = || GRANULES * GRANULE - rig.pool.stats().devices[0].holdings.quarantined_bytes;
    let last = insist(rig, || rig.pool.alloc(&Request::new(left_bytes(), b.id)));
    rig.free(&last);
    rig.pool.dissolve(arena).unwrap();
}

/// False: the story makes fewer calls.
fn play(first: u64, kind: ErrorKind, lasting: bool) -> bool {
    let rig = tight(GRANULES);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    let freed = rig.block(&a, 2);
    rig.free(&freed);
    match lasting {
        true => rig.faulty.fail_all_from(first, kind),
        false => rig.faulty.fail_any(first, kind),
    }
    story(&rig, &a, &b, arena);
    let met = rig.faulty.failed() > 0;
    rig.faulty.clear();
    rig.pool.check().unwrap();
    rig.host.run_all();
    rig.pool.trim_and_wait().unwrap();
    rig.host.assert_clean();
    let stats = rig.pool.stats();
    let Rig { host, pool, .. } = rig;
    drop(pool);
    let left: u64 = host.ledger().physical_bytes.values().sum();
    assert_eq!(left, stats.devices[0].holdings.quarantined_bytes);
    met
}

#[test]
fn whatever_call_fails_the_capture_stays_valid() {
    for lasting in [false, true] {
        for kind in KINDS {
            let mut first = 1;
            while play(first, kind, lasting) {
                first += 1;
                assert!(first < CALLS_MAX, "so many calls");
            }
            assert!(first > 20, "{first} calls were made");
        }
    }
}

#[test]
fn a_capture_that_cannot_begin_has_not_begun() {
    let rig = tight(16);
    let a = rig.stream(0);
    let arena = rig.arena("graph");
    rig.faulty.fail_any(1, ErrorKind::Unknown);
    assert!(matches!(rig.pool.begin_capture(a.id, arena), Err(Error::Driver(_))));
    assert_eq!(rig.pool.graph_arena(a.id), Ok(None));
    rig.pool.dissolve(arena).unwrap();
    rig.over();
}
