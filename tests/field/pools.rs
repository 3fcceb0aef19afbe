//! Several pools, several clients, and pools that go before their blocks: F29, F35.

use crate::rig::{KIB, MIB, Rig, Shape, Stream, shortage};
use crate::watchdog::within;
use std::thread;
use std::time::Duration;
use stitchpool::driver::host::StreamMode;
use stitchpool::driver::{Address, ErrorKind, RawStream, Verb};
use stitchpool::{Buffer, Error, Pool, Request, Settings};

const CHUNK: u64 = 64 * KIB;

fn registered(pool: &Pool, raw: RawStream) -> Stream {
    Stream { raw, id: pool.register(raw).unwrap() }
}

fn alloc(pool: &Pool, stream: Stream, bytes: u64) -> Result<Address, Error> {
    pool.alloc(&Request::new(bytes, stream.id)).map(|block| block.address)
}

/// The bytes of live blocks that a pool tells of.
fn live_bytes(pool: &Pool) -> u64 {
    pool.stats().devices.iter().map(|device| device.holdings.live_bytes).sum()
}

#[test]
fn f29a_a_block_comes_from_the_pool_that_was_asked() {
    let rig = Shape::exact(CHUNK, 16).build();
    let inner = rig.another_pool();
    let outer_stream = rig.stream();
    let inner_stream = registered(&inner, outer_stream.raw);
    thread::scope(|scope| {
        scope.spawn(|| {
            let block = alloc(&inner, inner_stream, 4 * CHUNK).unwrap();
            assert_eq!(live_bytes(&inner), 4 * CHUNK);
            inner.free(block).unwrap();
        });
        scope.spawn(|| rig.take(outer_stream, 4 * CHUNK));
    });
    assert_eq!((live_bytes(&inner), live_bytes(rig.pool())), (0, 4 * CHUNK));
}

