//! The first and the last thing in a pool's life: it is built, and it goes.

use crate::rig::{Application, GRANULE, Rig, Shape, granule_handles};
use std::sync::Arc;
use stitchpool::driver::host::Ledger;
use stitchpool::driver::{ErrorKind, Faulty, Verb};
use stitchpool::{Pool, Request, Settings};

#[test]
fn a_pool_that_cannot_be_built_leaves_nothing() {
    for kind in crate::KINDS {
        for lasting in [false, true] {
            let mut first = 1;
            loop {
                let host = Shape::new(2, 16).host();
                let faulty = Faulty::new(host.clone());
                match lasting {
                    true => faulty.fail_all_from(first, kind),
                    false => faulty.fail_any(first, kind),
                }
                let built = Pool::new(faulty.clone(), Settings::default());
                let met = faulty.failed() > 0;
                faulty.clear();
                // A shorter reservation is asked for where one is refused, so one refusal may do no harm.
                assert!(met || built.is_ok(), "{built:?}");
                drop(built);
                assert!(host.ledger().is_empty(), "{:?}", host.ledger());
                Pool::new(faulty, Settings::default()).unwrap();
                if !met {
                    break;
                }
                first += 1;
            }
            assert!(first > 1);
        }
    }
}

/// A pool with free, stale and idle memory and recorded events goes, while the calls that `faults`
/// arms fail. Gives what was left before and what is left after.
fn drop_with(arm: impl Fn(&Faulty)) -> (Ledger, Ledger, u64) {
    let rig = Rig::new(Shape::new(1, 12), granule_handles(GRANULE));
    let (a, b) = (rig.stream(0), rig.stream(0));
    let alloc = |granules: u64, stream: &crate::rig::Stream| {
        let block = rig.pool.alloc(&Request::new(granules * GRANULE, stream.id)).unwrap();
        rig.host.fill(stream.raw, block.address, block.bytes, 7);
        block.address
    };
    let blocks = [alloc(4, &a), alloc(4, &a), alloc(4, &a)];
    blocks.iter().for_each(|&block| rig.pool.free(block).unwrap());
    let stolen = alloc(7, &b);
    rig.pool.free(stolen).unwrap();
    let Rig { host, faulty, pool } = rig;
    let before = host.ledger();
    assert!(before.mappings > before.handles, "some mappings are stale: {before:?}");
    arm(&faulty);
    drop(pool);
    let failed = faulty.failed();
    host.run_all();
    host.assert_clean();
    (before, host.ledger(), failed)
}

#[test]
fn a_pool_that_goes_leaves_only_what_the_driver_does_not_take_back() {
    for kind in crate::KINDS {
        for verb in [Verb::Unmap, Verb::Release, Verb::Unreserve, Verb::Forget] {
            let mut nth = 1;
            loop {
                let (_, left, failed) = drop_with(|faulty| faulty.fail(verb, nth, kind));
                let one = |of: Verb| u64::from(failed > 0 && verb == of);
                // A mapping that stands keeps its handle and its addresses.
                assert_eq!(left.mappings, one(Verb::Unmap), "{verb} {nth}: {left:?}");
                assert_eq!(left.handles, one(Verb::Unmap) + one(Verb::Release), "{verb} {nth}: {left:?}");
                assert_eq!(left.reservations, one(Verb::Unmap) + one(Verb::Unreserve), "{verb} {nth}: {left:?}");
                assert_eq!(left.events, one(Verb::Forget), "{verb} {nth}: {left:?}");
                if failed == 0 {
                    break;
                }
                nth += 1;
            }
            assert!(nth > 1, "{verb} was not called");
        }
    }
}

#[test]
fn a_pool_that_cannot_wait_for_its_streams_leaves_their_memory_standing() {
    for verb in [Verb::Record, Verb::Finish] {
        let (before, left, failed) = drop_with(|faulty| faulty.fail(verb, 1, ErrorKind::Unknown));
        assert_eq!(failed, 1);
        assert_eq!((left.mappings, left.handles), (before.mappings, before.handles), "{verb}");
    }
}

#[test]
fn a_pool_that_goes_when_nothing_works_any_more_panics_not() {
    for kind in crate::KINDS.into_iter().chain([ErrorKind::Deinitialized]) {
        for first in 1..40 {
            let (before, left, _) = drop_with(|faulty| faulty.fail_all_from(first, kind));
            assert!(left.mappings <= before.mappings && left.handles <= before.handles);
        }
    }
}

#[test]
fn a_pool_that_goes_with_live_blocks_leaves_them_standing() {
    let rig = Rig::new(Shape::new(1, 12), Settings::default());
    let stream = rig.stream(0);
    let block = rig.pool.alloc(&Request::new(3 * GRANULE, stream.id)).unwrap();
    rig.host.fill(stream.raw, block.address, block.bytes, 9);
    let Rig { host, pool, faulty } = rig;
    drop(pool);
    drop(Arc::into_inner(faulty));
    host.verify(stream.raw, block.address, block.bytes, 9);
    host.run_all();
    host.assert_clean();
    assert_eq!(host.ledger().mapped_bytes, 3 * GRANULE);
}
