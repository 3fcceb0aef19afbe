//! Devices that come to work when memory is given out already, in a pool that is open to peers: F31.

use crate::rig::{HERE, KIB};
use std::sync::Arc;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver, Peers, StreamMode};
use stitchpool::driver::{Address, DeviceId, ErrorKind, Faulty, Grant, Kernels, RawStream, Rights, Verb};
use stitchpool::{Backup, Pool, Request, Scope, Settings, StreamId};

const CHUNK: u64 = 64 * KIB;
const NEXT: DeviceId = DeviceId(1);
/// It is never used.
const IDLE: DeviceId = DeviceId(2);
const FAR: DeviceId = DeviceId(3);

/// Four devices, of which three reach each other.
struct Floor {
    host: Arc<HostDriver>,
    faulty: Arc<Faulty>,
    pool: Pool,
}

impl Floor {
    fn new() -> Self {
        let device = HostDevice { capacity_bytes: 64 * CHUNK, granularity_bytes: CHUNK };
        let peers = Peers::Groups(vec![vec![0, 1, 2], vec![3]]);
        let config =
            HostConfig { devices: vec![device; 4], peers, streams: StreamMode::ByHand, ..HostConfig::default() };
        let host = HostDriver::new(config).unwrap();
        let faulty = Faulty::new(host.clone());
        let settings = Settings { open_to_peers: true, handle_bytes_max: CHUNK, ..Settings::default() };
        let pool = Pool::new(faulty.clone(), settings).unwrap();
        Self { host, faulty, pool }
    }

    fn raw(&self, device: DeviceId) -> RawStream {
        self.host.create_stream(device).unwrap()
    }

    fn stream(&self, device: DeviceId) -> StreamId {
        self.pool.register(self.raw(device)).unwrap()
    }

    fn take(&self, request: &Request) -> Scope {
        Scope::Range { address: self.pool.alloc(request).unwrap().address, bytes: request.bytes }
    }

    /// Whether a kernel of the device may write there.
    fn reaches(&self, device: DeviceId, of: Scope) -> bool {
        let Scope::Range { address, bytes } = of else { panic!("a range was to be asked for") };
        let faults = || self.host.tally().unwrap().faults.len();
        let (stream, before) = (self.raw(device), faults());
        self.host.touch(stream, address, bytes, Rights::ReadWrite).unwrap();
        self.host.run_all();
        faults() == before
    }
}

fn exclusive(bytes: u64, stream: StreamId) -> Request {
    Request::new(bytes, stream).exclusive()
}

fn no_rights(device: DeviceId) -> [Grant; 1] {
    [Grant { device, rights: Rights::None }]
}

#[test]
fn f31_a_device_has_rights_on_all_it_reaches_from_its_first_stream_on() {
    let floor = Floor::new();
    let here = floor.stream(HERE);
    let early: Vec<Scope> = (1..5).map(|chunks| floor.take(&Request::new(chunks * CHUNK, here))).collect();
    assert!(early.iter().all(|&block| floor.reaches(HERE, block) && !floor.reaches(NEXT, block)));
    let calls = floor.faulty.calls(Verb::SetRights);
    let next = floor.stream(NEXT);
    assert!(floor.faulty.calls(Verb::SetRights) > calls);
    let late = [floor.take(&Request::new(9 * CHUNK, here)), floor.take(&Request::new(9 * CHUNK, next))];
    for &block in early.iter().chain(&late) {
        assert!(floor.reaches(HERE, block) && floor.reaches(NEXT, block));
        assert!(!floor.reaches(IDLE, block), "nobody uses it");
    }
    let calls = floor.faulty.calls(Verb::SetRights);
    floor.stream(NEXT);
    floor.stream(FAR);
    assert_eq!(floor.faulty.calls(Verb::SetRights), calls, "one is known, the other cannot reach");
    assert!(late.iter().all(|&block| !floor.reaches(FAR, block)));
    floor.pool.check().unwrap();
}

#[test]
fn f31_what_was_asked_for_a_device_holds_when_it_comes() {
    let floor = Floor::new();
    let here = floor.stream(HERE);
    let shut = floor.pool.arena("shut").unwrap();
    let closed = floor.take(&Request::new(3 * CHUNK, here).in_arena(shut));
    floor.pool.set_rights(Scope::Arena(shut), &no_rights(NEXT)).unwrap();
    let whole = floor.take(&exclusive(4 * CHUNK, here));
    let Scope::Range { address, .. } = whole else { panic!() };
    let part = |chunk: u64| Scope::Range { address: address + chunk * CHUNK, bytes: CHUNK };
    floor.pool.set_rights(part(1), &no_rights(NEXT)).unwrap();
    let open = floor.take(&Request::new(2 * CHUNK, here));
    floor.stream(NEXT);
    assert!(!floor.reaches(NEXT, closed) && floor.reaches(NEXT, open));
    assert_eq!([0, 1, 2, 3].map(|chunk| floor.reaches(NEXT, part(chunk))), [true, false, true, true]);
    let later = floor.take(&Request::new(3 * CHUNK, here).in_arena(shut));
    assert!(!floor.reaches(NEXT, later));
    floor.pool.check().unwrap();
}

#[test]
fn f31_memory_that_sleeps_when_a_device_comes_wakes_open_to_it() {
    let floor = Floor::new();
    let here = floor.stream(HERE);
    let arena = floor.pool.arena("weights").unwrap();
    let block = floor.take(&Request::new(5 * CHUNK, here).in_arena(arena));
    floor.pool.suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    floor.stream(NEXT);
    floor.pool.resume(Scope::Arena(arena)).unwrap();
    assert!(floor.reaches(NEXT, block));
}

#[test]
fn f31_a_device_that_could_not_be_let_in_is_let_in_later() {
    for nth in 1.. {
        let floor = Floor::new();
        let here = floor.stream(HERE);
        let apart: [Address; 3] =
            [2, 3, 4].map(|chunks| floor.pool.alloc(&exclusive(chunks * CHUNK, here)).unwrap().address);
        let blocks = apart.map(|address| Scope::Range { address, bytes: 2 * CHUNK });
        let raw = floor.raw(NEXT);
        floor.faulty.fail(Verb::SetRights, nth, ErrorKind::Unknown);
        if let Ok(stream) = floor.pool.register(raw) {
            assert!(nth > 1, "three blocks were opened without a call");
            assert!(blocks.iter().all(|&block| floor.reaches(NEXT, block)));
            return floor.pool.retire(stream).unwrap();
        }
        assert!(blocks.iter().all(|&block| !floor.reaches(NEXT, block)), "all or nothing");
        floor.pool.check().unwrap();
        floor.pool.register(raw).unwrap();
        assert!(blocks.iter().all(|&block| floor.reaches(NEXT, block)));
    }
}
