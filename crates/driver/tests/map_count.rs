//! The system's limit on pieces of memory. It is alone in its process: at the limit, nobody else in
//! the process gets memory either.
#![allow(clippy::unwrap_used, missing_docs)]

use stitchpool_driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool_driver::{DeviceId, Driver, ErrorKind, Grant, HandleKind, HandleSpec, Rights};

const GRANULE: u64 = 4096;
const FIRST: DeviceId = DeviceId(0);

#[test]
fn beyond_the_systems_limit_calls_are_refused_in_clear_words_and_change_nothing() {
    let limit: u64 = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if limit > 200_000 {
        println!("vm.max_map_count is {limit}, too many to reach in a test: skipped");
        return;
    }
    let device = HostDevice { capacity_bytes: 2 * limit * GRANULE, granularity_bytes: GRANULE };
    let host = HostDriver::new(HostConfig { devices: vec![device], ..HostConfig::default() }).unwrap();
    let spec = HandleSpec { device: FIRST, bytes: GRANULE, kind: HandleKind::Private };
    let grants = [Grant { device: FIRST, rights: Rights::ReadWrite }];
    // SAFETY: the host driver's ledger checks all conditions itself.
    unsafe {
        // One run of neighbours that the system sees as one piece, to be cut in the middle below.
        let run = host.reserve(8 * GRANULE, 0).unwrap();
        for index in 0..8 {
            host.map(run + index * GRANULE, GRANULE, host.create(spec).unwrap()).unwrap();
        }
        // Every second granule: no two are neighbours, so each is a piece, and so is each gap.
        let at = host.reserve(2 * limit * GRANULE, 0).unwrap();
        let mut mapped = 0;
        let refusal = loop {
            let handle = host.create(spec).unwrap();
            match host.map(at + 2 * mapped * GRANULE, GRANULE, handle) {
                Ok(()) => mapped += 1,
                Err(error) => {
                    host.release(handle).unwrap();
                    break error;
                }
            }
            assert!(mapped < limit, "no limit was met");
        };
        assert!(mapped > limit / 4, "the limit was met after {mapped} mappings already");
        assert_eq!(refusal.kind, ErrorKind::OutOfResources);
        assert!(refusal.to_string().contains("vm.max_map_count"), "{refusal}");

        // The last map may have left room for one more cut: then the second is refused.
        let before = host.ledger();
        let middles = [3, 5, 1].map(|index| run + index * GRANULE);
        let refusals = middles.map(|at| host.set_rights(at, GRANULE, &grants).err());
        for (refusal, at) in refusals.into_iter().zip(middles).skip(1) {
            assert_eq!(refusal.unwrap().kind, ErrorKind::OutOfResources);
            assert!(host.peek(at, &mut [0]).is_err(), "a refused call gave rights");
        }
        assert_eq!(host.ledger(), before);

        // The way down stays open, in the middle of a piece and without an end.
        host.unmap(run + 6 * GRANULE, GRANULE).unwrap();
        for index in 0..mapped {
            host.unmap(at + 2 * index * GRANULE, GRANULE).unwrap();
        }
        host.unreserve(at, 2 * limit * GRANULE).unwrap();
        host.set_rights(run + 3 * GRANULE, GRANULE, &grants).unwrap();
        host.poke(run + 3 * GRANULE, b"there").unwrap();
    }
}