#[test]
fn f29b_a_pointer_of_another_pool_is_told_and_left_alone() {
    let rig = Shape::exact(CHUNK, 16).build();
    let inner = rig.another_pool();
    let outer_stream = rig.stream();
    let inner_stream = registered(&inner, outer_stream.raw);
    let outside = rig.take(outer_stream, CHUNK);
    let inside = alloc(&inner, inner_stream, CHUNK).unwrap();
    for (pool, foreign) in [(&inner, outside), (rig.pool(), inside)] {
        match pool.free(foreign) {
            Err(Error::UnknownAddress { address, hint }) => {
                assert_eq!((address, hint.contains("never gave it out")), (foreign, true), "{hint}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(live_bytes(pool), CHUNK);
        pool.check().unwrap();
    }
    inner.free(inside).unwrap();
}

#[test]
fn f29c_two_threads_with_two_pools_share_a_device() {
    let rig = Shape { streams: StreamMode::Immediate, watch_order: false, ..Shape::exact(CHUNK, 20) }.build();
    let second = rig.another_pool();
    let first_stream = rig.stream();
    let second_stream = registered(&second, rig.stream().raw);
    let work = |pool: &Pool, stream: Stream, byte: u8| {
        for round in 1..=200_u64 {
            let bytes = (round % 10 + 1) * CHUNK;
            let block = alloc(pool, stream, bytes).unwrap();
            rig.mark(block, bytes, byte);
            assert!(rig.is_marked(block, bytes, byte), "round {round}");
            pool.free(block).unwrap();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| work(rig.pool(), first_stream, 1));
        scope.spawn(|| work(&second, second_stream, 2));
    });
    for pool in [rig.pool(), &second] {
        pool.check().unwrap();
        assert!(pool.stats().devices[0].physical_peak_bytes <= 10 * CHUNK);
    }
}

#[test]
fn f29d_a_pool_that_is_gone_is_told_of_nothing() {
    let rig = Shape::exact(CHUNK, 8).build();
    let stream = rig.stream();
    let helper = rig.another_pool();
    let spare = registered(&helper, stream.raw);
    let buffer = std::sync::Mutex::new(Some(Buffer::new(&helper, &Request::new(4 * CHUNK, spare.id)).unwrap()));
    drop(helper);
    assert_eq!(rig.physical_bytes(), 4 * CHUNK, "the buffer keeps its pool");
    rig.pool().on_shortage(std::sync::Arc::new(move |_, _| buffer.lock().unwrap().take().is_some()));
    rig.take(stream, 8 * CHUNK);
    assert_eq!(rig.ledger().reservations, 1, "the helper went with its last buffer");
    rig.shortage(stream, CHUNK);
}

#[test]
fn f29e_buffers_outlive_every_handle_of_their_pool() {
    let rig = Shape::exact(CHUNK, 8).build();
    let pool = rig.another_pool();
    let stream = registered(&pool, rig.stream().raw);
    let buffers = [3, 2].map(|chunks| Buffer::new(&pool, &Request::new(chunks * CHUNK, stream.id)).unwrap());
    drop(pool);
    for (buffer, byte) in buffers.iter().zip([1, 2]) {
        rig.mark(buffer.address(), buffer.bytes(), byte);
    }
    let [first, second] = buffers;
    assert!(rig.is_marked(first.address(), first.bytes(), 1));
    rig.fill(stream, first.address(), first.bytes(), 9);
    drop(first);
    assert!(rig.is_marked(second.address(), second.bytes(), 2));
    drop(second);
    assert_eq!((rig.physical_bytes(), rig.ledger().reservations), (0, 1), "the last one took the pool along");
}

#[test]
fn f29e_memory_of_live_blocks_is_left_standing() {
    let mut rig = Shape::exact(CHUNK, 8).build();
    let pool = rig.another_pool();
    let stream = registered(&pool, rig.stream().raw);
    let block = alloc(&pool, stream, 2 * CHUNK).unwrap();
    let freed = alloc(&pool, stream, 3 * CHUNK).unwrap();
    pool.free(freed).unwrap();
    rig.mark(block, 2 * CHUNK, 4);
    drop(pool);
    assert!(rig.is_marked(block, 2 * CHUNK, 4), "somebody may be using it");
    rig.touch(stream.raw, block, 2 * CHUNK);
    rig.assert_right();
    rig.left_bytes = 5 * CHUNK;
}

#[test]
fn f35_a_client_that_cannot_have_all_keeps_what_it_has() {
    let rig = Shape::exact(CHUNK, 100).build();
    let other = rig.another_pool();
    let own = rig.stream();
    let foreign = registered(&other, own.raw);
    rig.free(rig.take(own, 6 * CHUNK));
    let drained = alloc(&other, foreign, 94 * CHUNK).unwrap();
    let shortage = rig.shortage(own, 10 * CHUNK);
    let holdings = shortage.devices[0];
    assert_eq!((holdings.free_bytes, holdings.device_free_bytes), (6 * CHUNK, Some(0)));
    assert_eq!(rig.physical_bytes(), 100 * CHUNK, "its six are still its own");
    rig.free(rig.take(own, 6 * CHUNK));
    other.free(drained).unwrap();
    rig.shortage(own, 10 * CHUNK);
    other.trim_and_wait().unwrap();
    rig.take(own, 10 * CHUNK);
}

#[test]
fn f35_memory_that_goes_between_the_look_and_the_taking_undoes_the_taking() {
    for nth in 1..=4 {
        let rig = Shape::exact(CHUNK, 100).build();
        let own = rig.stream();
        rig.free(rig.take(own, 6 * CHUNK));
        rig.take(own, 512);
        let (handles, pictures) = (rig.ledger().handles, rig.pool().pictures());
        rig.faulty.arm(stitchpool::driver::Fault {
            verb: Some(Verb::Create),
            nth,
            lasting: true,
            kind: ErrorKind::OutOfMemory,
        });
        rig.shortage(own, 10 * CHUNK);
        assert_eq!((rig.ledger().handles, rig.pool().pictures()), (handles, pictures), "after {nth} creations");
        rig.faulty.clear();
        rig.take(own, 10 * CHUNK);
    }
}

#[test]
fn f35_nobody_waits_without_a_limit() {
    within(Duration::from_secs(20), || {
        let wait_max = Duration::from_millis(20);
        let shape = Shape::exact(CHUNK, 8);
        let settings = Settings { wait_max, stream_waits: false, ..shape.settings.clone() };
        let rig: Rig = Shape { settings, ..shape }.build();
        let (hanging, stream) = (rig.stream(), rig.stream());
        let block = rig.take(hanging, 8 * CHUNK);
        rig.fill(hanging, block, 4 * KIB, 1);
        rig.host.stall(hanging.raw, true).unwrap();
        rig.free(block);
        let refused = rig.shortage(stream, CHUNK);
        assert!(refused.waits.iter().any(|wait| wait.contains("timeout")), "{refused}");
        assert!(matches!(rig.pool().trim_and_wait(), Err(Error::Driver(error)) if error.kind == ErrorKind::Timeout));
        rig.host.stall(hanging.raw, false).unwrap();
        let served = rig.take(stream, 8 * CHUNK);
        rig.fill(stream, served, 4 * KIB, 2);
    });
}

#[test]
fn f35_one_client_at_its_limit_leaves_the_rest_to_the_other() {
    let shape = Shape::usual(64 * MIB);
    let settings = Settings { limit_bytes: Some(40 * MIB), ..shape.settings.clone() };
    let rig = Shape { settings, ..shape }.build();
    let (stream, other) = (rig.stream(), rig.another_pool());
    let foreign = registered(&other, stream.raw);
    rig.take(stream, 40 * MIB);
    let refused = shortage(rig.alloc(stream, 2 * MIB)).devices[0];
    assert_eq!((refused.limit_bytes, refused.device_free_bytes), (40 * MIB, Some(24 * MIB)));
    let block = alloc(&other, foreign, 24 * MIB).unwrap();
    let refused = shortage(alloc(&other, foreign, 2 * MIB)).devices[0];
    assert_eq!((refused.physical_bytes, refused.device_free_bytes), (24 * MIB, Some(0)));
    other.free(block).unwrap();
}
