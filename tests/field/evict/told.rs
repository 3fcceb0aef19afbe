//! Who is told of eviction and asked for relief, and what they may do meanwhile.

use super::{CHUNK, SOON, evicting, evictions, filled, is_awake, verify};
use crate::rig::Shape;
use crate::watchdog::within;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use stitchpool::chunks::Segment;
use stitchpool::driver::Address;
use stitchpool::{Interest, Listener, Pool, Request};

/// Allocates whenever memory leaves, and writes down what it heard.
struct Hungry {
    pool: Pool,
    request: Request,
    heard: Mutex<Vec<(&'static str, Address)>>,
    refused: AtomicU64,
}

impl Hungry {
    fn note(&self, what: &'static str, segments: &[Segment]) {
        self.heard.lock().unwrap().extend(segments.first().map(|segment| (what, segment.at)));
    }
}

impl Listener for Hungry {
    fn before_leave(&self, segments: &[Segment]) -> Result<(), String> {
        self.note("leaves", segments);
        match self.pool.alloc(&self.request) {
            Ok(block) => self.pool.free(block.address).map_err(|error| error.to_string()),
            Err(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn after_return(&self, segments: &[Segment]) {
        self.note("returns", segments);
    }
}

#[test]
fn f21e_listeners_are_told_and_what_they_ask_for_evicts_nothing() {
    within(SOON, || {
        let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
        let blocks = filled(&rig, (stream, arena), 4, 4);
        let request = Request::new(CHUNK, stream.id);
        let (heard, refused) = (Mutex::default(), AtomicU64::new(0));
        let hungry = Arc::new(Hungry { pool: rig.pool().clone(), request, heard, refused });
        let id = rig.pool().listen(hungry.clone(), Interest::Pool).unwrap();
        let extra = rig.take(stream, 8 * CHUNK);
        assert_eq!(*hungry.heard.lock().unwrap(), [("leaves", blocks[0]), ("leaves", blocks[1])]);
        assert_eq!((evictions(&rig), hungry.refused.load(Ordering::Relaxed)), (2, 1));
        rig.free(extra);
        hungry.heard.lock().unwrap().clear();
        drop(rig.pool().touch(blocks[1]).unwrap());
        assert_eq!(*hungry.heard.lock().unwrap(), [("returns", blocks[1])]);
        verify(&rig, stream, &blocks, 4);
        rig.pool().unlisten(id);
    });
}

#[test]
fn a_listener_that_refuses_keeps_its_block_and_another_goes() {
    struct Owner(Address);
    impl Listener for Owner {
        fn before_leave(&self, segments: &[Segment]) -> Result<(), String> {
            if segments.iter().any(|segment| segment.at == self.0) { Err("it is being sent".into()) } else { Ok(()) }
        }
        fn after_return(&self, _: &[Segment]) {}
    }
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let blocks = filled(&rig, (stream, arena), 4, 4);
    rig.pool().listen(Arc::new(Owner(blocks[0])), Interest::Pool).unwrap();
    rig.take(stream, 12 * CHUNK);
    assert_eq!(blocks.iter().map(|&block| is_awake(&rig, block)).collect::<Vec<_>>(), [true, false, false, false]);
    let short = rig.shortage(stream, CHUNK);
    assert!(short.to_string().contains("it is being sent"), "{short}");
}

/// Keeps every block in place, and frees another one instead.
struct Trader {
    pool: Pool,
    spare: Mutex<Option<Address>>,
}

impl Listener for Trader {
    fn before_leave(&self, _: &[Segment]) -> Result<(), String> {
        let freed = self.spare.lock().unwrap().take().map(|spare| self.pool.free(spare));
        Err(format!("not this one; the other: {freed:?}"))
    }

    fn after_return(&self, _: &[Segment]) {}
}

#[test]
fn what_somebody_frees_while_nothing_can_be_put_out_is_not_overlooked() {
    let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
    let spare = rig.take(stream, 8 * CHUNK);
    let blocks = filled(&rig, (stream, arena), 2, 4);
    let trader = Trader { pool: rig.pool().clone(), spare: Mutex::new(Some(spare)) };
    let id = rig.pool().listen(Arc::new(trader), Interest::Pool).unwrap();
    rig.shadow.leave(spare);
    rig.take(stream, 8 * CHUNK);
    assert_eq!(evictions(&rig), 0);
    let short = rig.shortage(stream, CHUNK);
    assert!(short.to_string().contains("not this one; the other: None"), "{short}");
    rig.pool().unlisten(id);
    verify(&rig, stream, &blocks, 4);
}

#[test]
fn f21f_relief_is_asked_once_nothing_is_left_to_put_out() {
    within(SOON, || {
        let (rig, stream, arena) = evicting(Shape::exact(CHUNK, 16));
        let buffer = rig.take(stream, 8 * CHUNK);
        let blocks = filled(&rig, (stream, arena), 2, 4);
        let evicted_before = Arc::new(AtomicU64::new(0));
        let seen = evicted_before.clone();
        rig.on_shortage(move |pool| {
            seen.store(pool.stats().evictions, Ordering::Relaxed);
            pool.free(buffer).is_ok()
        });
        let block = rig.pool().alloc(&Request::new(12 * CHUNK, stream.id)).unwrap();
        rig.shadow.leave(buffer);
        assert_eq!(evicted_before.load(Ordering::Relaxed), 2);
        rig.pool().free(block.address).unwrap();
        verify(&rig, stream, &blocks, 4);
    });
}
