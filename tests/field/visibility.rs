//! Drivers that are late to show memory as free: F57. Who is told that memory is back can have it.

use crate::rig::KIB;
use crate::watching::Watching;
use std::sync::Arc;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{DeviceId, Driver, Kernels};
use stitchpool::{Backup, Pool, Request, Scope, Settings};

const CHUNK: u64 = 64 * KIB;
const CHUNKS: u64 = 16;

#[test]
fn f57_a_suspend_returns_only_when_the_driver_shows_the_memory_as_free() {
    let device = HostDevice { capacity_bytes: CHUNKS * CHUNK, granularity_bytes: CHUNK };
    let host = HostDriver::new(HostConfig { devices: vec![device; 2], ..HostConfig::default() }).unwrap();
    let driver = Watching::new(host.clone());
    let settings = Settings { handle_bytes_max: CHUNK, ..Settings::default() };
    let pool = Pool::new(Arc::clone(&driver) as Arc<_>, settings).unwrap();
    let raw = [0, 1].map(|device| host.create_stream(DeviceId(device)).unwrap());
    let streams = raw.map(|raw| pool.register(raw).unwrap());
    let arena = pool.arena("w").unwrap();
    let own = pool.alloc(&Request::new(4 * CHUNK, streams[0]).exclusive()).unwrap();
    let others = streams.map(|stream| pool.alloc(&Request::new(3 * CHUNK / 2, stream).in_arena(arena)).unwrap());
    // Who sleeps, what is free of both devices then, and how much of that came back.
    let scopes = [
        (Scope::Block(own.address), (14, 14), 4),
        (Scope::Arena(arena), (12, 16), 4),
        (Scope::All, (CHUNKS, CHUNKS), 8),
    ];
    for looks in [0, 1, 7, 30] {
        driver.show_after(looks);
        for (scope, free, released) in scopes {
            for backup in [Backup::Host, Backup::Discard] {
                let slept = pool.suspend(scope, &backup).unwrap();
                let told = format!("{scope:?}, {backup:?}, shown after {looks} looks");
                let shown = |device: u16| driver.memory(DeviceId(device)).unwrap().free_bytes / CHUNK;
                assert_eq!((shown(0), shown(1)), free, "{told}");
                assert_eq!((slept.released_bytes / CHUNK, slept.not_yet_visible_bytes), (released, 0), "{told}");
                pool.resume(scope).unwrap();
            }
        }
    }
    others.iter().chain([&own]).for_each(|block| pool.free(block.address).unwrap());
    drop(pool);
    assert_eq!(host.ledger().handles, 0);
}
