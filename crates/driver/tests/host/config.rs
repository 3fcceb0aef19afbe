//! Devices, links and clocks as the settings describe them.

use crate::bench::{Bench, CAPACITY, GRANULE, config};
use stitchpool_driver::host::{HostConfig, HostDevice, HostDriver, Peers};
use stitchpool_driver::{DeviceId, Driver, ErrorKind, Grant, HandleKind, HandleSpec, Kernels, Link, Rights};

fn of_devices(count: usize, peers: Peers) -> HostConfig {
    HostConfig { devices: vec![config().devices[0]; count], peers, ..config() }
}

#[test]
fn the_default_is_one_card_as_measured() {
    let host = HostDriver::new(HostConfig::default()).unwrap();
    let devices = host.devices().unwrap();
    assert_eq!((devices.len(), host.name()), (1, "host"));
    assert_eq!(devices[0].total_bytes, (139 << 30) + (768 << 20));
    assert_eq!(host.granularity(DeviceId(0), HandleKind::Private), Ok(2 << 20));
}

#[test]
fn a_device_is_the_same_to_every_process() {
    let uuids = [0, 1].map(|_| HostDriver::new(config()).unwrap().devices().unwrap()[1].uuid);
    assert_eq!(uuids[0], uuids[1]);
}

#[test]
fn groups_of_peers_reach_each_other_and_nobody_else() {
    let host = HostDriver::new(of_devices(8, Peers::Groups(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]))).unwrap();
    for (from, to, link) in
        [(0, 0, Link::Own), (0, 3, Link::Direct), (3, 0, Link::Direct), (3, 4, Link::None), (7, 5, Link::Direct)]
    {
        assert_eq!(host.link(DeviceId(from), DeviceId(to)), Ok(link));
    }
    assert_eq!(host.link(DeviceId(5), DeviceId::HOST), Ok(Link::Bus));
    assert_eq!(host.link(DeviceId::HOST, DeviceId(5)), Ok(Link::None));
    assert_eq!(host.link(DeviceId::HOST, DeviceId::HOST), Ok(Link::Own));
}

#[test]
fn a_matrix_of_links_may_be_lopsided() {
    let rows = vec![vec![Link::None, Link::Bus], vec![Link::None, Link::None]];
    let host = HostDriver::new(of_devices(2, Peers::Matrix(rows))).unwrap();
    assert_eq!(host.link(DeviceId(0), DeviceId(1)), Ok(Link::Bus));
    assert_eq!(host.link(DeviceId(1), DeviceId(0)), Ok(Link::None));
    assert_eq!(host.link(DeviceId(1), DeviceId(1)), Ok(Link::Own));
}

#[test]
fn f31_a_reader_without_a_link_is_refused_and_nobody_gets_rights() {
    let bench = Bench::new(of_devices(8, Peers::Groups(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]])));
    let at = bench.reserve(4);
    for (index, device) in (0..4).zip([0, 1, 2, 3].map(DeviceId)) {
        let handle = bench.0.create(HandleSpec { device, bytes: GRANULE, kind: HandleKind::Private }).unwrap();
        bench.map(at + index * GRANULE, 1, handle).unwrap();
    }
    let grant = |device| Grant { device: DeviceId(device), rights: Rights::ReadWrite };
    // SAFETY: the driver checks everything.
    let open = |grants: &[Grant]| unsafe { bench.0.set_rights(at, 4 * GRANULE, grants) };
    let error = open(&[grant(0), grant(1), grant(5)]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.to_string().contains("device 5") && error.to_string().contains("device 0"), "{error}");
    let stream = bench.stream();
    bench.0.touch(stream, at, GRANULE, Rights::Read).unwrap();
    assert_eq!(bench.faults().len(), 1, "a refused call gave rights");
    open(&[0, 1, 2, 3].map(grant)).unwrap();
    for device in 0..4 {
        let stream = bench.0.create_stream(DeviceId(device)).unwrap();
        bench.0.touch(stream, at, 4 * GRANULE, Rights::ReadWrite).unwrap();
    }
    assert_eq!(bench.faults().len(), 1, "a reader has no rights on some chunk");
    assert_eq!(bench.0.ledger().refusals, 1);
}

#[test]
fn a_description_that_contradicts_itself_is_refused() {
    let odd = HostDevice { capacity_bytes: CAPACITY, granularity_bytes: 3 << 20 };
    let tiny = HostDevice { capacity_bytes: CAPACITY, granularity_bytes: 1 << 10 };
    for wrong in [
        HostConfig { devices: vec![odd], ..config() },
        HostConfig { host_memory: tiny, ..config() },
        of_devices(64, Peers::All),
        of_devices(2, Peers::Groups(vec![vec![0, 2]])),
        of_devices(2, Peers::Matrix(vec![vec![Link::Bus; 2]])),
    ] {
        assert_eq!(HostDriver::new(wrong).unwrap_err().kind, ErrorKind::InvalidValue);
    }
    HostDriver::new(of_devices(63, Peers::None)).unwrap();
}

#[test]
fn devices_may_differ_in_granularity() {
    let large = HostDevice { capacity_bytes: 64 << 20, granularity_bytes: 2 << 20 };
    let bench = Bench::new(HostConfig { devices: vec![config().devices[0], large], ..config() });
    let spec = HandleSpec { device: DeviceId(1), bytes: 2 << 20, kind: HandleKind::Private };
    assert_eq!(bench.0.create(HandleSpec { bytes: GRANULE, ..spec }).unwrap_err().kind, ErrorKind::InvalidValue);
    let handle = bench.0.create(spec).unwrap();
    let at = bench.0.reserve(8 << 20, 2 << 20).unwrap();
    // SAFETY: the driver checks everything.
    let map = |at| unsafe { bench.0.map(at, 2 << 20, handle) };
    assert_eq!(map(at + GRANULE).unwrap_err().kind, ErrorKind::InvalidValue);
    map(at + (2 << 20)).unwrap();
}
