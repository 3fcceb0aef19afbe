//! Streams that end.

use crate::rig::interjecting::Interjecting;
use crate::rig::{Application, GRANULE, Shape, granule_handles};
use crate::tight;
use stitchpool::{Error, Pool, Request};

#[test]
fn memory_of_a_retired_stream_serves_the_others_behind_its_last_work() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 8);
    rig.free(&a, &block);
    rig.pool.retire(a.id).unwrap();
    rig.host.destroy(a.raw);
    rig.block(&b, 8);
    assert_eq!(rig.pool.stats().stream_waits, 1);
    assert_eq!(rig.run(&b), 0);
    rig.end();
}

#[test]
fn a_block_may_be_freed_after_its_stream_was_retired() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 8);
    rig.read(&a, &block, &a);
    rig.pool.retire(a.id).unwrap();
    rig.host.destroy(a.raw);
    rig.pool.free(block.address).unwrap();
    rig.block(&b, 8);
    assert_eq!(rig.run(&b), 0, "the retired stream's work is not done");
    rig.end();
}

#[test]
fn a_stream_with_the_value_of_a_retired_one_is_another_stream() {
    let rig = tight(8);
    let a = rig.stream(0);
    let block = rig.block(&a, 8);
    rig.free(&a, &block);
    rig.pool.retire(a.id).unwrap();
    rig.host.destroy(a.raw);
    let b = rig.stream(0);
    assert_eq!(a.raw, b.raw, "the driver gives the value again");
    assert_ne!(a.id, b.id);
    assert!(matches!(rig.pool.retire(a.id), Err(Error::UnknownStream { .. })));
    rig.block(&b, 8);
    assert_eq!(rig.pool.stats().stream_waits, 1, "it is not in the order of the old one");
    rig.end();
}

#[test]
fn a_block_waits_for_a_user_that_was_retired() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let block = rig.block(&a, 8);
    rig.pool.record_use(block.address, b.id).unwrap();
    rig.host.order(b.raw, a.raw);
    rig.read(&b, &block, &a);
    rig.pool.retire(b.id).unwrap();
    rig.host.destroy(b.raw);
    rig.free(&a, &block);
    rig.run(&a);
    rig.block(&a, 8);
    assert_eq!(rig.pool.stats().stream_waits, 1);
    rig.end();
}

#[test]
fn a_stream_that_nobody_uses_again_strands_nothing() {
    let rig = tight(8);
    for _ in 0..20 {
        let stream = rig.stream(0);
        let block = rig.block(&stream, 8);
        rig.free(&stream, &block);
        rig.pool.retire(stream.id).unwrap();
        rig.host.destroy(stream.raw);
    }
    rig.host.run_all();
    rig.pool.trim();
    assert!(rig.host.ledger().physical_bytes.is_empty());
    rig.end();
}

#[test]
fn a_block_freed_just_while_its_stream_is_retired_is_covered_too() {
    let host = Shape::new(1, 8).host();
    let driver = Interjecting::new(host.clone());
    let pool = Pool::new(driver.clone(), granule_handles(GRANULE)).unwrap();
    let raw = host.new_stream(0);
    let id = pool.register(raw).unwrap();
    let block = pool.alloc(&Request::new(8 * GRANULE, id)).unwrap();
    driver.after_next_record({
        let pool = pool.clone();
        move || pool.free(block.address).unwrap()
    });
    pool.retire(id).unwrap();
    host.run_all();
    let trimmed = pool.trim();
    assert_eq!((trimmed.released_bytes, trimmed.waiting_bytes), (8 * GRANULE, 0));
    pool.check().unwrap();
    host.assert_clean();
}
