//! Contexts that nobody needs: F62. Whatever a pool does, it touches no device that its streams do not use.

use crate::rig::KIB;
use crate::watching::Watching;
use std::sync::Arc;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{DeviceId, Grant, Kernels, Rights};
use stitchpool::{Backup, Error, Placement, Pool, Request, Scope, Settings};

const CHUNK: u64 = 64 * KIB;
const DEVICES: u16 = 8;
const USED: DeviceId = DeviceId(5);
const LENDER: DeviceId = DeviceId(2);

type Act<'a> = (&'a str, &'a dyn Fn());

#[test]
fn f62_nothing_that_a_pool_does_touches_a_device_nobody_uses() {
    let device = HostDevice { capacity_bytes: 64 * CHUNK, granularity_bytes: CHUNK };
    let config =
        HostConfig { devices: vec![device; usize::from(DEVICES)], host_memory: device, ..HostConfig::default() };
    let host = HostDriver::new(config).unwrap();
    let driver = Watching::new(host.clone());
    let devices = (0..DEVICES).map(DeviceId).chain([DeviceId::HOST]).collect();
    let settings = Settings { devices, handle_bytes_max: CHUNK, ..Settings::default() };
    let pool = Pool::new(Arc::clone(&driver) as Arc<_>, settings).unwrap();
    let raw = host.create_stream(USED).unwrap();
    let stream = pool.register(raw).unwrap();
    let touched = || driver.take_touched().into_iter().filter(|device| !device.is_host()).collect::<Vec<_>>();
    assert_eq!(touched(), [], "opening, and naming a stream");
    let ask = |request: Request| pool.alloc(&request).unwrap().address;
    let plain = || Request::new(3 * CHUNK / 2, stream);
    let own = ask(plain().exclusive());
    let lent = ask(plain().placed(Placement::Home(LENDER)).exclusive());
    let deal = Placement::RoundRobin { devices: vec![USED, LENDER, DeviceId::HOST], stripe_bytes: CHUNK };
    let dealt = ask(plain().placed(deal).exclusive());
    let evictable = pool.arena("evictable").unwrap();
    pool.set_evictable(evictable, Some(Backup::Peer(LENDER))).unwrap();
    let all = |backup: Backup| {
        pool.suspend(Scope::All, &backup).unwrap();
        pool.resume(Scope::All).unwrap();
    };
    let everywhere = Placement::Spill((0..DEVICES).map(DeviceId).collect());
    let acts: [Act<'_>; 12] = [
        ("requests and frees", &|| (0..40).for_each(|_| pool.free(ask(plain())).unwrap())),
        ("a backup on a peer", &|| {
            pool.suspend(Scope::Block(own), &Backup::Peer(DeviceId(3))).unwrap();
            pool.resume(Scope::Block(own)).unwrap();
        }),
        ("backups on the host", &|| all(Backup::Host)),
        ("backups in files", &|| all(Backup::Disk(std::env::temp_dir()))),
        ("no backups", &|| all(Backup::Discard)),
        ("a move there and back", &|| {
            for to in [DeviceId(4), USED] {
                pool.migrate(Scope::Block(own), to).unwrap();
            }
        }),
        ("an exchange with lent memory", &|| pool.exchange(Scope::Block(own), Scope::Block(lent)).unwrap()),
        ("rights that go and come", &|| {
            for rights in [Rights::None, Rights::ReadWrite] {
                pool.set_rights(Scope::Block(dealt), &[Grant { device: DeviceId(6), rights }]).unwrap();
            }
        }),
        ("memory that is short everywhere", &|| {
            let request = Request::new(2000 * CHUNK, stream).placed(everywhere.clone());
            assert!(matches!(pool.alloc(&request), Err(Error::OutOfMemory(_))));
        }),
        ("eviction", &|| {
            let ask = || ask(Request::new(40 * CHUNK, stream).in_arena(evictable).exclusive());
            let blocks = [ask(), ask()];
            assert_eq!(pool.stats().evictions, 1);
            blocks.iter().for_each(|&block| pool.free(block).unwrap());
        }),
        ("figures", &|| drop((pool.stats(), pool.survey(), pool.check().unwrap()))),
        ("trims", &|| drop((pool.trim(), pool.trim_and_wait().unwrap()))),
    ];
    for (what, act) in acts {
        act();
        let touched = touched();
        assert!(touched.iter().all(|&device| device == USED), "{what}: {touched:?}");
    }
    [own, lent, dealt].iter().for_each(|&block| pool.free(block).unwrap());
    pool.retire(stream).unwrap();
    drop(pool);
    assert!(touched().iter().all(|&device| device == USED), "the end");
    assert_eq!(host.ledger().handles, 0);
}
