//! What the tests of ranges share: host devices whose every byte and right can be asked for.
// Each test program uses its own part of it.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::sync::Arc;
use stitchpool_chunks::{Origin, PhysicalHandle, RangeSpec, StitchedRange};
use stitchpool_driver::host::{HostConfig, HostDevice, HostDriver, Peers};
use stitchpool_driver::{Address, DeviceId, Faulty, Grant, HandleKind, HandleSpec, Kernels, RawStream, Rights};

pub const GRANULE: u64 = 4096;
pub const DEVICES: u16 = 4;
/// Larger pieces are cut into handles of so many granules.
pub const HANDLE_GRANULES: u64 = 3;

/// Four devices, of which the first two and the last two reach each other.
pub struct Bench {
    pub host: Arc<HostDriver>,
    pub faulty: Arc<Faulty>,
    pub origin: Arc<Origin>,
    streams: Vec<RawStream>,
}

impl Bench {
    pub fn new() -> Self {
        let device = HostDevice { capacity_bytes: 4096 * GRANULE, granularity_bytes: GRANULE };
        let config = HostConfig {
            devices: vec![device; usize::from(DEVICES)],
            peers: Peers::Groups(vec![vec![0, 1], vec![2, 3]]),
            ..HostConfig::default()
        };
        let host = HostDriver::new(config).unwrap();
        let faulty = Faulty::new(host.clone());
        let origin = Origin::new(faulty.clone());
        let streams = (0..DEVICES).map(|device| host.create_stream(DeviceId(device)).unwrap()).collect();
        Self { host, faulty, origin, streams }
    }

    pub fn range(&self, granules: u64) -> StitchedRange {
        StitchedRange::reserve(&self.origin, spec(granules)).unwrap()
    }

    pub fn handle(&self, device: u16, granules: u64) -> Arc<PhysicalHandle> {
        let spec = HandleSpec { device: DeviceId(device), bytes: granules * GRANULE, kind: HandleKind::Private };
        PhysicalHandle::create(&self.origin, spec).unwrap()
    }

    /// Writes a granule full of a word, if somebody may write there.
    pub fn write(&self, at: Address, word: u64) -> bool {
        let words = vec![word.to_ne_bytes(); (GRANULE / 8) as usize].concat();
        self.host.poke(at, &words).is_ok()
    }

    /// The word that a granule is full of, if somebody may read there; 0 if it holds several.
    pub fn read(&self, at: Address) -> Option<u64> {
        let mut bytes = vec![0; GRANULE as usize];
        self.host.peek(at, &mut bytes).ok()?;
        let words: BTreeSet<&[u8]> = bytes.chunks(8).collect();
        let first = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
        Some(if words.len() == 1 { first } else { 0 })
    }

    /// What a device may do with a granule.
    pub fn rights(&self, device: u16, at: Address) -> Rights {
        let may = |needs| {
            let before = self.host.tally().unwrap().faults.len();
            self.host.touch(self.streams[usize::from(device)], at, GRANULE, needs).unwrap();
            self.host.tally().unwrap().faults.len() == before
        };
        match (may(Rights::Read), may(Rights::ReadWrite)) {
            (false, _) => Rights::None,
            (true, false) => Rights::Read,
            (true, true) => Rights::ReadWrite,
        }
    }
}

pub const fn spec(granules: u64) -> RangeSpec {
    RangeSpec {
        bytes: granules * GRANULE,
        granule_bytes: GRANULE,
        handle_bytes: HANDLE_GRANULES * GRANULE,
        kind: HandleKind::Private,
    }
}

pub const fn reaches(reader: u16, owner: u16) -> bool {
    reader / 2 == owner / 2
}

/// Read and write for each of these.
pub fn open_to(devices: &[u16]) -> Vec<Grant> {
    devices.iter().map(|&device| Grant { device: DeviceId(device), rights: Rights::ReadWrite }).collect()
}
